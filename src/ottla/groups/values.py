"""The values that go into a group shard and come out: moments, callers, settings, entries and decisions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias

from ottla.kernel.shards import Moment, Outcome, Reply, Ticket, coordinator_error
from ottla.messages import consumer_group_records as consumer
from ottla.messages.group_records import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue

ConsumerKey: TypeAlias = (
    consumer.ConsumerGroupMetadataKey
    | consumer.ConsumerGroupPartitionMetadataKey
    | consumer.ConsumerGroupMemberMetadataKey
    | consumer.ConsumerGroupTargetAssignmentMetadataKey
    | consumer.ConsumerGroupTargetAssignmentMemberKey
    | consumer.ConsumerGroupCurrentMemberAssignmentKey
    | consumer.ConsumerGroupRegularExpressionKey
)
"""The key of a record that a group of the consumer protocol writes."""
ConsumerValue: TypeAlias = (
    consumer.ConsumerGroupMetadataValue
    | consumer.ConsumerGroupPartitionMetadataValue
    | consumer.ConsumerGroupMemberMetadataValue
    | consumer.ConsumerGroupTargetAssignmentMetadataValue
    | consumer.ConsumerGroupTargetAssignmentMemberValue
    | consumer.ConsumerGroupCurrentMemberAssignmentValue
    | consumer.ConsumerGroupRegularExpressionValue
)

__all__ = [
    "Caller",
    "ConsumerGroupSettings",
    "ConsumerKey",
    "ConsumerValue",
    "GroupDecision",
    "GroupEntry",
    "GroupSettings",
    "MigrationPolicy",
    "Moment",
    "Reply",
    "Ticket",
    "Turn",
    "coordinator_error",
]


def everything(name: str) -> bool:
    """The view of a client that may know of every topic."""
    return True


@dataclass(frozen=True, slots=True)
class Caller:
    """The asking client, as DescribeGroups will show it, and its version of the API."""

    client_id: str
    client_host: str
    version: int
    sees: Callable[[str], bool] = everything
    """Tells of a topic's name whether this client may know of the topic."""


@dataclass(frozen=True, slots=True)
class ConsumerGroupSettings:
    """The options of one group of the consumer protocol, under Kafka's defaults."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000


class MigrationPolicy(Enum):
    """The protocol changes that a group with members may make: values of `group.consumer.migration.policy`."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def upgrades(self) -> bool:
        """True if a classic group becomes a consumer group when a member of that protocol joins."""
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def downgrades(self) -> bool:
        """True if a consumer group becomes a classic one when the last member of its own protocol is gone."""
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


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
    consumer_max_size: int = 2_147_483_647
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    consumer_regex_refresh_interval_ms: int = 600_000
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL


class GroupEntry(NamedTuple):
    """One record of `__consumer_offsets`; a value of None is a tombstone."""

    key: OffsetCommitKey | GroupMetadataKey | ConsumerKey
    value: OffsetCommitValue | GroupMetadataValue | ConsumerValue | None
    value_version: int


class GroupDecision(Outcome[GroupEntry]):
    """A group shard's decision. Where the append is refused, `GroupShard.refused` takes over."""

    __slots__ = ("if_refused",)

    def __init__(self) -> None:
        super().__init__()
        self.if_refused: Callable[[Moment, GroupDecision], None] | None = None
        """Undoes in memory a decision whose entries were not written."""


@dataclass(slots=True)
class Turn:
    """One request while it is decided: the client, the place of the answer, the time, the decision."""

    caller: Caller
    ticket: Ticket
    now: Moment
    out: GroupDecision

    def answer(self, answer: object) -> None:
        self.out.answer(self.ticket, answer)
