"""The readers that the guide names, of each format, and their values without the differences between readers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from datetime import UTC, datetime, time
from decimal import Decimal
from functools import cache
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from tests.lake.in_process import TOPIC, Load

from ottla import lake

FORMATS = ("parquet", "delta", "iceberg")
Readers = dict[str, Callable[[], pa.Table]]


def plain_readers(load: Load) -> Readers:
    files = f"{load.folder}/topic={TOPIC}"

    def dataset() -> ds.Dataset:
        schema: Any = lake.schema(load.folder, TOPIC)
        return ds.dataset(files, schema=schema)

    def rows() -> pa.Table:
        found: Any = lake.rows(load.folder, TOPIC)
        return found.read_all()

    return {
        "lake.rows": rows,
        "pyarrow": lambda: dataset().to_table(),
        "polars": lambda: pl.scan_pyarrow_dataset(dataset()).collect().to_arrow(),
        "duckdb": lambda: _of_duckdb(f"select * from read_parquet('{files}/**/*.parquet', union_by_name=true)"),
    }


def delta_readers(load: Load) -> Readers:
    place = f"{load.folder}/{TOPIC}"

    def dataset() -> ds.Dataset:
        return DeltaTable(place).to_pyarrow_dataset()

    return {
        "deltalake": lambda: dataset().to_table(),
        "polars": lambda: pl.scan_delta(place).collect().to_arrow(),
        "duckdb": lambda: _of_duckdb("select * from orders", orders=dataset()),
    }


def iceberg_readers(load: Load) -> Readers:
    table = load_catalog("ottla", type="sql", uri=load.catalog).load_table(("ottla", TOPIC))
    return {
        "pyiceberg": lambda: table.scan().to_arrow(),
        "polars": lambda: pl.DataFrame(table.scan().to_arrow()).to_arrow(),
        "duckdb": lambda: _of_duckdb("select * from orders", orders=table.scan().to_arrow()),
    }


READERS = {"parquet": plain_readers, "delta": delta_readers, "iceberg": iceberg_readers}


_database = cache(duckdb.connect)
"""One for all questions: its threads take longer to start than a question takes."""


def _of_duckdb(query: str, **tables: Any) -> pa.Table:
    connection: AbstractContextManager[Any] = closing(_database().cursor())
    with connection as database:
        for name, table in tables.items():
            database.register(name, table)
        return database.sql(query).to_arrow_table()


def seen(value: Any) -> Any:
    """A value without the differences between readers: a map's pairs, an empty map, a time's zone, nanoseconds."""
    if hasattr(value, "nanosecond"):
        return int(value.value)
    if isinstance(value, datetime):
        return value if value.tzinfo is None else value.astimezone(UTC)
    if isinstance(value, bool | float):
        return repr(value)
    if isinstance(value, Decimal):
        return value.normalize()
    if isinstance(value, dict):
        return {seen(key): seen(item) for key, item in value.items()} or []
    if isinstance(value, list):
        pairs = bool(value) and all(isinstance(each, tuple) for each in value)
        return {seen(key): seen(item) for key, item in value} if pairs else [seen(each) for each in value]
    return value


def as_held(value: Any, format: str) -> Any:
    """The value as a table has it: a time of day is microseconds since midnight in Delta."""
    if isinstance(value, time) and format == "delta":
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    if isinstance(value, list):
        return [as_held(each, format) for each in value]
    return {key: as_held(item, format) for key, item in value.items()} if isinstance(value, dict) else value


def columns_of(table: pa.Table, name: str = "v") -> list[Any]:
    """A column's values by offset."""
    values = _nanoseconds(table.sort_by("offset").column(name).combine_chunks()).to_pylist()
    return [seen(value) for value in values]


def _nanoseconds(array: pa.Array) -> pa.Array:
    """Times in nanoseconds as their numbers: pandas has no such time at the ends of 64 bits."""
    return array.cast(pa.int64()) if array.type in (pa.timestamp("ns"), pa.timestamp("ns", "UTC")) else array
