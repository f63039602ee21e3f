"""Lakes for the tests of tables: files as executors write them, rounds, and tables as others read them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq

from ottla.kernel.ids import NO_TOPIC_ID, TopicId
from ottla.lake.tables import LakeTable, TableFile, TableRound, open_table
from ottla.stores import local_path

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
BASE = pa.schema(
    [
        ("key", pa.binary()),
        ("id", pa.int64()),
        ("country", pa.string()),
        ("headers", HEADERS),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
    ]
)
FIRST_MS = int(datetime(2026, 3, 1, 10, 30, tzinfo=UTC).timestamp() * 1000)
Row = dict[str, Any]


def row(offset: int, *, partition: int = 0, **columns: Any) -> Row:
    """One record as it stands in a file."""
    stamp = columns.pop("ms", FIRST_MS + offset)
    values = {"key": f"k{offset}".encode(), "id": offset, "country": "de", "headers": [{"key": "h", "value": b"1"}]}
    moment = datetime.fromtimestamp(stamp / 1000, UTC)
    return values | columns | {"partition": partition, "offset": offset, "timestamp": moment}


@dataclass(frozen=True)
class Lake:
    """A lake's URL, a table format, and the catalog that Iceberg needs."""

    url: str
    format: str
    catalog: str = ""

    def table(self, topic: str = "orders", partition_by: tuple[str, ...] = ()) -> LakeTable:
        return open_table(self.url, self.format, topic, partition_by=partition_by, catalog=self.catalog)

    def files(self) -> tuple[pa_fs.FileSystem, str]:
        """The lake as a file system, and the path of its folder there."""
        if self.url.startswith("file://"):
            return pa_fs.LocalFileSystem(), str(local_path(self.url))
        s3 = pa_fs.S3FileSystem(endpoint_override=os.environ["AWS_ENDPOINT_URL"])
        return s3, self.url.removeprefix("s3://")

    def put(
        self,
        name: str,
        rows: Iterable[Row],
        schema: pa.Schema = BASE,
        partition: tuple[tuple[str, str | None], ...] = (),
    ) -> TableFile:
        """Write one data file, invisible until a table names it."""
        files, root = self.files()
        path = f"{root}/{name}"
        if isinstance(files, pa_fs.LocalFileSystem):
            files.create_dir(path.rpartition("/")[0])
        held = pa.Table.from_pylist(list(rows), schema=schema)
        with files.open_output_stream(path) as sink:
            pq.write_table(held, sink)
        return TableFile(name, held.num_rows, files.get_file_info(path).size, partition)

    def names(self) -> set[str]:
        """All files of the lake, relative to it."""
        files, root = self.files()
        found = files.get_file_info(pa_fs.FileSelector(root, recursive=True, allow_not_found=True))
        return {info.path.removeprefix(f"{root}/") for info in found if info.type == pa_fs.FileType.File}

    def frame(self, topic: str = "orders") -> pl.DataFrame:
        """The table as polars reads it."""
        if self.format == "delta":
            local = self.url.startswith("file://")
            place = local_path(self.url) if local else self.url
            return pl.scan_delta(f"{place}/{topic}", storage_options=self.reader_options()).collect()
        return pl.DataFrame(self.iceberg(topic).scan().to_arrow())

    def offsets(self, topic: str = "orders") -> list[tuple[int, int]]:
        """Partition and offset of every row that a reader sees, sorted."""
        return sorted(self.frame(topic).select("partition", "offset").rows())

    def reader_options(self) -> dict[str, str]:
        if self.url.startswith("file://"):
            return {}
        return {"AWS_ENDPOINT_URL": os.environ["AWS_ENDPOINT_URL"], "AWS_ALLOW_HTTP": "true"}

    def iceberg(self, topic: str = "orders") -> Any:
        """The table as pyiceberg opens it, with no code of ours except the catalog's properties."""
        from pyiceberg.catalog import load_catalog

        from ottla.lake.tables.iceberg_place import catalog_properties

        properties = catalog_properties(self.catalog, self.url)
        properties.pop("py-io-impl", None)
        return load_catalog("ottla", **properties).load_table(("ottla", topic))


def a_round(
    number: int,
    files: Iterable[TableFile] = (),
    *,
    loader: str = "L",
    topic: str = "orders",
    schema: pa.Schema = BASE,
    offsets: Mapping[int, int] | None = None,
    topic_id: TopicId = NO_TOPIC_ID,
) -> TableRound:
    """A round of `loader`; by default its offsets and rows grow by ten a round."""
    reached = {0: number * 10} if offsets is None else dict(offsets)
    return TableRound(loader, number, topic, schema, tuple(files), reached, reached, topic_id)


def ten_rows(lake: Lake, number: int, *, partition: int = 0, topic: str = "orders", tries: str = "") -> TableFile:
    """The file of a round: offsets (number - 1) * 10 to number * 10 of a partition."""
    rows = [row(offset, partition=partition) for offset in range((number - 1) * 10, number * 10)]
    return lake.put(f"{topic}/p{partition}-{number:05d}{tries}.parquet", rows)


def rows_of(rounds: int, partition: int = 0) -> list[tuple[int, int]]:
    return [(partition, offset) for offset in range(rounds * 10)]


def age(lake: Lake, name: str, seconds: float) -> None:
    """Make a local file look as if it had been written that long ago."""
    path = Path(local_path(lake.url)) / name
    then = time.time() - seconds
    os.utime(path, (then, then))


def append_as_somebody_else(lake: Lake, offset: int) -> None:
    """Commit with the library itself, which knows nothing of loaders."""
    rows = pa.Table.from_pylist([row(offset)], schema=BASE)
    if lake.format == "delta":
        from deltalake import write_deltalake

        write_deltalake(f"{lake.url}/orders", rows, mode="append")
    else:
        lake.iceberg().append(rows)
