"""The places of a campaign's lakes: their stores, the faults of the stores, and other people's readers."""

from __future__ import annotations

import contextlib
import io
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pyarrow as pa
from tests.lake.campaign.processes import until
from tests.lake.fault_proxy import CUT, CUT_ANSWER, LOSE, STATUS, FaultProxy
from tests.lake.store_rigs import BUCKET, MiniHdfs, MotoServer, hdfs_jars

if TYPE_CHECKING:
    from hdfs_native import FileStatus

S3_FAULTS = (
    ("PUT", STATUS, 503),
    ("PUT", STATUS, 500),
    ("PUT", LOSE, 0),
    ("PUT", CUT, 0),
    ("POST", LOSE, 0),
    ("GET", STATUS, 503),
    ("GET", CUT_ANSWER, 0),
    ("GET", LOSE, 0),
)
FAULT_S, LONGEST_PAUSE_S = 4.0, 7.0
"""A pause may be longer than a lease."""


class Place:
    """One format on one store; each kind of values has a lake of its own there."""

    name = ""
    format = "parquet"
    stores_fail = True

    def __init__(self, folder: Path) -> None:
        self.folder = folder / self.name
        self.folder.mkdir(parents=True)

    def url(self, kind: str) -> str:
        """The URL of the lake for a kind of values."""
        raise NotImplementedError

    def options(self, kind: str) -> list[str]:
        """The loader's options for the format."""
        return ["--format", self.format]

    def environment(self) -> dict[str, str]:
        """Environment variables that lead to the store through the proxy with its faults."""
        return {}

    def straight(self) -> dict[str, str]:
        """Environment variables that lead to the store directly, without faults."""
        return self.environment()

    def ail(self, chance: random.Random) -> str:
        """Let the store fail for a while; return a description of the fault."""
        raise NotImplementedError

    def batches(self, kind: str, topic: str) -> Iterable[pa.RecordBatch]:
        """All visible rows of a topic."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop the store."""


class PlainFiles(Place):
    """Plain Parquet; a watcher looks at its files meanwhile."""

    def visible(self, kind: str) -> list[str]:
        """The files that a reader reads: names that begin with an underscore or a dot are skipped."""
        return [name for name in self.names(kind) if not any(part[0] in "_." for part in name.split("/"))]

    def names(self, kind: str) -> list[str]:
        """All files of a lake, relative to it."""
        raise NotImplementedError

    def content(self, kind: str, name: str) -> bytes:
        """One whole file."""
        raise NotImplementedError

    def batches(self, kind: str, topic: str) -> Iterator[pa.RecordBatch]:
        import duckdb

        prefix = f"topic={quote(topic)}/"
        files = [self._local(kind, name) for name in self.visible(kind) if name.startswith(prefix)]
        if files:
            asked = duckdb.sql(f"SELECT * FROM read_parquet({files!r}, union_by_name=true, hive_partitioning=false)")
            yield from asked.to_arrow_reader(50_000)

    def _local(self, kind: str, name: str) -> str:
        """A path at which duckdb finds a file."""
        copy = self.folder / "copies" / kind / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(self.content(kind, name))
        return str(copy)


class ParquetLocal(PlainFiles):
    name = "parquet-local"
    stores_fail = False

    def url(self, kind: str) -> str:
        return (self.folder / kind).as_uri()

    def names(self, kind: str) -> list[str]:
        lake = self.folder / kind
        return [str(path.relative_to(lake)) for path in lake.rglob("*") if path.is_file()]

    def content(self, kind: str, name: str) -> bytes:
        return (self.folder / kind / name).read_bytes()

    def _local(self, kind: str, name: str) -> str:
        return str(self.folder / kind / name)


class ParquetHdfs(PlainFiles):
    name = "parquet-hdfs"

    def __init__(self, folder: Path) -> None:
        from hdfs_native import Client

        super().__init__(folder)
        libs = hdfs_jars()
        assert libs is not None, "no HDFS here: tools/setup.sh hdfs-if-possible fetches its jars"
        self._hdfs = MiniHdfs(libs, self.folder)
        self._client = Client(self._hdfs.url)

    def url(self, kind: str) -> str:
        return f"{self._hdfs.url}/lakes/{kind}"

    def ail(self, chance: random.Random) -> str:
        return paused(self._hdfs.process, chance)

    def names(self, kind: str) -> list[str]:
        lake = f"/lakes/{kind}"
        return [each.path.partition(f"{lake}/")[2] for each in self._listed(lake) if not each.isdir]

    def _listed(self, folder: str) -> list[FileStatus]:
        """All below a folder; listed anew where a folder below it went meanwhile, as those of a loader do."""
        while True:
            try:
                return list(self._client.list_status(folder, True))
            except FileNotFoundError:
                try:
                    self._client.get_file_info(folder)
                except FileNotFoundError:
                    return []

    def content(self, kind: str, name: str) -> bytes:
        with self._client.read(f"/lakes/{kind}/{name}") as file:
            return bytes(file.read())

    def close(self) -> None:
        self._hdfs.stop()


class OnS3(Place):
    """A bucket behind a proxy that makes network faults."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._moto = MotoServer(self.folder)
        self._proxy = FaultProxy(self._moto.port)

    def url(self, kind: str) -> str:
        return f"s3://{BUCKET}/{self.name}/{kind}"

    def environment(self) -> dict[str, str]:
        return self._moto.environment(self._proxy.url)

    def straight(self) -> dict[str, str]:
        return self._moto.environment()

    def ail(self, chance: random.Random) -> str:
        if chance.random() < 0.3:
            return paused(self._moto.process, chance)
        method, action, status = chance.choice(S3_FAULTS)
        times = chance.randint(1, 12)
        deadline = time.monotonic() + FAULT_S
        with (
            contextlib.suppress(AssertionError),
            self._proxy.rule(method, "", action, times=times, status=status) as rule,
        ):
            until(lambda: not rule.times or time.monotonic() > deadline, "the end of a fault")
        return f"{method}: {action if status == 0 else status}, {times - rule.times} times"

    def close(self) -> None:
        self._proxy.stop()
        self._moto.stop()


class DeltaS3(OnS3):
    name = "delta-s3"
    format = "delta"

    def batches(self, kind: str, topic: str) -> Iterator[pa.RecordBatch]:
        import polars

        options = {**self.straight(), "AWS_ALLOW_HTTP": "true"}
        rows = polars.read_delta(f"{self.url(kind)}/{topic}", storage_options=options)
        yield from rows.to_arrow().to_batches(50_000)


class IcebergS3(OnS3):
    name = "iceberg-s3"
    format = "iceberg"

    def options(self, kind: str) -> list[str]:
        return [*super().options(kind), "--catalog", self._catalog(kind)]

    def batches(self, kind: str, topic: str) -> Iterable[pa.RecordBatch]:
        from pyiceberg.catalog import load_catalog

        there: Mapping[str, str] = self.straight()
        catalog = load_catalog(
            "ottla", uri=self._catalog(kind), warehouse=self.url(kind),
            **{
                "s3.endpoint": there["AWS_ENDPOINT_URL"],
                "s3.access-key-id": there["AWS_ACCESS_KEY_ID"],
                "s3.secret-access-key": there["AWS_SECRET_ACCESS_KEY"],
                "s3.region": there["AWS_REGION"],
            },
        )  # fmt: skip
        return catalog.load_table(("ottla", topic)).scan().to_arrow_batch_reader()

    def _catalog(self, kind: str) -> str:
        return f"sqlite:///{self.folder}/{kind}.db"


PLACES: dict[str, type[Place]] = {each.name: each for each in (DeltaS3, IcebergS3, ParquetHdfs, ParquetLocal)}


def paused(process: subprocess.Popen[bytes], chance: random.Random) -> str:
    """Stop a store's process for a while."""
    seconds = chance.uniform(0.5, LONGEST_PAUSE_S)
    os.kill(process.pid, signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        os.kill(process.pid, signal.SIGCONT)
    return f"stood still for {seconds:.1f} s"


def parquet_offsets(content: bytes) -> dict[int, list[int]]:
    """Kafka partition -> offsets of the rows of a file."""
    import pyarrow.parquet as pq

    rows = pq.read_table(io.BytesIO(content), columns=["partition", "offset"]).to_pydict()
    found: dict[int, list[int]] = {}
    for partition, offset in zip(rows["partition"], rows["offset"], strict=True):
        found.setdefault(partition, []).append(offset)
    return found
