"""Turns a classic group with members into a consumer group, and back.

Pure: an upgrade or downgrade is a list of entries.

The entries are the same that Kafka writes. A partition has one owner throughout: a partition that a member may still
read before the change is its own after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from ottla.groups import consumer_entries as write
from ottla.groups.consumer_group import FIRST_EPOCH, ConsumerGroup
from ottla.groups.consumer_values import ConsumerMember, Partitions, partitions_of
from ottla.groups.embedded import EmbeddedSubscription, read_assignment, read_subscription, write_assignment
from ottla.groups.entries import group_entry
from ottla.groups.group import CONSUMER_PROTOCOL_TYPE, Group, Member
from ottla.groups.topics import Topics
from ottla.groups.values import GroupEntry
from ottla.messages.consumer_group_records import ClassicMemberMetadata, ClassicProtocol
from ottla.messages.group_records import GroupMetadataValue, MemberMetadata
from ottla.messages.join_group import JoinGroupRequestProtocol

# Upgrade


def upgraded(group: Group, topics: Topics) -> ConsumerGroup:
    """The consumer group that a classic group becomes; MalformedMessage if its members' bytes cannot be read.

    All members are stable in the group's generation. A member that was never told its generation is left out: it owns
    nothing, and joins again.
    """
    made = ConsumerGroup(group.group_id)
    made.epoch = made.assignment_epoch = max(group.generation, FIRST_EPOCH)
    known = [member for member in group.members.values() if not member.is_new]
    subscriptions = {member.member_id: read_subscription(member.protocols[0].metadata, topics) for member in known}
    owned = _owned(known, subscriptions, topics)
    for member in known:
        partitions = owned[member.member_id]
        made.target[member.member_id] = partitions
        made.put_member(_as_consumer(member, subscriptions[member.member_id], partitions, made.epoch))
    return made


def _owned(
    members: Iterable[Member], subscriptions: dict[str, EmbeddedSubscription], topics: Topics
) -> dict[str, Partitions]:
    """The partitions that each member may be reading, each of one member only.

    These are its assignment, and the partitions that it named as its own when it joined, if they are assigned to no
    member: a cooperative member goes on reading such a partition until it has learned that it must give it up. Kafka
    looks at the assignment alone.
    """
    owner: dict[tuple[bytes, int], str] = {}
    for member in members:
        for place in _places(read_assignment(member.assignment, topics)):
            owner.setdefault(place, member.member_id)
    for member_id, subscription in subscriptions.items():
        for place in _places(subscription.owned):
            owner.setdefault(place, member_id)
    found: dict[str, list[tuple[bytes, int]]] = {member_id: [] for member_id in subscriptions}
    for place, member_id in owner.items():
        found[member_id].append(place)
    return {
        member_id: partitions_of((topic, (index,)) for topic, index in places) for member_id, places in found.items()
    }


def _places(partitions: Partitions) -> Iterator[tuple[bytes, int]]:
    return ((topic, index) for topic, indexes in partitions.items() for index in sorted(indexes))


def _as_consumer(member: Member, subscription: EmbeddedSubscription, owned: Partitions, epoch: int) -> ConsumerMember:
    return ConsumerMember(
        member.member_id,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=subscription.topics,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=described(member.session_timeout_ms, member.protocols),
        epoch=epoch,
        previous_epoch=epoch,
        assigned={topic: dict.fromkeys(indexes, epoch) for topic, indexes in owned.items()},
    )


def described(session_timeout_ms: int, protocols: Iterable[JoinGroupRequestProtocol]) -> ClassicMemberMetadata:
    """The fields that a consumer group keeps of a classic member besides those of every member."""
    return ClassicMemberMetadata(
        session_timeout_ms=session_timeout_ms,
        supported_protocols=[ClassicProtocol(name=each.name, metadata=bytes(each.metadata)) for each in protocols],
    )


def upgrade_entries(made: ConsumerGroup) -> Iterator[GroupEntry]:
    """All entries of a consumer group that has just been made from a classic one."""
    group_id, members = made.group_id, made.ordered_members()
    for member in members:
        yield write.member_entry(group_id, member)
    yield write.epoch_entry(group_id, made.epoch, made.metadata_hash)
    for member in members:
        yield write.target_entry(group_id, member.member_id, made.target[member.member_id])
    yield write.target_epoch_entry(group_id, made.assignment_epoch, made.assigned_at_ms)
    for member in members:
        yield write.current_entry(group_id, member)


# Downgrade


def only_classic_remain(before: ConsumerGroup, after: ConsumerGroup) -> bool:
    """True if the last member of the consumer protocol is gone, and classic ones are left."""
    return before.classic_members < before.size and 0 < after.size == after.classic_members


def downgrade_entries(
    before: ConsumerGroup, after: ConsumerGroup, topics: Topics, wall_ms: int
) -> Iterator[GroupEntry]:
    """The end of a consumer group, and the classic group of its classic members.

    The generation has no leader, so all must join again, here and wherever the log is read. Kafka writes a leader and
    rebalances from memory; and it writes members' targets, where we write the partitions that they may still read.
    """
    yield from write.group_tombstones(before)
    protocol = _elected(after.members.values())
    value = GroupMetadataValue(
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        generation=after.epoch,
        protocol=protocol,
        leader=None,
        current_state_timestamp=wall_ms,
        members=[_as_classic(member, protocol, topics) for member in after.ordered_members()],
    )
    yield group_entry(before.group_id, value)


def _elected(members: Iterable[ConsumerMember]) -> str:
    """The protocol that all members know, and that most of them name first."""
    named = [[each.name for each in _protocols(member)] for member in members]
    common = set(named[0]).intersection(*named)
    votes = Counter(next(name for name in names if name in common) for names in named)
    return votes.most_common(1)[0][0]


def _protocols(member: ConsumerMember) -> list[ClassicProtocol]:
    assert member.classic is not None
    return member.classic.supported_protocols


def _as_classic(member: ConsumerMember, protocol: str, topics: Topics) -> MemberMetadata:
    assert member.classic is not None
    metadata = next(each.metadata for each in _protocols(member) if each.name == protocol)
    held = [*member.assigned.items(), *member.pending.items()]
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.classic.session_timeout_ms,
        subscription=metadata,
        assignment=write_assignment(partitions_of(held), topics, metadata=metadata),
    )
