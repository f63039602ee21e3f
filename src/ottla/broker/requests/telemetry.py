"""Subscriptions to clients' metrics, and the clients that push them (KIP-714).

Pure, with the time given. The metrics are shown in /metrics until a client has been silent for three intervals.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID
from zlib import crc32

from ottla.config.client_metrics import ALL_METRICS, ClientMetricsConfig, matchers
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.patterns import Matcher
from ottla.metadata.state import CLIENT_METRICS_RESOURCE
from ottla.metrics.pushed import PushedMetrics

if TYPE_CHECKING:
    from ottla.wire.connection import ServerConnection

MOST_INSTANCES = 16_384
_LEAST_KEPT_MS = 60_000
_NO_ID = bytes(16)
_RESERVED = (_NO_ID, bytes(15) + b"\x01")
CODECS = (4, 3, 1, 2)
"""The codecs that are taken, the best first: zstd, lz4, gzip, snappy."""
_MAY_ASK_AGAIN = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


def about(connection: ServerConnection) -> dict[str, str]:
    """The attributes of a client that a subscription can match, by Kafka's names. Its instance id is in the request."""
    return {
        "client_id": connection.client_id or "",
        "client_software_name": connection.software_name,
        "client_software_version": connection.software_version,
        "client_source_address": connection.peer_host,
        "client_source_port": connection.name.rpartition(":")[2],
    }


class MetricsSubscription(NamedTuple):
    """One resource `client-metrics`."""

    metrics: tuple[str, ...]
    interval_ms: int
    match: Mapping[str, Matcher]


class ClientSubscription(NamedTuple):
    """The metrics that one client shall push: the prefixes of metrics, and how often."""

    subscription_id: int
    metrics: tuple[str, ...]
    interval_ms: int


class _Instance:
    """One client, as long as it lives."""

    __slots__ = ("asked_ms", "error", "pushed_ms", "subscribed", "terminating", "version")

    def __init__(self, subscribed: ClientSubscription, version: int) -> None:
        self.subscribed = subscribed
        self.version = version
        self.asked_ms: int | None = None
        self.pushed_ms: int | None = None
        self.error = ErrorCode.NONE
        self.terminating = False

    def seen_ms(self) -> int:
        return max(self.asked_ms or 0, self.pushed_ms or 0)


class Telemetry:
    """`pushed` holds what clients have pushed."""

    def __init__(self) -> None:
        self.pushed = PushedMetrics()
        self._configs: dict[str, Mapping[str, str]] = {}
        self._subscriptions: tuple[MetricsSubscription, ...] = ()
        self._version = 0
        self._instances: dict[bytes, _Instance] = {}
        """The longest silent first."""

    def subscribe(self, configs: Mapping[tuple[int, str], Mapping[str, str]]) -> None:
        """Take the subscriptions in the metadata."""
        mine = {name: texts for (kind, name), texts in configs.items() if kind == CLIENT_METRICS_RESOURCE}
        if mine != self._configs:
            self._configs = mine
            self._version += 1
            options = (ClientMetricsConfig.of_texts(mine[name]) for name in sorted(mine))
            self._subscriptions = tuple(
                MetricsSubscription(one.metrics, one.interval_ms, matchers(one.match)) for one in options
            )

    def ask(self, instance_id: bytes, about: Mapping[str, str], now_ms: int) -> ClientSubscription | ErrorCode:
        """The metrics that a client shall push; it may ask once in its interval, or after an error that asks it to."""
        one = self._instance(instance_id, about)
        last_ms = max((each for each in (one.asked_ms, one.pushed_ms) if each is not None), default=None)
        early = last_ms is not None and now_ms - last_ms < one.subscribed.interval_ms
        if early and one.error not in _MAY_ASK_AGAIN:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        one.asked_ms, one.error = now_ms, ErrorCode.NONE
        return one.subscribed

    def may_push(
        self, instance_id: bytes, about: Mapping[str, str], now_ms: int, pushed: tuple[int, int, int], most_bytes: int,
        *, terminating: bool,
    ) -> ClientSubscription | ApiError:  # fmt: skip
        """The metrics that a client may push. `pushed`: its subscription's id, its codec, the number of bytes."""
        if instance_id in _RESERVED:
            return ApiError(ErrorCode.INVALID_REQUEST, "The client instance id is none that a broker has given.")
        one = self._instance(instance_id, about)
        error = self._push_refused(one, now_ms, pushed, most_bytes, terminating=terminating)
        one.terminating = one.terminating or terminating
        one.error = error
        return one.subscribed if error is ErrorCode.NONE else ApiError(error)

    def failed(self, instance_id: bytes, error: ErrorCode) -> None:
        """Note that what a client pushed could not be read."""
        self._instances[instance_id].error = error

    @staticmethod
    def _push_refused(
        one: _Instance, now_ms: int, pushed: tuple[int, int, int], most_bytes: int, *, terminating: bool
    ) -> ErrorCode:
        subscription_id, codec, count = pushed
        if one.terminating:
            return ErrorCode.INVALID_REQUEST
        before, asked = one.pushed_ms, one.asked_ms
        in_time = before is None or (asked is not None and asked > before)
        if not in_time and before is not None and now_ms - before < one.subscribed.interval_ms and not terminating:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        one.pushed_ms = now_ms
        if subscription_id != one.subscribed.subscription_id:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if codec != 0 and codec not in CODECS:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        return ErrorCode.TELEMETRY_TOO_LARGE if count > most_bytes else ErrorCode.NONE

    def forget_silent(self, now_ms: int) -> None:
        """Forget clients that have not been heard of for three intervals, and a minute."""
        for instance_id, one in list(self._instances.items()):
            if now_ms - one.seen_ms() > max(_LEAST_KEPT_MS, 3 * one.subscribed.interval_ms):
                self._forget(instance_id)

    def _forget(self, instance_id: bytes) -> None:
        del self._instances[instance_id]
        self.pushed.forget(str(UUID(bytes=instance_id)))

    def _instance(self, instance_id: bytes, about: Mapping[str, str]) -> _Instance:
        """A client, moved to the end; it begins anew where the subscriptions are others.

        Above the bound the longest silent makes room, and no others are looked at: anybody may come as many clients.
        """
        one = self._instances.pop(instance_id, None)
        if one is None and len(self._instances) >= MOST_INSTANCES:
            self._forget(next(iter(self._instances)))
        if one is None or one.version != self._version:
            terminating = one is not None and one.terminating
            one = _Instance(self._subscribed(instance_id, about), self._version)
            one.terminating = terminating
        self._instances[instance_id] = one
        return one

    def _subscribed(self, instance_id: bytes, about: Mapping[str, str]) -> ClientSubscription:
        metrics: set[str] = set()
        interval_ms = int(str(ClientMetricsConfig.BY_NAME["interval.ms"].default))
        known = {**about, "client_instance_id": str(UUID(bytes=instance_id))}
        for one in self._subscriptions:
            if all(fits(known.get(name, "")) for name, fits in one.match.items()):
                metrics.update(one.metrics)
                interval_ms = min(interval_ms, one.interval_ms)
        asked = (ALL_METRICS,) if ALL_METRICS in metrics else tuple(sorted(metrics))
        number = crc32(repr((asked, interval_ms)).encode() + instance_id)
        return ClientSubscription(number - ((number >> 31) << 32), asked, interval_ms)
