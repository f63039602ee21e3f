"""From offsets to the ranges that Spark tasks read: pure, so that a replay plans the same ranges again.

Called by batch.py and stream.py, which ask the cluster by survey.py; the ranges go to `reader.read_ranges`.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field
from enum import IntEnum

from ottla.kernel.ids import NO_TOPIC_ID, TopicId, TopicPartition, parse_topic_id, topic_id_text

Offsets = dict[TopicPartition, int]

IDENTITY_KEY = "/ottla"
"""The one key of a stream offset that is no topic: a slash is not legal in a topic's name."""


class Edge(IntEnum):
    """The ends of a partition, by the numbers that ListOffsets and Spark's JSON both use."""

    EARLIEST = -2
    LATEST = -1


@dataclass(frozen=True, slots=True)
class SpecificOffsets:
    """An offset for every partition; -2 and -1 are its ends."""

    offsets: Offsets


@dataclass(frozen=True, slots=True)
class Timestamps:
    """The first record at or after a time: one time for all partitions, or one for each."""

    times: Offsets | int
    latest_where_none: bool = False
    """A starting time after the last record: begin at the end instead of failing. Ending times always do."""

    def time_of(self, partition: TopicPartition) -> int:
        return self.times if isinstance(self.times, int) else self.times[partition]


Limit = Edge | SpecificOffsets | Timestamps


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The records [start, end) of one partition of one incarnation of a topic, for one task to read; picklable."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: bytes = NO_TOPIC_ID
    leader_epoch: int = -1
    """The least leader epoch that may serve this range: older leaders have not seen its records."""

    @property
    def size(self) -> int:
        """Offsets, not records: compaction and transaction markers leave gaps."""
        return self.end - self.start

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class DataLoss(Exception):
    """Records that the plan counts on are gone."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            "Some data may have been lost because they are not available in Kafka any more; either the data was aged "
            "out by Kafka or the topic may have been deleted before all the data in the topic was processed. If you "
            "don't want your streaming query to fail on such cases, set the source option failOnDataLoss to false. "
            f"Reason: {reason}"
        )


@dataclass(frozen=True, slots=True)
class RangeOptions:
    """The options that decide, beside the offsets, which ranges a task reads.

    `minPartitions`, `maxRecordsPerPartition`, and how many offsets small ranges of one task may have together.
    """

    min_partitions: int | None
    max_records: int | None
    small: int

    def tasks(self, ranges: list[OffsetRange]) -> list[tuple[OffsetRange, ...]]:
        """The ranges of each task."""
        pieces = split(ranges, min_partitions=self.min_partitions, max_records=self.max_records)
        return gathered(pieces, self.small)


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """A stream's position: Spark's `{"topic":{"0":123}}`, and which incarnation of each topic was read.

    `query` names the query for its consumer group: Spark shows its own query id to executors only. The layout, and
    where partitions begin that are new in this batch, stand here so that a repeated batch has the same tasks, also when
    the options and the cluster have changed since: a sink that writes exactly once rests on it.

    `initial` says where the first batch begins, in that batch's end and in the initial offset itself. Spark keeps no
    initial offset: it asks for another one when it plans the first batch, and when it repeats it.
    """

    offsets: Offsets
    topic_ids: dict[str, TopicId] = field(default_factory=dict)
    epochs: Offsets = field(default_factory=dict)
    query: str = ""
    layout: RangeOptions | None = None
    begins: Offsets = field(default_factory=dict)
    initial: Offsets | None = None

    def to_json(self) -> dict[str, object]:
        """The offset as JSON, sorted throughout, as Spark compares texts: an unmoved offset is the same text."""
        identity: dict[str, object] = {
            "query": self.query,
            "ids": {topic: topic_id_text(self.topic_ids[topic]) for topic in sorted(self.topic_ids)},
            "epochs": nested(self.epochs),
        }
        if self.layout is not None:
            identity["layout"] = list(astuple(self.layout))
        if self.begins:
            identity["begins"] = nested(self.begins)
        if self.initial is not None:
            identity["initial"] = nested(self.initial)
        return {**nested(self.offsets), IDENTITY_KEY: identity}

    @classmethod
    def from_json(cls, stored: Mapping[str, object]) -> SourceOffset:
        """Parse an offset, also one of Spark's own connector: then no incarnations of topics are known."""
        identity = stored.get(IDENTITY_KEY)
        offsets = flat({topic: offsets for topic, offsets in stored.items() if topic != IDENTITY_KEY})
        if not isinstance(identity, dict):
            return cls(offsets)
        ids = {str(topic): parse_topic_id(str(text)) for topic, text in identity.get("ids", {}).items()}
        return cls(
            offsets,
            ids,
            flat(identity.get("epochs", {})),
            str(identity.get("query", "")),
            RangeOptions(*identity["layout"]) if "layout" in identity else None,
            flat(identity.get("begins", {})),
            flat(identity["initial"]) if "initial" in identity else None,
        )


def nested(offsets: Mapping[TopicPartition, int]) -> dict[str, object]:
    """`{"topic":{"0":123}}`, topics and partitions in order."""
    topics: dict[str, dict[str, int]] = {}
    for topic, partition in sorted(offsets):
        topics.setdefault(topic, {})[str(partition)] = offsets[TopicPartition(topic, partition)]
    return dict(topics)


def flat(topics: object) -> Offsets:
    """The offsets in `{"topic":{"0":123}}`; ValueError for anything else."""
    if not isinstance(topics, dict):
        raise ValueError('Expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}')
    offsets: Offsets = {}
    for topic, partitions in topics.items():
        if not isinstance(partitions, dict):
            raise ValueError(f'Expected e.g. {{"topicA":{{"0":23,"1":-1}}}}, got {json.dumps({topic: partitions})}')
        for partition, offset in partitions.items():
            if isinstance(offset, bool) or not isinstance(offset, int):
                raise ValueError(f"Expected a whole number for {topic}-{partition}, got {json.dumps(offset)}")
            if not partition.isdecimal():
                raise ValueError(f"Expected the number of a partition of {topic}, got {partition!r}")
            offsets[TopicPartition(topic, int(partition))] = offset
    return offsets


def questions(limit: Limit, partitions: Iterable[TopicPartition], *, option: str) -> Offsets:
    """The times to ask ListOffsets for (-2, -1 or a time); partitions whose offset is given are left out."""
    asked = sorted(partitions)
    if isinstance(limit, Edge):
        return dict.fromkeys(asked, int(limit))
    if isinstance(limit, Timestamps):
        if not isinstance(limit.times, int):
            _same_partitions(limit.times, asked, f"{option} must specify all topics and partitions.")
        return {partition: limit.time_of(partition) for partition in asked}
    _same_partitions(
        limit.offsets,
        asked,
        f"If {option} contains specific offsets, you must specify all TopicPartitions. "
        "Use -1 for latest, -2 for earliest.",
    )
    return {partition: offset for partition, offset in sorted(limit.offsets.items()) if offset < 0}


def resolved(limit: Limit, partitions: Iterable[TopicPartition], answers: Offsets, *, starting: bool) -> Offsets:
    """The offsets that a limit means. A time without a record at or after it has the answer -1: the value stays -1
    (ask for the latest then), or is an error where a starting time must match."""
    offsets: Offsets = {}
    for partition in sorted(partitions):
        if isinstance(limit, SpecificOffsets) and limit.offsets[partition] >= 0:
            offsets[partition] = limit.offsets[partition]
            continue
        offsets[partition] = answers[partition]
        unmatched = isinstance(limit, Timestamps) and answers[partition] < 0
        if unmatched and starting and isinstance(limit, Timestamps) and not limit.latest_where_none:
            raise ValueError(
                f"No offset matched from request of topic-partition {partition} and timestamp "
                f"{limit.time_of(partition)}."
            )
    return offsets


def _same_partitions(specified: Iterable[TopicPartition], assigned: list[TopicPartition], problem: str) -> None:
    if sorted(specified) != assigned:
        raise ValueError(f"{problem} Specified: {_names(specified)} Assigned: {_names(assigned)}")


def _names(partitions: Iterable[TopicPartition]) -> str:
    return "[" + ", ".join(str(partition) for partition in sorted(partitions)) + "]"


def check_limits(starting: Limit, ending: Limit) -> None:
    """Refuse offsets that are wrong by themselves, before the cluster is asked, in the words of Spark's connector."""
    if isinstance(starting, SpecificOffsets) and isinstance(ending, SpecificOffsets):
        first, last, noun = starting.offsets, ending.offsets, "offset"
    elif isinstance(starting, Timestamps) and isinstance(ending, Timestamps):
        if isinstance(starting.times, int) or isinstance(ending.times, int):
            return
        first, last, noun = starting.times, ending.times, "timestamp"
    else:
        return
    if first.keys() != last.keys():
        raise ValueError(
            "The specified start offset and end offset should have the same topic-partitions. Topic-partitions for "
            f"start offset: {_names(first)}, topic-partitions for end offset: {_names(last)}."
        )
    for partition, start in first.items():
        if start > last[partition] and start >= 0 and last[partition] >= 0:
            raise ValueError(
                f"The specified start {noun} {start} is greater than the end {noun} {last[partition]} for topic "
                f"{partition.topic} partition {partition.partition}."
            )


def share_limit(limit: int, start: Offsets, latest: Offsets) -> Offsets:
    """End offsets that take about `limit` records in all, each partition in proportion to its records that wait.

    No partition that has records starves: its share is at least one. `start` holds every partition of `latest`.
    """
    waiting = {partition: end - start[partition] for partition, end in latest.items() if end > start[partition]}
    total = sum(waiting.values())
    if total <= limit:
        return dict(latest)
    ends: Offsets = {}
    for partition, end in latest.items():
        share = limit * waiting.get(partition, 0) / total
        taken = math.ceil(share) if share < 1 else math.floor(share)
        ends[partition] = min(end, start[partition] + taken) if partition in waiting else end
    return ends


def should_wait(least: int, start: Offsets, latest: Offsets, *, waited_ms: int, max_delay_ms: int) -> bool:
    """True if a trigger leaves its records for later: fewer than `minOffsetsPerTrigger`, and not yet too long."""
    waiting = sum(max(0, end - start[partition]) for partition, end in latest.items())
    return waited_ms < max_delay_ms and waiting < least


@dataclass(frozen=True, slots=True)
class Ranges:
    """The ranges to read, and the losses found: the caller fails or warns (`failOnDataLoss`)."""

    ranges: list[OffsetRange]
    losses: list[str]


def added_partitions(start: SourceOffset, end: SourceOffset) -> list[TopicPartition]:
    """Partitions of `end` that `start` says nothing about: created since, also with a topic created anew."""
    return sorted(
        partition
        for partition in end.offsets
        if partition not in start.offsets or recreated(partition.topic, start, end)
    )


def recreated(topic: str, start: SourceOffset, end: SourceOffset) -> bool:
    """True if the name means another topic now than when `start` was taken."""
    before, now = start.topic_ids.get(topic, NO_TOPIC_ID), end.topic_ids.get(topic, NO_TOPIC_ID)
    return NO_TOPIC_ID not in (before, now) and before != now


def true_start(start: SourceOffset, end: SourceOffset) -> SourceOffset:
    """The start of a batch: for a query's first one the offset from which its end was planned.

    The start that Spark gives then is an initial offset that it has asked for since. It names another query.
    """
    if end.initial is None or start.query == end.query:
        return start
    return SourceOffset({each: at for each, at in end.initial.items() if each not in end.begins}, query=end.query)


def between(start: SourceOffset, end: SourceOffset, earliest_of_added: Offsets) -> Ranges:
    """The ranges of one micro-batch. New partitions begin at their earliest offset, given for those of
    `added_partitions`."""
    losses = []
    if gone := sorted(start.offsets.keys() - end.offsets.keys()):
        losses.append(f"Partitions {_names(gone)} have been deleted.")
    again = sorted({topic for topic, _ in end.offsets if recreated(topic, start, end)})
    losses += [f"Topic {topic} has been deleted and created again." for topic in again]
    added = set(added_partitions(start, end))
    ranges = []
    for partition, last in sorted(end.offsets.items()):
        if partition in added:
            first = earliest_of_added.get(partition, 0)
            if first > 0:
                losses.append(f"Added partition {partition} starts from {first} instead of 0.")
        else:
            first = start.offsets[partition]
        if last < first:
            losses.append(f"Partition {partition} offset was changed from {first} to {last}.")
        topic_id = end.topic_ids.get(partition.topic, NO_TOPIC_ID)
        epoch = end.epochs.get(partition, -1)
        ranges.append(OffsetRange(partition.topic, partition.partition, first, last, topic_id, epoch))
    return Ranges([span for span in ranges if span.size > 0], losses)


def split(ranges: list[OffsetRange], *, min_partitions: int | None, max_records: int | None) -> list[OffsetRange]:
    """Cut big ranges: none longer than `max_records`, and about `min_partitions` of them where there are fewer."""
    pieces = [span for span in ranges if span.size > 0]
    if max_records is not None:
        pieces = [piece for span in pieces for piece in _cut(span, math.ceil(span.size / max_records))]
    if min_partitions is None or len(pieces) >= min_partitions:
        return pieces
    total = sum(span.size for span in pieces)
    whole = [span for span in pieces if _parts(span.size, total, min_partitions) == 1]
    large = total - sum(span.size for span in whole)
    wanted = max(min_partitions - len(whole), 1)
    return [piece for span in pieces for piece in _cut(span, 1 if span in whole else _parts(span.size, large, wanted))]


def gathered(ranges: list[OffsetRange], most: int) -> list[tuple[OffsetRange, ...]]:
    """Neighbouring ranges together while they hold at most `most` offsets: a task costs more than a small range."""
    tasks: list[list[OffsetRange]] = []
    size = 0
    for span in ranges:
        if tasks and size + span.size <= most:
            tasks[-1].append(span)
            size += span.size
        else:
            tasks.append([span])
            size = span.size
    return [tuple(task) for task in tasks]


def _parts(size: int, total: int, wanted: int) -> int:
    return max(math.floor(size / total * wanted + 0.5), 1)


def _cut(span: OffsetRange, parts: int) -> list[OffsetRange]:
    """`parts` ranges of nearly the same size, none empty."""
    parts = min(parts, span.size)
    edges = [span.start + span.size * part // parts for part in range(parts + 1)]
    return [
        OffsetRange(span.topic, span.partition, first, last, span.topic_id, span.leader_epoch)
        for first, last in itertools.pairwise(edges)
    ]
