"""Brokers for the replicas of new partitions: spread over machines, then racks, then by load.

A topic's own partitions are spread first: else all of a new topic would go to a broker that has just joined, empty.
Called by `topics.py`. The same state gives the same answer; among equal brokers the topic's id decides which is first,
so that small topics do not pile up on one broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.kernel.ids import BrokerId, TopicId
from ottla.metadata.broker_state import BrokerState
from ottla.metadata.partition_state import PartitionState
from ottla.metadata.state import Metadata, Topic


def place(
    state: Metadata, topic_id: TopicId, *, partitions: int, replicas: int, first_partition: int = 0
) -> list[tuple[BrokerId, ...]]:
    """The replicas of each partition, the preferred leader first; there must be at least `replicas` brokers.

    No machine gets two replicas of a partition while another has none (architecture, decision 6). If too few brokers
    are active, absent ones get the remaining replicas, as with Apache Kafka: they join when they are back.
    """
    brokers = state.active_brokers()
    if len(brokers) < replicas:
        brokers += [state.brokers[broker_id] for broker_id in sorted(state.brokers) if not state.is_active(broker_id)]
    assert len(brokers) >= replicas > 0
    if len(brokers) == 1:
        return [(brokers[0].broker_id,)] * partitions
    start = int.from_bytes(topic_id[:4], "big")
    leaders, held = _load(state.topics.values(), brokers)
    leaders_here, held_here = _load([state.topics[topic_id]] if topic_id in state.topics else [], brokers)
    placed = []
    for partition in range(first_partition, first_partition + partitions):
        rotated = {broker.broker_id: (index - start - partition) % len(brokers) for index, broker in enumerate(brokers)}
        chosen: list[BrokerState] = []
        while len(chosen) < replicas:
            loads = (held_here, held) if chosen else (leaders_here, leaders, held_here, held)
            chosen.append(_next(brokers, chosen, loads, rotated))
        for led in (leaders_here, leaders):
            led[chosen[0].broker_id] += 1
        for broker in chosen:
            held_here[broker.broker_id] += 1
            held[broker.broker_id] += 1
        placed.append(tuple(broker.broker_id for broker in chosen))
    return placed


def place_more(state: Metadata, partitions: Sequence[PartitionState], replicas: int) -> list[tuple[BrokerId, ...]]:
    """The added replicas of each partition, so that it has `replicas`, or as many as there are brokers."""
    brokers = state.active_brokers()
    _, held = _load(state.topics.values(), brokers)
    placed = []
    for partition in partitions:
        there = [state.brokers[broker_id] for broker_id in partition.replicas if broker_id in state.brokers]
        chosen = list(there)
        rotated = {one.broker_id: (index - partition.partition) % len(brokers) for index, one in enumerate(brokers)}
        for _ in range(replicas - len(partition.replicas)):
            if all(broker in chosen for broker in brokers):
                break
            chosen.append(_next(brokers, chosen, (held,), rotated))
            held[chosen[-1].broker_id] += 1
        placed.append(tuple(broker.broker_id for broker in chosen[len(there) :]))
    return placed


def _next(
    brokers: Sequence[BrokerState],
    chosen: Sequence[BrokerState],
    loads: Sequence[dict[BrokerId, int]],
    rotated: dict[BrokerId, int],
) -> BrokerState:
    """The best broker for one more replica; of `loads`, each decides where those before it are equal."""
    hosts = [broker.host for broker in chosen]
    racks = [broker.rack for broker in chosen if broker.rack is not None]
    free = [broker for broker in brokers if broker not in chosen]
    return min(
        free,
        key=lambda broker: (
            not broker.active,
            hosts.count(broker.host),
            racks.count(broker.rack) if broker.rack is not None else 0,
            *(load[broker.broker_id] for load in loads),
            rotated[broker.broker_id],
        ),
    )


def _load(topics: Iterable[Topic], brokers: Sequence[BrokerState]) -> tuple[dict[BrokerId, int], dict[BrokerId, int]]:
    """For each broker, the partitions of these topics that it is preferred to lead, and the replicas that it has."""
    leaders = {broker.broker_id: 0 for broker in brokers}
    held = dict(leaders)
    for topic in topics:
        for partition in topic.partitions:
            if partition.replicas[0] in leaders:
                leaders[partition.replicas[0]] += 1
            for broker_id in partition.replicas:
                if broker_id in held:
                    held[broker_id] += 1
    return leaders, held
