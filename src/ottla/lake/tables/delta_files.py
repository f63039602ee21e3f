"""Data files of a Delta table: as actions of its log with their statistics, and rewritten under new names."""

from __future__ import annotations

import datetime
import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq
from deltalake.transaction import AddAction, RemoveAction

from ottla.lake.tables.delta_log import read_removed

if TYPE_CHECKING:
    from deltalake import DeltaTable

COUNTED = ("partition", "offset", "timestamp")
"""Columns whose least and greatest value go into the log."""
BATCH_ROWS = 128 << 10


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file that the table holds; `path` is relative to the table's folder."""

    path: str
    bytes: int
    partition: Mapping[str, str | None]


def files_of(table: DeltaTable) -> list[DataFile]:
    """The files of the loaded version, sorted by path."""
    held = pa.table(table.get_add_actions())
    columns = table.metadata().partition_columns
    partitions = held["partition"].to_pylist() if columns else [{}] * held.num_rows
    found = [
        DataFile(unquote(path), size, {name: _partition_text(values.get(name)) for name in columns})
        for path, size, values in zip(held["path"].to_pylist(), held["size_bytes"].to_pylist(), partitions, strict=True)
    ]
    return sorted(found, key=lambda file: file.path)


def add_action(files: pa_fs.FileSystem, path: str, partition: Mapping[str, str | None], *, bytes: int) -> AddAction:
    """The action that makes a finished file visible, with what its footer says."""
    return AddAction(
        path=path,
        size=bytes,
        partition_values=dict(partition),
        modification_time=int(time.time() * 1000),
        data_change=True,
        stats=statistics(_footer(files, path)),
    )


def remove_action(file: DataFile) -> RemoveAction:
    """The action that takes a file out of the table."""
    return RemoveAction(file.path, True, int(time.time() * 1000), file.bytes, dict(file.partition))


def statistics(footer: pq.FileMetaData) -> str:
    """A file's statistics as the log keeps them: rows, and the bounds of partition, offset and timestamp."""
    least: dict[str, object] = {}
    greatest: dict[str, object] = {}
    nulls: dict[str, int] = {}
    names = [footer.schema.column(place).path for place in range(footer.num_columns)]
    for name in COUNTED:
        if name not in names or not footer.num_row_groups:
            continue
        place = names.index(name)
        groups = [footer.row_group(group).column(place).statistics for group in range(footer.num_row_groups)]
        if all(group is not None and group.has_min_max and group.has_null_count for group in groups):
            try:
                bounds = min(group.min for group in groups), max(group.max for group in groups)
            except OverflowError:  # a time after the year 9999: the file goes without its bounds
                continue
            least[name], greatest[name] = map(_json_value, bounds)
            nulls[name] = sum(group.null_count for group in groups)
    return json.dumps({"numRecords": footer.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls})


def pieces_of(files: pa_fs.FileSystem, file: DataFile) -> Iterator[pa.Table]:
    """A file's rows, some at a time."""
    with files.open_input_file(file.path) as source:
        for batch in pq.ParquetFile(source).iter_batches(BATCH_ROWS):
            yield pa.Table.from_batches([batch])


def rewrite(
    files: pa_fs.FileSystem, file: DataFile, change: Callable[[pa.Table], pa.Table], *, schema: pa.Schema | None
) -> AddAction | None:
    """Copy a file batch by batch through `change` into a new one of the same partition; None where no row is left.

    `schema` holds the columns that `change` gives; None where they stay those of the file.
    """
    with files.open_input_file(file.path) as source:
        parquet = pq.ParquetFile(source)
        pieces = (change(pa.Table.from_batches([batch])) for batch in parquet.iter_batches(BATCH_ROWS))
        return write(files, pieces, schema or parquet.schema_arrow, file.path.rpartition("/")[0], file.partition)


def write(
    files: pa_fs.FileSystem,
    pieces: Iterator[pa.Table],
    schema: pa.Schema,
    folder: str,
    partition: Mapping[str, str | None],
) -> AddAction | None:
    """Write rows into one new file of a folder; None, and no file, where there are no rows."""
    filled = (piece for piece in pieces if piece.num_rows)
    if (first := next(filled, None)) is None:
        return None
    path = f"{folder}/{new_name()}" if folder else new_name()
    with files.open_output_stream(path) as sink, pq.ParquetWriter(sink, schema, compression="zstd") as writer:
        writer.write_table(first)
        for piece in filled:
            writer.write_table(piece)
    size = files.get_file_info(path).size
    return add_action(files, path, partition, bytes=size)


def listed_files(files: pa_fs.FileSystem) -> list[pa_fs.FileInfo]:
    """All Parquet files below the table's folder, but those in folders that Delta reserves."""
    return [
        info
        for info in files.get_file_info(pa_fs.FileSelector("", recursive=True))
        if info.type == pa_fs.FileType.File
        and info.path.endswith(".parquet")
        and not any(part.startswith(("_", ".")) for part in info.path.split("/"))
    ]


def unneeded(table: DeltaTable, files: pa_fs.FileSystem, listed: list[pa_fs.FileInfo], before: float) -> set[str]:
    """Files that are not in the table, which was loaded after they were listed, and were not before a moment either.

    Found here and not by the library's vacuum, which names files in two spellings and spares none by name.
    """
    current = {file.path for file in files_of(table)}
    removed = read_removed(files)
    found = set()
    for info in listed:
        since = removed[info.path] / 1000 if info.path in removed else info.mtime.timestamp()
        if info.path not in current and since < before:
            found.add(info.path)
    return found


def new_name() -> str:
    """A new and unique file name."""
    return f"ottla-{uuid.uuid4().hex}.parquet"


def _footer(files: pa_fs.FileSystem, path: str) -> pq.FileMetaData:
    with files.open_input_file(path) as source:
        return pq.read_metadata(source)


def _partition_text(value: object) -> str | None:
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def _json_value(value: object) -> object:
    if isinstance(value, datetime.datetime):
        moment = value.astimezone(datetime.UTC).replace(tzinfo=None)
        return f"{moment.isoformat(timespec='microseconds')}Z"  # strftime writes the year 999 with three digits
    return value
