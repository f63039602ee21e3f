"""One group of the consumer protocol in memory: its members, epochs and targets, by its records.

The group changes in `apply` alone, so that a replay makes the same state as the decisions did. consumer_heartbeat.py
decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ottla.groups.consumer_values import (
    ConsumerMember,
    MemberState,
    Partitions,
    ResolvedRegex,
)
from ottla.groups.kinds import AnyGroup, GroupKind
from ottla.groups.target_assignment import java_order
from ottla.groups.topics import Topics, metadata_hash, shapes_of

FIRST_EPOCH = 1


class ConsumerGroup(AnyGroup):
    """A group in which the coordinator assigns the partitions (KIP-848)."""

    kind = GroupKind.CONSUMER

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.assigned_at_ms = 0
        """The time at which the target was computed, by the wall clock."""
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        """Instance id to member id."""
        self.target: dict[str, Partitions] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self._owners: dict[tuple[bytes, int], str] = {}
        self._names: Counter[str] = Counter()
        self._regex_users: Counter[str] = Counter()
        self._assignors: Counter[str] = Counter()
        self._classic = 0
        self._protocols: Counter[str] = Counter()
        """The number of classic members that know a protocol, by its name."""
        self._subscription_version = 0
        self._hash_at: tuple[int, int] | None = None
        self._hash = 0

    # Questions

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        settled = all(
            member.state is MemberState.STABLE and member.epoch == self.assignment_epoch
            for member in self.members.values()
        )
        return "Stable" if settled else "Reconciling"

    @property
    def shown_protocol_type(self) -> str:
        return "consumer"

    @property
    def size(self) -> int:
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        return not self.members

    def is_subscribed(self, topic: str) -> bool:
        if self._names[topic]:
            return True
        return any(topic in self.regexes[regex].topics for regex in self._regex_users if regex in self.regexes)

    def offsets_idle_since_ms(self, committed_ms: int) -> int:
        return committed_ms

    def offsets_may_expire(self) -> bool:
        return True

    def owner(self, topic_id: bytes, index: int) -> str | None:
        """The member that has a partition, or still has to give it up."""
        return self._owners.get((topic_id, index))

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def regex_users(self, regex: str) -> int:
        """The number of members that subscribe by a regular expression."""
        return self._regex_users[regex]

    def used_regexes(self) -> list[str]:
        return sorted(self._regex_users)

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """The names that a member subscribes to; an unresolved regular expression matches none."""
        resolved = self.regexes.get(member.regex) if member.regex else None
        return member.topics if resolved is None else member.topics | resolved.topics

    def preferred_assignor(self, default: str, *, known: Iterable[str]) -> str:
        """The assignor that most members name; of equals the first known one."""
        named = [(self._assignors[name], -place, name) for place, name in enumerate(known) if self._assignors[name]]
        return max(named)[2] if named else default

    @property
    def classic_members(self) -> int:
        """The number of members that speak the classic protocol."""
        return self._classic

    def knows_protocol(self, name: str) -> bool:
        """True if all classic members know one of these protocols."""
        return self._protocols[name] == self._classic

    def subscribed_hash(self, topics: Topics) -> int:
        """The hash of all topics that members read, in their present state."""
        seen_at = (topics.version, self._subscription_version)
        if self._hash_at != seen_at:
            self._hash_at, self._hash = seen_at, metadata_hash(shapes_of(self._subscribed_names(), topics))
        return self._hash

    def _subscribed_names(self) -> set[str]:
        names = set(self._names)
        for regex in self._regex_users:
            if regex in self.regexes:
                names |= self.regexes[regex].topics
        return names

    def ordered_members(self) -> list[ConsumerMember]:
        return [self.members[member_id] for member_id in sorted(self.members, key=java_order)]

    def copy(self) -> ConsumerGroup:
        """A copy of the group, on which a decision may try out its entries."""
        other = ConsumerGroup(self.group_id)
        other.epoch, other.metadata_hash = self.epoch, self.metadata_hash
        other.assignment_epoch, other.assigned_at_ms = self.assignment_epoch, self.assigned_at_ms
        other.members, other.static_members = dict(self.members), dict(self.static_members)
        other.target, other.regexes = dict(self.target), dict(self.regexes)
        other._owners = dict(self._owners)
        other._names, other._regex_users = Counter(self._names), Counter(self._regex_users)
        other._assignors = Counter(self._assignors)
        other._classic, other._protocols = self._classic, Counter(self._protocols)
        return other

    # Changes, by records alone

    def put_member(self, member: ConsumerMember) -> None:
        """Take over a member's subscription, or its assignment."""
        before = self.members.get(member.member_id)
        if before is not None:
            self._forget(before)
        if before is None or (before.topics, before.regex) != (member.topics, member.regex):
            self._subscription_version += 1
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self._count(member, 1)
        for place in _places(member):
            self._owners[place] = member.member_id

    def remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._forget(member)
        self._subscription_version += 1
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]

    def put_regex(self, regex: str, resolved: ResolvedRegex | None) -> None:
        if resolved is None:
            self.regexes.pop(regex, None)
        else:
            self.regexes[regex] = resolved
        self._subscription_version += 1

    def _forget(self, member: ConsumerMember) -> None:
        """Remove the partitions that the member owns; compaction may have removed the record of a release."""
        self._count(member, -1)
        for place in _places(member):
            if self._owners.get(place) == member.member_id:
                del self._owners[place]

    def _count(self, member: ConsumerMember, change: int) -> None:
        _add(self._names, member.topics, change)
        _add(self._regex_users, [member.regex] if member.regex else [], change)
        _add(self._assignors, [member.assignor] if member.assignor else [], change)
        if member.classic is not None:
            self._classic += change
            _add(self._protocols, {protocol.name for protocol in member.classic.supported_protocols}, change)


def _places(member: ConsumerMember) -> list[tuple[bytes, int]]:
    places = [(topic, index) for topic, epochs in member.assigned.items() for index in epochs]
    return places + [(topic, index) for topic, indexes in member.pending.items() for index in indexes]


def _add(counter: Counter[str], names: Iterable[str], change: int) -> None:
    for name in names:
        counter[name] += change
        if not counter[name]:
            del counter[name]
