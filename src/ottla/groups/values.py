"""What goes into a group shard and what comes out: moments, callers, settings, entries and decisions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ottla.kernel.errors import ErrorCode
from ottla.kernel.story import Slot
from ottla.messages.group_records import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue

Ticket = Slot[Any]
"""The place of one answer. The machine carries tickets about and never fills one: the answer's type hangs on the API,
and an `ErrorCode` in its stead means that the whole request failed."""


class Moment(NamedTuple):
    """Now, by both clocks: monotonic for deadlines, wall for what is written and for retention."""

    mono_ms: int
    wall_ms: int


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, as DescribeGroups will show it, and in which version of the API."""

    client_id: str
    client_host: str
    version: int


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The broker's options that steer groups, under Kafka's defaults."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2_147_483_647
    new_member_join_timeout_ms: int = 300_000
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    offsets_retention_check_interval_ms: int = 600_000


class Entry(NamedTuple):
    """One record of `__consumer_offsets`; a value of None is a tombstone."""

    key: OffsetCommitKey | GroupMetadataKey
    value: OffsetCommitValue | GroupMetadataValue | None
    value_version: int


class Reply(NamedTuple):
    """An answer that leaves once everything appended before it is committed."""

    ticket: Ticket
    answer: object


class Decision:
    """What the shard wants done: first `entries` appended as one batch and applied, then `replies` given.

    Where the append is refused, `GroupShard.refused` says what happens instead.
    """

    __slots__ = ("entries", "if_refused", "replies")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.replies: list[Reply] = []
        self.if_refused: Callable[[Moment, Decision], None] | None = None
        """Puts right in memory what was decided in the hope that the entries would be written."""

    def answer(self, ticket: Ticket, answer: object) -> None:
        self.replies.append(Reply(ticket, answer))

    def write(self, entry: Entry) -> None:
        self.entries.append(entry)


@dataclass(slots=True)
class Turn:
    """One request while it is decided: who asks, where the answer goes, when it is, what comes of it."""

    caller: Caller
    ticket: Ticket
    now: Moment
    out: Decision

    def answer(self, answer: object) -> None:
        self.out.answer(self.ticket, answer)


def coordinator_error(error: ErrorCode) -> ErrorCode:
    """What a client of the coordinator is told when an append to `__consumer_offsets` ended with `error`."""
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
