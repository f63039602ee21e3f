"""Limits the speed at which reassigned replicas catch up, to leave disk and network to clients (KIP-73).

Replicas: the topic options `leader.` and `follower.replication.throttled.replicas`; rate: the broker options
`leader.` and `follower.replication.throttled.rate`. fetcher.py asks here before it fetches, handlers/fetch.py
before it answers a follower. A replica that is in sync is never held back: producers would wait for it.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker.waiting import Deadlines
from ottla.config.broker import BrokerConfig

EVERY = "*"
PIECE_MS = 500
"""One fetch asks for about as much as the throttle lets through in this time."""
LEAST_PIECE_BYTES = 16 * 1024
LONGEST_MS = 10_000
"""The longest pause: something passes then for any rate, and a changed rate takes effect at the latest."""


def names(replicas: tuple[str, ...], partition: int, broker: int) -> bool:
    """True if a list of `partition:broker` has this replica in it."""
    return bool(replicas) and (EVERY in replicas or f"{partition}:{broker}" in replicas)


def throttles(deadlines: Deadlines, config: BrokerConfig) -> tuple[Throttle, Throttle]:
    """The throttles of outgoing and of incoming bytes."""
    return (
        Throttle(deadlines, config.leader_replication_throttled_rate),
        Throttle(deadlines, config.follower_replication_throttled_rate),
    )


class Throttle:
    """A limit of bytes per second in one direction: bytes that have passed delay the next ones."""

    def __init__(self, deadlines: Deadlines, rate: int) -> None:
        self.rate = rate
        self.free_at_ms = 0
        self._deadlines = deadlines
        self._waiting: dict[Callable[[], None], None] = {}

    def exceeded(self) -> bool:
        return self._deadlines.now_ms() < self.free_at_ms

    def took(self, count: int) -> None:
        start = max(self._deadlines.now_ms(), self.free_at_ms)
        worth_ms = count * 1000 // max(1, self.rate)
        self.free_at_ms = min(start + worth_ms, self._deadlines.now_ms() + LONGEST_MS)

    def piece_bytes(self, most: int) -> int:
        """The number of bytes to ask for at once."""
        return max(min(most, self.rate * PIECE_MS // 1000), min(most, LEAST_PIECE_BYTES))

    def when_free(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, when more may pass."""
        if not self._waiting:
            self._deadlines.at(self.free_at_ms, self._ring)
        self._waiting[callback] = None

    def _ring(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for callback in waiting:
            callback()
