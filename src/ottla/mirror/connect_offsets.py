"""The places of MirrorMaker 2, in Connect's topic of offsets on the target.

They are read to go on where it stopped, and kept so that it can go on where this mirror stopped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from ottla.client.aio.cluster import Cluster
from ottla.client.model import EARLIEST, LATEST
from ottla.client.produce.partitioners import murmur2_partitioner
from ottla.kernel.ids import TopicPartition
from ottla.mirror.options import FlowSettings
from ottla.mirror.putting import put
from ottla.records.reader import read_run

_CONNECTOR = "MirrorSourceConnector"


class ConnectOffsets:
    """The offsets of one flow's MirrorSourceConnector, if MirrorMaker 2 ever ran against the target."""

    def __init__(self, flow: FlowSettings, target: Cluster) -> None:
        self._alias, self._target = flow.source.alias, target
        separator = flow.policy.internal_separator
        self._topic = f"mm2-offsets{separator}{self._alias}{separator}internal"
        self._partitions = 0

    async def read(self) -> dict[TopicPartition, int]:
        """The last offset of each partition of the source that was copied; none where the topic is not there."""
        found: dict[TopicPartition, int] = {}
        if self._topic not in await self._target.topics():
            return found
        partitions = await self._target.partitions(self._topic)
        self._partitions = len(partitions)
        for partition in partitions:
            first = (await self._target.list_offsets([partition], EARLIEST))[partition].offset
            last = (await self._target.list_offsets([partition], LATEST))[partition].offset
            async for piece in self._target.fetch_range(*partition, first, last):
                for record in read_run(piece.records):
                    connector, about = json.loads(record.key or b'["",{}]')
                    if connector == _CONNECTOR and about.get("cluster") == self._alias:
                        where = TopicPartition(about["topic"], about["partition"])
                        found.pop(where, None)
                        if record.value:
                            found[where] = json.loads(record.value)["offset"]
        return found

    async def keep(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Keep places for MirrorMaker 2, where it was before: the offsets that are copied next."""
        if not self._partitions:
            return
        by_partition: dict[int, list[tuple[bytes, bytes]]] = {}
        for (topic, partition), offset in next_offsets.items():
            about = {"cluster": self._alias, "partition": partition, "topic": topic}
            key = json.dumps([_CONNECTOR, about], separators=(",", ":")).encode()
            value = json.dumps({"offset": offset - 1}, separators=(",", ":")).encode()
            place = murmur2_partitioner(key, (), self._partitions) or 0
            by_partition.setdefault(place, []).append((key, value))
        for place, records in by_partition.items():
            await put(self._target, self._topic, place, records)
