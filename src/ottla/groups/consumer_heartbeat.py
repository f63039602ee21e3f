"""One heartbeat of a member that is, or becomes, part of a consumer group: what it changes, step by step (KIP-848).

Comes from consumer_groups.py. Each step tries out its entries on a copy of the group; the group itself changes when
they are applied.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.groups import consumer_entries as write
from ottla.groups.consumer_group import ConsumerGroup
from ottla.groups.consumer_requests import is_full, owned_partitions, refused, updated
from ottla.groups.consumer_values import (
    JOINING,
    LEAVING_FOR_A_WHILE,
    ConsumerMember,
    MemberState,
    is_subset,
    same_assignment,
    same_subscription,
)
from ottla.groups.reconciliation import Reconciliation, come_back
from ottla.groups.target_assignment import Assignor, Spec, Subscriber
from ottla.groups.topics import Topics, shapes_of
from ottla.groups.values import Caller, ConsumerSettings, Entry, Moment
from ottla.kernel.errors import ErrorCode, clipped
from ottla.kernel.patterns import BadPattern, compile_pattern
from ottla.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

Refused = ConsumerGroupHeartbeatResponse


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The surroundings of a consumer group that its decisions look at."""

    topics: Topics
    assignors: dict[str, Assignor]
    """By name, the default first."""
    max_size: int


@dataclass(frozen=True, slots=True)
class Beat:
    """The outcome of a heartbeat: entries to write, the answer, and the member as it is once they are applied."""

    entries: list[Entry]
    answer: ConsumerGroupHeartbeatResponse
    member: ConsumerMember
    moved: bool
    """Whether the assignment of the member was written anew."""
    wants_regex: bool
    """Whether the member subscribes by a regular expression that is not resolved."""


class Trial:
    """A group with the entries of a decision applied to a copy of it, made once the first entry is there."""

    def __init__(self, group: ConsumerGroup) -> None:
        self.group = group
        self.entries: list[Entry] = []
        self._is_copy = False

    def write(self, entry: Entry) -> None:
        if not self._is_copy:
            self.group, self._is_copy = self.group.copy(), True
        self.entries.append(entry)
        write.apply(self.group, entry.key, entry.value)  # type: ignore[arg-type]

    def bump(self, topics: Topics) -> None:
        """Begin the next epoch of the group, with the topics as they are now."""
        group = self.group
        self.write(write.epoch_entry(group.group_id, group.epoch + 1, group.subscribed_hash(topics)))

    def drop_unused(self, regex: str) -> None:
        """Forget the topics of a regular expression that no member subscribes by any more."""
        if regex and regex in self.group.regexes and not self.group.regex_users(regex):
            self.write(write.regex_entry(self.group.group_id, regex, None))


def beat(
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    caller: Caller,
    now: Moment,
    settings: ConsumerSettings,
    around: Surroundings,
) -> Beat | Refused:
    """Decide what a heartbeat of one who stays or joins means."""
    before = _member(group, request, around.max_size)
    if isinstance(before, Refused):
        return before
    asked = updated(before, request, caller)
    new_regex = asked.regex != before.regex and asked.regex and asked.regex not in group.regexes
    if new_regex:
        try:
            compile_pattern(asked.regex)
        except BadPattern as fault:
            return refused(ErrorCode.INVALID_REGULAR_EXPRESSION, f"{clipped(asked.regex)}: {fault}")
    trial = Trial(group)
    resubscribed = _write_subscription(trial, before, asked)
    regex_settled = asked.regex != before.regex and not new_regex
    stale = trial.group.subscribed_hash(around.topics) != group.metadata_hash
    if asked.topics != before.topics or regex_settled or stale:
        trial.bump(around.topics)
    _assign(trial, now, settings, around)
    moved = _reconcile(trial, asked, request, around.topics, resubscribed=resubscribed)
    if moved is None:
        return refused(ErrorCode.FENCED_MEMBER_EPOCH, "The member must give up its partitions and join again.")
    known = trial.group.members.get(moved.member_id)
    wrote = known is None or not same_assignment(known, moved) or _took_over(group, before)
    if wrote:
        trial.write(write.current_entry(group.group_id, moved))
    tell = is_full(request) or moved.assigned != before.assigned
    return Beat(
        trial.entries,
        _answer(moved, settings, tell=tell),
        moved,
        moved=wrote,
        wants_regex=bool(moved.regex) and moved.regex not in group.regexes,
    )


# The member


def _member(group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, max_size: int) -> ConsumerMember | Refused:
    """The member as it is before this heartbeat; a new one where it joins."""
    if request.instance_id is not None:
        return _static_member(group, request, request.instance_id, max_size)
    member = group.members.get(request.member_id)
    if member is not None:
        return _of_this_epoch(member, request)
    if request.member_epoch != JOINING:
        return _unknown(request)
    return _new_member(group, request, max_size)


def _static_member(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, instance_id: str, max_size: int
) -> ConsumerMember | Refused:
    """A static member joins under any id while its place is free, and then stays under that id."""
    holder = group.static_member(instance_id)
    if request.member_epoch != JOINING:
        if holder is None:
            return _unknown(request)
        if holder.member_id != request.member_id:
            return refused(ErrorCode.FENCED_INSTANCE_ID, f"Another member has the instance id {clipped(instance_id)}.")
        return _of_this_epoch(holder, request)
    if holder is None:
        return group.members.get(request.member_id) or _new_member(group, request, max_size)
    if holder.epoch != LEAVING_FOR_A_WHILE:
        return refused(
            ErrorCode.UNRELEASED_INSTANCE_ID, f"The instance id {clipped(instance_id)} is used by another member."
        )
    return come_back(holder, request.member_id)


def _new_member(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, max_size: int
) -> ConsumerMember | Refused:
    if len(group.members) >= max_size:
        return refused(ErrorCode.GROUP_MAX_SIZE_REACHED, f"The group has {max_size} members, which is the most.")
    return ConsumerMember(request.member_id)


def _of_this_epoch(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest) -> ConsumerMember | Refused:
    """Only the member's epoch is good, or the one before it where the answer with the newer one was lost."""
    epoch = request.member_epoch
    if epoch in (JOINING, member.epoch):
        return member
    if epoch == member.previous_epoch and epoch < member.epoch:
        owned = owned_partitions(request)
        if owned is not None and is_subset(owned, member.assigned):
            return member
    relation = "above" if epoch > member.epoch else "below"
    return refused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The epoch {epoch} is {relation} the member's, {member.epoch}: it must give up its partitions and join again.",
    )


def _unknown(request: ConsumerGroupHeartbeatRequest) -> Refused:
    return refused(ErrorCode.UNKNOWN_MEMBER_ID, f"{clipped(request.member_id)} is not a member of the group.")


def _took_over(group: ConsumerGroup, before: ConsumerMember) -> bool:
    """Whether a static member comes back: its place is written anew, whatever it is."""
    if before.instance_id is None or before.epoch != JOINING:
        return False
    holder = group.static_member(before.instance_id)
    return holder is not None and holder.epoch == LEAVING_FOR_A_WHILE


# Its steps


def _write_subscription(trial: Trial, before: ConsumerMember, asked: ConsumerMember) -> bool:
    """Write what the member says anew; True where it subscribes to something else than before."""
    group = trial.group
    if _took_over(group, before):
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


def _assign(trial: Trial, now: Moment, settings: ConsumerSettings, around: Surroundings) -> None:
    """Compute a new target where the group's epoch asks for one, not more often than the interval allows."""
    group = trial.group
    if group.assignment_epoch >= group.epoch:
        return
    if 0 <= now.wall_ms - group.assigned_at_ms < settings.assignment_interval_ms:
        return
    name = group.preferred_assignor(next(iter(around.assignors)), known=around.assignors)
    target = around.assignors[name](spec_of(group, around.topics))
    for member_id in sorted(target):
        if group.target.get(member_id) != target[member_id]:
            trial.write(write.target_entry(group.group_id, member_id, target[member_id]))
    trial.write(write.target_epoch_entry(group.group_id, group.epoch, now.wall_ms))


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
    request: ConsumerGroupHeartbeatRequest,
    topics: Topics,
    *,
    resubscribed: bool,
) -> ConsumerMember | None:
    """The member one step nearer to its target; None where it must begin anew."""
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
        owned=owned_partitions(request),
        subscribed=subscribed,
        may_have_changed=resubscribed,
        held_by_other=held_by_other,
    ).step()


def _answer(member: ConsumerMember, settings: ConsumerSettings, *, tell: bool) -> ConsumerGroupHeartbeatResponse:
    """The assignment is told where it is new to the client: a null one means that it has not changed."""
    assignment = None
    if tell:
        assignment = Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic, partitions=sorted(epochs))
                for topic, epochs in sorted(member.assigned.items())
            ]
        )
    return ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
        assignment=assignment,
    )
