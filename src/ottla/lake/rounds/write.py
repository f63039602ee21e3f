"""In a worker: turns ranges into finished files; only their names and counts leave.

Comes from attempt.py as a task. On Spark, rows never enter the JVM. Nothing written here is visible: loader.py
reveals it.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ottla.formats.arrays import numbers
from ottla.lake.columns import json_columns
from ottla.lake.columns.first_content import FirstContent, Firsts, withheld
from ottla.lake.columns.shape import LakeShape
from ottla.lake.columns.values import ValueKind, same_columns
from ottla.lake.columns.windows import Tallies, WindowCounter
from ottla.lake.notes.plans import RangeCount, WrittenFile
from ottla.lake.rounds.dead_letters import DeadLetters
from ottla.lake.rounds.files import FileTarget, Part, RoundFiles, TopicFiles
from ottla.lake.rounds.merge import MergeTask, merge_parts
from ottla.lake.rounds.progress import Pulse
from ottla.lake.rounds.sift import Sieve
from ottla.rows.kafka_settings import KafkaSettings
from ottla.rows.plan import OffsetRange
from ottla.rows.read import read_decoded
from ottla.stores import LakeRefused, Store, open_store


@dataclass(frozen=True, slots=True)
class WriteTask:
    """The work of one task."""

    spans: tuple[OffsetRange, ...]
    """The ranges in the order of topic, partition and offset."""
    alone: frozenset[str]
    """Topics that no other task reads, so that their files can be finished here."""
    url: str
    target: FileTarget
    kafka: KafkaSettings
    columns: Mapping[str, str] = field(default_factory=dict)
    """Topic -> schema of its values' columns; without the topic where values stay bytes."""
    firsts: Mapping[str, Firsts] = field(default_factory=dict)
    """Topic -> where its new columns begin."""
    shape: LakeShape = field(default_factory=LakeShape)
    values: ValueKind = field(default_factory=ValueKind)
    poll_timeout_ms: int = 120_000
    pulse: Pulse | None = None
    """Takes the count of records read, to show it while the task runs."""


@dataclass(frozen=True, slots=True)
class WriteDone:
    """Finished files, rows put aside, and the fate of every offset. Rows are counted from the files later."""

    counts: tuple[RangeCount, ...]
    files: tuple[WrittenFile, ...]
    parts: tuple[Part, ...]
    dead: tuple[str, ...] = ()
    first_fault: str | None = None
    wanted: Mapping[str, str] = field(default_factory=dict)
    """From a topic to the columns that its values need, if the given ones are too narrow: its files are of no use."""
    misfits: frozenset[str] = frozenset()
    """Topics of which a value was refused for its type."""
    windows: Tallies = field(default_factory=dict)
    seen: Mapping[str, FirstContent] = field(default_factory=dict)
    """Topic -> where columns begin here of which the task was not told."""


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
            {**whole.seen, **done.seen},
        )
    return whole


def unwritable(url: str) -> str | None:
    """Check on an executor, before any work, that the lake's store can be written; None, or the reason why not."""
    try:
        store = open_store(url)
        name = f"_ottla/tmp/probe-{uuid.uuid4().hex}"
        store.create(name, b"")
        store.remove([name])
    except (LakeRefused, OSError) as fault:
        return f"the lake at {url} cannot be written from here: {fault}"
    return None


def write_merged(task: MergeTask) -> list[WrittenFile]:
    """Merge the rows that the tasks put aside."""
    return merge_parts(open_store(task.url), task.target, task.parts)


def columns_in_order(spans: list[OffsetRange], packed: str, values: ValueKind, kafka: KafkaSettings) -> str:
    """The columns that the values of a topic make when read strictly one after the other."""
    reader = values.reader(spans[0].topic) if spans else values.reader("")
    schema = json_columns.unpack_schema(packed)
    for span in spans:
        for piece in read_decoded(span, kafka, columns=values.fetched):
            schema = values.read(reader, piece.batch, schema).wanted
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
        self._reader = task.values.reader(topic)
        self._misfits = False
        self._firsts = task.firsts.get(topic, {})
        self._seen = FirstContent()
        self._letters = DeadLetters(store, task.target, topic)
        self._windows = WindowCounter(task.target.layout)
        self._sieve = Sieve(task.target.layout, task.shape, self._schema, topic)
        self._files = TopicFiles(store, task.target, topic, self._sieve.names)

    def write(self, spans: list[OffsetRange]) -> WriteDone:
        try:
            counts = tuple(self._range(span) for span in spans)
            if self._wanted is not None and not same_columns(self._wanted, self._schema):
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
            seen={self._topic: self._seen},
        )

    def _range(self, span: OffsetRange) -> RangeCount:
        records = dead = aborted = markers = filtered = 0
        for piece in read_decoded(span, self._task.kafka, poll_timeout_ms=self._task.poll_timeout_ms):
            records += piece.records
            if self._task.pulse is not None:
                self._task.pulse.add(piece.records + piece.markers)
            aborted += piece.aborted
            markers += piece.markers
            refused, left_out = self._piece(span, piece.batch)
            dead += refused
            filtered += left_out
        return RangeCount(span, records, 0, dead, aborted, markers, filtered)

    def _piece(self, span: OffsetRange, batch: pa.RecordBatch) -> tuple[int, int]:
        """Take rows in; returns how many of them are dead letters, and how many the filter leaves out."""
        block = None
        if self._schema is not None:
            assert self._wanted is not None
            block = self._task.values.read(self._reader, batch, self._wanted)
            self._misfits = self._misfits or block.misfits
            self._wanted = block.wanted
            if block.table is None or not same_columns(self._wanted, self._schema):
                return len(block.faults), 0
            self._begin_late(span, batch, block)
        sifted = self._sieve.sift(batch, block)
        self._files.add(sifted.rows)
        self._windows.add(batch, sifted.rows, sifted.left_out)
        self._letters.add(span, batch, sorted(sifted.faults))
        return len(sifted.faults), 0 if sifted.left_out is None else len(sifted.left_out.places)

    def _begin_late(self, span: OffsetRange, batch: pa.RecordBatch, block: json_columns.JsonBlock) -> None:
        """Leave out values of columns that have not begun yet."""
        if not self._firsts:
            return
        assert block.table is not None
        every = numbers(batch.column("offset"), np.int64)
        offsets = every[block.good]
        if self._task.values.kind == "json":
            self._seen.add(block.table, span.partition, offsets, self._firsts)
        else:
            written = [(int(every[row]), columns) for row, columns in block.written]
            self._seen.add_written(block.table, span.partition, offsets, self._firsts, written)
        block.table = withheld(block.table, span.partition, offsets, self._firsts)

    def _abandon(self) -> None:
        self._files.abandon()
        self._letters.abandon()

    def _finished(self) -> RoundFiles:
        made = self._files.close()
        if self._topic in self._task.alone and made.parts:
            made.written += merge_parts(self._store, self._task.target, made.parts)
            made.parts = []
        return made
