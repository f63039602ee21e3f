"""Sinks of ours beside those of others in Apache Kafka's worker, over our broker: into Iceberg, and into PostgreSQL.

Apache Iceberg's sink stands beside our lake sink, both with a table in a folder and a commit a second. Debezium's JDBC
sink stands beside ours, both with their defaults. Beside the JDBC source there is none: Confluent's and Aiven's are not
on Maven Central. The lines are left out where the jars are not at hand (`tools/setup.sh connectors-if-possible`).
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count as numbers
from pathlib import Path
from typing import Any

from tests.connect.postgres_server import PostgresServer, a_server, programs
from tests.ports import free_port

from bench.brokers import ROOT, family, process_cpu_seconds
from bench.lake_rig import proportional_mb
from bench.lines import Figures, Line
from bench.lines.connect import NAME, WITHIN_S, Scene, line, timed
from bench.rig import Rig
from ottla.client.blocking.cluster import Cluster
from ottla.records.builder import build_batch
from ottla.records.reader import Record

ICEBERG = Path(os.environ.get("OTTLA_CONNECT_ICEBERG_JARS") or ROOT / ".cache" / "connect-iceberg" / "libs")
DEBEZIUM = Path(os.environ.get("OTTLA_CONNECT_JDBC_JARS") or ROOT / ".cache" / "connect-jdbc" / "libs")
LAKE_RECORDS = 2_000_000
ROWS = 200_000
WARM = 20_000
"""Records that are in the table before the clock begins."""
PARTITIONS = 4
TASKS = 2
"""Tasks of Iceberg's sink: one for each core of the machine. Ours has one, and processes beside it."""
BATCH = 2_000
TIME_MS = 1_700_000_000_000
LOOK_S = 0.05
TEXT = "x" * 120
JSON = "org.apache.kafka.connect.json.JsonConverter"
FIELDS = (("id", "int64"), ("shop", "string"), ("price", "double"), ("text", "string"))
SCHEMA = {
    "type": "struct",
    "fields": [{"field": name, "type": kind, "optional": name != "id"} for name, kind in FIELDS],
}

_servers: list[PostgresServer] = []


def row(number: int) -> dict[str, object]:
    return {"id": number, "shop": f"shop {number % 100}", "price": number % 1000 / 4, "text": TEXT}


def batch_of(begin: int, value: Callable[[int], object]) -> bytes:
    """`BATCH` records of JSON."""
    values = [json.dumps(value(each)).encode() for each in range(begin, begin + BATCH)]
    return build_batch([Record(0, TIME_MS + begin, None, each) for each in values])


def into_iceberg(rig: Rig, contestant: str) -> Figures:
    """Records of JSON into a table: from the moment in which a worker with a table is let go on, to the last row."""
    count, port = rig.sized(LAKE_RECORDS), free_port()
    with ExitStack() as stack:
        topic, control = (stack.enter_context(rig.topic("ottla", each)) for each in (PARTITIONS, 1))
        scene = stack.enter_context(Scene(rig))
        cluster = stack.enter_context(Cluster(rig.broker("ottla").address))
        batches = [batch_of(begin, row) for begin in range(0, WARM, BATCH)]
        for number, each in enumerate(batches):
            cluster.produce(topic, number % PARTITIONS, each)
        table = Table(scene.folder / "lake")
        connector = LAKES[contestant](scene.folder, topic) | (
            {"iceberg.control.topic": control, "iceberg.kafka.bootstrap.servers": rig.broker("ottla").address}
            if contestant == "kafka" else {}
        )  # fmt: skip
        process = stack.enter_context(scene.worker(contestant, connector, [ICEBERG], port))
        until(process, lambda: table.rows() >= WARM)
        ask(port, "PUT", "/pause")
        until(process, lambda: all(each["state"] == "PAUSED" for each in ask(port, "GET", "/status")["tasks"]))
        for number in range(count // BATCH):
            cluster.produce(topic, number % PARTITIONS, batches[number % len(batches)])
        with Use(process.pid) as use:
            began = time.monotonic()
            ask(port, "PUT", "/resume")
            until(process, lambda: use.looked() and table.rows() >= WARM + count)
            seconds = time.monotonic() - began
        return {
            "records_per_second": count / seconds,
            "records_per_cpu_second": count / use.cpu_seconds,
            "peak_mb": use.peak_mb,
        }


LAKES: dict[str, Callable[[Path, str], dict[str, object]]] = {
    "ottla": lambda folder, topic: {
        "connector.class": "LakeSink", "topics": topic, "to": folder / "lake", "every": "1s", "json": "true",
        "format": "iceberg", "catalog": f"sqlite:///{folder}/catalog.db", "partition.by": "none",
    },
    "kafka": lambda folder, topic: {
        "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector", "topics": topic, "tasks.max": TASKS,
        "iceberg.tables": "race.rows", "iceberg.tables.auto-create-enabled": "true",
        "iceberg.catalog.type": "hadoop", "iceberg.catalog.warehouse": folder / "lake",
        "iceberg.control.commit.interval-ms": 1000, "value.converter": JSON,
        "value.converter.schemas.enable": "false",
    },
}  # fmt: skip


class Table:
    """The one Iceberg table below a folder, by its metadata."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: Path | None = None
        self._rows = 0

    def rows(self) -> int:
        """The number of rows that the newest snapshot has."""
        found = sorted(self._folder.glob("**/metadata/*.metadata.json"), key=lambda each: each.stat().st_mtime_ns)
        if found and found[-1] != self._read:
            with suppress(ValueError):  # it is being written
                about = json.loads(found[-1].read_text())
                snapshots = {each["snapshot-id"]: each["summary"] for each in about.get("snapshots", ())}
                self._rows = int(snapshots.get(about.get("current-snapshot-id"), {}).get("total-records", 0))
                self._read = found[-1]
        return self._rows


class Use:
    """The processor time and the most memory of a process and those beside it."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.cpu_seconds = self.peak_mb = 0.0

    def __enter__(self) -> Use:
        self._began = self._cpu()
        return self

    def __exit__(self, *_: object) -> None:
        self.cpu_seconds = self._cpu() - self._began

    def looked(self) -> bool:
        """Take a sample of the memory, in which pages that processes share count once; then True."""
        total = 0.0
        for each in family(self._pid):
            with suppress(OSError):
                total += proportional_mb(each)
        self.peak_mb = max(self.peak_mb, total)
        return True

    def _cpu(self) -> float:
        used = 0.0
        for each in family(self._pid):
            with suppress(OSError):
                used += process_cpu_seconds(each)
        return used


def until(process: subprocess.Popen[bytes], true: Callable[[], object]) -> None:
    end = time.monotonic() + WITHIN_S
    while not true():
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"the worker makes no progress; its exit status: {process.returncode}")
        time.sleep(LOOK_S)


def ask(port: int, method: str, path: str) -> Any:
    """One call about the connector to the worker's REST interface."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/connectors/{NAME}{path}", method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        content = answer.read()
    return json.loads(content) if content else None


def into_rows(rig: Rig, contestant: str) -> Figures:
    """Records with their schema into a new table."""
    count = rig.sized(ROWS)
    with ExitStack() as stack:
        topic = stack.enter_context(rig.topic("ottla"))
        scene = stack.enter_context(Scene(rig))
        cluster = stack.enter_context(Cluster(rig.broker("ottla").address))
        for begin in range(0, count, BATCH):
            cluster.produce(topic, 0, batch_of(begin, lambda number: {"schema": SCHEMA, "payload": row(number)}))
        last_id = stack.enter_context(rows_of(table := f"rows_{next(_tables)}"))
        connector = SINKS[contestant](table) | {"topics": topic, "value.converter": JSON}
        process = stack.enter_context(scene.worker(contestant, connector, [DEBEZIUM]))
        return timed(process, lambda: last_id() + 1, count)


_tables = numbers()


@contextmanager
def rows_of(table: str) -> Iterator[Callable[[], int]]:
    """The highest id in a table, -1 where there is none; the table is dropped afterwards."""
    import psycopg

    def last_id() -> int:
        if session.execute("SELECT to_regclass(%s)", [table]).fetchone() == (None,):
            return -1
        found = session.execute(f"SELECT coalesce(max(id), -1) FROM {table}").fetchone()
        assert found is not None
        return int(found[0])

    with psycopg.connect(**server().database(), autocommit=True) as session:
        yield last_id
        session.execute(f"DROP TABLE IF EXISTS {table}")


def server() -> PostgresServer:
    """A PostgreSQL server, made at the first call."""
    if not _servers:
        held = ExitStack()
        atexit.register(held.close)
        _servers.append(held.enter_context(a_server()))
    return _servers[0]


SINKS: dict[str, Callable[[str], dict[str, object]]] = {
    "ottla": lambda table: {
        "connector.class": "JdbcSink", "connection.url": f"jdbc:postgresql://127.0.0.1:{server().port}/postgres",
        "connection.user": "ottla", "table.name.format": table, "auto.create": "true", "pk.mode": "record_value",
        "pk.fields": "id",
    },
    "kafka": lambda table: {
        "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
        "connection.url": f"jdbc:postgresql://127.0.0.1:{server().port}/postgres", "connection.username": "ottla",
        "connection.password": "none", "collection.name.format": table, "schema.evolution": "basic",
        "primary.key.mode": "record_value", "primary.key.fields": "id",
    },
}  # fmt: skip
LINES: list[Line] = [
    *([line("iceberg", "connect: JSON into an Iceberg table, beside Iceberg's sink", into_iceberg, 4.0, None)]
      if ICEBERG.exists() else []),
    *([line("jdbc-sink", "connect: records into PostgreSQL, beside Debezium's sink", into_rows, 1.0)]
      if DEBEZIUM.exists() and programs() is not None else []),
]  # fmt: skip
