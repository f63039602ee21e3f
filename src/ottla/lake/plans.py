"""What the loader writes down before, between and after: plans, publications, commits. Pure; state.py keeps the files.

A plan names offset ranges and stands on disk before any of their records do. A publication names finished temporary
files and the names under which they appear; from then on it is carried through, never planned again. A commit ends it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from ottla.kernel.ids import NO_TOPIC_ID, TopicId, TopicPartition, parse_topic_id, topic_id_text
from ottla.lake.stores.base import LakeRefused
from ottla.spark.plan import OffsetRange, Offsets, SourceOffset, flat, nested, recreated, split

FORMAT = 1
HOUR_MS = 3_600_000
WORTH_A_TASK = 25_000
"""Fewer records are not split among tasks: each task makes files of its own."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_HOUR = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(hours=1)
_FIRST_HOUR = -((_EPOCH - datetime.min.replace(tzinfo=UTC)) // timedelta(hours=1))


def hour_path(topic: str, hour: int) -> str:
    """Where records of an hour (hours since 1970, UTC) lie; hours that no calendar has are put at its ends."""
    when = _EPOCH + timedelta(hours=max(_FIRST_HOUR, min(hour, _LAST_HOUR)))
    return f"topic={topic}/date={when.date().isoformat()}/hour={when.hour:02d}"


def file_name(topic: str, partition: int, first: int, last: int) -> str:
    """Named by the first and last offset inside: files of the same range in other hours may hold offsets between."""
    return f"{topic}-{partition}-{first}-{last}.parquet"


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A finished file under its temporary and its final name, both relative to the lake's directory."""

    temporary: str
    final: str
    rows: int
    bytes: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class RangeCount:
    """What became of every offset of a range. `records` is counted from the batches' headers, `rows` from the
    footers of the files: that they agree is what the audit shows."""

    span: OffsetRange
    records: int = 0
    rows: int = 0
    dead: int = 0
    aborted: int = 0
    markers: int = 0

    @property
    def absent(self) -> int:
        """Offsets that hold no record any more: compaction removed it."""
        return self.span.size - self.records - self.markers

    @property
    def adds_up(self) -> bool:
        return self.records == self.rows + self.dead + self.aborted and self.absent >= 0


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """One round: the ranges, and the types of the JSON columns where there are any."""

    number: int
    ranges: tuple[OffsetRange, ...]
    columns: Mapping[str, str] = field(default_factory=dict)
    """Topic -> its JSON columns' schema as base64 of Arrow's own serialization; empty without --json."""
    lost: Offsets = field(default_factory=dict)
    """Offsets that retention took before they could be read; only where the loader was told to accept that."""

    def to_json(self) -> dict[str, object]:
        return {
            "format": FORMAT,
            "plan": self.number,
            "ranges": [_range_json(span) for span in self.ranges],
            "columns": dict(self.columns),
            "lost": nested(self.lost),
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, object]) -> LoadPlan:
        _check_format(stored)
        columns = {str(topic): str(schema) for topic, schema in _object(stored["columns"]).items()}
        ranges = tuple(_range(item) for item in _list(stored["ranges"]))
        return cls(_number(stored["plan"]), ranges, columns, flat(stored["lost"]))


@dataclass(frozen=True, slots=True)
class Publication:
    """All that a plan made: what will be visible, what goes to the dead letter topic, and the counts."""

    plan: LoadPlan
    files: tuple[LakeFile, ...]
    dead: tuple[str, ...]
    counts: tuple[RangeCount, ...]

    def to_json(self) -> dict[str, object]:
        return {
            **self.plan.to_json(),
            "files": [[f.temporary, f.final, f.rows, f.bytes, f.first, f.last] for f in self.files],
            "dead": list(self.dead),
            "counts": [[c.records, c.rows, c.dead, c.aborted, c.markers] for c in self.counts],
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, object]) -> Publication:
        plan = LoadPlan.from_json(stored)
        files = []
        for item in _list(stored["files"]):
            temporary, final, *numbers = _list(item)
            files.append(LakeFile(str(temporary), str(final), *map(_number, numbers)))
        counts = tuple(
            RangeCount(span, *map(_number, _list(numbers)))
            for span, numbers in zip(plan.ranges, _list(stored["counts"]), strict=True)
        )
        return cls(plan, tuple(files), tuple(str(name) for name in _list(stored["dead"])), counts)


@dataclass(frozen=True, slots=True)
class Commit:
    """Where the lake stands after a plan: the next offset of each partition, and all it ever took from it."""

    number: int = -1
    offsets: Offsets = field(default_factory=dict)
    topic_ids: dict[str, TopicId] = field(default_factory=dict)
    rows: Offsets = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)

    def after(self, publication: Publication) -> Commit:
        offsets, rows, ids = dict(self.offsets), dict(self.rows), dict(self.topic_ids)
        for count in publication.counts:
            partition = count.span.topic_partition
            offsets[partition] = max(offsets.get(partition, 0), count.span.end)
            rows[partition] = rows.get(partition, 0) + count.rows
            ids[partition.topic] = TopicId(count.span.topic_id)
        return Commit(publication.plan.number, offsets, ids, rows, {**self.columns, **publication.plan.columns})

    def to_json(self) -> dict[str, object]:
        return {
            "format": FORMAT,
            "plan": self.number,
            "offsets": nested(self.offsets),
            "topic_ids": {topic: topic_id_text(self.topic_ids[topic]) for topic in sorted(self.topic_ids)},
            "rows": nested(self.rows),
            "columns": dict(self.columns),
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, object]) -> Commit:
        _check_format(stored)
        ids = {str(topic): parse_topic_id(str(text)) for topic, text in _object(stored["topic_ids"]).items()}
        columns = {str(topic): str(schema) for topic, schema in _object(stored["columns"]).items()}
        return cls(_number(stored["plan"]), flat(stored["offsets"]), ids, flat(stored["rows"]), columns)


def next_plan(
    committed: Commit,
    latest: SourceOffset,
    earliest: Offsets,
    *,
    tasks: int,
    most: int,
    longest: int,
    accept_loss: bool,
) -> LoadPlan:
    """The next round: up to `most` offsets, each partition from where the lake stands, a new one from its beginning."""
    before = SourceOffset(committed.offsets, committed.topic_ids)
    for topic in sorted({topic for topic, _ in latest.offsets}):
        if recreated(topic, before, latest):
            raise LakeRefused(
                f"topic {topic} was deleted and created again since it was last loaded: its new offsets would mix "
                f"with the old files. Load it into another directory"
            )
    ranges: list[OffsetRange] = []
    lost: Offsets = {}
    for partition, end in sorted(latest.offsets.items()):
        start = committed.offsets.get(partition, earliest[partition])
        if end < start:
            raise LakeRefused(f"{partition} ends at {end} but was loaded up to {start}: it has lost records")
        if start < earliest[partition]:
            lost[partition] = earliest[partition] - start
            start = earliest[partition]
        topic_id = latest.topic_ids.get(partition.topic, NO_TOPIC_ID)
        epoch = latest.epochs.get(partition, -1)
        ranges.append(OffsetRange(partition.topic, partition.partition, start, end, topic_id, epoch))
    if lost and not accept_loss:
        gone = ", ".join(f"{partition} {count}" for partition, count in sorted(lost.items()))
        raise LakeRefused(f"retention removed records before they were loaded ({gone}); --accept-loss goes on")
    bounded = _bounded(ranges, most)
    worth = sum(span.size for span in bounded) // WORTH_A_TASK
    pieces = split(bounded, min_partitions=max(1, min(tasks, worth)), max_records=longest)
    return LoadPlan(committed.number + 1, tuple(pieces), lost=lost)


def _bounded(ranges: list[OffsetRange], most: int) -> list[OffsetRange]:
    total = sum(span.size for span in ranges)
    if total <= most:
        return ranges
    return [replace(span, end=span.start + max(1, span.size * most // total)) for span in ranges if span.size]


def totals(counts: Iterable[RangeCount]) -> dict[TopicPartition, RangeCount]:
    """Per partition over neighbouring ranges."""
    whole: dict[TopicPartition, RangeCount] = {}
    for count in sorted(counts, key=lambda count: (count.span.topic_partition, count.span.start)):
        before = whole.get(count.span.topic_partition)
        if before is None:
            whole[count.span.topic_partition] = count
            continue
        whole[count.span.topic_partition] = RangeCount(
            replace(before.span, end=count.span.end),
            before.records + count.records,
            before.rows + count.rows,
            before.dead + count.dead,
            before.aborted + count.aborted,
            before.markers + count.markers,
        )
    return whole


def _range_json(span: OffsetRange) -> list[object]:
    return [span.topic, span.partition, span.start, span.end, topic_id_text(span.topic_id), span.leader_epoch]


def _range(stored: object) -> OffsetRange:
    topic, partition, start, end, topic_id, epoch = _list(stored)
    return OffsetRange(
        str(topic), _number(partition), _number(start), _number(end), parse_topic_id(str(topic_id)), _number(epoch)
    )


def _check_format(stored: Mapping[str, object]) -> None:
    if stored.get("format") != FORMAT:
        raise LakeRefused(f"the lake's state has format {stored.get('format')}; this program knows {FORMAT}")


def _object(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise LakeRefused(f"the lake's state is damaged: expected an object, got {value!r}")
    return value


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise LakeRefused(f"the lake's state is damaged: expected a list, got {value!r}")
    return value


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise LakeRefused(f"the lake's state is damaged: expected a number, got {value!r}")
    return value
