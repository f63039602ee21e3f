"""On an executor: one range becomes finished temporary files, one or more per hour; only their names and counts leave.

Comes from loader.py as a Spark task. Rows never enter the JVM. Nothing written here is visible: loader.py reveals it.
"""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ottla.lake import json_columns
from ottla.lake.plans import HOUR_MS, LakeFile, RangeCount, file_name, hour_path
from ottla.spark.arrow import indices, numbers
from ottla.spark.kafka_settings import KafkaSettings
from ottla.spark.plan import OffsetRange
from ottla.spark.reader import Decoded, read_decoded

HELD_BYTES = 96 << 20
"""Records of a range are gathered up to this, so that hours out of order do not make many small files."""
OPEN_FILES = 48
ROW_GROUP = 1 << 20
RECORD_COLUMNS = ("key", "value", "headers", "partition", "offset", "timestamp")


@dataclass(frozen=True, slots=True)
class RangeTask:
    """What an executor needs to know."""

    span: OffsetRange
    directory: str
    temporary: str
    kafka: KafkaSettings
    compression: str
    target_bytes: int
    columns: str | None
    """The JSON columns' schema; None where values stay bytes."""
    fixed_columns: bool
    poll_timeout_ms: int = 120_000


@dataclass(frozen=True, slots=True)
class RangeDone:
    """Finished temporary files and what became of every offset."""

    count: RangeCount
    files: tuple[LakeFile, ...]
    dead: str | None
    first_fault: str | None = None


@dataclass(frozen=True, slots=True)
class ColumnsWanted:
    """The range holds JSON fields that the plan's columns lack: nothing was kept."""

    topic: str
    columns: str


def write_range(task: RangeTask) -> RangeDone | ColumnsWanted:
    """Fetch, decode and write one range."""
    files = HourFiles(task)
    letters = DeadLetters(task)
    records = aborted = markers = 0
    schema = None if task.columns is None else json_columns.unpack_schema(task.columns)
    wanted = schema
    for piece in read_decoded(task.span, task.kafka, poll_timeout_ms=task.poll_timeout_ms):
        records += piece.records
        aborted += piece.aborted
        markers += piece.markers
        if wanted is None or schema is None:
            files.add(pa.Table.from_batches([piece.batch]).select(RECORD_COLUMNS))
            continue
        block = json_columns.decode(piece.batch.column("value"), wanted, fixed=task.fixed_columns)
        wanted = json_columns.merge(wanted, block.wanted, fixed=task.fixed_columns)
        if wanted.equals(schema) and block.table is not None:
            files.add(_with_columns(piece, block))
            letters.add(piece, block)
    if wanted is not None and not wanted.equals(schema):
        return ColumnsWanted(task.span.topic, json_columns.pack_schema(wanted))
    written = files.close()
    rows = sum(file.rows for file in written)
    count = RangeCount(task.span, records, rows, letters.count, aborted, markers)
    return RangeDone(count, written, letters.close(), letters.first_fault)


def _with_columns(piece: Decoded, block: json_columns.Block) -> pa.Table:
    """The record's own columns beside those of its JSON value."""
    assert block.table is not None
    rows = piece.batch if bool(block.good.all()) else piece.batch.filter(pa.array(block.good))
    names = json_columns.column_names(block.table.schema)
    columns = {"key": rows.column("key")}
    columns.update(zip(names, block.table.columns, strict=True))
    columns.update({name: rows.column(name) for name in RECORD_COLUMNS[2:]})
    return pa.table(columns)


class HourFiles:
    """The files of one range, by hour."""

    def __init__(self, task: RangeTask) -> None:
        self._task = task
        self._held: list[pa.Table] = []
        self._held_bytes = 0
        self._open: dict[int, _OpenFile] = {}
        self._done: list[LakeFile] = []

    def add(self, table: pa.Table) -> None:
        if table.num_rows:
            self._held.append(table)
            self._held_bytes += table.nbytes
        if self._held_bytes >= HELD_BYTES:
            self._flush()

    def close(self) -> tuple[LakeFile, ...]:
        """Finish all files; they are on disk when this returns."""
        self._flush()
        for hour in list(self._open):
            self._finish(hour)
        return tuple(sorted(self._done, key=lambda file: (file.final, file.first)))

    def _flush(self) -> None:
        if not self._held:
            return
        table = pa.concat_tables(self._held)
        self._held, self._held_bytes = [], 0
        for hour, part in _by_hour(table):
            step = max(1, part.num_rows * self._task.target_bytes // max(part.nbytes, 1))
            for begin in range(0, part.num_rows, step):
                self._write(hour, part.slice(begin, step))

    def _write(self, hour: int, part: pa.Table) -> None:
        file = self._open.get(hour)
        if file is None:
            while len(self._open) >= OPEN_FILES:
                self._finish(next(iter(self._open)))
            file = self._open[hour] = _OpenFile(self._task, hour, part.schema)
        if file.write(part) >= self._task.target_bytes:
            self._finish(hour)

    def _finish(self, hour: int) -> None:
        self._done.append(self._open.pop(hour).finish())


def _by_hour(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each hour, in the order of their offsets."""
    times = np.concatenate([numbers(chunk) for chunk in table.column("timestamp").chunks])
    hours = times // (HOUR_MS * 1000)
    first = int(hours[0])
    if bool((hours == first).all()):
        yield first, table
        return
    if bool((hours[1:] >= hours[:-1]).all()):
        edges = [0, *(np.flatnonzero(hours[1:] != hours[:-1]) + 1).tolist(), len(hours)]
        for begin, end in itertools.pairwise(edges):
            yield int(hours[begin]), table.slice(begin, end - begin)
        return
    order = np.argsort(hours, kind="stable")
    whole = table.combine_chunks()
    sorted_hours = hours[order]
    edges = [0, *(np.flatnonzero(sorted_hours[1:] != sorted_hours[:-1]) + 1).tolist(), len(hours)]
    for begin, end in itertools.pairwise(edges):
        yield int(sorted_hours[begin]), whole.take(indices(order[begin:end]))


class _OpenFile:
    """One Parquet file under its temporary name."""

    def __init__(self, task: RangeTask, hour: int, schema: pa.Schema) -> None:
        self._task = task
        self._hour = hour
        self._name = f"{task.temporary}/{uuid.uuid4().hex}.tmp"
        self._path = Path(task.directory) / self._name
        self._sink = pa.OSFile(str(self._path), "wb")
        plain = {"value", "offset", "timestamp"}
        self._writer = pq.ParquetWriter(
            self._sink,
            schema,
            compression=task.compression,
            use_dictionary=[name for name in schema.names if name not in plain],
            column_encoding={"offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED"},
            write_statistics=[name for name in schema.names if name not in ("value", "headers")],
        )
        self._first: int | None = None
        self._last = -1

    def write(self, table: pa.Table) -> int:
        """Add rows of later offsets; returns the bytes written so far."""
        self._writer.write_table(table, row_group_size=ROW_GROUP)
        offsets = table.column("offset")
        if self._first is None:
            self._first = offsets[0].as_py()
        self._last = offsets[-1].as_py()
        return int(self._sink.tell())

    def finish(self) -> LakeFile:
        self._writer.close()
        self._sink.close()
        _sync(self._path)
        span = self._task.span
        assert self._first is not None
        name = file_name(span.topic, span.partition, self._first, self._last)
        final = f"{hour_path(span.topic, self._hour)}/{name}"
        footer = pq.read_metadata(self._path)
        return LakeFile(self._name, final, footer.num_rows, self._path.stat().st_size, self._first, self._last)


class DeadLetters:
    """Records of one range that cannot be columns, kept with the reason until the round is revealed."""

    def __init__(self, task: RangeTask) -> None:
        self._task = task
        self._tables: list[pa.Table] = []
        self.first_fault: str | None = None
        self.count = 0

    def add(self, piece: Decoded, block: json_columns.Block) -> None:
        if not block.faults:
            return
        rows = [row for row, _ in block.faults]
        reasons = pa.array([reason for _, reason in block.faults], pa.string())
        letters = pa.Table.from_batches([piece.batch]).select(RECORD_COLUMNS).take(pa.array(rows, pa.int64()))
        self._tables.append(letters.append_column("reason", reasons))
        if self.first_fault is None:
            offset = letters.column("offset")[0].as_py()
            self.first_fault = f"{self._task.span.topic_partition} at offset {offset}: {block.faults[0][1]}"
        self.count += len(rows)

    def close(self) -> str | None:
        """Keep them in a file beside the others; its name, or None where there are none."""
        if not self._tables:
            return None
        name = f"{self._task.temporary}/{uuid.uuid4().hex}.dead"
        path = Path(self._task.directory) / name
        table = pa.concat_tables(self._tables)
        topic = pa.repeat(pa.scalar(self._task.span.topic), table.num_rows)
        with (
            pa.OSFile(str(path), "wb") as sink,
            pa.ipc.new_file(sink, table.schema.append(pa.field("topic", pa.string()))) as out,
        ):
            out.write_table(table.append_column("topic", topic))
        _sync(path)
        return name


def read_dead_letters(path: Path) -> pa.Table:
    with pa.memory_map(str(path)) as source:
        return pa.ipc.open_file(source).read_all()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
