"""Records that others send, on their way into Kafka: a bounded number wait, and senders learn when theirs are safe."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

from ottla.connect.records import SourceRecord

_AHEAD_MS: Final = 60_000


def record_time(own_ms: int | None, now_ms: int) -> int:
    """The time of a record: the sender's own, or now where its clock is ahead.

    Brokers refuse records of the future, and one sender with a wrong clock must not end the task of all. The sender's
    own time stays in the value.
    """
    return own_ms if own_ms is not None and 0 <= own_ms <= now_ms + _AHEAD_MS else now_ms


class Full(Exception):
    """So many records wait for Kafka that no more are taken now."""


class TaskEnded(Exception):
    """The task has ended before these records were in Kafka: they have to be sent again."""


class _Offer:
    def __init__(self, records: Sequence[SourceRecord]) -> None:
        self.left = len(records)
        self.safe: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Inbox:
    """Between senders and a task's `read` and `acknowledged`. For one event loop."""

    def __init__(self, most: int) -> None:
        """`most`: how many records may wait for Kafka."""
        self._most = most
        self._waiting: deque[SourceRecord] = deque()
        self._offers: dict[int, tuple[SourceRecord, _Offer]] = {}
        """By the identity of the record, which is kept alive beside it."""
        self._stirred = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._ended = False

    @property
    def pending(self) -> int:
        """The records that are not in Kafka yet."""
        return len(self._offers)

    def offer(self, records: Sequence[SourceRecord]) -> asyncio.Future[None]:
        """Take records; the future is done once all are in Kafka. `Full` if they would be too many, else all are taken.

        A list that is longer than the bound alone is taken when nothing else waits.
        """
        if self._ended:
            raise TaskEnded
        if self._offers and len(self._offers) + len(records) > self._most:
            raise Full
        offer = _Offer(records)
        for record in records:
            self._offers[id(record)] = (record, offer)
        self._waiting.extend(records)
        if not records:
            offer.safe.set_result(None)
        if len(self._offers) >= self._most:
            self._room.clear()
        self._stirred.set()
        return offer.safe

    async def room(self) -> None:
        """Wait until there is room again."""
        await self._room.wait()

    async def take(self) -> list[SourceRecord]:
        """All records that wait; it waits for some."""
        while not self._waiting:
            self._stirred.clear()
            await self._stirred.wait()
        found = list(self._waiting)
        self._waiting.clear()
        return found

    def acknowledged(self, records: Sequence[SourceRecord]) -> None:
        """Learn that records are in Kafka."""
        for record in records:
            _, offer = self._offers.pop(id(record))
            offer.left -= 1
            if not offer.left and not offer.safe.done():
                offer.safe.set_result(None)
        if len(self._offers) < self._most:
            self._room.set()

    def end(self) -> None:
        """Tell all senders that wait: their records may not be in Kafka."""
        self._ended = True
        for _, offer in self._offers.values():
            if not offer.safe.done():
                offer.safe.set_exception(TaskEnded())
                offer.safe.exception()  # nobody has to look
        self._offers.clear()
        self._waiting.clear()
        self._room.set()
