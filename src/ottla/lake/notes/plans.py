"""Plans, publications and commits: the loader's notes on a round. Pure; state.py keeps the files.

A plan names offset ranges and stands on the store before any of their records do. A publication names finished files
and where they appear; from then on it is carried through, never planned again. A commit ends it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ottla.kernel.ids import NO_TOPIC_ID, TopicId, TopicPartition, parse_topic_id, topic_id_text
from ottla.lake.columns.layout import Layout, Values, folder
from ottla.lake.columns.windows import Tallies, tallies_from_json
from ottla.rows.plan import OffsetRange, Offsets, SourceOffset, flat, nested, recreated, split
from ottla.stores.base import FinishedFile, LakeRefused

FORMAT = 2
WORTH_A_TASK = 25_000
"""Fewer records are not worth a task of their own."""
MOST_OF_A_TOPIC = 180
"""The most characters of a topic in a file's name, so that neither it nor a hidden name beside it exceeds 255 bytes."""


@dataclass(frozen=True, slots=True, order=True)
class HeldRows:
    """Rows of one Kafka partition in one file, by their first and last offset."""

    partition: int
    rows: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A finished file as an executor reports it; it is not visible yet."""

    topic: str
    name: str
    values: Values
    """Values of the partition columns of its folder."""
    rows: int
    bytes: int
    held: tuple[HeldRows, ...]


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A finished file with its final name, both relative to the lake."""

    written: WrittenFile
    final: str

    @property
    def move(self) -> FinishedFile:
        return FinishedFile(self.written.name, self.final, self.written.bytes)

    def to_json(self) -> list[object]:
        file = self.written
        held = [[each.partition, each.rows, each.first, each.last] for each in file.held]
        return [file.topic, file.name, self.final, list(file.values), file.rows, file.bytes, held]

    @classmethod
    def from_json(cls, stored: object) -> LakeFile:
        topic, name, final, values, rows, size, held = _list(stored)
        texts = tuple(None if each is None else str(each) for each in _list(values))
        parts = tuple(HeldRows(*map(_number, _list(each))) for each in _list(held))
        return cls(WrittenFile(str(topic), str(name), texts, _number(rows), _number(size), parts), str(final))


def named_files(
    number: int, files: Iterable[WrittenFile], layout: Layout, *, in_place: bool = False
) -> tuple[LakeFile, ...]:
    """The files of a round under final names: `topic=T/date=D/T-ROUND-K.parquet`, K counting the topic's files.

    With `in_place` the files keep the names that they have: those of a table never move.
    """
    ordered = sorted(files, key=lambda file: (file.topic, [each or "" for each in file.values], file.held))
    counted: dict[str, int] = {}
    named = []
    for file in ordered:
        if in_place:
            named.append(LakeFile(file, file.name))
            continue
        position = counted.get(file.topic, 0)
        counted[file.topic] = position + 1
        named.append(
            LakeFile(file, f"{folder(file.topic, layout, file.values)}{file_name(file.topic, number, position)}")
        )
    return tuple(named)


def file_name(topic: str, number: int, position: int) -> str:
    """Rounds only grow, so that a name is never used twice. The name of a topic may be as long as that of a file."""
    return f"{topic[:MOST_OF_A_TOPIC]}-{number:08d}-{position:05d}.parquet"


@dataclass(frozen=True, slots=True)
class RangeCount:
    """The fate of every offset of a range. `records` is counted from the batches' headers, `rows` from the
    finished files: the audit shows that they agree."""

    span: OffsetRange
    records: int = 0
    rows: int = 0
    dead: int = 0
    aborted: int = 0
    markers: int = 0
    filtered: int = 0
    """Records that `--where` or a step leaves out."""

    @property
    def absent(self) -> int:
        """Offsets that hold no record any more: compaction removed it."""
        return self.span.size - self.records - self.markers

    @property
    def adds_up(self) -> bool:
        return self.records == self.rows + self.filtered + self.dead + self.aborted and self.absent >= 0

    def to_json(self) -> list[int]:
        """The numbers; that of filtered records only where there are some, as in rounds from before `--where`."""
        filtered = [self.filtered] if self.filtered else []
        return [self.records, self.rows, self.dead, self.aborted, self.markers, *filtered]


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """One round: a range of each partition that has something new."""

    number: int
    ranges: tuple[OffsetRange, ...]
    lost: Offsets = field(default_factory=dict)
    """Offsets that retention took before they could be read; only if the loader was told to accept that."""

    def to_json(self) -> dict[str, object]:
        return {
            "format": FORMAT,
            "plan": self.number,
            "ranges": [_range_json(span) for span in self.ranges],
            "lost": nested(self.lost),
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, object]) -> LoadPlan:
        check_format(stored)
        ranges = tuple(_range(item) for item in _list(stored["ranges"]))
        return cls(_number(stored["plan"]), ranges, flat(stored["lost"]))


@dataclass(frozen=True, slots=True)
class Publication:
    """The result of a plan: the files to reveal, the letters for the dead letter topic, and the counts."""

    plan: LoadPlan
    files: tuple[LakeFile, ...]
    dead: tuple[str, ...]
    counts: tuple[RangeCount, ...]
    """One count for each range of the plan."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Topic -> the schema of its values' columns as base64 of Arrow's own serialization; empty for plain bytes."""
    temporary: str = ""
    """The folder that may go once the round is committed."""
    windows: Tallies = field(default_factory=dict)
    """Topic -> its records by window of event time."""
    renames: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Topic -> its fields' renames, those of earlier rounds too."""

    def to_json(self) -> dict[str, object]:
        return {
            **self.plan.to_json(),
            "files": [file.to_json() for file in self.files],
            "dead": list(self.dead),
            "counts": [count.to_json() for count in self.counts],
            "columns": dict(self.columns),
            "temporary": self.temporary,
            "windows": {topic: tally.to_json() for topic, tally in self.windows.items()},
            "renames": {topic: list(texts) for topic, texts in self.renames.items()},
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, object]) -> Publication:
        plan = LoadPlan.from_json(stored)
        files = tuple(LakeFile.from_json(item) for item in _list(stored["files"]))
        counts = tuple(
            RangeCount(span, *map(_number, _list(numbers)))
            for span, numbers in zip(plan.ranges, _list(stored["counts"]), strict=True)
        )
        dead = tuple(str(name) for name in _list(stored["dead"]))
        columns = {str(topic): str(schema) for topic, schema in _object(stored["columns"]).items()}
        windows = tallies_from_json(stored.get("windows"))
        renames = _renames(stored)
        return cls(plan, files, dead, counts, columns, str(stored["temporary"]), windows, renames)


@dataclass(frozen=True, slots=True)
class Commit:
    """The state of the lake after a plan: the next offset of each partition, and the rows ever loaded from it."""

    number: int = -1
    offsets: Offsets = field(default_factory=dict)
    topic_ids: dict[str, TopicId] = field(default_factory=dict)
    rows: Offsets = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    latest: Offsets = field(default_factory=dict)
    """The greatest event time that was loaded of each partition, in microseconds."""
    renames: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Topic -> its fields' renames so far."""
    epochs: Offsets = field(default_factory=dict)
    """The leader epoch in which each partition was last loaded: a log that is cut off below its offset lost records."""

    def after(self, publication: Publication) -> Commit:
        offsets, rows, ids, latest = dict(self.offsets), dict(self.rows), dict(self.topic_ids), dict(self.latest)
        epochs = dict(self.epochs)
        for count in publication.counts:
            partition = count.span.topic_partition
            offsets[partition] = max(offsets.get(partition, 0), count.span.end)
            rows[partition] = rows.get(partition, 0) + count.rows
            ids[partition.topic] = TopicId(count.span.topic_id)
            epochs[partition] = count.span.leader_epoch
        for topic, tally in publication.windows.items():
            for number, time in tally.latest.items():
                partition = TopicPartition(topic, number)
                latest[partition] = max(time, latest.get(partition, time))
        columns, renames = {**self.columns, **publication.columns}, {**self.renames, **publication.renames}
        return Commit(publication.plan.number, offsets, ids, rows, columns, latest, renames, epochs)

    def to_json(self) -> dict[str, object]:
        return {
            "format": FORMAT,
            "plan": self.number,
            "offsets": nested(self.offsets),
            "topic_ids": {topic: topic_id_text(self.topic_ids[topic]) for topic in sorted(self.topic_ids)},
            "rows": nested(self.rows),
            "columns": dict(self.columns),
            "latest": nested(self.latest),
            "renames": {topic: list(texts) for topic, texts in self.renames.items()},
            "epochs": nested(self.epochs),
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, object]) -> Commit:
        check_format(stored)
        ids = {str(topic): parse_topic_id(str(text)) for topic, text in _object(stored["topic_ids"]).items()}
        columns = {str(topic): str(schema) for topic, schema in _object(stored["columns"]).items()}
        latest, epochs = flat(stored.get("latest", {})), flat(stored.get("epochs", {}))
        offsets, rows, renames = flat(stored["offsets"]), flat(stored["rows"]), _renames(stored)
        return cls(_number(stored["plan"]), offsets, ids, rows, columns, latest, renames, epochs)


def next_plan(committed: Commit, latest: SourceOffset, earliest: Offsets, *, most: int, accept_loss: bool) -> LoadPlan:
    """The next round: up to `most` offsets, each partition from where the lake stands, a new one from its beginning.

    A partition without new records is part of it, with no offsets, where the lake shall know from now on where it
    stands: its records are lost, or its topic brings others. One that is added to a known topic begins at 0.
    """
    before = SourceOffset(committed.offsets, committed.topic_ids)
    for topic in sorted({topic for topic, _ in latest.offsets}):
        if recreated(topic, before, latest):
            raise LakeRefused(
                f"topic {topic} was deleted and created again since it was last loaded: its new offsets would mix "
                f"with the old files. Load it into another directory"
            )
    ranges: list[OffsetRange] = []
    lost: Offsets = {}
    for partition, last in sorted(latest.offsets.items()):
        first, end = earliest[partition], max(earliest[partition], last)
        start = committed.offsets.get(partition, 0 if partition.topic in committed.topic_ids else first)
        if end < start:
            raise LakeRefused(
                f"{partition} ends at {end} but was loaded up to {start}: it has lost records, or was loaded with "
                f"--read-uncommitted and has open transactions"
            )
        if start < first:
            lost[partition] = first - start
            start = first
        topic_id = latest.topic_ids.get(partition.topic, NO_TOPIC_ID)
        epoch = latest.epochs.get(partition, -1)
        ranges.append(OffsetRange(partition.topic, partition.partition, start, end, topic_id, epoch))
    if lost and not accept_loss:
        gone = ", ".join(f"{count:,} offsets of {partition}" for partition, count in sorted(lost.items()))
        raise LakeRefused(f"retention deleted {gone} before they were loaded: --accept-loss skips them")
    busy = {span.topic for span in ranges if span.size or span.topic_partition in lost}
    noted = [
        span
        for span in _bounded(ranges, most)
        if span.size
        or span.topic_partition in lost
        or (span.topic in busy and span.topic_partition not in committed.offsets)
    ]
    return LoadPlan(committed.number + 1, tuple(noted), lost)


def still_whole(committed: Commit, latest: SourceOffset) -> SourceOffset:
    """The loaded offsets and epochs of topics that are still the same: their logs must hold all that was loaded."""
    before = SourceOffset(committed.offsets, committed.topic_ids)
    same = {topic for topic, _ in latest.offsets if not recreated(topic, before, latest)}
    offsets = {partition: offset for partition, offset in committed.offsets.items() if partition.topic in same}
    return SourceOffset(offsets, committed.topic_ids, committed.epochs)


def still_there(plan: LoadPlan, latest: SourceOffset, earliest: Offsets, *, accept_loss: bool) -> LoadPlan:
    """A plan to be loaded again, without deleted topics and removed records.

    The ranges of a topic that was deleted, also one that was created again, go. A range that retention emptied stays
    with no offsets, so that the lake moves on. LakeRefused where something was lost and the loader may not accept it.
    """
    ranges: list[OffsetRange] = []
    lost = dict(plan.lost)
    for span in plan.ranges:
        partition = span.topic_partition
        known = latest.topic_ids.get(span.topic)
        deleted = partition not in earliest or (NO_TOPIC_ID not in (known, span.topic_id) and known != span.topic_id)
        kept = span if deleted else replace(span, start=min(span.end, max(span.start, earliest[partition])))
        gone = span.size if deleted else span.size - kept.size
        if gone:
            lost[partition] = lost.get(partition, 0) + gone
        if gone and not accept_loss:
            why = "its topic was deleted" if deleted else "retention deleted records"
            raise LakeRefused(
                f"{partition}: {why} before round {plan.number} was loaded ({gone:,} offsets): --accept-loss skips them"
            )
        ranges += [] if deleted else [kept]
    return replace(plan, ranges=tuple(ranges), lost=lost)


def bundles(ranges: Iterable[OffsetRange], *, tasks: int, longest: int) -> list[tuple[OffsetRange, ...]]:
    """The ranges for each Spark task: about twice as many tasks as run at once, where each has enough to do.

    Small ranges go together, big ones are cut; a task's ranges are neighbours in the order of topic and partition.
    """
    whole = list(ranges)
    total = sum(span.size for span in whole)
    share = max(WORTH_A_TASK, min(longest, -(-total // max(1, 2 * tasks))))
    shared: list[list[OffsetRange]] = []
    size = 0
    for span in split(whole, min_partitions=None, max_records=share):
        if shared and size + span.size <= share:
            shared[-1].append(span)
            size += span.size
        else:
            shared.append([span])
            size = span.size
    return [tuple(each) for each in shared]


def counted(plan: LoadPlan, pieces: Iterable[RangeCount], files: Iterable[WrittenFile]) -> tuple[RangeCount, ...]:
    """One count for each range of the plan: records as the tasks counted them, rows as the files hold them."""
    rows: Offsets = {}
    for file in files:
        for held in file.held:
            partition = TopicPartition(file.topic, held.partition)
            rows[partition] = rows.get(partition, 0) + held.rows
    whole = totals(pieces)
    counts = []
    for span in plan.ranges:
        count = whole.get(span.topic_partition, RangeCount(span))
        if (count.span.start, count.span.end) != (span.start, span.end):
            raise LakeRefused(f"{span.topic_partition}: offsets {span.start}-{span.end} were planned, others were read")
        counts.append(replace(count, span=span, rows=rows.get(span.topic_partition, 0)))
    return tuple(counts)


def _bounded(ranges: list[OffsetRange], most: int) -> list[OffsetRange]:
    total = sum(span.size for span in ranges)
    if total <= most:
        return ranges
    return [replace(span, end=span.start + max(1, span.size * most // total)) if span.size else span for span in ranges]


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
            before.filtered + count.filtered,
        )
    return whole


def _renames(stored: Mapping[str, object]) -> dict[str, tuple[str, ...]]:
    """Renames by topic; none in rounds from before there were any."""
    return {str(topic): tuple(map(str, _list(texts))) for topic, texts in _object(stored.get("renames", {})).items()}


def _range_json(span: OffsetRange) -> list[object]:
    return [span.topic, span.partition, span.start, span.end, topic_id_text(span.topic_id), span.leader_epoch]


def _range(stored: object) -> OffsetRange:
    topic, partition, start, end, topic_id, epoch = _list(stored)
    return OffsetRange(
        str(topic), _number(partition), _number(start), _number(end), parse_topic_id(str(topic_id)), _number(epoch)
    )


def check_format(stored: Mapping[str, object]) -> None:
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
