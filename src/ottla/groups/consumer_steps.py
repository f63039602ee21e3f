"""The steps by which one member's request changes a consumer group: its subscription, the target, its assignment.

Comes from consumer_heartbeat.py and, for members that speak the classic protocol, from classic_members.py. Each step
tries out its entries on a copy of the group; the group itself changes when they are applied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ottla.groups import consumer_entries as write
from ottla.groups.consumer_group import ConsumerGroup
from ottla.groups.consumer_values import (
    JOINING,
    LEAVING_FOR_A_WHILE,
    ConsumerMember,
    MemberState,
    Partitions,
    same_assignment,
    same_subscription,
)
from ottla.groups.reconciliation import Reconciliation
from ottla.groups.target_assignment import Assignor, Spec, Subscriber
from ottla.groups.topics import Topics, shapes_of
from ottla.groups.values import ConsumerGroupSettings, GroupEntry, Moment


@dataclass(frozen=True, slots=True)
class GroupSurroundings:
    """The surroundings of a consumer group that its decisions read."""

    topics: Topics
    assignors: dict[str, Assignor]
    """The assignors by name, the default first."""
    max_size: int


class Trial:
    """A group with the entries of a decision applied to a copy of it, made once the first entry is there."""

    def __init__(self, group: ConsumerGroup) -> None:
        self.group = group
        self.entries: list[GroupEntry] = []
        self._is_copy = False

    def write(self, entry: GroupEntry) -> None:
        if not self._is_copy:
            self.group, self._is_copy = self.group.copy(), True
        self.entries.append(entry)
        write.apply(self.group, entry.key, entry.value)  # type: ignore[arg-type]

    def bump(self, topics: Topics) -> None:
        """Begin the next epoch of the group, with the topics as they are now."""
        group = self.group
        self.write(write.epoch_entry(group.group_id, group.epoch + 1, group.subscribed_hash(topics)))

    def drop_unused(self, regex: str) -> None:
        """Forget the topics of a regular expression that no member uses any more."""
        if regex and regex in self.group.regexes and not self.group.regex_users(regex):
            self.write(write.regex_entry(self.group.group_id, regex, None))


# All steps of one request


class Advanced(NamedTuple):
    """A member after the steps, and whether its assignment was written anew."""

    member: ConsumerMember
    moved: bool


def advance(
    trial: Trial,
    before: ConsumerMember,
    asked: ConsumerMember,
    owned: Partitions | None,
    now: Moment,
    settings: ConsumerGroupSettings,
    around: GroupSurroundings,
) -> Advanced | None:
    """Write a request's changes: `before` becomes `asked`, which owns these partitions. None if it must begin anew."""
    group = trial.group
    regex_settled = asked.regex != before.regex and (not asked.regex or asked.regex in group.regexes)
    took_place = took_over(group, before)
    resubscribed = _write_subscription(trial, before, asked)
    stale = trial.group.subscribed_hash(around.topics) != group.metadata_hash
    if asked.topics != before.topics or regex_settled or stale:
        trial.bump(around.topics)
    _assign(trial, now, settings, around)
    moved = _reconcile(trial, asked, owned, around.topics, resubscribed=resubscribed)
    if moved is None:
        return None
    known = trial.group.members.get(moved.member_id)
    wrote = known is None or not same_assignment(known, moved) or took_place
    if wrote:
        trial.write(write.current_entry(group.group_id, moved))
    return Advanced(moved, wrote)


def _write_subscription(trial: Trial, before: ConsumerMember, asked: ConsumerMember) -> bool:
    """Write the member's new values; True where its subscription has changed."""
    group = trial.group
    if took_over(group, before):
        assert before.instance_id is not None
        old_id = group.static_members[before.instance_id]
        target = group.target.get(old_id, {})
        for entry in write.departure_entries(group.group_id, old_id):
            trial.write(entry)
        trial.write(write.member_entry(group.group_id, asked))
        trial.write(write.target_entry(group.group_id, asked.member_id, target))
        trial.write(write.current_entry(group.group_id, before))
    elif asked.member_id not in group.members or not same_subscription(before, asked):
        trial.write(write.member_entry(group.group_id, asked))
    trial.drop_unused(before.regex)
    return (asked.topics, asked.regex) != (before.topics, before.regex)


def _assign(trial: Trial, now: Moment, settings: ConsumerGroupSettings, around: GroupSurroundings) -> None:
    """Compute a new target if the group's epoch needs one, not more often than the interval allows."""
    group = trial.group
    if group.assignment_epoch >= group.epoch:
        return
    if not may_assign(group, now, settings):
        return
    name = group.preferred_assignor(next(iter(around.assignors)), known=around.assignors)
    target = around.assignors[name](spec_of(group, around.topics))
    for member_id in sorted(target):
        if group.target.get(member_id) != target[member_id]:
            trial.write(write.target_entry(group.group_id, member_id, target[member_id]))
    trial.write(write.target_epoch_entry(group.group_id, group.epoch, now.wall_ms))


def may_assign(group: ConsumerGroup, now: Moment, settings: ConsumerGroupSettings) -> bool:
    """True if the time between two targets of a group is over. A clock that was set back does not count."""
    return not 0 <= now.wall_ms - group.assigned_at_ms < settings.assignment_interval_ms


def spec_of(group: ConsumerGroup, topics: Topics) -> Spec:
    """The group as an assignor sees it."""
    partitions: dict[bytes, int] = {}
    ids: dict[frozenset[str], frozenset[bytes]] = {}
    subscribers = []
    for member in group.ordered_members():
        names = group.topics_of(member)
        if names not in ids:
            shapes = shapes_of(names, topics)
            partitions |= {shape.topic_id: shape.partitions for shape in shapes}
            ids[names] = frozenset(shape.topic_id for shape in shapes)
        target = group.target.get(member.member_id, {})
        subscribers.append(Subscriber(member.member_id, member.instance_id, ids[names], target))
    return Spec(tuple(subscribers), partitions)


def _reconcile(
    trial: Trial,
    asked: ConsumerMember,
    owned: Partitions | None,
    topics: Topics,
    *,
    resubscribed: bool,
) -> ConsumerMember | None:
    """The member one step nearer to its target; None if it must begin anew."""
    group = trial.group
    if asked.state is MemberState.STABLE and asked.epoch == group.assignment_epoch and not resubscribed:
        return asked
    subscribed = frozenset(shape.topic_id for shape in shapes_of(group.topics_of(asked), topics))

    def held_by_other(topic: bytes, index: int) -> bool:
        owner = group.owner(topic, index)
        return owner is not None and owner != asked.member_id

    return Reconciliation(
        asked,
        assignment_epoch=group.assignment_epoch,
        target=group.target.get(asked.member_id, {}),
        owned=owned,
        subscribed=subscribed,
        may_have_changed=resubscribed,
        held_by_other=held_by_other,
    ).step()


def took_over(group: ConsumerGroup, before: ConsumerMember) -> bool:
    """True if a static member takes the place of another incarnation: all of its records are written anew."""
    if before.instance_id is None or before.epoch != JOINING:
        return False
    holder = group.static_member(before.instance_id)
    return holder is not None and (holder.epoch == LEAVING_FOR_A_WHILE or holder.member_id != before.member_id)
