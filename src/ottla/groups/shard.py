"""The groups of one partition of `__consumer_offsets`: decides about each request and each deadline.

Classic groups and committed offsets are decided here, groups of the consumer protocol in consumer_groups.py.
broker/coordinators/shard_runner.py comes here with requests and carries decisions out: it appends their entries, hands
them back to `apply`, and lets the replies go once all that was appended before them is committed. Replay uses the same
`apply`.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.groups import classic_described, classic_members, classic_sync, consumer_members, migration, transactional
from ottla.groups.classic_join import Joins
from ottla.groups.consumer_group import ConsumerGroup
from ottla.groups.consumer_groups import ConsumerGroups
from ottla.groups.consumer_values import JOINING
from ottla.groups.deadlines import DeadlineKey, DeadlineKind, KeyedDeadlines
from ottla.groups.entries import decode_entry, encode_entry, group_entry, is_offset, writable
from ottla.groups.group import Group, GroupState
from ottla.groups.kinds import AnyGroup, listed
from ottla.groups.offsets import NO_PRODUCER, Offsets, commit_error, unknown_group_error
from ottla.groups.rebalance import Rebalances
from ottla.groups.topics import NoTopics, Topics
from ottla.groups.values import (
    Caller,
    ConsumerGroupSettings,
    GroupDecision,
    GroupEntry,
    GroupSettings,
    Moment,
    Ticket,
    Turn,
    coordinator_error,
)
from ottla.kernel.errors import ErrorCode
from ottla.kernel.retention import ExpiryRounds
from ottla.kernel.shards import TransactionalWriter
from ottla.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from ottla.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.messages.delete_groups import DeletableGroupResult
from ottla.messages.group_records import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from ottla.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.messages.list_groups import ListGroupsRequest
from ottla.messages.offset_commit import OffsetCommitRequest
from ottla.messages.offset_delete import OffsetDeleteRequest
from ottla.messages.offset_fetch import OffsetFetchRequestGroup
from ottla.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.messages.txn_offset_commit import TxnOffsetCommitRequest
from ottla.schema.codec import MalformedMessage

_GROUPS_PER_EXPIRY = 200
_EXPIRY = DeadlineKey(DeadlineKind.EXPIRY)
_OF_CONSUMERS = frozenset(
    {
        DeadlineKind.CONSUMER_SESSION,
        DeadlineKind.REVOCATION,
        DeadlineKind.REGEX,
        DeadlineKind.CLASSIC_JOIN,
        DeadlineKind.CLASSIC_SYNC,
    }
)


class GroupShard:
    """Groups and offsets. `new_suffix` gives a fresh UUID's text for each new member id.

    Groups of the consumer protocol read `topics` and have options by their ids. One thing is left out of what Apache
    Kafka does: the first JoinGroup of a group writes no empty entry; a group is in the log from its first generation
    or offset on.
    """

    bears_damage = True
    lost_with_a_record = (
        "Groups whose newest records these were have older offsets, or none, and their members join again"
    )

    def __init__(
        self,
        settings: GroupSettings,
        new_suffix: Callable[[], str],
        *,
        topics: Topics | None = None,
        consumer_settings: Callable[[str], ConsumerGroupSettings] = lambda _: ConsumerGroupSettings(),
    ) -> None:
        self.settings = settings
        self.groups: dict[str, Group] = {}
        """The classic groups."""
        self.offsets = Offsets(settings)
        self._deadlines = KeyedDeadlines()
        self._rebalances = Rebalances(settings, self._deadlines)
        self._joins = Joins(self._rebalances, new_suffix)
        self._expiry = ExpiryRounds(_GROUPS_PER_EXPIRY)
        self.consumers = ConsumerGroups(settings, self._deadlines, topics or NoTopics(), consumer_settings, new_suffix)

    def group(self, group_id: str) -> AnyGroup | None:
        """The group of that id and any kind."""
        return self.consumers.groups.get(group_id) or self.groups.get(group_id)

    def all_groups(self) -> list[AnyGroup]:
        return [*self.groups.values(), *self.consumers.groups.values()]

    # Membership

    def join_group(self, request: JoinGroupRequest, caller: Caller, ticket: Ticket, now: Moment) -> GroupDecision:
        out = GroupDecision()
        error = ErrorCode.NONE
        group = self.groups.get(request.group_id)
        other = self.consumers.groups.get(request.group_id)
        if not request.group_id or not writable(request.group_id):
            error = ErrorCode.INVALID_GROUP_ID
        elif not (
            self.settings.min_session_timeout_ms <= request.session_timeout_ms <= self.settings.max_session_timeout_ms
        ):
            error = ErrorCode.INVALID_SESSION_TIMEOUT
        elif other is not None and not other.is_empty:
            classic_members.join(self.consumers, other, request, Turn(caller, ticket, now, out))
            return out
        elif group is None and request.member_id:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        if error:
            out.answer(ticket, JoinGroupResponse(error_code=error, member_id=request.member_id))
            return out
        if other is not None:
            self.consumers.delete(other, out)
        if group is None:
            group = self._create(request.group_id, now)
        self._joins.join(group, request, Turn(caller, ticket, now, out))
        self._drop_if_bare(group)
        return out

    def sync_group(self, request: SyncGroupRequest, caller: Caller, ticket: Ticket, now: Moment) -> GroupDecision:
        out = GroupDecision()
        group = self.groups.get(request.group_id)
        if not request.group_id:
            out.answer(ticket, SyncGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        elif (consumers := self.consumers.groups.get(request.group_id)) is not None:
            classic_members.sync(self.consumers, consumers, request, Turn(caller, ticket, now, out))
        elif group is None:
            out.answer(ticket, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        else:
            classic_sync.sync(self._rebalances, group, request, Turn(caller, ticket, now, out))
        return out

    def heartbeat(self, request: HeartbeatRequest, ticket: Ticket, now: Moment) -> GroupDecision:
        out = GroupDecision()
        group = self.groups.get(request.group_id)
        if not request.group_id:
            error = ErrorCode.INVALID_GROUP_ID
        elif (consumers := self.consumers.groups.get(request.group_id)) is not None:
            error = classic_members.heartbeat(self.consumers, consumers, request, now)
        elif group is None:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        else:
            error = classic_sync.heartbeat(self._rebalances, group, request, now)
        out.answer(ticket, HeartbeatResponse(error_code=error))
        return out

    def leave_group(self, request: LeaveGroupRequest, caller: Caller, ticket: Ticket, now: Moment) -> GroupDecision:
        out = GroupDecision()
        group = self.groups.get(request.group_id)
        if not request.group_id:
            out.answer(ticket, LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        elif (consumers := self.consumers.groups.get(request.group_id)) is not None:
            classic_members.leave(self.consumers, consumers, request, Turn(caller, ticket, now, out))
        elif group is None:
            out.answer(ticket, classic_sync.nobody_left(request))
        else:
            classic_sync.leave(self._rebalances, group, request, Turn(caller, ticket, now, out))
            self._drop_if_bare(group)
        return out

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller, ticket: Ticket, now: Moment
    ) -> GroupDecision:
        """Handle a heartbeat: a member of the consumer protocol joins, stays or leaves.

        An empty classic group gives way to it; a classic group with members becomes a consumer group.
        """
        out = GroupDecision()
        classic = self.groups.get(request.group_id)
        taken = classic is not None and not classic.is_empty
        joins = request.member_epoch == JOINING
        upgraded = self._upgraded(classic) if classic is not None and taken and joins else None
        self.consumers.heartbeat(request, Turn(caller, ticket, now, out), taken=taken, upgraded=upgraded)
        if classic is not None and out.entries:
            if classic.written:
                out.entries.insert(0, group_entry(request.group_id, None))
            if taken:
                self._rebalances.give_up(classic, out)
                out.if_refused = lambda later, _: self._rebalances.hear_all(classic, later)
        return out

    def _upgraded(self, group: Group) -> ConsumerGroup | None:
        """The consumer group that a classic group may become; None if it must stay classic."""
        if not self.settings.migration_policy.upgrades or not group.uses_consumer_protocol:
            return None
        if group.size > self.settings.consumer_max_size:
            return None
        try:
            return migration.upgraded(group, self.consumers.topics)
        except MalformedMessage:
            return None

    # Offsets

    def commit_offsets(
        self, request: OffsetCommitRequest, caller: Caller, ticket: Ticket, now: Moment
    ) -> GroupDecision:
        """Commit offsets of topics whose ids and names are both filled in. An ErrorCode refuses them all."""
        out = GroupDecision()
        group = self.groups.get(request.group_id)
        if (consumers := self.consumers.groups.get(request.group_id)) is not None:
            group = None
            error = consumer_members.commit_error(consumers, request, caller.version)
        elif group is not None:
            error = commit_error(group, request)
        else:
            error = unknown_group_error(request, caller) if writable(request.group_id) else ErrorCode.INVALID_GROUP_ID
        if error:
            out.answer(ticket, error)
            return out
        if group is not None and group.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE):
            self._rebalances.hear(group, group.members[request.member_id], now)
        out.answer(ticket, self.offsets.commit(request, now, out))
        return out

    def commit_in_transaction(
        self,
        request: TxnOffsetCommitRequest,
        topic_ids: dict[str, bytes],
        writer: TransactionalWriter,
        ticket: Ticket,
        now: Moment,
    ) -> GroupDecision:
        """Keep offsets until their transaction ends, of topics whose ids are given. An ErrorCode refuses them all."""
        out = GroupDecision()
        if (consumers := self.consumers.groups.get(request.group_id)) is not None:
            error = consumer_members.transactional_error(consumers, request, topic_ids)
        else:
            error = transactional.refusal(self.groups.get(request.group_id), request)
        if not writable(request.group_id):
            error = ErrorCode.INVALID_GROUP_ID
        if error:
            out.answer(ticket, error)
            return out
        out.writer = writer
        out.answer(ticket, transactional.commit(self.offsets, request, topic_ids, now, out))
        return out

    def fetch_offsets(self, request: OffsetFetchRequestGroup, *, require_stable: bool, ticket: Ticket) -> GroupDecision:
        """The offsets of a group. An ErrorCode refuses them all."""
        out = GroupDecision()
        consumers = self.consumers.groups.get(request.group_id)
        error = ErrorCode.NONE if consumers is None else consumer_members.fetch_error(consumers, request)
        out.answer(ticket, error or self.offsets.fetch(request, require_stable=require_stable))
        return out

    def delete_offsets(self, request: OffsetDeleteRequest, ticket: Ticket) -> GroupDecision:
        out = GroupDecision()
        group = self.group(request.group_id)
        if not request.group_id:
            out.answer(ticket, ErrorCode.INVALID_GROUP_ID)
        elif group is None:
            out.answer(ticket, ErrorCode.GROUP_ID_NOT_FOUND)
        elif isinstance(group, Group) and not group.is_empty and not group.uses_consumer_protocol:
            out.answer(ticket, ErrorCode.NON_EMPTY_GROUP)
        else:
            out.answer(ticket, self.offsets.delete(group, request, out))
        return out

    def topics_deleted(self, topics: dict[str, bytes]) -> GroupDecision:
        """Drop the offsets that were committed for deleted topics, by name and id."""
        out = GroupDecision()
        self.offsets.delete_topics(topics, out)
        return out

    # Groups

    def describe_group(self, group_id: str, caller: Caller, ticket: Ticket) -> GroupDecision:
        out = GroupDecision()
        out.answer(ticket, classic_described.described(self.groups.get(group_id), group_id, caller.version))
        return out

    def describe_consumer_group(self, group_id: str, ticket: Ticket) -> GroupDecision:
        out = GroupDecision()
        group = self.consumers.groups.get(group_id)
        if group is None:
            out.answer(ticket, consumer_members.not_described(group_id, classic=group_id in self.groups))
        else:
            out.answer(ticket, self._described_consumers(group))
        return out

    def _described_consumers(self, group: ConsumerGroup) -> DescribedConsumerGroup:
        assignor = self.consumers.preferred_assignor(group)
        return consumer_members.described(group, assignor, self.consumers.topics)

    def list_groups(self, request: ListGroupsRequest, ticket: Ticket) -> GroupDecision:
        """The groups in these states and of these types, names in any case; an empty filter lets all pass."""
        out = GroupDecision()
        out.answer(ticket, listed(self.all_groups(), request))
        return out

    def delete_group(self, group_id: str, ticket: Ticket) -> GroupDecision:
        out = GroupDecision()
        group = self.group(group_id)
        error = ErrorCode.NONE
        if group is None:
            error = ErrorCode.GROUP_ID_NOT_FOUND
        elif not group.is_empty:
            error = ErrorCode.NON_EMPTY_GROUP
        else:
            self.offsets.delete_all(group_id, out)
            self._write_end(group, out)
        out.answer(ticket, DeletableGroupResult(group_id=group_id, error_code=error))
        return out

    # The log

    def encode(self, entry: GroupEntry) -> tuple[bytes, bytes | None]:
        return encode_entry(entry)

    def decode(self, key: bytes, value: bytes | None) -> GroupEntry | None:
        """Decode a record; None if another release wrote it for itself, MalformedMessage if none can have."""
        return decode_entry(key, value)

    def owner(self, entry: GroupEntry) -> str:
        """The group that an entry is about."""
        key = entry.key
        return key.group if isinstance(key, OffsetCommitKey | GroupMetadataKey) else key.group_id

    def is_replaced(self, key: bytes) -> bool:
        """True for offsets: a value that a later one follows leaves nothing behind."""
        return is_offset(key)

    def apply(self, entry: GroupEntry, record_offset: int, producer: int = NO_PRODUCER) -> None:
        """Take in one entry: appended a moment ago, or read back from the log."""
        key, value = entry.key, entry.value
        if isinstance(key, OffsetCommitKey):
            assert value is None or isinstance(value, OffsetCommitValue)
            if value is not None and self.group(key.group) is None:
                self._create(key.group, Moment(0, value.commit_timestamp))
            self.offsets.apply(key, value, record_offset, producer)
        elif not isinstance(key, GroupMetadataKey):
            assert not isinstance(value, OffsetCommitValue | GroupMetadataValue)
            if value is not None:
                self._remove(key.group_id)
            self.consumers.apply(key, value)
            if self.group(key.group_id) is None and self.offsets.holds(key.group_id):
                # a classic member has taken the group over, and no generation was written yet
                self._create(key.group_id, Moment(0, 0))
        elif value is None:
            self._remove(key.group)
        else:
            assert isinstance(value, GroupMetadataValue)
            group = self.groups.get(key.group) or self._create(key.group, Moment(0, value.current_state_timestamp))
            group.adopt(value)

    def apply_marker(self, producer: int, *, committed: bool) -> None:
        """End a transaction that committed offsets here."""
        self.offsets.apply_marker(producer, committed=committed)

    def loaded(self, now: Moment) -> GroupDecision:
        """Begin all sessions and the clock of retention, as the log has been read to its end."""
        out = GroupDecision()
        self.consumers.loaded(now)
        for group in self.groups.values():
            self._rebalances.hear_all(group, now)
            if group.unled or len(group.members) > self.settings.max_size:
                self._rebalances.prepare(group, now, out)
        self._deadlines.set(_EXPIRY, now.mono_ms + self.settings.offsets_retention_check_interval_ms)
        return out

    def refused(self, decision: GroupDecision, error: ErrorCode, now: Moment) -> GroupDecision:
        """Answer the requests of a decision whose entries were not written with the error."""
        instead = GroupDecision()
        for reply in decision.replies:
            instead.answer(reply.ticket, coordinator_error(error))
        if decision.if_refused is not None:
            decision.if_refused(now, instead)
        return instead

    def parked(self) -> list[Ticket]:
        """The tickets of all requests that wait in groups: they are lost with the shard."""
        return [ticket for group in self.groups.values() for ticket in group.parked()]

    # Time

    @property
    def next_deadline_ms(self) -> int | None:
        """The next time at which `tick` has something to do, by the monotonic clock."""
        return self._deadlines.next_ms()

    def postpone(self, late_ms: int) -> None:
        """Postpone all sessions by the time in which the process stood still and heard no members (rule A5)."""
        self._deadlines.postpone(late_ms)

    def tick(self, now: Moment) -> GroupDecision | None:
        """The decision for one deadline that has passed; None once none has. Call again after carrying it out."""
        key = self._deadlines.take(now.mono_ms)
        if key is None:
            return None
        out = GroupDecision()
        if key == _EXPIRY:
            self._expire(now, out)
            return out
        if key.kind in _OF_CONSUMERS:
            self.consumers.time_over(key, now, out)
            return out
        group = self.groups.get(key.group_id)
        if group is None:
            return out
        if key.kind is DeadlineKind.SESSION:
            self._rebalances.session_over(group, key.member_id, now, out)
        elif key.kind is DeadlineKind.UNLED:
            self._rebalances.begin_unled(group, now, out)
        elif key.kind is DeadlineKind.JOIN:
            self._rebalances.join_time_over(group, now, out)
        else:
            self._rebalances.sync_time_over(group, now, out)
        self._drop_if_bare(group)
        return out

    def _expire(self, now: Moment, out: GroupDecision) -> None:
        """Look through some of the groups; the rest of a round follows at once, the next round after the interval."""
        every = (group.group_id for group in self.all_groups())
        for group_id in self._expiry.next_part(every):
            group = self.group(group_id)
            if group is None or not self.offsets.expire(group, now, out):
                continue
            if group.is_empty and not (isinstance(group, Group) and group.pending):
                self._write_end(group, out)
        wait_ms = 1 if self._expiry.is_under_way else self.settings.offsets_retention_check_interval_ms
        self._deadlines.set(_EXPIRY, now.mono_ms + wait_ms)

    # Keeping groups

    def _write_end(self, group: AnyGroup, out: GroupDecision) -> None:
        """Write that a group without members is gone."""
        if isinstance(group, ConsumerGroup):
            self.consumers.delete(group, out)
        else:
            out.write(group_entry(group.group_id, None))

    def _create(self, group_id: str, now: Moment) -> Group:
        group = self.groups[group_id] = Group(group_id, wall_ms=now.wall_ms)
        return group

    def _remove(self, group_id: str) -> None:
        group = self.groups.pop(group_id, None)
        if group is not None:
            self._rebalances.forget(group)

    def _drop_if_bare(self, group: Group) -> None:
        """Forget a group without entries and without members."""
        bare = group.state is GroupState.EMPTY and not group.pending and not group.written
        if bare and not self.offsets.holds(group.group_id):
            self.groups.pop(group.group_id, None)
