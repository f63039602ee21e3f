"""Writes the rows of one topic into few finished Parquet files on an executor, also where their times are out of order.

Rows are gathered and sorted by group (layout.py). A group with much in it gets a file of its own at once. The rest is
put aside in one sorted file, whose pieces are joined with those of other tasks by merge.py. Memory is bounded by
HELD_BYTES and by the buffers of Parquet's writer for DIRECT_FILES open files.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ottla.lake.columns.json_columns import EVENT_TIME
from ottla.lake.columns.layout import Layout, Values, groups, partition_path
from ottla.lake.notes.plans import HeldRows, WrittenFile
from ottla.rows.arrow import all_numbers, numbers
from ottla.stores.base import Store, StoreOutput

HELD_BYTES = 96 << 20
"""Rows are gathered up to this, so that groups out of order do not make many small files."""
DIRECT_BYTES = 16 << 20
"""Rows of one group that are worth a file of their own beside those of other tasks."""
DIRECT_FILES = 4
ROW_GROUP = 1 << 20
_IN_PLACE = re.compile(r"(\d{8,})-[0-9a-f]{32}\.parquet")


@dataclass(frozen=True, slots=True)
class FileTarget:
    """The place of files, and their form."""

    folder: str
    """For temporary files, ending with a slash."""
    layout: Layout
    compression: str
    target_bytes: int
    number: int = 0
    """The round, which is part of the names of a table's files."""
    in_place: bool = False
    """True if finished files lie where they stay: in a table's folder, where its log alone makes them visible."""
    whole_rows: bool = False
    """True if files hold the fields that divide the lake."""

    def place(self, topic: str, values: Values) -> str:
        """A new name for a file of a group."""
        name = f"{uuid.uuid4().hex}.parquet"
        if not self.in_place:
            return f"{self.folder}{name}"
        return f"{topic}/{partition_path(self.layout, values)}{self.number:08d}-{name}"

    def dropped(self, names: Iterable[str]) -> list[str]:
        """The columns that files do not hold."""
        fields = () if self.whole_rows else self.layout.fields
        return [name for name in names if name == EVENT_TIME or name in fields]


def round_of(name: str) -> int | None:
    """The round that wrote a file which lies in its place, by its name; None for a file of another name."""
    found = _IN_PLACE.fullmatch(name.rpartition("/")[2])
    return None if found is None else int(found[1])


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one group that lie in a file put aside: one of its Arrow batches."""

    topic: str
    values: Values
    file: str
    batch: int
    rows: int
    bytes: int
    place: tuple[int, int]
    """Kafka partition and offset of the first row: parts are joined in that order."""


@dataclass(slots=True)
class RoundFiles:
    """The files and parts that a task made of a topic."""

    written: list[WrittenFile] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)


class TopicFiles:
    """The files of one topic in one task."""

    def __init__(self, store: Store, target: FileTarget, topic: str, columns: dict[str, str]) -> None:
        self._store = store
        self._target = target
        self._topic = topic
        self._columns = columns
        self._held: list[pa.Table] = []
        self._held_bytes = 0
        self._open: dict[Values, ParquetFile] = {}
        self._aside: AsideFile | None = None
        self._made = RoundFiles()

    def add(self, table: pa.Table) -> None:
        """Rows in the order of their partition and offset."""
        if table.num_rows:
            self._held.append(table)
            self._held_bytes += table.nbytes
        if self._held_bytes >= HELD_BYTES:
            self._flush(last=False)

    def close(self) -> RoundFiles:
        """Finish all files; they are durable when this returns."""
        self._flush(last=True)
        for file in self._open.values():
            self._made.written.append(file.finish())
        self._open.clear()
        if self._aside is not None:
            self._made.parts += self._aside.finish()
        return self._made

    def abandon(self) -> None:
        """Drop everything that is not finished."""
        for file in self._open.values():
            file.abandon()
        if self._aside is not None:
            self._aside.abandon()

    def _flush(self, *, last: bool) -> None:
        if not self._held:
            return
        table = pa.concat_tables(self._held)
        self._held, self._held_bytes = [], 0
        for values, rows in groups(table, self._target.layout, self._columns, exact=self._target.whole_rows):
            if values in self._open or rows.nbytes >= DIRECT_BYTES:
                self._write(values, rows)
            else:
                self._put_aside(values, rows)

    def _write(self, values: Values, rows: pa.Table) -> None:
        for piece in pieces(rows, self._target.target_bytes):
            file = self._open.get(values)
            if file is None:
                if len(self._open) >= DIRECT_FILES:
                    self._finish(next(iter(self._open)))
                file = self._open[values] = ParquetFile(self._store, self._target, self._topic, values, piece.schema)
            if file.write(piece) >= self._target.target_bytes:
                self._finish(values)

    def _finish(self, values: Values) -> None:
        self._made.written.append(self._open.pop(values).finish())

    def _put_aside(self, values: Values, rows: pa.Table) -> None:
        if self._aside is None:
            self._aside = AsideFile(self._store, self._target, self._topic, rows.schema)
        self._aside.write(values, rows)


def pieces(rows: pa.Table, target_bytes: int) -> list[pa.Table]:
    """Rows in pieces of at most about the target, so that a file's size is looked at often enough."""
    step = max(1, rows.num_rows * target_bytes // max(rows.nbytes, 1))
    return [rows.slice(begin, step) for begin in range(0, rows.num_rows, step)]


class ParquetFile:
    """One Parquet file on its way."""

    def __init__(self, store: Store, target: FileTarget, topic: str, values: Values, schema: pa.Schema) -> None:
        self._topic = topic
        self._values = values
        self._dropped = target.dropped(schema.names)
        kept = pa.schema([each for each in schema if each.name not in self._dropped])
        self._name = target.place(topic, values)
        self._output: StoreOutput = store.open_output(self._name)
        plain = {"value", "offset", "timestamp"}
        self._writer = pq.ParquetWriter(
            self._output.sink,
            kept,
            compression=target.compression,
            use_dictionary=[name for name in kept.names if name not in plain],
            column_encoding={"offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED"},
            write_statistics=[name for name in kept.names if name not in ("value", "headers")],
        )
        self._rows = 0
        self._held: dict[int, HeldRows] = {}

    def write(self, rows: pa.Table) -> int:
        """Add rows; returns the bytes written so far."""
        self._writer.write_table(rows.drop_columns(self._dropped), row_group_size=ROW_GROUP)
        self._rows += rows.num_rows
        self._note(rows)
        return int(self._output.sink.tell())

    def finish(self) -> WrittenFile:
        """Close the file, durably, and hold its footer against the rows that were given."""
        self._writer.close()
        size = self._output.finish()
        held = tuple(self._held[partition] for partition in sorted(self._held))
        assert sum(each.rows for each in held) == self._rows
        return WrittenFile(self._topic, self._name, self._values, self._rows, size, held)

    def abandon(self) -> None:
        self._writer.is_open = False  # else it would write its footer once more when it is collected
        self._output.abandon()

    def _note(self, rows: pa.Table) -> None:
        partitions = all_numbers(rows.column("partition"), np.int32)
        offsets = all_numbers(rows.column("offset"))
        alone = partitions.min() == partitions.max()
        for partition in [int(partitions[0])] if alone else np.unique(partitions).tolist():
            mine = offsets if alone else offsets[partitions == partition]
            before = self._held.get(partition)
            first, last, count = int(mine.min()), int(mine.max()), len(mine)
            if before is not None:
                first, last, count = min(first, before.first), max(last, before.last), count + before.rows
            self._held[partition] = HeldRows(partition, count, first, last)


class AsideFile:
    """Rows of many groups in one Arrow file, a batch for each time that a group was put aside."""

    def __init__(self, store: Store, target: FileTarget, topic: str, schema: pa.Schema) -> None:
        self._topic = topic
        self._name = f"{target.folder}{uuid.uuid4().hex}.arrow"
        self._output: StoreOutput = store.open_output(self._name)
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        self._writer = pa.ipc.new_file(self._output.sink, schema, options=options)
        self._parts: list[Part] = []

    def write(self, values: Values, rows: pa.Table) -> None:
        batch = rows.combine_chunks().to_batches()
        assert len(batch) == 1
        self._writer.write_batch(batch[0])
        place = (int(numbers(batch[0].column("partition"), np.int32)[0]), int(numbers(batch[0].column("offset"))[0]))
        self._parts.append(Part(self._topic, values, self._name, len(self._parts), rows.num_rows, rows.nbytes, place))

    def finish(self) -> list[Part]:
        self._writer.close()
        self._output.finish()
        return self._parts

    def abandon(self) -> None:
        self._output.abandon()
