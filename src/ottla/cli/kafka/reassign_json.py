"""The JSON that `kafka-reassign-partitions` reads and writes, and plans made from it: no cluster is asked here."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ottla.cli.faults import Misuse
from ottla.client.admin.replicas import Reassignment
from ottla.kernel.ids import TopicPartition

ANY_DIRECTORY = "any"


class Replica(NamedTuple):
    """One replica of a partition, in the order in which Kafka's tool sorts them."""

    broker: int
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker}"


class WantedReplicas(NamedTuple):
    """A reassignment file: the wanted replicas of partitions, and their directories."""

    partitions: list[tuple[TopicPartition, list[int]]]
    """The entries as they are in the file; a partition may come twice."""
    directories: dict[Replica, str]


class PartitionMove(NamedTuple):
    """The brokers that a partition is copied from, and those that it is copied to."""

    sources: set[int]
    destinations: set[int]


def read_wanted(text: str) -> WantedReplicas:
    """`{"version": 1, "partitions": [{"topic": T, "partition": N, "replicas": [N], "log_dirs": [D]}]}`."""
    wanted = WantedReplicas([], {})
    content = _object(text)
    for entry in content.get("partitions", []):
        try:
            partition = TopicPartition(str(entry["topic"]), int(entry["partition"]))
            replicas = [int(broker) for broker in entry["replicas"]]
            directories = [str(one) for one in entry.get("log_dirs", [ANY_DIRECTORY] * len(replicas))]
        except (KeyError, TypeError, ValueError) as fault:
            raise Misuse(f"Each partition needs a topic, a number and replicas: {fault}") from None
        if len(directories) != len(replicas):
            raise Misuse(
                f"Size of replicas list {replicas} is different from size of log dirs list [{', '.join(directories)}] "
                f"for partition {partition}"
            )
        wanted.partitions.append((partition, replicas))
        for broker, directory in zip(replicas, directories, strict=True):
            if directory != ANY_DIRECTORY:
                wanted.directories[Replica(broker, *partition)] = directory
    return wanted


def read_topics(text: str) -> list[str]:
    """`{"version": 1, "topics": [{"topic": T}]}`."""
    try:
        return [str(entry["topic"]) for entry in _object(text).get("topics", [])]
    except (KeyError, TypeError) as fault:
        raise Misuse(f"Each entry of topics needs a topic: {fault}") from None


def _object(text: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except json.JSONDecodeError as fault:
        raise Misuse(f"The input string is not a valid JSON: {fault}") from None
    if not isinstance(content, dict):
        raise Misuse("The input string is not a JSON object")
    if content.get("version", 1) != 1:
        raise Misuse(f"Not supported version field value {content['version']}")
    return content


def check_wanted(wanted: WantedReplicas) -> dict[TopicPartition, list[int]]:
    """Check a plan before it is executed; Misuse in Kafka's words."""
    if not wanted.partitions:
        raise Misuse("Partition reassignment list cannot be empty")
    if any(not replicas for _, replicas in wanted.partitions):
        raise Misuse("Partition replica list cannot be empty")
    if twice := duplicates(partition for partition, _ in wanted.partitions):
        raise Misuse(f"Partition reassignment contains duplicate topic partitions: {_joined(twice)}")
    double = [(partition, duplicates(replicas)) for partition, replicas in wanted.partitions]
    if faults := [
        f"{partition} contains multiple entries for {_joined(found)}" for partition, found in double if found
    ]:
        raise Misuse(f"Partition replica lists may not contain duplicate entries: {'. '.join(faults)}")
    return dict(wanted.partitions)


def duplicates(items: Iterable[Any]) -> list[Any]:
    return sorted(item for item, count in Counter(items).items() if count > 1)


def assignment_json(replicas: Mapping[TopicPartition, Sequence[int]], directories: Mapping[Replica, str]) -> str:
    """An assignment as the file that would make it."""
    partitions = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": list(replicas[partition]),
            "log_dirs": [directories.get(Replica(broker, *partition), ANY_DIRECTORY) for broker in replicas[partition]],
        }
        for partition in sorted(replicas)
    ]
    return json.dumps({"version": 1, "partitions": partitions}, separators=(",", ":"), ensure_ascii=False)


def moves(
    current: Mapping[TopicPartition, Reassignment],
    wanted: Mapping[TopicPartition, Sequence[int]],
    present: Mapping[TopicPartition, Sequence[int]],
) -> dict[TopicPartition, PartitionMove]:
    """All moves: those under way and the wanted ones."""
    found = {
        partition: PartitionMove(set(on_way.replicas) - set(on_way.adding), set(on_way.adding))
        for partition, on_way in current.items()
    }
    for partition, replicas in wanted.items():
        sources = found[partition].sources if partition in found else set(present[partition])
        found[partition] = PartitionMove(sources, set(replicas) - sources)
    return found


def throttled(moving: Mapping[TopicPartition, PartitionMove]) -> tuple[dict[str, str], dict[str, str]]:
    """The replicas to throttle, by topic, where they are read and where they are written: `partition:broker,...`."""
    leaders: dict[str, set[str]] = {}
    followers: dict[str, set[str]] = {}
    for partition, move in moving.items():
        leaders.setdefault(partition.topic, set()).update(f"{partition.partition}:{one}" for one in move.sources)
        followers.setdefault(partition.topic, set()).update(
            f"{partition.partition}:{one}" for one in move.destinations - move.sources
        )
    sources = {topic: ",".join(sorted(parts)) for topic, parts in leaders.items()}
    return sources, {topic: ",".join(sorted(parts)) for topic, parts in followers.items()}


def propose(
    present: Mapping[TopicPartition, Sequence[int]], brokers: Mapping[int, str | None]
) -> dict[TopicPartition, list[int]]:
    """Topics spread over `brokers` (with their racks), evenly: leaders, replicas, and racks within a partition.

    It begins at a random broker, as Apache Kafka's tool does: two proposals may differ.
    """
    proposed: dict[TopicPartition, list[int]] = {}
    for topic in sorted({partition.topic for partition in present}):
        partitions = sorted(one for one in present if one.topic == topic)
        factor = len(present[partitions[0]])
        if factor > len(brokers):
            raise Misuse(
                f"The target replication factor of {factor} cannot be reached because only {len(brokers)} broker(s) "
                "are registered."
            )
        ring = _ring(brokers)
        start = random.randrange(len(ring))
        for turn, partition in enumerate(partitions):
            at = (start + turn) % len(ring)
            # Each time round the followers shift by one, so that two brokers do not always share their partitions.
            shift = turn // len(ring) % max(1, len(ring) - 1)
            rest = [ring[(at + 1 + (shift + step) % (len(ring) - 1)) % len(ring)] for step in range(len(ring) - 1)]
            proposed[partition] = _over_racks(ring[at], rest, brokers, factor)
    return proposed


def _ring(brokers: Mapping[int, str | None]) -> list[int]:
    """Brokers so that neighbours are of different racks, as far as possible."""
    racks: dict[str, list[int]] = {}
    for broker in sorted(brokers):
        racks.setdefault(brokers[broker] or "", []).append(broker)
    longest = max(map(len, racks.values()))
    return [racks[rack][turn] for turn in range(longest) for rack in sorted(racks) if turn < len(racks[rack])]


def _over_racks(first: int, rest: Sequence[int], brokers: Mapping[int, str | None], factor: int) -> list[int]:
    """The first broker and `factor - 1` of the rest, from racks without one yet as long as there are such."""
    chosen = [first]
    waiting = list(rest)
    while len(chosen) < factor:
        count = Counter(brokers[broker] for broker in chosen)
        chosen.append(min(waiting, key=lambda broker: (count[brokers[broker]], waiting.index(broker))))
        waiting.remove(chosen[-1])
    return chosen


def _joined(items: Iterable[object]) -> str:
    return ",".join(map(str, items))
