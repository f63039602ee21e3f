"""On an executor: ranges become finished files; only their names and counts leave.

Comes from loader.py as a Spark task. Rows never enter the JVM. Nothing written here is visible: loader.py reveals it.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ottla.lake import json_columns
from ottla.lake.changes import changes
from ottla.lake.dead_letters import DeadLetters
from ottla.lake.files import Files, Part, Target, TopicFiles
from ottla.lake.layout import EVENT_TIME, event_times, placed
from ottla.lake.merge import MergeTask, merge_parts
from ottla.lake.plans import RangeCount, WrittenFile
from ottla.lake.shape import Shape
from ottla.lake.stores import LakeRefused, Store, open_store
from ottla.lake.values import ValueKind, own_names
from ottla.lake.windows import Tallies, WindowCounter
from ottla.spark.arrow import all_numbers, indices, null_mask
from ottla.spark.kafka_settings import KafkaSettings
from ottla.spark.plan import OffsetRange
from ottla.spark.reader import Decoded, read_decoded

RECORD_COLUMNS = ("key", "value", "headers", "partition", "offset", "timestamp")
TOO_LONG = "a field that divides the lake: its value is too long for the name of a folder"


@dataclass(frozen=True, slots=True)
class WriteTask:
    """The work of one executor task."""

    spans: tuple[OffsetRange, ...]
    """In the order of topic, partition and offset."""
    alone: frozenset[str]
    """Topics that no other task reads: their files can be finished here."""
    url: str
    target: Target
    kafka: KafkaSettings
    columns: Mapping[str, str] = field(default_factory=dict)
    """Topic -> schema of its values' columns; without the topic where values stay bytes."""
    shape: Shape = field(default_factory=Shape)
    values: ValueKind = field(default_factory=ValueKind)
    poll_timeout_ms: int = 120_000


@dataclass(frozen=True, slots=True)
class WriteDone:
    """Finished files, rows put aside, and what became of every offset. Rows are counted from the files later."""

    counts: tuple[RangeCount, ...]
    files: tuple[WrittenFile, ...]
    parts: tuple[Part, ...]
    dead: tuple[str, ...] = ()
    first_fault: str | None = None
    wanted: Mapping[str, str] = field(default_factory=dict)
    """Topic -> the columns that its values want, where the given ones are too narrow: its files are of no use."""
    misfits: frozenset[str] = frozenset()
    """Topics of which a value was refused for its type."""
    windows: Tallies = field(default_factory=dict)


def write_ranges(task: WriteTask) -> WriteDone:
    """Fetch, decode and write the ranges of one task, topic by topic."""
    store = open_store(task.url)
    whole = WriteDone((), (), ())
    for topic, spans in itertools.groupby(task.spans, key=lambda span: span.topic):
        done = _TopicWriter(store, task, topic).write(list(spans))
        whole = WriteDone(
            whole.counts + done.counts,
            whole.files + done.files,
            whole.parts + done.parts,
            whole.dead + done.dead,
            whole.first_fault if whole.first_fault is not None else done.first_fault,
            {**whole.wanted, **done.wanted},
            whole.misfits | done.misfits,
            {**whole.windows, **done.windows},
        )
    return whole


def unwritable(url: str) -> str | None:
    """On an executor, before any work: why the lake's store cannot be written from there; None where it can."""
    try:
        store = open_store(url)
        name = f"_ottla/tmp/probe-{uuid.uuid4().hex}"
        store.create(name, b"")
        store.remove([name])
    except (LakeRefused, OSError) as fault:
        return f"the lake at {url} cannot be written from here: {fault}"
    return None


def write_merged(task: MergeTask) -> list[WrittenFile]:
    """Join what the tasks put aside."""
    return merge_parts(open_store(task.url), task.target, task.parts)


def columns_in_order(spans: list[OffsetRange], packed: str, values: ValueKind, kafka: KafkaSettings) -> str:
    """The columns that the values of a topic make when read strictly one after the other."""
    reader = values.reader()
    schema = json_columns.unpack_schema(packed)
    for span in spans:
        for piece in read_decoded(span, kafka, columns=("value",)):
            schema = reader.read(piece.batch.column("value"), schema).wanted
    return json_columns.pack_schema(schema)


class _TopicWriter:
    """One topic in one task."""

    def __init__(self, store: Store, task: WriteTask, topic: str) -> None:
        self._store = store
        self._task = task
        self._topic = topic
        packed = task.columns.get(topic)
        self._schema = None if packed is None else json_columns.unpack_schema(packed)
        self._wanted = self._schema
        self._reader = task.values.reader()
        self._misfits = False
        self._letters = DeadLetters(store, task.target, topic)
        self._windows = WindowCounter(task.target.layout)
        names = self._names()
        self._event_column = names.get(task.target.layout.event_time, "")
        self._files = TopicFiles(store, task.target, topic, names)

    def write(self, spans: list[OffsetRange]) -> WriteDone:
        try:
            counts = tuple(self._range(span) for span in spans)
            if self._wanted is not None and not self._wanted.equals(self._schema):
                self._abandon()
                return WriteDone(counts, (), (), wanted={self._topic: json_columns.pack_schema(self._wanted)})
            made = self._finished()
            dead = self._letters.close()
        except BaseException:
            self._abandon()
            raise
        return WriteDone(
            counts,
            tuple(made.written),
            tuple(made.parts),
            () if dead is None else (dead,),
            self._letters.first_fault,
            misfits=frozenset({self._topic}) if self._misfits else frozenset(),
            windows={self._topic: self._windows.tally()},
        )

    def _names(self) -> dict[str, str]:
        """The table's column of each field."""
        if self._schema is None:
            return {}
        return dict(zip(self._schema.names, own_names(self._schema, self._task.shape), strict=True))

    def _range(self, span: OffsetRange) -> RangeCount:
        records = dead = aborted = markers = 0
        for piece in read_decoded(span, self._task.kafka, poll_timeout_ms=self._task.poll_timeout_ms):
            records += piece.records
            aborted += piece.aborted
            markers += piece.markers
            dead += self._piece(span, piece)
        return RangeCount(span, records, 0, dead, aborted, markers)

    def _piece(self, span: OffsetRange, piece: Decoded) -> int:
        """Take rows in; returns how many of them are dead letters."""
        if self._schema is None:
            whole = pa.Table.from_batches([piece.batch]).select(RECORD_COLUMNS)
            self._files.add(whole)
            self._windows.add(piece.batch, whole)
            return 0
        assert self._wanted is not None
        block = self._reader.read(piece.batch.column("value"), self._wanted)
        self._misfits = self._misfits or block.misfits
        self._wanted = block.wanted
        if block.table is None or not self._wanted.equals(self._schema):
            return len(block.faults)
        rows, places, faults = self._with_columns(piece, block), np.flatnonzero(block.good), list(block.faults)
        tombstones = null_mask(piece.batch.column("value"))[places]
        if self._task.target.layout.event_time:
            rows, kept = self._timed(rows, tombstones)
            late = f"field {self._task.target.layout.event_time}: no time that can be read"
            faults += [(row, late) for row in places[~kept].tolist()]
            places, tombstones = places[kept], tombstones[kept]
        if self._task.target.layout.fields:
            rows, kept = placed(rows, self._task.target.layout, self._names())
            faults += [(row, TOO_LONG) for row in places[~kept].tolist()]
            places, tombstones = places[kept], tombstones[kept]
        if self._task.shape.key:
            rows, unkeyed = changes(rows, tombstones, self._task.shape.key, debezium=self._task.shape.debezium)
            faults += [(int(places[row]), why) for row, why in unkeyed]
        self._files.add(rows)
        self._windows.add(piece.batch, rows)
        self._letters.add(span, piece.batch, sorted(faults))
        return len(faults)

    def _with_columns(self, piece: Decoded, block: json_columns.Block) -> pa.Table:
        """The record's own columns beside those of its value."""
        assert block.table is not None
        rows = piece.batch if bool(block.good.all()) else piece.batch.take(indices(np.flatnonzero(block.good)))
        columns = {"key": rows.column("key")}
        columns.update(zip(own_names(block.table.schema, self._task.shape), block.table.columns, strict=True))
        columns.update({name: rows.column(name) for name in RECORD_COLUMNS[2:]})
        return pa.table(columns)

    def _timed(self, rows: pa.Table, tombstones: np.ndarray) -> tuple[pa.Table, np.ndarray]:
        """The rows that have an event time, with it, and which of the given ones they are.

        A tombstone has no fields: its own time counts.
        """
        own = all_numbers(rows.column("timestamp"))
        times, timely = own, np.zeros(rows.num_rows, dtype=np.bool_)
        if self._event_column:
            times, timely = event_times(rows.column(self._event_column))
        kept = timely | tombstones
        table = rows.append_column(EVENT_TIME, indices(np.where(tombstones, own, times)))
        return (table if kept.all() else table.take(indices(np.flatnonzero(kept)))), kept

    def _abandon(self) -> None:
        self._files.abandon()
        self._letters.abandon()

    def _finished(self) -> Files:
        made = self._files.close()
        if self._topic in self._task.alone and made.parts:
            made.written += merge_parts(self._store, self._task.target, made.parts)
            made.parts = []
        return made
