"""All groups of the consumer protocol of one shard: heartbeats, departures, timeouts, and queries about them.

Comes from shard.py. Groups change when their entries are applied, never before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.groups import consumer_entries as write
from ottla.groups.consumer_group import ConsumerGroup
from ottla.groups.consumer_heartbeat import beat
from ottla.groups.consumer_requests import is_leave, refusal, refused
from ottla.groups.consumer_steps import GroupSurroundings, Trial, may_assign
from ottla.groups.consumer_values import JOINING, LEAVING_FOR_A_WHILE, ConsumerMember, MemberState
from ottla.groups.deadlines import DeadlineKey, DeadlineKind, KeyedDeadlines
from ottla.groups.migration import downgrade_entries, only_classic_remain, upgrade_entries
from ottla.groups.range_assignor import assign_range
from ottla.groups.reconciliation import left_for_a_while
from ottla.groups.regexes import RegexRuns
from ottla.groups.topics import Topics
from ottla.groups.uniform_assignor import assign_uniform
from ottla.groups.values import (
    ConsumerGroupSettings,
    ConsumerKey,
    ConsumerValue,
    GroupDecision,
    GroupSettings,
    Moment,
    Turn,
)
from ottla.kernel.errors import ErrorCode, clipped
from ottla.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ottla.messages.consumer_group_records import ConsumerGroupMetadataKey

_SESSION = DeadlineKind.CONSUMER_SESSION
ASSIGNORS = {"uniform": assign_uniform, "range": assign_range}


class ConsumerGroups:
    """Every group of the consumer protocol of one shard. `settings_of` gives the options of a group by its id."""

    def __init__(
        self,
        settings: GroupSettings,
        deadlines: KeyedDeadlines,
        topics: Topics,
        settings_of: Callable[[str], ConsumerGroupSettings],
        new_id: Callable[[], str],
    ) -> None:
        self.groups: dict[str, ConsumerGroup] = {}
        self.settings_of = settings_of
        self.new_id = new_id
        self._settings = settings
        self._deadlines = deadlines
        self.around = GroupSurroundings(
            topics,
            {name: ASSIGNORS[name] for name in settings.consumer_assignors},
            settings.consumer_max_size,
        )
        self._regexes = RegexRuns(deadlines, topics, settings.consumer_regex_refresh_interval_ms)

    @property
    def topics(self) -> Topics:
        return self.around.topics

    @property
    def assignors(self) -> Iterable[str]:
        return self.around.assignors

    def preferred_assignor(self, group: ConsumerGroup) -> str:
        return group.preferred_assignor(next(iter(self.assignors)), known=self.assignors)

    # Heartbeats

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, turn: Turn, *, taken: bool, upgraded: ConsumerGroup | None = None
    ) -> None:
        """Answer a heartbeat. `taken`: the id belongs to a group of another kind that has members.

        `upgraded` is the group that a classic one becomes when a member joins.
        """
        if (no := refusal(request, turn.caller.version, self.around.assignors)) is not None:
            turn.answer(no)
            return
        if is_leave(request):
            self._leave(request, turn)
            return
        group = self.groups.get(request.group_id) or upgraded
        if group is None and (request.member_epoch != JOINING or taken):
            message = f"Consumer group {clipped(request.group_id)} not found."
            turn.answer(refused(ErrorCode.GROUP_ID_NOT_FOUND, message))
            return
        if not request.member_id:
            request.member_id = self.new_id()
        group = group or ConsumerGroup(request.group_id)
        settings = self.settings_of(group.group_id)
        outcome = beat(group, request, turn.caller, turn.now, settings, self.around)
        if isinstance(outcome, ConsumerGroupHeartbeatResponse):
            turn.answer(outcome)
            return
        if group is upgraded:
            self._begin(group, turn)
        for entry in outcome.entries:
            turn.out.write(entry)
        turn.answer(outcome.answer)
        self._forget_classic_deadlines(group.group_id, outcome.member.member_id)
        self.hear(group.group_id, outcome.member, turn.now)
        if outcome.moved:
            self._watch_revocation(group.group_id, outcome.member, turn.now)
        if outcome.wants_regex or self._regexes.is_due(group, turn.now):
            self._regexes.want(group.group_id, turn.caller.sees, turn.now)

    def _begin(self, upgraded: ConsumerGroup, turn: Turn) -> None:
        """Write a group that was made from a classic one, in one batch with the entries that follow."""
        turn.out.whole = True
        for entry in upgrade_entries(upgraded):
            turn.out.write(entry)
        for member in upgraded.members.values():
            self.hear(upgraded.group_id, member, turn.now)

    def hear(self, group_id: str, member: ConsumerMember, now: Moment) -> None:
        """Begin the member's session anew. A classic member brings its own session timeout."""
        if member.classic is None:
            session_ms = self.settings_of(group_id).session_timeout_ms
        else:
            session_ms = member.classic.session_timeout_ms
        key = DeadlineKey(_SESSION, group_id, member.member_id)
        self._deadlines.set(key, now.mono_ms + session_ms, timeout_ms=session_ms)

    def _watch_revocation(self, group_id: str, member: ConsumerMember, now: Moment) -> None:
        """Set the deadline for a member that must give up partitions: its own rebalance timeout."""
        key = DeadlineKey(DeadlineKind.REVOCATION, group_id, member.member_id)
        if member.state is MemberState.UNREVOKED and member.classic is None:
            within_ms = max(member.rebalance_timeout_ms, 0)
            self._deadlines.set(key, now.mono_ms + within_ms, timeout_ms=within_ms)
        else:
            self._deadlines.cancel(key)

    # Classic members (classic_members.py)

    def may_assign(self, group: ConsumerGroup, now: Moment) -> bool:
        """True if the time between two targets of a group is over."""
        return may_assign(group, now, self.settings_of(group.group_id))

    def await_join(self, group_id: str, member: ConsumerMember, now: Moment) -> None:
        """Set the deadline of a classic member that was told to join again: its rebalance timeout, set once."""
        key = DeadlineKey(DeadlineKind.CLASSIC_JOIN, group_id, member.member_id)
        if self._deadlines.at(key) is None:
            self._deadlines.set(key, now.mono_ms + max(member.rebalance_timeout_ms, 0))

    def await_sync(self, group_id: str, member: ConsumerMember, now: Moment) -> None:
        """Set the deadline of a classic member that has joined, to ask for its assignment: its rebalance timeout."""
        self._deadlines.cancel(DeadlineKey(DeadlineKind.CLASSIC_JOIN, group_id, member.member_id))
        self._deadlines.cancel(DeadlineKey(DeadlineKind.REVOCATION, group_id, member.member_id))
        key = DeadlineKey(DeadlineKind.CLASSIC_SYNC, group_id, member.member_id)
        self._deadlines.set(key, now.mono_ms + max(member.rebalance_timeout_ms, 0))
        self.hear(group_id, member, now)

    def has_synced(self, group_id: str, member: ConsumerMember, now: Moment) -> None:
        """Note that a classic member has fetched its assignment."""
        self._deadlines.cancel(DeadlineKey(DeadlineKind.CLASSIC_SYNC, group_id, member.member_id))
        self.hear(group_id, member, now)

    # Departures

    def _leave(self, request: ConsumerGroupHeartbeatRequest, turn: Turn) -> None:
        group = self.groups.get(request.group_id)
        if group is None:
            turn.answer(refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {clipped(request.group_id)} not found."))
            return
        if request.instance_id is None:
            member = group.members.get(request.member_id)
        else:
            member = group.static_member(request.instance_id)
            if member is not None and member.member_id != request.member_id:
                turn.answer(refused(ErrorCode.FENCED_INSTANCE_ID, "Another member has the instance id."))
                return
        if member is None:
            turn.answer(refused(ErrorCode.UNKNOWN_MEMBER_ID, "There is no such member in the group."))
            return
        if request.member_epoch == LEAVING_FOR_A_WHILE:
            turn.out.write(write.current_entry(group.group_id, left_for_a_while(member, epoch=LEAVING_FOR_A_WHILE)))
            self._deadlines.cancel(DeadlineKey(DeadlineKind.REVOCATION, group.group_id, member.member_id))
        else:
            self.remove(group, [member], turn.now, turn.out)
        turn.answer(ConsumerGroupHeartbeatResponse(member_id=member.member_id, member_epoch=request.member_epoch))

    def remove(self, group: ConsumerGroup, members: Iterable[ConsumerMember], now: Moment, out: GroupDecision) -> None:
        """Remove members: the group begins a new epoch without them, or becomes a classic one."""
        trial = Trial(group)
        for member in members:
            for entry in write.departure_entries(group.group_id, member.member_id):
                trial.write(entry)
            trial.drop_unused(member.regex)
            self._forget_deadlines(group.group_id, member.member_id)
        if not self._downgrades(group, trial.group):
            trial.bump(self.around.topics)
        self.take(group, trial, now, out)
        out.if_refused = lambda later, _: self._hear_all(group, later)

    def take(self, group: ConsumerGroup, trial: Trial, now: Moment, out: GroupDecision) -> bool:
        """Write the changes tried on a group, or its downgrade if they cause one; True for a downgrade."""
        if not self._downgrades(group, trial.group):
            for entry in trial.entries:
                out.write(entry)
            return False
        out.whole = True
        for entry in downgrade_entries(group, trial.group, self.around.topics, now.wall_ms):
            out.write(entry)
        for member_id in group.members:
            self._forget_deadlines(group.group_id, member_id)
        for member in trial.group.members.values():
            assert member.classic is not None
            key = DeadlineKey(DeadlineKind.SESSION, group.group_id, member.member_id)
            self._deadlines.set(key, now.mono_ms + member.classic.session_timeout_ms)
        self._deadlines.set(DeadlineKey(DeadlineKind.UNLED, group.group_id), now.mono_ms)
        out.if_refused = lambda later, _: self._hear_all(group, later)
        return True

    def _hear_all(self, group: ConsumerGroup, now: Moment) -> None:
        """Begin the sessions of all members anew."""
        for member in group.members.values():
            self.hear(group.group_id, member, now)

    def _downgrades(self, before: ConsumerGroup, after: ConsumerGroup) -> bool:
        """True if a group becomes a classic one: its last member of the consumer protocol is gone."""
        if not self._settings.migration_policy.downgrades or after.size > self._settings.max_size:
            return False
        return only_classic_remain(before, after)

    def _forget_deadlines(self, group_id: str, member_id: str) -> None:
        self._deadlines.cancel(DeadlineKey(_SESSION, group_id, member_id))
        self._deadlines.cancel(DeadlineKey(DeadlineKind.REVOCATION, group_id, member_id))
        self._forget_classic_deadlines(group_id, member_id)

    def _forget_classic_deadlines(self, group_id: str, member_id: str) -> None:
        self._deadlines.cancel(DeadlineKey(DeadlineKind.CLASSIC_JOIN, group_id, member_id))
        self._deadlines.cancel(DeadlineKey(DeadlineKind.CLASSIC_SYNC, group_id, member_id))

    # Time

    def time_over(self, key: DeadlineKey, now: Moment, out: GroupDecision) -> None:
        """Handle a deadline of a consumer group that has passed."""
        group = self.groups.get(key.group_id)
        if group is None:
            return
        if key.kind is DeadlineKind.REGEX:
            self._regexes.go_on(group, now, out)
            return
        member = group.members.get(key.member_id)
        if member is None:
            return
        if key.kind is not DeadlineKind.REVOCATION or member.state is MemberState.UNREVOKED:
            self.remove(group, [member], now, out)

    def loaded(self, now: Moment) -> None:
        """Begin sessions and revocations afresh, as the log has been read to its end."""
        for group_id, group in self.groups.items():
            self._hear_all(group, now)
            for member in group.members.values():
                self._watch_revocation(group_id, member, now)

    # Groups

    def delete(self, group: ConsumerGroup, out: GroupDecision) -> None:
        """Write the tombstones of a group, which has no members."""
        for entry in write.group_tombstones(group):
            out.write(entry)

    def apply(self, key: ConsumerKey, value: ConsumerValue | None) -> None:
        """Take in one entry. Entries of a missing group were compacted, or follow its end: they are skipped."""
        group = self.groups.get(key.group_id)
        if isinstance(key, ConsumerGroupMetadataKey) and value is None:
            if group is not None:
                self._forget(group)
            return
        if group is None:
            if value is None:
                return
            group = self.groups[key.group_id] = ConsumerGroup(key.group_id)
        write.apply(group, key, value)

    def _forget(self, group: ConsumerGroup) -> None:
        del self.groups[group.group_id]
        for member_id in group.members:
            self._forget_deadlines(group.group_id, member_id)
        self._regexes.forget(group.group_id)
