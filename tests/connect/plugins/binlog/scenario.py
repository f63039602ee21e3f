"""One database of MariaDB and its changes, read by connectors of six configurations; Debezium's events are recorded.

`make debezium-events-mariadb` records them anew: it runs Debezium's own connector on a stock worker.
"""

import asyncio
import re
from pathlib import Path

import pymysql
from tests.connect.plugins.capture.scenario import Kept, keep_events

from ottla.connect.plugins.binlog.source import MariaDbConnector

HERE = Path(__file__).parent
RECORDED = HERE / "debezium.json.gz"
COMMON = {
    "connector.class": "io.debezium.connector.mariadb.MariaDbConnector", "database.include.list": "inv",
    "table.exclude.list": r"inv\.hidden",
}  # fmt: skip
RUNS = {
    "a": {},
    "b": {
        "decimal.handling.mode": "string", "bigint.unsigned.handling.mode": "precise",
        "binary.handling.mode": "base64", "tombstones.on.delete": "false", "skipped.operations": "none",
    },
    "c": {
        "decimal.handling.mode": "double", "time.precision.mode": "connect", "binary.handling.mode": "hex",
        "message.key.columns": "inv.nokey:a;inv.unique_only:id", "column.exclude.list": "inv.two_keys.v",
        "provide.transaction.metadata": "true", "column.mask.with.5.chars": "inv.kinds.vc",
        "column.truncate.to.3.chars": "inv.kinds.t", "schema.name.adjustment.mode": "avro",
    },
    "d": {"time.precision.mode": "isostring", "snapshot.mode": "no_data"},
    "e": {"time.precision.mode": "microseconds", "include.query": "true", "table.exclude.list": "",
          "table.include.list": "inv.kinds,inv.plain"},
    "f": {"time.precision.mode": "nanoseconds", "table.exclude.list": "", "table.include.list": "inv.kinds,inv.plain"},
}  # fmt: skip


def config_of(run, database):
    """The configuration of a run for a server, by its keywords of PyMySQL."""
    found = {
        "name": run, **COMMON, "topic.prefix": f"p{run}", "database.hostname": database["host"],
        "database.port": str(database["port"]), "database.user": database["user"], "database.password": "",
        "database.server.id": str(100 + ord(run)), **RUNS[run],
    }  # fmt: skip
    return {name: value for name, value in found.items() if value or name == "database.password"}


def run_file(database, name):
    """Run the statements of a file, one after the other."""
    connection = pymysql.connect(**database, autocommit=True)
    try:
        with connection.cursor() as cursor:
            for line in re.findall(r".+?;\n", (HERE / name).read_text(), re.DOTALL):
                for each in re.split(r"; (?=[A-Z])", line.strip().rstrip(";")):
                    cursor.execute(each)
    finally:
        connection.close()


def task_of(config):
    """A task of a connector, through the contract."""
    (one,) = MariaDbConnector.tasks(config, 1)
    return MariaDbConnector.task(one)


async def events_of_ours(database, runs=RUNS):
    """The events of our connector in all runs, by topic, in the form of the recording."""
    tasks = {run: task_of(config_of(run, database)) for run in runs}
    found = {}
    try:
        for task in tasks.values():
            await task.start(Kept())
            while task._snapshot is not None:
                records = await task.read()
                keep_events(found, records)
                if records[-1].source_offset.get("snapshot_completed"):
                    break
        reading = {run: asyncio.ensure_future(task.read()) for run, task in tasks.items()}
        await asyncio.to_thread(run_file, database, "after.sql")
        for run, task in tasks.items():
            records = await asyncio.wait_for(reading[run], 60)
            keep_events(found, records)
            seen = any(map(_is_last, records))
            while not seen or (run == "c" and found["pc.transaction"][-1][1]["payload"]["status"] != "END"):
                records = await asyncio.wait_for(task.read(), 60)
                keep_events(found, records)
                seen = seen or any(map(_is_last, records))
    finally:
        for task in tasks.values():
            await task.close()
    return found


def _is_last(record):
    """True for the last change of the scenario."""
    if not record.topic.endswith("inv.plain") or record.value is None:
        return False
    return record.value.get("op") == "u" and record.value.get("after").get("v") == "last"
