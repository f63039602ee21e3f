"""Replicas to move so that brokers carry alike, or so that one of them carries nothing. Pure: views in, replicas out.

`ottla cluster drain` and `rebalance` carry the plans out by reassignments and elections.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from ottla.client.model import Broker, TopicView
from ottla.kernel.ids import TopicPartition

Placement = dict[TopicPartition, tuple[int, ...]]
"""The replicas of partitions, in order; the first is preferred as leader."""

Lagging = Mapping[TopicPartition, Collection[int]]
"""Replicas that are out of sync: none of them can be elected now."""


def placement_of(topics: Iterable[TopicView]) -> Placement:
    """The current placement."""
    return {
        TopicPartition(topic.name, index): view.replicas
        for topic in topics
        for index, view in sorted(topic.partitions.items())
    }


def lagging_of(topics: Iterable[TopicView]) -> Lagging:
    """The replicas that are out of sync now, where a partition has such."""
    found = {
        TopicPartition(topic.name, index): frozenset(view.replicas) - frozenset(view.isr)
        for topic in topics
        for index, view in topic.partitions.items()
    }
    return {place: replicas for place, replicas in found.items() if replicas}


def changes(before: Mapping[TopicPartition, Sequence[int]], after: Placement) -> Placement:
    """The partitions that are placed otherwise."""
    return {place: replicas for place, replicas in after.items() if tuple(before[place]) != replicas}


def drained(
    before: Placement, broker: int, brokers: Mapping[int, Broker], lagging: Lagging, *, leaders_only: bool = False
) -> Placement:
    """Move replicas off a broker, as far as others have room; partitions that must stay there are led by others.

    `brokers` are those that live. A partition whose other replicas are on all of them keeps the one on this broker; one
    that lives and is in sync is preferred then, as no other can be elected.
    """
    others = {number: found for number, found in brokers.items() if number != broker}
    after = dict(before)
    held = _count_all(after, others)
    for place, replicas in before.items():
        if broker not in replicas:
            continue
        free = [number for number in sorted(others) if number not in replicas]
        if free and not leaders_only:
            rest = [number for number in replicas if number != broker]
            taker = min(free, key=lambda number: (_crowding(number, rest, brokers), held[number], number))
            held[taker] += 1
            after[place] = tuple(taker if number == broker else number for number in replicas)
        else:
            rest = [number for number in replicas if number != broker]
            behind = lagging.get(place, ())
            after[place] = (*sorted(rest, key=lambda number: (number not in others, number in behind)), broker)
    _level_leaders(after, list(others), lagging, only=changes(before, after))
    return after


def rebalanced(before: Placement, brokers: Mapping[int, Broker], lagging: Lagging) -> Placement:
    """Spread replicas and preferred leaders evenly over the live brokers, give or take one, with few moves."""
    after = dict(before)
    _level_replicas(after, brokers)
    _level_leaders(after, sorted(brokers), lagging)
    return after


def _level_replicas(after: Placement, brokers: Mapping[int, Broker]) -> None:
    held = _count_all(after, brokers)
    while True:
        move = _best_move(after, brokers, held)
        if move is None:
            return
        place, giver, taker = move
        after[place] = tuple(taker if number == giver else number for number in after[place])
        held[giver] -= 1
        held[taker] += 1


def _best_move(
    after: Placement, brokers: Mapping[int, Broker], held: Mapping[int, int]
) -> tuple[TopicPartition, int, int] | None:
    """Find a replica to move from a broker with many to one with few, on no fewer racks than before."""
    order = sorted(brokers, key=lambda number: (held[number], number))
    for giver in reversed(order):
        for taker in order:
            if held[giver] - held[taker] < 2:
                break
            for place, replicas in after.items():
                if giver not in replicas or taker in replicas:
                    continue
                rest = [number for number in replicas if number != giver]
                if _crowding(taker, rest, brokers) <= _crowding(giver, rest, brokers):
                    return place, giver, taker
    return None


def _level_leaders(
    after: Placement, brokers: Collection[int], lagging: Lagging, *, only: Collection[TopicPartition] | None = None
) -> None:
    """Reorder replicas so that each broker is preferred as often, give or take one; of those in `only`, if given.

    No replica that is out of sync becomes the preferred one.
    """
    led = dict.fromkeys(brokers, 0)
    for replicas in after.values():
        if replicas and replicas[0] in led:
            led[replicas[0]] += 1
    moved = True
    while moved:
        moved = False
        for place in after if only is None else only:
            replicas = after[place]
            if not replicas or replicas[0] not in led:
                continue
            behind = lagging.get(place, ())
            candidates = [number for number in replicas if number in led and number not in behind] or [replicas[0]]
            best = min(candidates, key=lambda number: (led[number], number))
            if led[replicas[0]] - led[best] >= 2:
                led[replicas[0]] -= 1
                led[best] += 1
                after[place] = (best, *(number for number in replicas if number != best))
                moved = True


def _count_all(placement: Placement, brokers: Iterable[int]) -> dict[int, int]:
    held = dict.fromkeys(brokers, 0)
    for replicas in placement.values():
        for number in replicas:
            if number in held:
                held[number] += 1
    return held


def _crowding(broker: int, others: Sequence[int], brokers: Mapping[int, Broker]) -> int:
    """The number of the other replicas that lie in the broker's rack."""
    found = brokers.get(broker)
    rack = None if found is None else found.rack
    return sum(rack is not None and number in brokers and brokers[number].rack == rack for number in others)
