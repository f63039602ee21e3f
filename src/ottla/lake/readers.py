"""Reads lakes of plain Parquet back with Spark, by the types in their schema files."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from ottla.config.option import nearest
from ottla.formats.evolution import aliases
from ottla.formats.json_numbers import LARGEST
from ottla.lake.columns.evolution import conform
from ottla.lake.columns.exact import becoming_double, in_table
from ottla.lake.columns.held_types import held_type
from ottla.lake.columns.layout import folder_of
from ottla.lake.columns.renamed import renamed_rows
from ottla.lake.notes import schema_file
from ottla.lake.notes.schema_file import TopicSchema
from ottla.stores import LakeRefused, Store, lake_url, open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FILE = re.compile(r".*-(\d{8,})-\d{5,}\.parquet")


def topic_schema(lake: str | Path, topic: str) -> TopicSchema:
    """The schema of a topic's files; LakeRefused where none of its records are there."""
    found = schema_file.read(open_store(lake_url(lake)), topic)
    if found is None:
        raise LakeRefused(f"there is nothing of topic {topic} in {lake}")
    return found


def spark_table(spark: SparkSession, lake: str | Path, topic: str, rounded: Sequence[str] = ()) -> DataFrame:
    """The topic's rows under the newest columns. Files of each version are read by their own types, and then cast:
    Spark does not read whole numbers as doubles by itself. It has no times in nanoseconds, and times of day not in most
    versions: they are whole numbers, as in a Delta table.
    """
    from pyspark.sql import functions
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = topic_schema(lake, topic)
    store = open_store(lake_url(lake))
    folder = folder_of(topic)
    place = unquote(store.url)  # Hadoop's paths are no URLs: a percent sign stands for itself
    columns, divides = _for_spark(schema.columns), schema.partition_columns
    newest = from_arrow_schema(columns)
    names = [*newest.names, *divides.names]
    frames = []
    by_version = _by_version(schema, [entry.name for entry in store.entries(folder)])
    _check_rounded(store, topic, schema, by_version, rounded)
    for version, files in sorted(by_version.items()):
        held = as_held(columns, _for_spark(_readable(topic, schema.versions[version][1])))
        named = dict(zip(columns.names, held.names, strict=True))
        fields = from_arrow_schema(pa.schema([*held, *divides]))
        rows = (
            spark.read.schema(fields).option("basePath", f"{place}/{folder}").parquet(*[f"{place}/{n}" for n in files])
        )
        wanted = {field.name: field.dataType for field in newest.fields}
        frames.append(
            rows.select(
                *[
                    functions.col(quoted(named[name])).cast(wanted[name]).alias(name)
                    if name in wanted
                    else quoted(name)
                    for name in names
                ]
            )
        )
    if not frames:
        return spark.createDataFrame([], from_arrow_schema(pa.schema([*columns, *divides])))
    return reduce(lambda one, other: one.union(other), frames)


def _readable(topic: str, older: pa.Schema) -> pa.Schema:
    """The columns of older files; LakeRefused where Spark has no type for one that was written as it came."""
    for field in older:
        if held_type(field.type, "parquet") != field.type:
            raise LakeRefused(
                f"older files of topic {topic} have the column {field.name} of the type {field.type}, which Spark does "
                f"not read: read them by lake.rows"
            )
    return older


def _for_spark(columns: pa.Schema) -> pa.Schema:
    """The columns by the types that Spark reads: those of a Delta table."""
    return pa.schema([field.with_type(held_type(field.type, "delta")) for field in columns])


def arrow_rows(lake: str | Path, topic: str, rounded: Sequence[str] = ()) -> pa.RecordBatchReader:
    """The topic's rows under the newest columns, also where columns came, widened, or were renamed; file by file."""
    schema = topic_schema(lake, topic)
    store = open_store(lake_url(lake))
    names = [entry.name for entry in store.entries(folder_of(topic)) if _FILE.fullmatch(entry.name)]
    columns = pa.schema([(each.name, each.type) for each in (*schema.columns, *schema.partition_columns)])
    _check_rounded(store, topic, schema, _by_version(schema, names), rounded)
    batches = (batch for name in names for batch in _batches(store, name, schema, columns, rounded))
    return pa.RecordBatchReader.from_batches(columns, batches)


def _check_rounded(
    store: Store, topic: str, schema: TopicSchema, by_version: dict[int, list[str]], rounded: Sequence[str]
) -> None:
    """LakeRefused where a column became `double` though older files hold whole numbers that no double can.

    Only earlier versions of ottla made such lakes.
    """
    if unknown := [name for name in rounded if name not in schema.columns.names]:
        near = nearest(unknown[0], schema.columns.names)
        raise LakeRefused(f"rounded: topic {topic} has no column {unknown[0]}{near}")
    for version, names in sorted(by_version.items()):
        former = {path[0] for path in becoming_double(schema.versions[version][1], schema.columns)}
        for name in names if former else ():
            with store.open_input(name) as source:
                found = {_now(each, schema.columns) for each in _beyond(pq.ParquetFile(source), former)}
            for column in sorted(found.difference(rounded)):
                raise LakeRefused(
                    f"column {column} of topic {topic} became double, and {name} holds whole numbers beyond 2**53, "
                    f"which a double cannot hold. rounded=[{column!r}] reads the nearest doubles; pyarrow reads this "
                    f"file alone with every digit"
                )


def _now(former: str, columns: pa.Schema) -> str:
    return next((each.name for each in columns if former in (each.name, *aliases(each))), former)


def _beyond(file: pq.ParquetFile, columns: set[str]) -> set[str]:
    """Those of the columns that hold whole numbers beyond 2**53; only objects and arrays are read for that."""
    columns = columns.intersection(file.schema_arrow.names)
    flat = {name for name in columns if pa.types.is_integer(file.schema_arrow.field(name).type)}
    found = {name for name in flat if any(not -LARGEST <= end <= LARGEST for end in _ends(file, name))}
    if nested := sorted(columns - flat):
        for batch in file.iter_batches(columns=nested):
            found |= {path[0] for path in in_table(pa.Table.from_batches([batch]))}
    return found


def _ends(file: pq.ParquetFile, column: str) -> Iterator[int]:
    """The least and the largest value of a column in each part of a file."""
    for group in range(file.metadata.num_row_groups):
        held = file.metadata.row_group(group)
        chunk = next(each for at in range(held.num_columns) if (each := held.column(at)).path_in_schema == column)
        if chunk.statistics is not None and chunk.statistics.has_min_max:
            yield from (chunk.statistics.min, chunk.statistics.max)
        elif chunk.num_values:
            yield from filter(None, pc.min_max(file.read_row_group(group, [column]).column(0)).as_py().values())


def _batches(
    store: Store, name: str, schema: TopicSchema, columns: pa.Schema, rounded: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    folders = ds.partitioning(schema.partition_columns, flavor="hive")
    values = ds.get_partition_keys(folders.parse(name.partition("/")[2]))
    with store.open_input(name) as source:
        for batch in pq.ParquetFile(source).iter_batches():
            rows = conform(renamed_rows(pa.Table.from_batches([batch]), schema.columns), schema.columns, rounded)
            for each in schema.partition_columns:
                rows = rows.append_column(each, pa.array([values.get(each.name)] * rows.num_rows, each.type))
            yield from rows.cast(columns).to_batches()


def quoted(name: str) -> str:
    """A column's name as Spark takes it whole, dots and backticks too."""
    return f"`{name.replace('`', '``')}`"


def as_held(newest: pa.Schema, older: pa.Schema) -> pa.Schema:
    """The newest columns with the names and types of older files where those have them: what differs is left to a
    cast, which goes by the order of members.
    """
    return pa.schema(list(_held(pa.struct(list(newest)), pa.struct(list(older)))))


def _held(newest: pa.DataType, older: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(newest) and pa.types.is_struct(older):
        known = {field.name: field.type for field in older}
        members = []
        for field in newest:
            name = former_name(field, known)
            members.append((name, _held(field.type, known[name]) if name in known else field.type))
        return pa.struct(members)
    if pa.types.is_list(newest) and pa.types.is_list(older):
        return pa.list_(_held(newest.value_type, older.value_type))
    if pa.types.is_map(newest) and pa.types.is_map(older):
        return pa.map_(newest.key_type, _held(newest.item_type, older.item_type))
    return older


def former_name(field: pa.Field, known: Container[str]) -> str:
    """The name that a column has in older files: its own, or one from before it was renamed."""
    return next((name for name in (field.name, *aliases(field)) if name in known), str(field.name))


def _by_version(schema: TopicSchema, names: list[str]) -> dict[int, list[str]]:
    """The files of each version of the columns: a file's name tells its round."""
    found: dict[int, list[str]] = {}
    for name in names:
        match = _FILE.fullmatch(name)
        if match is not None:
            version = max(place for place, (first, _) in enumerate(schema.versions) if first <= int(match[1]))
            found.setdefault(version, []).append(name)
    return found
