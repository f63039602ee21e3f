"""The base that the coordinators' shards share: moments, answers, decisions, and the partition that an id lives in."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

from ottla.kernel.errors import ErrorCode
from ottla.kernel.story import Slot
from ottla.kernel.trusted_time import TimeFor

E = TypeVar("E")

Ticket = Slot[Any]
"""The place of one answer. The machine carries tickets about and never fills one: the answer's type hangs on the API,
and an `ErrorCode` in its stead means that the whole request failed."""


class Moment(NamedTuple):
    """Now, by both clocks: monotonic for deadlines, wall for what is written."""

    mono_ms: int
    wall_ms: int
    aged: TimeFor | None = None
    """The trusted time, by which things have an age; None where the wall clock is trusted."""

    def time_for(self, retention_ms: int) -> int:
        """The time of day by which something of this retention has an age (rule B9)."""
        return self.wall_ms if self.aged is None else self.aged(retention_ms)


class Reply(NamedTuple):
    """An answer that leaves once everything appended before it is committed."""

    ticket: Ticket
    answer: object


class TransactionalWriter(NamedTuple):
    """The transactional producer for whom entries are written: they are pending until its transaction ends."""

    producer_id: int
    producer_epoch: int
    guard: object | None
    """The proof that its coordinator has this partition in the transaction (storage/producers/producers.py)."""


class Outcome(Generic[E]):
    """A shard's decision: `entries` are appended as one batch and applied, then `replies` are sent and `effects` run.

    Replies and effects wait until everything appended before them is committed. Replies that wait too long are told
    so; effects wait for as long as the shard lives.
    """

    __slots__ = ("effects", "entries", "replies", "whole", "writer")

    def __init__(self) -> None:
        self.entries: list[E] = []
        self.replies: list[Reply] = []
        self.effects: list[object] = []
        self.writer: TransactionalWriter | None = None
        self.whole = False
        """True if the entries must stand in one batch, however many they are: some of them alone mean nothing."""

    def answer(self, ticket: Ticket, answer: object) -> None:
        self.replies.append(Reply(ticket, answer))

    def write(self, entry: E) -> None:
        self.entries.append(entry)


@lru_cache(maxsize=8192)
def partition_for(name: str, partitions: int) -> int:
    """The partition an id lives in: Java's `String.hashCode`, its sign bit cleared, modulo the number of them."""
    units = name.encode("utf-16-be", "surrogatepass")
    code = 0
    for (unit,) in struct.iter_unpack(">H", units):
        code = (code * 31 + unit) & 0xFFFFFFFF
    return (code & 0x7FFFFFFF) % partitions


def coordinator_error(error: ErrorCode) -> ErrorCode:
    """The error for a client of a coordinator, when an append to its topic ended with `error`."""
    return _COORDINATOR_ERRORS.get(error, error)


_COORDINATOR_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
