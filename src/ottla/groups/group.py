"""One classic group in memory: its members, votes and waits, and the entry that makes a generation last.

rebalance.py moves it from state to state; shard.py keeps it by its id. A deleted group is not kept, so Kafka's state
Dead is never held here, only shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from enum import Enum

from ottla.groups.entries import group_entry, subscribed_topics
from ottla.groups.kinds import AnyGroup, GroupKind
from ottla.groups.values import GroupEntry, Ticket
from ottla.kernel.errors import ErrorCode
from ottla.messages.group_records import GroupMetadataValue, MemberMetadata
from ottla.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponseMember

CONSUMER_PROTOCOL_TYPE = "consumer"


class GroupState(Enum):
    """The states of a classic group; values are the names in Describe and ListGroups."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Member:
    """One member, with the tickets of its JoinGroup and SyncGroup where they wait."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "from_log",
        "instance_id",
        "is_new",
        "joining",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "syncing",
    )

    def __init__(
        self,
        member_id: str,
        *,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: list[JoinGroupRequestProtocol],
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.joining: Ticket | None = None
        self.syncing: Ticket | None = None
        self.is_new = False
        self.from_log = False
        """True if the member was restored and has not joined since: all that is known of it is in the log."""

    def metadata(self, protocol_name: str) -> bytes:
        """This member's metadata for a protocol that all members share."""
        return next(protocol.metadata for protocol in self.protocols if protocol.name == protocol_name)

    def vote(self, candidates: Collection[str]) -> str:
        """The candidate that the member likes best: protocols are in the order of preference."""
        return next(protocol.name for protocol in self.protocols if protocol.name in candidates)

    @property
    def excused(self) -> bool:
        """True if no heartbeat is due, as a request of the member waits here; a new member may give up unnoticed."""
        return not self.is_new and (self.joining is not None or self.syncing is not None)


class Group(AnyGroup):
    """A classic group; transitions are made by rebalance.py alone."""

    kind = GroupKind.CLASSIC

    def __init__(self, group_id: str, *, wall_ms: int) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_since_ms: int | None = wall_ms
        """By the wall clock; None if a version wrote it that did not note the time."""
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        """Instance id to member id."""
        self.pending: dict[str, None] = {}
        """Member ids that were given out (KIP-394) and not used yet, in order."""
        self.pending_sync: dict[str, None] = {}
        """The members of this generation that have not asked for their assignment."""
        self.subscribed: frozenset[str] | None = None
        self.initial_wait: tuple[int, int] | None = None
        """While an empty group gathers its first members: the present delay, and the rest that may extend it."""
        self.member_added = False
        self.unled = False
        """True if the log names no leader of this generation: the group was a consumer group (migration.py)."""
        self.written = False
        """True if the log holds an entry of this group."""
        self._supported: Counter[str] = Counter()
        self._joining = 0

    # Members

    def add(self, member: Member, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._count(member, 1)
        self._joining += member.joining is not None
        self.pending.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        """Forget a member, or an id given out; the longest-standing member takes the place of a leader."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member, -1)
            self._joining -= member.joining is not None
            if member.instance_id is not None:
                del self.static_members[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending.pop(member_id, None)
        self.pending_sync.pop(member_id, None)

    def rename(self, old_id: str, new_id: str) -> Member:
        """Put a static member under another id, in the same place among the members."""
        member = self.members[old_id]
        member.member_id = new_id
        self.members = {new_id if key == old_id else key: each for key, each in self.members.items()}
        assert member.instance_id is not None
        self.static_members[member.instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        if old_id in self.pending_sync:
            self.pending_sync = {new_id if key == old_id else key: None for key in self.pending_sync}
        return member

    def update(
        self,
        member: Member,
        protocols: list[JoinGroupRequestProtocol],
        *,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        member.from_log = False

    def park_join(self, member: Member, ticket: Ticket | None) -> Ticket | None:
        """Let a member's JoinGroup wait with `ticket`, or not at all (None); return the ticket of the one before."""
        before, member.joining = member.joining, ticket
        self._joining += (ticket is not None) - (before is not None)
        return before

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def described_members(self) -> list[JoinGroupResponseMember]:
        """All members, as the leader needs them to assign."""
        assert self.protocol_name is not None
        return [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata(self.protocol_name),
            )
            for member in self.members.values()
        ]

    # Joining

    @property
    def joining(self) -> int:
        """The number of members that wait for the join to complete."""
        return self._joining

    @property
    def all_joined(self) -> bool:
        return self._joining == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """True if the leader has joined, or a joined member was made the leader."""
        if self.leader is None:
            return False
        if self.members[self.leader].joining is None:
            joined = next((member.member_id for member in self.members.values() if member.joining is not None), None)
            if joined is None:
                return False
            self.leader = joined
        return True

    # Protocols

    def supports(self, protocol_type: str, protocols: list[JoinGroupRequestProtocol]) -> bool:
        """True if a member with these `protocols` could join the present members."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        return self.protocol_type == protocol_type and any(
            self._supported[protocol.name] == len(self.members) for protocol in protocols
        )

    def elected_protocol(self) -> str:
        """The protocol with most votes among those that all members know; in a tie the one that comes first."""
        candidates = {name for name, known_to in self._supported.items() if known_to == len(self.members)}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def _count(self, member: Member, change: int) -> None:
        for name in dict.fromkeys(protocol.name for protocol in member.protocols):
            self._supported[name] += change
            if not self._supported[name]:
                del self._supported[name]

    # As groups of all kinds

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def shown_protocol_type(self) -> str:
        return self.protocol_type or ""

    @property
    def size(self) -> int:
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        return self.state is GroupState.EMPTY

    def offsets_idle_since_ms(self, committed_ms: int) -> int:
        """Retention of a group that has had members runs from when the last one left."""
        if self.protocol_type and self.is_empty and self.state_since_ms is not None:
            return self.state_since_ms
        return committed_ms

    def offsets_may_expire(self) -> bool:
        """True for simple and empty groups, and for stable consumer groups, of which topics without a reader expire."""
        if not self.protocol_type or self.is_empty:
            return True
        return self.state is GroupState.STABLE and self.uses_consumer_protocol and self.subscribed is not None

    # Topics

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def learn_subscriptions(self) -> None:
        """Read the members' topics from their metadata: None if one cannot be read."""
        self.subscribed = None
        if not self.uses_consumer_protocol:
            return
        if not self.members:
            self.subscribed = frozenset()
        elif self.protocol_name is not None:
            name = self.protocol_name
            self.subscribed = subscribed_topics([member.metadata(name) for member in self.members.values()])

    def is_subscribed(self, topic: str) -> bool:
        """True for a topic of the group, and for every topic if a consumer group's topics are unknown."""
        return self.uses_consumer_protocol if self.subscribed is None else topic in self.subscribed

    # States and entries

    def move(self, state: GroupState, *, wall_ms: int) -> None:
        assert self.state in _FROM[state], f"{self.group_id}: from {self.state} to {state}"
        self.state = state
        self.state_since_ms = wall_ms

    def entry(self, assignments: dict[str, bytes], *, wall_ms: int) -> GroupEntry:
        """The entry that makes this generation durable."""
        members = [
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(self.protocol_name or ""),
                assignment=assignments.get(member.member_id, b""),
            )
            for member in self.members.values()
        ]
        return group_entry(
            self.group_id,
            GroupMetadataValue(
                protocol_type=self.protocol_type or "",
                generation=self.generation,
                protocol=self.protocol_name,
                leader=None if self.unled else self.leader,
                current_state_timestamp=wall_ms,
                members=members,
            ),
        )

    def adopt(self, value: GroupMetadataValue) -> None:
        """Take over the state in the log; a member that has joined here keeps the values that the log does not hold."""
        kept = self.members
        self.members, self.static_members, self._supported, self._joining = {}, {}, Counter(), 0
        self.protocol_type = value.protocol_type or None
        self.protocol_name = value.protocol
        self.generation = value.generation
        for written in value.members:
            member = kept.get(written.member_id)
            if member is None or member.from_log:
                member = self._restored(written, value.protocol or "")
            member.assignment = bytes(written.assignment)
            self.add(member, value.protocol_type)
        self.unled = value.leader is None and bool(self.members)
        self.leader = next(iter(self.members), None) if self.unled else value.leader
        self.state = GroupState.STABLE if self.members else GroupState.EMPTY
        self.state_since_ms = None if value.current_state_timestamp == -1 else value.current_state_timestamp
        self.written = True
        self.learn_subscriptions()

    @staticmethod
    def _restored(written: MemberMetadata, protocol: str) -> Member:
        member = Member(
            written.member_id,
            instance_id=written.group_instance_id,
            client_id=written.client_id,
            client_host=written.client_host,
            rebalance_timeout_ms=(
                written.session_timeout if written.rebalance_timeout == -1 else written.rebalance_timeout
            ),
            session_timeout_ms=written.session_timeout,
            protocols=[JoinGroupRequestProtocol(name=protocol, metadata=bytes(written.subscription))],
        )
        member.from_log = True
        return member

    def parked(self) -> list[Ticket]:
        """The tickets of all requests that wait in this group."""
        tickets = [ticket for member in self.members.values() for ticket in (member.joining, member.syncing)]
        return [ticket for ticket in tickets if ticket is not None]


_FROM = {
    GroupState.EMPTY: {GroupState.PREPARING_REBALANCE},
    GroupState.PREPARING_REBALANCE: {GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY},
    GroupState.COMPLETING_REBALANCE: {GroupState.PREPARING_REBALANCE},
}
