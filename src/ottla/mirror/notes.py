"""A mirror's notes on the target: the place of each partition, its map of offsets, and the origins of topics.

A compacted topic of one partition. Keys are JSON lists: `["place", topic, partition]` and `["map", topic, partition,
chunk]` by the source's names, `["origin", topic]` by the target's. Places and origins are JSON, a chunk of the map is
pairs of int64.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.client.aio.cluster import Cluster
from ottla.jobs.state_topic import Pair, StateTopic
from ottla.jobs.state_topic_setup import UnusableTopic, Words
from ottla.kernel.ids import TopicPartition
from ottla.mirror.lane import LaneState
from ottla.mirror.offset_map import CHUNK, OffsetMap

_AT_ONCE: Final = 200
"""Records in one append: a chunk has 4 KiB, a batch may have 1 MiB."""
_WORDS: Final = Words(
    "a mirror",
    "the places of a mirror and its maps of offsets",
    "Start the mirror again",
    "without it a mirror would copy again what it copied already; repair the topic, or delete it and the mirrored "
    "topics to begin anew",
)


@dataclass(frozen=True, slots=True)
class MirrorOrigin:
    """The topic that a mirrored one was copied from, and the ids of the clusters that its records came through."""

    topic: str
    clusters: tuple[str, ...]


class MirrorNotes:
    """The table, read once at the start; this process is the one that adds to it."""

    def __init__(self, cluster: Cluster, topic: str, *, replication_factor: int = -1) -> None:
        self.origins: dict[str, MirrorOrigin] = {}
        """By topic of the target."""
        self._places: dict[TopicPartition, dict[str, Any]] = {}
        self._chunks: dict[tuple[TopicPartition, int], bytes] = {}
        self._kept: dict[TopicPartition, tuple[int, int]] = {}
        """The breaks of each partition, as it was kept last: those that were dropped, and all."""
        self._topic = StateTopic(
            cluster,
            self._apply,
            _WORDS,
            topic=topic,
            no_op=(b'["nothing"]', None),
            replication_factor=replication_factor,
        )

    async def open(self) -> None:
        """Create the topic where it does not exist, and read it; UnusableTopic where it holds something else."""
        await self._topic.open()

    async def catch_up(self) -> None:
        """Read what another process has noted since."""
        await self._topic.catch_up()

    @property
    def partitions(self) -> list[TopicPartition]:
        """The source's partitions that have a place."""
        return sorted(self._places)

    def place(self, partition: TopicPartition) -> LaneState | None:
        """The place that was kept last of a source's partition."""
        found = self._places.get(partition)
        if found is None:
            return None
        ends = {name: found[name] for name in ("upstream_end", "downstream_end", "dropped")}
        known, count = OffsetMap(**ends), found["breaks"]
        for number in range(known.dropped // CHUNK, -(-count // CHUNK)):
            known.take_chunk(self._chunks.get((partition, number), b""), count)
        if len(known) != count:
            raise UnusableTopic(f"the map of {partition} has {len(known)} of {count} breaks: {_WORDS.remedy}")
        self._kept[partition] = known.dropped, count
        return LaneState(
            found["upstream"], found["downstream"], found["copied"], found["source_id"], found["target_id"], known
        )

    async def keep(self, places: Mapping[TopicPartition, LaneState]) -> None:
        """Keep places, with what is new in their maps, and without what is dropped of them."""
        records: list[Pair] = []
        old: list[Pair] = []
        kept: dict[TopicPartition, tuple[int, int]] = {}
        for partition, place in places.items():
            known = place.map
            dropped, count = self._kept.get(partition, (0, 0))
            kept[partition] = known.dropped, len(known)
            first = max(count, known.dropped) // CHUNK if count < len(known) else -(-len(known) // CHUNK)
            new = range(first, -(-len(known) // CHUNK))
            records += [(_key("map", *partition, number), known.chunk(number)) for number in new]
            records.append((_key("place", *partition), _place_value(place)))
            gone = range(dropped // CHUNK, known.dropped // CHUNK)
            old += [(_key("map", *partition, number), None) for number in gone]
        await self._put([*records, *old])  # lanes go on meanwhile: what they add is not kept yet
        self._kept.update(kept)

    def map_was_replaced(self, partition: TopicPartition) -> None:
        """Have the whole map of a partition kept next time."""
        self._kept[partition] = 0, 0

    async def keep_origins(self, origins: Mapping[str, MirrorOrigin]) -> None:
        """Keep where topics of the target come from, those that are new or other than before."""
        new = {topic: each for topic, each in origins.items() if self.origins.get(topic) != each}
        await self._put([(_key("origin", topic), _origin_value(each)) for topic, each in new.items()])
        self.origins.update(new)

    async def _put(self, records: list[Pair]) -> None:
        for at in range(0, len(records), _AT_ONCE):
            await self._topic.put(records[at : at + _AT_ONCE])

    def _apply(self, offset: int, key: bytes, value: bytes | None) -> None:
        try:
            read_note(self, key, value)
        except (ValueError, KeyError, TypeError) as fault:
            raise UnusableTopic(
                f"the record at offset {offset} is not a mirror's ({fault}): {_WORDS.remedy}"
            ) from fault

    def take(self, kind: str, rest: list[Any], value: bytes | None) -> None:
        """Take one record in."""
        match kind, rest:
            case "place", [str(), int()]:
                self._places[TopicPartition(*rest)] = json.loads(value or b"null")
            case "map", [str(), int(), int()]:
                self._chunks[TopicPartition(*rest[:2]), rest[2]] = value or b""
            case "origin", [str()]:
                content = json.loads(value or b"null")
                self.origins[rest[0]] = MirrorOrigin(content["topic"], tuple(content["clusters"]))
            case _ if kind != "nothing":
                raise ValueError(f"unknown key {kind}")


def read_note(notes: MirrorNotes, key: bytes, value: bytes | None) -> None:
    """Take a record of the topic in; ValueError for one that is not a mirror's."""
    kind, *rest = json.loads(key)
    notes.take(kind, rest, value)


def _key(*parts: object) -> bytes:
    return json.dumps(parts, separators=(",", ":")).encode()


def _place_value(place: LaneState) -> bytes:
    content = {
        "upstream": place.upstream, "downstream": place.downstream, "copied": place.copied,
        "source_id": place.source_id, "target_id": place.target_id, "breaks": len(place.map),
        "dropped": place.map.dropped,
        "upstream_end": place.map.upstream_end, "downstream_end": place.map.downstream_end,
    }  # fmt: skip
    return json.dumps(content, separators=(",", ":")).encode()


def _origin_value(origin: MirrorOrigin) -> bytes:
    return json.dumps({"topic": origin.topic, "clusters": origin.clusters}, separators=(",", ":")).encode()


def origins_of(pairs: Iterable[tuple[bytes, bytes | None]]) -> dict[str, MirrorOrigin]:
    """The origins of a cluster's topics, by the records of a mirror's topic there; other records are passed over."""
    found: dict[str, MirrorOrigin] = {}
    for key, value in pairs:
        kind, *rest = json.loads(key)
        if kind == "origin" and value is not None:
            content = json.loads(value)
            found[rest[0]] = MirrorOrigin(content["topic"], tuple(content["clusters"]))
    return found
