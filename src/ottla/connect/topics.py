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
from ottla.client.errors import ClientError
from ottla.client.produce.partitioners import murmur2_partitioner
from ottla.connect.machine.records import (
    NO_OP,
    ConfigsRecord,
    Pair,
    StatusRecord,
    UnreadableConnectRecord,
    read_configs,
    read_status,
)
from ottla.connect.tasks.offsets import Kept, Offset, OffsetRecord, Partition, SourceOffsets, identity
from ottla.jobs.state_topic import StateTopic
from ottla.jobs.state_topic_setup import Words
from ottla.kernel.errors import ApiError

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
        except UnreadableConnectRecord as fault:
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
            except (UnreadableConnectRecord, ValueError) as fault:
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
            by_part.setdefault(self.partition_of(key), []).append((key, value))
        for place, some in by_part.items():
            await self.parts[place].put(some)

    def partition_of(self, key: bytes) -> int:
        """The partition of a key."""
        return murmur2_partitioner(key, range(len(self.parts)), len(self.parts)) or 0


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
        self.name = topic
        self._table = SourceOffsets()
        self._topic = SpreadTopic(cluster, topic, partitions, replication_factor, self._table.apply)
        self._opening, self._is_open = asyncio.Lock(), False

    async def open(self) -> None:
        """Create the topic where it does not exist, and read it to its end."""
        async with self._opening:
            if not self._is_open:
                await self._topic.open()
                self._is_open = True

    async def read(self, connector: str, partitions: Sequence[Partition]) -> list[Offset | None]:
        """The offsets at the end of the topic: the task may have run elsewhere before."""
        await self._catch_up()
        return [self._table.read(connector, each) for each in partitions]

    async def write(self, connector: str, offsets: Sequence[Kept]) -> None:
        """Keep offsets; acknowledged once it returns."""
        await self.open()
        records = [self._table.record(connector, partition, offset) for partition, offset in offsets]
        await self._topic.put(records)
        for key, value in records:
            self._table.apply(key, value)

    async def all(self, connector: str) -> list[tuple[Partition, Offset]]:
        """All offsets of a connector at the end of the topic."""
        await self._catch_up()
        return self._table.all(connector)

    def records(self, connector: str, offsets: Sequence[Kept]) -> list[OffsetRecord]:
        """The records that keep offsets, for a transaction."""
        pairs = [self._table.record(connector, partition, offset) for partition, offset in offsets]
        return [OffsetRecord(self.name, self._topic.partition_of(key), key, value) for key, value in pairs]

    async def committed(self, connector: str, offsets: Sequence[Kept]) -> None:
        """Learn that a transaction with these offsets is committed; they are read from the topic."""

    async def _catch_up(self) -> None:
        await self.open()
        await self._topic.catch_up()


class LayeredOffsets:
    """The offsets of a connector with a topic of its own, `offsets.storage.topic`.

    Those of the workers' topic count where its own has none, so a connector may be given a topic later. All that is
    kept is copied to the workers' topic, so the option may be taken away again.
    """

    def __init__(self, own: TopicOffsets, shared: TopicOffsets) -> None:
        self._own, self._shared = own, shared

    async def open(self) -> None:
        """Open both topics."""
        await self._shared.open()
        await self._own.open()

    async def read(self, connector: str, partitions: Sequence[Partition]) -> list[Offset | None]:
        """The offset of each partition."""
        own = await self._own.read(connector, partitions)
        shared = await self._shared.read(connector, partitions)
        return [first if first is not None else second for first, second in zip(own, shared, strict=True)]

    async def write(self, connector: str, offsets: Sequence[Kept]) -> None:
        """Keep offsets. One is removed from the workers' topic first: else it would come back from there."""
        removed = [each for each in offsets if each[1] is None]
        if removed:
            await self._shared.write(connector, removed)
        await self._own.write(connector, offsets)
        await self.committed(connector, offsets)

    async def all(self, connector: str) -> list[tuple[Partition, Offset]]:
        """All offsets of a connector."""
        found = {identity(connector, each[0]): each for each in await self._shared.all(connector)}
        found |= {identity(connector, each[0]): each for each in await self._own.all(connector)}
        return list(found.values())

    def records(self, connector: str, offsets: Sequence[Kept]) -> list[OffsetRecord]:
        """The records that keep offsets, for a transaction: those of its own topic."""
        return self._own.records(connector, offsets)

    async def committed(self, connector: str, offsets: Sequence[Kept]) -> None:
        """Copy offsets that are kept to the workers' topic. Without its brokers they are copied the next time."""
        try:
            await self._shared.write(connector, [each for each in offsets if each[1] is not None])
        except (ApiError, ClientError) as fault:
            _log.warning("%s: its offsets are kept, and could not be copied: %s", connector, fault)
