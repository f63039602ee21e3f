"""Assignments by a group's leader: range, roundrobin, sticky and cooperative-sticky, as Kafka's do.

Pure: subscriptions and partition counts in, partitions per member out. Racks are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import cycle

from ottla.client.consume.group_protocol import MemberSubscription, decode_sticky_data, encode_sticky_data
from ottla.kernel.ids import TopicPartition

Subscriptions = Mapping[str, MemberSubscription]
Assignment = dict[str, list[TopicPartition]]


@dataclass(frozen=True, slots=True)
class Assignor:
    """One protocol of a group. With a cooperative one, members keep their partitions while they join again."""

    name: str
    assign: Callable[[Mapping[str, int], Subscriptions], Assignment]
    cooperative: bool = False
    user_data: Callable[[tuple[TopicPartition, ...], int], bytes | None] = lambda owned, generation: None


def assign_range(counts: Mapping[str, int], members: Subscriptions) -> Assignment:
    """Topic by topic, consecutive partitions to the members in order; the first ones take the rest."""
    assignment: Assignment = {member: [] for member in members}
    for topic in sorted(counts):
        subscribed = [member for member in _ordered(members) if topic in members[member].topics]
        if not subscribed:
            continue
        each, rest = divmod(counts[topic], len(subscribed))
        start = 0
        for index, member in enumerate(subscribed):
            length = each + (1 if index < rest else 0)
            assignment[member] += [TopicPartition(topic, number) for number in range(start, start + length)]
            start += length
    return assignment


def assign_roundrobin(counts: Mapping[str, int], members: Subscriptions) -> Assignment:
    """All partitions of all topics in order, dealt out in turn to the members that want them."""
    assignment: Assignment = {member: [] for member in members}
    ordered = _ordered(members)
    wanted = {topic for subscription in members.values() for topic in subscription.topics}
    turn = cycle(ordered)
    for partition in _partitions({topic: count for topic, count in counts.items() if topic in wanted}):
        member = next(turn)
        while partition.topic not in members[member].topics:
            member = next(turn)
        assignment[member].append(partition)
    return assignment


def assign_sticky(counts: Mapping[str, int], members: Subscriptions) -> Assignment:
    """Assign partitions as evenly as possible, and leave as many as possible where they are."""
    assignment = _kept(counts, members)
    taken = {partition for partitions in assignment.values() for partition in partitions}
    able = {
        topic: [member for member in _ordered(members) if topic in members[member].topics] for topic in sorted(counts)
    }
    free = [partition for partition in _partitions(counts) if partition not in taken and able[partition.topic]]
    free.sort(key=lambda partition: len(able[partition.topic]))
    for partition in free:
        lightest = min(able[partition.topic], key=lambda member: len(assignment[member]))
        assignment[lightest].append(partition)
    _balance(assignment, able)
    return {member: sorted(partitions) for member, partitions in assignment.items()}


def assign_cooperative(counts: Mapping[str, int], members: Subscriptions) -> Assignment:
    """Like sticky, but a partition that moves is given to no member until its owner has given it up (KIP-429)."""
    final = assign_sticky(counts, members)
    owner = {partition: member for member, owned in _owned(members).items() for partition in owned}
    return {
        member: [partition for partition in partitions if owner.get(partition, member) == member]
        for member, partitions in final.items()
    }


def _ordered(members: Subscriptions) -> list[str]:
    """Members in Kafka's order: static ones by instance id, then the others by member id."""
    return sorted(
        members, key=lambda member: (members[member].instance_id is None, members[member].instance_id or member, member)
    )


def _partitions(counts: Mapping[str, int]) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for topic in sorted(counts) for number in range(counts[topic])]


def _owned(members: Subscriptions) -> dict[str, list[TopicPartition]]:
    """The owner of each partition by the members' own words; of two that claim one the later generation has it."""
    claims: dict[TopicPartition, tuple[int, str] | None] = {}
    for member in _ordered(members):
        subscription = members[member]
        partitions, generation = subscription.owned, subscription.generation
        if not partitions:
            partitions, generation = decode_sticky_data(subscription.user_data)
        for partition in partitions:
            claim = claims.get(partition)
            if partition not in claims or (claim is not None and generation > claim[0]):
                claims[partition] = (generation, member)
            elif claim is not None and generation == claim[0]:
                claims[partition] = None
    owned: dict[str, list[TopicPartition]] = {member: [] for member in members}
    for partition, claim in sorted(claims.items()):
        if claim is not None:
            owned[claim[1]].append(partition)
    return owned


def _kept(counts: Mapping[str, int], members: Subscriptions) -> Assignment:
    """The partitions that members may keep: they exist and are still wanted."""
    return {
        member: [
            partition
            for partition in partitions
            if partition.topic in members[member].topics and partition.partition < counts.get(partition.topic, 0)
        ]
        for member, partitions in _owned(members).items()
    }


def _balance(assignment: Assignment, able: Mapping[str, list[str]]) -> None:
    """Move partitions from loaded members to lighter ones that want them, while that evens out."""
    moved = True
    while moved:
        moved = False
        for giver in sorted(assignment, key=lambda member: (-len(assignment[member]), member)):
            for partition in sorted(assignment[giver], reverse=True):
                taker = min(able[partition.topic], key=lambda member: (len(assignment[member]), member))
                if len(assignment[giver]) - len(assignment[taker]) > 1:
                    assignment[giver].remove(partition)
                    assignment[taker].append(partition)
                    moved = True


RANGE = Assignor("range", assign_range)
"""Topic by topic, consecutive partitions to the members in order; the first ones take the rest."""
ROUNDROBIN = Assignor("roundrobin", assign_roundrobin)
"""All partitions of all topics in order, dealt out in turn to the members that want them."""
STICKY = Assignor("sticky", assign_sticky, user_data=encode_sticky_data)
"""As evenly as possible, and as many partitions as possible stay where they are."""
COOPERATIVE_STICKY = Assignor("cooperative-sticky", assign_cooperative, cooperative=True)
"""Like `STICKY`, but members keep reading while they join again: a partition moves once its owner has given it up."""
ASSIGNORS = {assignor.name: assignor for assignor in (RANGE, ROUNDROBIN, STICKY, COOPERATIVE_STICKY)}
