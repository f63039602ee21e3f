"""Data files of an Iceberg table: read with the columns of today, and written with their field ids."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pyiceberg.io.pyarrow as library
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowProjectionVisitor, ArrowScan, parquet_file_to_data_file, schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import ListType, MapType

from ottla.formats.arrays import items, lists, offsets, valid
from ottla.formats.columns import with_plain_leaves
from ottla.lake.columns.evolution import conform


class _NullsStay(ArrowProjectionVisitor):
    """The library's projection of a file's columns, which makes empty lists and maps of null ones of objects (0.12).

    A file that is copied with rows read so would hold other values than before.
    """

    def list(self, list_type: ListType, list_array: pa.Array | None, value_array: pa.Array | None) -> pa.Array | None:
        return _with_nulls(super().list(list_type, list_array, value_array), list_array)

    def map(
        self, map_type: MapType, map_array: pa.Array | None, key_result: pa.Array | None, value_result: pa.Array | None
    ) -> pa.Array | None:
        return _with_nulls(super().map(map_type, map_array, key_result, value_result), map_array)


library.ArrowProjectionVisitor = _NullsStay  # type: ignore[misc]


def _with_nulls(made: pa.Array | None, held: pa.Array | None) -> pa.Array | None:
    if made is None or held is None or made.null_count == held.null_count:
        return made
    return lists(made.type, offsets(made), items(made), valid(held))


def tasks_of(table: Table) -> list[FileScanTask]:
    """The table's files with the deletes that belong to them, sorted by path."""
    return sorted(table.scan().plan_files(), key=lambda task: task.file.file_path)


def read(table: Table, task: FileScanTask, schema: Schema) -> Iterator[pa.Table]:
    """A file's rows in these columns; the library holds one file at a time in memory."""
    scan = ArrowScan(table.metadata, table.io, schema, AlwaysTrue())
    for batch in scan.to_record_batches([task]):
        yield pa.Table.from_batches([batch])


def write(table: Table, metadata: TableMetadata, pieces: Iterable[pa.Table]) -> DataFile | None:
    """One new file of rows that belong to one partition; None, and no file, where there are no rows."""
    filled = (piece for piece in pieces if piece.num_rows)
    if (first := next(filled, None)) is None:
        return None
    schema = file_schema(metadata.schema())
    path = f"{metadata.location}/data/ottla-{uuid.uuid4().hex}.parquet"
    with table.io.new_output(path).create() as sink, pq.ParquetWriter(sink, schema, compression="zstd") as writer:
        writer.write_table(conform(first, schema))
        for piece in filled:
            writer.write_table(conform(piece, schema))
    return parquet_file_to_data_file(table.io, metadata, path)


def file_schema(schema: Schema) -> pa.Schema:
    """The columns of a file with their field ids, so that a renamed column is found again."""
    return pa.schema(
        [field.with_type(with_plain_leaves(field.type)) for field in schema_to_pyarrow(schema, include_field_ids=True)]
    )
