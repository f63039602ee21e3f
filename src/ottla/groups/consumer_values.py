"""Members of consumer groups as values, and sets of partitions by topic id. Nothing here changes once it is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from ottla.messages.consumer_group_records import ClassicMemberMetadata

JOINING = 0
"""The member epoch of a request to join."""
LEAVING = -1
"""The member epoch of a request to leave."""
LEAVING_FOR_A_WHILE = -2
"""The member epoch of a static member that comes back, and of its place until then."""

Partitions = Mapping[bytes, frozenset[int]]
"""Partitions by topic id; a topic without partitions is left out."""
Assigned = Mapping[bytes, Mapping[int, int]]
"""Partitions by topic id, each with the assignment epoch in which the member got it."""


class MemberState(IntEnum):
    """A member's state on the way to its target; the numbers are those of the records."""

    STABLE = 0
    """The member has the assignment of its epoch."""
    UNREVOKED = 1
    """The member still has to give up partitions before it may have its next epoch."""
    UNRELEASED = 2
    """The member waits for partitions that other members still own."""
    UNKNOWN = 127
    """A state that another release has written."""


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """One member of a consumer group."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    """The topics that it subscribes to by name."""
    regex: str = ""
    """The regular expression that it subscribes by; "" for none."""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicMemberMetadata | None = None
    """A member that speaks the classic protocol, as it has described itself."""
    epoch: int = JOINING
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Assigned = field(default_factory=dict)
    pending: Assigned = field(default_factory=dict)
    """The partitions that the member must give up, and may still read."""

    @property
    def owned(self) -> Partitions:
        """The partitions that the member may read."""
        return {topic: frozenset(epochs) for topic, epochs in self.assigned.items()}


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression matched, and the time of that."""

    topics: frozenset[str]
    version: int
    """The version of the metadata that the topics come from."""
    timestamp_ms: int


def same_subscription(one: ConsumerMember, other: ConsumerMember) -> bool:
    """True if two states of a member have the same member record."""
    return (
        one.topics == other.topics
        and one.regex == other.regex
        and one.rebalance_timeout_ms == other.rebalance_timeout_ms
        and one.assignor == other.assignor
        and one.instance_id == other.instance_id
        and one.rack_id == other.rack_id
        and one.client_id == other.client_id
        and one.client_host == other.client_host
        and one.classic == other.classic
    )


def same_assignment(one: ConsumerMember, other: ConsumerMember) -> bool:
    """True if two states of a member have the same assignment record."""
    return (
        one.epoch == other.epoch
        and one.previous_epoch == other.previous_epoch
        and one.state == other.state
        and one.assigned == other.assigned
        and one.pending == other.pending
    )


def partitions_of(pairs: Iterable[tuple[bytes, Iterable[int]]]) -> dict[bytes, frozenset[int]]:
    """Partitions by topic, from pairs that may name a topic twice or no partition."""
    found: dict[bytes, set[int]] = {}
    for topic, partitions in pairs:
        if wanted := set(partitions):
            found.setdefault(topic, set()).update(wanted)
    return {topic: frozenset(partitions) for topic, partitions in found.items()}


def is_subset(some: Partitions, all_of: Mapping[bytes, Iterable[int]]) -> bool:
    return all(partitions <= set(all_of.get(topic, ())) for topic, partitions in some.items())


def overlap(some: Mapping[bytes, Iterable[int]], others: Partitions) -> bool:
    """True if a partition is in both sets."""
    return any(not others.get(topic, frozenset()).isdisjoint(partitions) for topic, partitions in some.items())
