"""All groups of the consumer protocol of one shard: heartbeats, departures, timeouts, and what others ask of them.

Comes from shard.py. Groups change when their entries are applied, never before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.groups import consumer_entries as write
from ottla.groups.consumer_group import ConsumerGroup
from ottla.groups.consumer_heartbeat import Surroundings, Trial, beat
from ottla.groups.consumer_requests import is_leave, refusal, refused
from ottla.groups.consumer_values import JOINING, LEAVING_FOR_A_WHILE, ConsumerMember, MemberState
from ottla.groups.deadlines import DeadlineKey, DeadlineKind, Deadlines
from ottla.groups.range_assignor import assign_range
from ottla.groups.reconciliation import left_for_a_while
from ottla.groups.regexes import RegexRuns
from ottla.groups.topics import Topics
from ottla.groups.uniform_assignor import assign_uniform
from ottla.groups.values import ConsumerKey, ConsumerSettings, ConsumerValue, Decision, GroupSettings, Moment, Turn
from ottla.kernel.errors import ErrorCode, clipped
from ottla.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ottla.messages.consumer_group_records import ConsumerGroupMetadataKey

ASSIGNORS = {"uniform": assign_uniform, "range": assign_range}


class ConsumerGroups:
    """Every group of the consumer protocol of one shard. `settings_of` gives the options of a group by its id."""

    def __init__(
        self,
        settings: GroupSettings,
        deadlines: Deadlines,
        topics: Topics,
        settings_of: Callable[[str], ConsumerSettings],
        new_id: Callable[[], str],
    ) -> None:
        self.groups: dict[str, ConsumerGroup] = {}
        self._deadlines = deadlines
        self._settings_of = settings_of
        self._new_id = new_id
        self._around = Surroundings(
            topics,
            {name: ASSIGNORS[name] for name in settings.consumer_assignors},
            settings.consumer_max_size,
        )
        self._regexes = RegexRuns(deadlines, topics, settings.consumer_regex_refresh_interval_ms)

    @property
    def topics(self) -> Topics:
        return self._around.topics

    @property
    def assignors(self) -> Iterable[str]:
        return self._around.assignors

    def preferred_assignor(self, group: ConsumerGroup) -> str:
        return group.preferred_assignor(next(iter(self.assignors)), known=self.assignors)

    # Heartbeats

    def heartbeat(self, request: ConsumerGroupHeartbeatRequest, turn: Turn, *, taken: bool) -> None:
        """Answer a heartbeat. `taken` says that the id belongs to a group of another kind that has members."""
        if (no := refusal(request, turn.caller.version, self._around.assignors)) is not None:
            turn.answer(no)
            return
        if is_leave(request):
            self._leave(request, turn)
            return
        group = self.groups.get(request.group_id)
        if group is None and (request.member_epoch != JOINING or taken):
            turn.answer(_no_group(request.group_id))
            return
        if not request.member_id:
            request.member_id = self._new_id()
        group = group or ConsumerGroup(request.group_id)
        settings = self._settings_of(group.group_id)
        outcome = beat(group, request, turn.caller, turn.now, settings, self._around)
        if isinstance(outcome, ConsumerGroupHeartbeatResponse):
            turn.answer(outcome)
            return
        for entry in outcome.entries:
            turn.out.write(entry)
        turn.answer(outcome.answer)
        self._hear(group.group_id, outcome.member, settings, turn.now)
        if outcome.moved:
            self._watch_revocation(group.group_id, outcome.member, turn.now)
        if outcome.wants_regex or self._regexes.is_due(group, turn.now):
            self._regexes.want(group.group_id, turn.now)

    def _hear(self, group_id: str, member: ConsumerMember, settings: ConsumerSettings, now: Moment) -> None:
        key = DeadlineKey(DeadlineKind.CONSUMER_SESSION, group_id, member.member_id)
        within_ms = settings.session_timeout_ms
        self._deadlines.set(key, now.mono_ms + within_ms, timeout_ms=within_ms)

    def _watch_revocation(self, group_id: str, member: ConsumerMember, now: Moment) -> None:
        """A member that must give up partitions has its own rebalance timeout for that."""
        key = DeadlineKey(DeadlineKind.REVOCATION, group_id, member.member_id)
        if member.state is MemberState.UNREVOKED:
            within_ms = max(member.rebalance_timeout_ms, 0)
            self._deadlines.set(key, now.mono_ms + within_ms, timeout_ms=within_ms)
        else:
            self._deadlines.cancel(key)

    # Departures

    def _leave(self, request: ConsumerGroupHeartbeatRequest, turn: Turn) -> None:
        group = self.groups.get(request.group_id)
        if group is None:
            turn.answer(_no_group(request.group_id))
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
            self._remove(group, [member], turn.out)
        turn.answer(ConsumerGroupHeartbeatResponse(member_id=member.member_id, member_epoch=request.member_epoch))

    def _remove(self, group: ConsumerGroup, members: Iterable[ConsumerMember], out: Decision) -> None:
        """Members are gone: the group begins a new epoch without them."""
        trial = Trial(group)
        for member in members:
            for entry in write.departure_entries(group.group_id, member.member_id):
                trial.write(entry)
            trial.drop_unused(member.regex)
            self._forget_deadlines(group.group_id, member.member_id)
        trial.bump(self._around.topics)
        for entry in trial.entries:
            out.write(entry)

    def _forget_deadlines(self, group_id: str, member_id: str) -> None:
        self._deadlines.cancel(DeadlineKey(DeadlineKind.CONSUMER_SESSION, group_id, member_id))
        self._deadlines.cancel(DeadlineKey(DeadlineKind.REVOCATION, group_id, member_id))

    # Time

    def time_over(self, key: DeadlineKey, now: Moment, out: Decision) -> None:
        """A deadline of a consumer group has passed."""
        group = self.groups.get(key.group_id)
        if group is None:
            return
        if key.kind is DeadlineKind.REGEX:
            self._regexes.go_on(group, now, out)
            return
        member = group.members.get(key.member_id)
        if member is None:
            return
        if key.kind is DeadlineKind.CONSUMER_SESSION or member.state is MemberState.UNREVOKED:
            self._remove(group, [member], out)

    def loaded(self, now: Moment) -> None:
        """The log has been read to its end: sessions and revocations begin afresh."""
        for group_id, group in self.groups.items():
            settings = self._settings_of(group_id)
            for member in group.members.values():
                self._hear(group_id, member, settings, now)
                self._watch_revocation(group_id, member, now)

    # Groups

    def delete(self, group: ConsumerGroup, out: Decision) -> None:
        """Write the tombstones of a group, which has no members."""
        for entry in write.group_tombstones(group):
            out.write(entry)

    def apply(self, key: ConsumerKey, value: ConsumerValue | None) -> None:
        """Take in one entry. Those of a group that is gone were compacted, or come behind its end: they are passed."""
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


def _no_group(group_id: str) -> ConsumerGroupHeartbeatResponse:
    return refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {clipped(group_id)} not found.")
