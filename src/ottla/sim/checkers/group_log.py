"""The records of consumer groups (KIP-848) in the order of their log: their epochs, and the targets they assign.

A member's epoch is at most the epoch of the target, and that at most the group's; none of the three falls before its
tombstone. A target gives each partition of the subscribed topics to one member, and equally many to each where all
members subscribe to the same topics. That a group without further changes settles is judged from the answers of its
members (assigned_group.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from ottla.groups.consumer_group import ConsumerGroup
from ottla.groups.consumer_values import LEAVING_FOR_A_WHILE
from ottla.groups.offsets import NO_PRODUCER
from ottla.groups.shard import GroupShard
from ottla.groups.topics import shapes_of
from ottla.groups.values import GroupEntry
from ottla.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from ottla.sim.checkers.history import Anomaly

_UNIFORM = "uniform"
_TARGET = "the target"
Place = tuple[bytes, int]


class _Epochs:
    """The epochs of one group so far; None for one whose record compaction may have taken, or that is not there."""

    def __init__(self) -> None:
        self.group: int | None = None
        self.target: int | None = None
        self.members: dict[str, int] = {}


class _Said(NamedTuple):
    """A record that says an epoch, with the epoch before it and the one that it may not pass."""

    group_id: str
    whose: str
    epoch: int
    before: int | None = None
    limit: int | None = None


class GroupLog:
    """The consumer groups of one log, record by record."""

    def __init__(self) -> None:
        self._groups: dict[str, _Epochs] = {}

    def take(self, entry: GroupEntry) -> Iterator[Anomaly]:
        """Judge the epoch that a record says, if it says one, and remember it."""
        step = self._said(entry)
        if step is None:
            return
        if step.before is not None and step.epoch < step.before:
            yield _wrong(step, f"was in {step.before}")
        if step.limit is not None and step.epoch > step.limit:
            yield _wrong(step, f"may be in {step.limit} at most")

    def ended(self) -> Iterator[Anomaly]:
        """Judge the last epochs of all groups: at the end of the log none is unknown."""
        for group_id, epochs in self._groups.items():
            group, target = epochs.group or 0, epochs.target or 0
            if target > group:
                yield _wrong(_Said(group_id, _TARGET, target), f"ends above the group's {group}")
            for member_id, epoch in epochs.members.items():
                if epoch > target:
                    yield _wrong(_Said(group_id, member_id, epoch), f"ends above the target's {target}")

    def _said(self, entry: GroupEntry) -> _Said | None:
        key, value = entry.key, entry.value
        if isinstance(key, ConsumerGroupMetadataKey):
            assert value is None or isinstance(value, ConsumerGroupMetadataValue)
            return self._group_said(key.group_id, value)
        if isinstance(key, ConsumerGroupTargetAssignmentMetadataKey):
            assert value is None or isinstance(value, ConsumerGroupTargetAssignmentMetadataValue)
            return self._target_said(key.group_id, value)
        if isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
            assert value is None or isinstance(value, ConsumerGroupCurrentMemberAssignmentValue)
            return self._member_said(key.group_id, key.member_id, value)
        return None

    def _group_said(self, group_id: str, value: ConsumerGroupMetadataValue | None) -> _Said | None:
        if value is None:
            self._groups.pop(group_id, None)
            return None
        epochs = self._groups.setdefault(group_id, _Epochs())
        before, epochs.group = epochs.group, value.epoch
        return _Said(group_id, "the group", value.epoch, before)

    def _target_said(self, group_id: str, value: ConsumerGroupTargetAssignmentMetadataValue | None) -> _Said | None:
        epochs = self._groups.setdefault(group_id, _Epochs())
        before, epochs.target = epochs.target, None if value is None else value.assignment_epoch
        return None if value is None else _Said(group_id, _TARGET, value.assignment_epoch, before, epochs.group)

    def _member_said(
        self, group_id: str, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue | None
    ) -> _Said | None:
        """A static member that has left for a while has no epoch until it is back."""
        epochs = self._groups.setdefault(group_id, _Epochs())
        before = epochs.members.pop(member_id, None)
        if value is None or value.member_epoch == LEAVING_FOR_A_WHILE:
            return None
        epochs.members[member_id] = value.member_epoch
        return _Said(group_id, member_id, value.member_epoch, before, epochs.target)


def _wrong(step: _Said, why: str) -> Anomaly:
    return Anomaly("group-epoch", f"{step.group_id}: {step.whose} is in epoch {step.epoch}, and {why}")


class WatchedGroups(GroupShard):
    """A shard into which a log is replayed, and which judges each entry of a consumer group on the way."""

    def __init__(self, live: GroupShard) -> None:
        """Read with the options and topics of a `live` one."""
        super().__init__(live.settings, _no_suffix, topics=live.consumers.topics)
        self.found: list[Anomaly] = []
        self._log = GroupLog()

    def apply(self, entry: GroupEntry, record_offset: int, producer: int = NO_PRODUCER) -> None:
        self.found += self._log.take(entry)
        super().apply(entry, record_offset, producer)
        key = entry.key
        if isinstance(key, ConsumerGroupTargetAssignmentMetadataKey) and key.group_id in self.consumers.groups:
            self.found += self._wrong_target(self.consumers.groups[key.group_id])

    def ended(self) -> list[Anomaly]:
        """All that was found, once the log was read to its end."""
        return [*self.found, *self._log.ended()]

    def _wrong_target(self, group: ConsumerGroup) -> Iterator[Anomaly]:
        """Judge a target that was computed with the topics as they are now, by the hash in the group's record.

        A target without a time was not computed, but taken over from a classic group.
        """
        topics = self.consumers.topics
        if not group.assigned_at_ms or group.subscribed_hash(topics) != group.metadata_hash:
            return
        wanted = {
            member.member_id: {
                (shape.topic_id, index)
                for shape in shapes_of(group.topics_of(member), topics)
                for index in range(shape.partitions)
            }
            for member in group.members.values()
        }
        given = {
            member_id: [(topic, index) for topic, indexes in target.items() for index in indexes]
            for member_id, target in group.target.items()
        }
        uniform = self.consumers.preferred_assignor(group) == _UNIFORM
        for fault in target_faults(wanted, given, uniform=uniform):
            yield Anomaly("group-target", f"{group.group_id} in epoch {group.assignment_epoch}: {fault}")


def target_faults(wanted: dict[str, set[Place]], given: dict[str, list[Place]], *, uniform: bool) -> Iterator[str]:
    """The faults of a target: `wanted` are the partitions that each member subscribes to."""
    for member_id, places in given.items():
        if member_id not in wanted:
            yield f"{member_id} is not a member"
        elif not wanted[member_id].issuperset(places):
            yield f"{member_id} has partitions that it does not subscribe to"
    owners = Counter(place for places in given.values() for place in places)
    every = set().union(*wanted.values())
    if missing := every - owners.keys():
        yield f"{len(missing)} partitions have no owner"
    if twice := [place for place, count in owners.items() if count > 1]:
        yield f"{len(twice)} partitions have two owners"
    sizes = [len(given.get(member_id, ())) for member_id in wanted]
    same = len({frozenset(places) for places in wanted.values()}) == 1
    if uniform and same and max(sizes) - min(sizes) > 1:
        yield f"the members have {', '.join(map(str, sorted(sizes)))} partitions"


def _no_suffix() -> str:
    raise AssertionError("no member joins a shard that is only read")
