"""Takes a classic group to its next generation: members join, vote for a protocol, and get a generation.

Called from classic_join.py and classic_sync.py with members' requests, and from shard.py with timeouts.
"""

from __future__ import annotations

from ottla.groups.deadlines import DeadlineKey, DeadlineKind, KeyedDeadlines
from ottla.groups.group import Group, GroupState, Member
from ottla.groups.values import GroupDecision, GroupSettings, Moment, Ticket
from ottla.kernel.errors import ErrorCode
from ottla.messages.join_group import JoinGroupResponse
from ottla.messages.sync_group import SyncGroupResponse


class Rebalances:
    """Every rebalance of one shard's groups."""

    def __init__(self, settings: GroupSettings, deadlines: KeyedDeadlines) -> None:
        self.settings = settings
        self.deadlines = deadlines

    # Rebalancing

    def prepare_or_complete(self, group: Group, now: Moment, out: GroupDecision) -> None:
        """Begin a rebalance after a change, or check whether the running one is complete."""
        if group.state is GroupState.PREPARING_REBALANCE:
            self.complete_if_all_joined(group, now, out)
        else:
            self.prepare(group, now, out)

    def prepare(self, group: Group, now: Moment, out: GroupDecision) -> None:
        """Ask all members to join again. The first members of a group are given time to become more."""
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._dismiss_syncs(group, now, out, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_sync.clear()
        self.deadlines.cancel(DeadlineKey(DeadlineKind.SYNC, group.group_id))
        initial = group.state is GroupState.EMPTY
        group.move(GroupState.PREPARING_REBALANCE, wall_ms=now.wall_ms)
        if initial:
            delay_ms = self.settings.initial_rebalance_delay_ms
            group.member_added = False
            group.initial_wait = (delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
            self._join_within(group, delay_ms, now)
        elif group.all_joined:
            self.complete(group, now, out)
        else:
            self._join_within(group, group.rebalance_timeout_ms, now)

    def complete_if_all_joined(self, group: Group, now: Moment, out: GroupDecision) -> None:
        """A first rebalance waits for its delay even when all known members have joined."""
        preparing = group.state is GroupState.PREPARING_REBALANCE
        if preparing and group.initial_wait is None and group.all_joined:
            self.complete(group, now, out)

    def join_time_over(self, group: Group, now: Moment, out: GroupDecision) -> None:
        if group.initial_wait is None:
            self.complete(group, now, out)
            return
        delay_ms, remaining_ms = group.initial_wait
        if group.member_added and remaining_ms:
            group.member_added = False
            further_ms = min(self.settings.initial_rebalance_delay_ms, remaining_ms)
            group.initial_wait = (further_ms, max(remaining_ms - delay_ms, 0))
            self._join_within(group, further_ms, now)
        else:
            self.complete(group, now, out)

    def complete(self, group: Group, now: Moment, out: GroupDecision) -> None:
        """Begin the next generation with those that joined; a static member keeps its place until its session ends."""
        self.deadlines.cancel(DeadlineKey(DeadlineKind.JOIN, group.group_id))
        for member in list(group.members.values()):
            if member.joining is None and member.instance_id is None:
                self._forget(group, member.member_id)
        if not group.elect_joined_leader() and group.members:
            # Nobody joined: wait on until sessions end.
            self._join_within(group, group.rebalance_timeout_ms, now)
            return
        group.initial_wait = None
        group.unled = False
        group.generation += 1
        if group.members:
            self._hand_out_generation(group, now, out)
        else:
            group.protocol_name = None
            group.learn_subscriptions()
            group.move(GroupState.EMPTY, wall_ms=now.wall_ms)
            out.write(group.entry({}, wall_ms=now.wall_ms))

    def _hand_out_generation(self, group: Group, now: Moment, out: GroupDecision) -> None:
        group.protocol_name = group.elected_protocol()
        group.learn_subscriptions()
        group.move(GroupState.COMPLETING_REBALANCE, wall_ms=now.wall_ms)
        for member in group.members.values():
            self.answer_join(group, member, out, joined(group, member.member_id))
            self.hear(group, member, now)
            member.is_new = False
            group.pending_sync[member.member_id] = None
        self._end_within(DeadlineKey(DeadlineKind.SYNC, group.group_id), group.rebalance_timeout_ms, now)

    def sync_time_over(self, group: Group, now: Moment, out: GroupDecision) -> None:
        """Members that never asked for their assignment leave, and the others begin anew."""
        if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE) or not group.pending_sync:
            return
        for member_id in list(group.pending_sync):
            self._forget(group, member_id)
        self.prepare(group, now, out)

    def _join_within(self, group: Group, delay_ms: int, now: Moment) -> None:
        self._end_within(DeadlineKey(DeadlineKind.JOIN, group.group_id), delay_ms, now)

    def _end_within(self, key: DeadlineKey, within_ms: int, now: Moment) -> None:
        self.deadlines.set(key, now.mono_ms + within_ms, timeout_ms=within_ms)

    # Sessions

    def hear(self, group: Group, member: Member, now: Moment) -> None:
        """Begin a member's session anew."""
        self.expect(group, member.member_id, member.session_timeout_ms, now)

    def hear_all(self, group: Group, now: Moment) -> None:
        """Begin the sessions of all members anew."""
        for member in group.members.values():
            self.hear(group, member, now)

    def expect(self, group: Group, member_id: str, within_ms: int, now: Moment) -> None:
        self._end_within(DeadlineKey(DeadlineKind.SESSION, group.group_id, member_id), within_ms, now)

    def session_over(self, group: Group, member_id: str, now: Moment, out: GroupDecision) -> None:
        if member_id in group.pending:
            group.remove(member_id)
            self._complete_if_last(group, now, out)
            return
        member = group.members.get(member_id)
        if member is None or member.excused:
            return
        self.dismiss(group, member, out)
        if group.state is GroupState.PREPARING_REBALANCE:
            self._complete_if_last(group, now, out)
        else:
            self.prepare(group, now, out)

    def _complete_if_last(self, group: Group, now: Moment, out: GroupDecision) -> None:
        if group.state is GroupState.PREPARING_REBALANCE and group.all_joined:
            self.complete(group, now, out)

    def dismiss(self, group: Group, member: Member, out: GroupDecision) -> None:
        """Remove a member; its waiting request is told to join as a new member."""
        self.answer_join(group, member, out, JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        answer_sync(member, out, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        self._forget(group, member.member_id)

    def _forget(self, group: Group, member_id: str) -> None:
        group.remove(member_id)
        self.deadlines.cancel(DeadlineKey(DeadlineKind.SESSION, group.group_id, member_id))

    # Groups that change their protocol

    def begin_unled(self, group: Group, now: Moment, out: GroupDecision) -> None:
        """Rebalance a group that was of the consumer protocol until now: its members join again, and elect a leader."""
        if group.unled and group.state is GroupState.STABLE:
            self.prepare(group, now, out)

    def give_up(self, group: Group, out: GroupDecision) -> None:
        """Let members that wait here join again, as the group becomes one of the consumer protocol."""
        for member in group.members.values():
            self.answer_join(group, member, out, _superseded(member))
            answer_sync(member, out, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))

    def forget(self, group: Group) -> None:
        """Drop all deadlines of a deleted group."""
        for kind in (DeadlineKind.JOIN, DeadlineKind.SYNC, DeadlineKind.UNLED):
            self.deadlines.cancel(DeadlineKey(kind, group.group_id))
        for member_id in (*group.pending, *group.members):
            self.deadlines.cancel(DeadlineKey(DeadlineKind.SESSION, group.group_id, member_id))

    # Waiting requests

    def park_join(self, group: Group, member: Member, ticket: Ticket, out: GroupDecision) -> None:
        """Let a JoinGroup wait. An earlier one of the same member, which its client gave up, is answered."""
        superseded = group.park_join(member, ticket)
        if superseded is not None:
            out.answer(superseded, _superseded(member))

    def answer_join(self, group: Group, member: Member, out: GroupDecision, answer: JoinGroupResponse) -> None:
        ticket = group.park_join(member, None)
        if ticket is not None:
            out.answer(ticket, answer)

    def _dismiss_syncs(self, group: Group, now: Moment, out: GroupDecision, error: ErrorCode) -> None:
        """Answer the waiting SyncGroups of a generation that failed before any member had an assignment."""
        for member in group.members.values():
            member.assignment = b""
            if answer_sync(member, out, SyncGroupResponse(error_code=error)):
                self.hear(group, member, now)


def answer_sync(member: Member, out: GroupDecision, answer: SyncGroupResponse) -> bool:
    """Answer the SyncGroup that waits for a member; False where none does."""
    ticket, member.syncing = member.syncing, None
    if ticket is None:
        return False
    out.answer(ticket, answer)
    return True


def joined(group: Group, member_id: str) -> JoinGroupResponse:
    """The generation, as a member is told of it; its leader learns of all members."""
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader or "",
        member_id=member_id,
        members=group.described_members() if group.leader == member_id else [],
    )


def _superseded(member: Member) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id)
