"""The quotas of clients here: their rates at this broker, and the connections that have to wait (KIP-13, KIP-219).

A connection over its quota is answered at once, with the time for which it is not served after that. Brokers of the
cluster have no quotas. Produce and Fetch ask here only where `on_produce` or `on_fetch` says that anybody has one.
`thread_time.py` counts the time of requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.access.quotas import SAMPLE_MS, BucketMeter, Metered, QuotaMeter, Quotas
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.quotas import (
    CLIENT_KEYS,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.waiting import Deadlines
    from ottla.metadata.state import Metadata
    from ottla.wire.connection import ServerConnection

_SENT = Metered(True, 0)
NS_A_PERCENT = 10_000_000
"""A percent of a second."""


class Mutations:
    """The partitions that one request makes and deletes, charged to its client (KIP-599).

    `strict` is for versions whose clients know THROTTLING_QUOTA_EXCEEDED; requests of older ones are done, and wait.
    """

    def __init__(self, meter: BucketMeter | None, deadlines: Deadlines, *, strict: bool) -> None:
        self._meter = meter
        self._deadlines = deadlines
        self._strict = strict
        self.wait_ms = 0

    def refusal(self, count: int) -> ApiError | None:
        """Charge a change of so many partitions, or refuse it."""
        if self._meter is None:
            return None
        (limit, bucket), now_ms = self._meter, self._deadlines.now_ms()
        if self._strict and (wait_ms := bucket.wait_ms(limit, now_ms)):
            self.wait_ms = wait_ms
            return ApiError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                f"The quota of {limit:g} changed partitions a second is exceeded: try again in {wait_ms} ms.",
            )
        bucket.take(limit, count, now_ms)
        if not self._strict:
            self.wait_ms = bucket.wait_ms(limit, now_ms)
        return None


class ThreadTime(Protocol):
    """The request whose story runs now, if its client has a quota of thread time."""

    def wait_ms(self) -> int: ...


class Throttled:
    """Counts the requests that were throttled by one kind of quota, and for how long."""

    __slots__ = ("ms", "requests")

    def __init__(self) -> None:
        self.requests = 0
        self.ms = 0


class ClientQuotas:
    """Meters by the quotas of the metadata as it is now."""

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines
        self.now_ns: Callable[[], int] = lambda: deadlines.now_ms() * 1_000_000
        """The clock by which the time of requests is measured."""
        self._quotas = Quotas()
        self.on_produce = False
        """True if anybody has a quota of produced bytes or of thread time."""
        self.on_fetch = False
        """True if anybody has a quota of fetched bytes or of thread time."""
        self.on_time = False
        """True if anybody has a quota of thread time."""
        self.running: ThreadTime | None = None
        self.throttled = {key: Throttled() for key in CLIENT_KEYS}

    def reconcile(self, metadata: Metadata) -> None:
        """Take the quotas as they are now. A connection that waits already waits as long as it was told."""
        self._quotas.reset(metadata.quotas)
        self.on_time = self._quotas.has(REQUEST_PERCENTAGE)
        self.on_produce = self.on_time or self._quotas.has(PRODUCER_BYTE_RATE)
        self.on_fetch = self.on_time or self._quotas.has(CONSUMER_BYTE_RATE)

    def limits_producer(self, connection: ServerConnection) -> bool:
        """True if a Produce of this client is counted."""
        kinds = (PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE)
        return any(self._meter(kind, connection) is not None for kind in kinds)

    def consumer(self, connection: ServerConnection) -> QuotaMeter | None:
        """The meter of bytes that this client fetches; None if it has no quota."""
        return self._meter(CONSUMER_BYTE_RATE, connection)

    def produced(self, connection: ServerConnection, count: int) -> int:
        """Count bytes that a client has produced; the throttle time that the answer tells."""
        meter = self._meter(PRODUCER_BYTE_RATE, connection)
        wait_ms = 0 if meter is None else meter.take(count, self._deadlines.now_ms())
        self._hold(connection, PRODUCER_BYTE_RATE, wait_ms)
        return max(wait_ms, self._for_time())

    def fetched(self, connection: ServerConnection, count: int) -> Metered:
        """Count bytes that a client is about to get, or hold them back."""
        meter = self.consumer(connection) if count else None
        taken = _SENT if meter is None else meter.take_within(count, self._deadlines.now_ms())
        self._hold(connection, CONSUMER_BYTE_RATE, taken.wait_ms)
        return Metered(taken.done, max(taken.wait_ms, self._for_time()))

    def time(self, connection: ServerConnection) -> QuotaMeter | None:
        """The meter of the thread time of this client's requests; None if it has no quota."""
        return self._meter(REQUEST_PERCENTAGE, connection)

    def over_time(self, connection: ServerConnection, meter: QuotaMeter) -> int:
        """The throttle time of a request whose thread time is counted: a second at the most, as in Kafka."""
        limit_ns = meter.limit * NS_A_PERCENT
        wait_ms = min(meter.rate.over_ms(limit_ns, 0, self._deadlines.now_ms()), SAMPLE_MS)
        self._hold(connection, REQUEST_PERCENTAGE, wait_ms)
        return wait_ms

    def spent(self, meter: QuotaMeter, spent_ns: int) -> None:
        """Count thread time."""
        meter.rate.add(spent_ns, self._deadlines.now_ms())

    def _for_time(self) -> int:
        return 0 if self.running is None else self.running.wait_ms()

    def mutations(self, connection: ServerConnection, *, strict: bool) -> Mutations:
        """The charge of a request that makes or deletes partitions; `charged` ends it."""
        meter = None
        if self._quotas.has(CONTROLLER_MUTATION_RATE) and connection.peer is None:
            user = connection.principal.removeprefix("User:")
            now_ms = self._deadlines.now_ms()
            meter = self._quotas.bucket(CONTROLLER_MUTATION_RATE, user, connection.client_id or "", now_ms)
        return Mutations(meter, self._deadlines, strict=strict)

    def charged(self, connection: ServerConnection, mutations: Mutations) -> int:
        """The throttle time that the answer tells."""
        self._hold(connection, CONTROLLER_MUTATION_RATE, mutations.wait_ms)
        return mutations.wait_ms

    def _meter(self, key: str, connection: ServerConnection) -> QuotaMeter | None:
        if connection.peer is not None:
            return None
        user = connection.principal.removeprefix("User:")
        return self._quotas.meter(key, user, connection.client_id or "", self._deadlines.now_ms())

    def _hold(self, connection: ServerConnection, key: str, wait_ms: int) -> None:
        """Serve no request of the connection for this time; the answer to the one at hand leaves."""
        if wait_ms <= 0 or connection.closed:
            return
        self.throttled[key].requests += 1
        self.throttled[key].ms += wait_ms
        connection.mute()

        def let_go() -> None:
            connection.on_close.remove(deadline.cancel)
            connection.unmute()

        deadline = self._deadlines.after(wait_ms, let_go)
        connection.on_close.append(deadline.cancel)
