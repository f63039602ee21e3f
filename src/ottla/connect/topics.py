"""The three topics of a group of workers: configs, statuses and offsets, in Kafka's formats and partitions.

The configs topic is written by compare-and-set, so any worker may write it. A status or an offset has one writer, the
worker that runs the part, and is put without a comparison.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from ottla.client.aio.cluster import Cluster
from ottla.client.produce.partitioners import murmur2_partitioner
from ottla.connect.machine.records import (
    NO_OP,
    ConfigsRecord,
    Pair,
    StatusRecord,
    UnreadableRecord,
    read_configs,
    read_status,
)
from ottla.connect.tasks.offsets import Kept, Offset, Offsets, Partition
from ottla.jobs.state_topic import StateTopic
from ottla.jobs.state_topic_setup import Words

WORDS: Final = Words(
    owner="a group of Connect workers",
    content="connectors, states and offsets",
    restart="Start the worker again",
    remedy="connectors would be missing or wrong. Restore the topic from a copy",
)
_log = logging.getLogger("ottla.connect")


def configs_topic(
    cluster: Cluster, topic: str, replication_factor: int, apply: Callable[[ConfigsRecord], None]
) -> StateTopic:
    """The topic of connectors and tasks, not opened yet. It has one partition, as in Kafka."""

    def take(offset: int, key: bytes, value: bytes | None) -> None:
        try:
            record = read_configs(key, value)
        except UnreadableRecord as fault:
            _log.warning("%s: the record at offset %d is left out: %s", topic, offset, fault)
            return
        apply(record)

    return StateTopic(cluster, take, WORDS, topic=topic, no_op=NO_OP, replication_factor=replication_factor)


class SpreadTopic:
    """A topic of several partitions; a key's is the one that Kafka's producers choose."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        partitions: int,
        replication_factor: int,
        apply: Callable[[bytes, bytes | None], None],
    ) -> None:
        def take(offset: int, key: bytes, value: bytes | None) -> None:
            try:
                apply(key, value)
            except (UnreadableRecord, ValueError) as fault:
                _log.warning("%s: the record at offset %d is left out: %s", topic, offset, fault)

        self.parts = [
            StateTopic(
                cluster, take, WORDS, topic=topic, no_op=NO_OP, partition=number, partitions=partitions,
                replication_factor=replication_factor,
            )
            for number in range(partitions)
        ]  # fmt: skip

    async def open(self) -> None:
        """Create the topic where it does not exist, and read it to its end."""
        for part in self.parts:
            await part.open()

    async def catch_up(self) -> None:
        """Read to where the topic ends now."""
        await asyncio.gather(*(part.catch_up() for part in self.parts))

    async def put(self, records: Sequence[Pair]) -> None:
        """Append records, each to the partition of its key, in their order."""
        by_part: dict[int, list[Pair]] = {}
        for key, value in records:
            place = murmur2_partitioner(key, range(len(self.parts)), len(self.parts))
            by_part.setdefault(place or 0, []).append((key, value))
        for place, some in by_part.items():
            await self.parts[place].put(some)


def status_topic(
    cluster: Cluster, topic: str, partitions: int, replication_factor: int, apply: Callable[[StatusRecord], None]
) -> SpreadTopic:
    """The topic of states."""
    return SpreadTopic(
        cluster, topic, partitions, replication_factor, lambda key, value: apply(read_status(key, value))
    )


class TopicOffsets:
    """The offsets of source connectors, in a topic: the store of their tasks."""

    def __init__(self, cluster: Cluster, topic: str, partitions: int, replication_factor: int) -> None:
        self._table = Offsets()
        self.topic = SpreadTopic(cluster, topic, partitions, replication_factor, self._table.apply)

    async def read(self, connector: str, partitions: Sequence[Partition]) -> list[Offset | None]:
        """The offsets at the end of the topic: the task may have run elsewhere before."""
        await self.topic.catch_up()
        return [self._table.read(connector, each) for each in partitions]

    async def write(self, connector: str, offsets: Sequence[Kept]) -> None:
        """Keep offsets; acknowledged once it returns."""
        records = [self._table.record(connector, partition, offset) for partition, offset in offsets]
        await self.topic.put(records)
        for key, value in records:
            self._table.apply(key, value)

    async def all(self, connector: str) -> list[tuple[Partition, Offset]]:
        """All offsets of a connector at the end of the topic."""
        await self.topic.catch_up()
        return self._table.all(connector)
