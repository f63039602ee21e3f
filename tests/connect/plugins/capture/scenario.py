"""One database and its changes, read by connectors of six configurations; Debezium's events of it are recorded.

`make debezium-events` records them anew: it runs Debezium's own connector on a stock worker beside ours.
"""

import asyncio
import gzip
import json
import re
import time
from pathlib import Path

import psycopg

from ottla.connect.converters.json import JsonConverter
from ottla.connect.plugins.capture.postgres import PostgresConnector
from ottla.connect.records import PassedPlace

HERE = Path(__file__).parent
RECORDED = HERE / "debezium.json.gz"
COMMON = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector", "plugin.name": "pgoutput",
    "table.include.list": r"inv\..*,public\.plain", "publication.name": "pub_all",
}  # fmt: skip
RUNS = {
    "a": {},
    "b": {
        "decimal.handling.mode": "string", "time.precision.mode": "adaptive_time_microseconds",
        "interval.handling.mode": "string", "binary.handling.mode": "base64", "include.unknown.datatypes": "true",
        "tombstones.on.delete": "false", "skipped.operations": "none", "publication.autocreate.mode": "filtered",
        "publication.name": "pub_filtered",
    },
    "c": {
        "decimal.handling.mode": "double", "time.precision.mode": "connect", "binary.handling.mode": "hex",
        "hstore.handling.mode": "map", "message.key.columns": "inv.nokey:a;inv.full_id:v",
        "column.exclude.list": "inv.two_keys.v", "provide.transaction.metadata": "true",
        "column.mask.with.5.chars": "inv.full_id.big", "column.truncate.to.3.chars": "inv.kinds.t",
        "unavailable.value.placeholder": "__x", "schema.name.adjustment.mode": "avro",
    },
    "d": {
        "time.precision.mode": "isostring", "snapshot.mode": "no_data", "money.fraction.digits": "0",
        "binary.handling.mode": "base64-url-safe",
    },
    "e": {
        "time.precision.mode": "microseconds", "unavailable.value.placeholder": "hex:5f5f",
        "column.mask.hash.v2.SHA-256.with.salt.abc": "inv.two_keys.v",
    },
    "f": {"time.precision.mode": "nanoseconds", "table.include.list": "public.plain,inv.kinds"},
}  # fmt: skip


def config_of(run, database):
    """The configuration of a run for a database, by its keywords of psycopg."""
    return {
        "name": run, **COMMON, "topic.prefix": f"p{run}", "slot.name": f"s_{run}", "database.password": "x",
        "database.hostname": database["host"], "database.port": str(database["port"]),
        "database.user": database["user"], "database.dbname": database["dbname"], **RUNS[run],
    }  # fmt: skip


def ask(database, *statements):
    """The rows of the last of several statements, each a transaction of its own."""
    with psycopg.connect(**database, autocommit=True) as connection:
        for each in statements:
            cursor = connection.execute(each)
        return cursor.fetchall() if cursor.description else []


def drop_slots(database):
    """Drop the database's slots, once the sessions that read them have ended: the server may learn of that later."""
    slots = "FROM pg_replication_slots WHERE database = current_database()"
    while ask(database, f"SELECT 1 {slots} AND active"):
        time.sleep(0.05)
    ask(database, f"SELECT pg_drop_replication_slot(slot_name) {slots}")


def run_file(database, name):
    """Run the statements of a file; each ends with its line, and is a transaction of its own."""
    ask(database, *re.findall(r".+?;\n", (HERE / name).read_text(), re.DOTALL))


class Kept:
    """The offsets of a connector, as a worker reads them."""

    def __init__(self, *offsets):
        self.offsets = list(offsets)

    async def read(self, partitions):
        return [self.offsets[-1] if self.offsets else None for _ in partitions]


def task_of(config):
    """A task of a connector, through the contract."""
    (one,) = PostgresConnector.tasks(config, 1)
    return PostgresConnector.task(one)


async def events_of_ours(database, runs=RUNS, changes=lambda database: run_file(database, "after.sql")):
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
        await asyncio.to_thread(changes, database)
        for run, task in tasks.items():
            records = await asyncio.wait_for(reading[run], 60)
            keep_events(found, records)
            while not any(_is_last(each) for each in records):
                records = await asyncio.wait_for(task.read(), 60)
                keep_events(found, records)
    finally:
        for task in tasks.values():
            await task.close()
    return found


def _is_last(record):
    """True for the last change of the scenario."""
    return record.topic.endswith("public.plain") and record.value is not None and record.value.get("op") == "u"


def keep_events(found, records):
    """Add records to events by topic, in the form of the recording."""
    converter = JsonConverter({"schemas.enable": "true", "converter.type": "value"})
    for each in records:
        if not isinstance(each, PassedPlace):
            key = converter.from_connect(each.topic, each.key_schema, each.key)
            value = converter.from_connect(each.topic, each.value_schema, each.value)
            event = (_read(key), _read(value), [header.key for header in each.headers])
            found.setdefault(each.topic, []).append(event)


def _read(text):
    return None if text is None else json.loads(text)


def recorded(file=RECORDED):
    """Debezium's events by topic: key, value, names of headers."""
    schemas, events = json.loads(gzip.decompress(file.read_bytes()))
    found = {}

    def whole(part):
        return None if part is None else {"schema": schemas[part[0]], "payload": part[1]}

    for topic, key, value, headers in events:
        found.setdefault(topic, []).append((whole(key), whole(value), headers))
    return found


def keep_recording(events, file=RECORDED):
    """Write the recording: schemas once each."""
    schemas, rows = [], []

    def place(part):
        if part is None:
            return None
        if part["schema"] not in schemas:
            schemas.append(part["schema"])
        return [schemas.index(part["schema"]), part["payload"]]

    for topic, found in sorted(events.items()):
        rows += [[topic, place(key), place(value), headers] for key, value, headers in found]
    file.write_bytes(gzip.compress(json.dumps([schemas, rows]).encode(), mtime=0))


def differences(theirs, ours, *, same_log=False):
    """Pairs of a place in an event and both sides there; what the log numbers counts if both read the same log."""
    for topic in sorted({*theirs, *ours}):
        left, right = theirs.get(topic, []), ours.get(topic, [])
        if len(left) != len(right):
            yield f"{topic} events", len(left), len(right)
        for one, other in zip(left, right, strict=False):
            for name, a, b in (("key", one[0], other[0]), ("value", one[1], other[1])):
                for place, x, y in _unlike(_plain(a, same_log), _plain(b, same_log), name):
                    yield f"{topic} {place}", x, y
            if one[2] != other[2]:
                yield f"{topic} headers", one[2], other[2]


def _plain(part, same_log):
    """An event's part without what another run has otherwise: times, and numbers of the log."""
    part = json.loads(json.dumps(part))
    payload = part and part["payload"]
    if isinstance(payload, dict) and part["schema"].get("name", "").startswith("io.debezium.connector.common.Trans"):
        payload["id"] = payload["ts_ms"] = None
    if isinstance(payload, dict) and "source" in payload:
        payload["source"].pop("version")
        for name in ("ts_ms", "ts_us", "ts_ns"):
            payload.pop(name, None)
        snapshot = payload["source"]["snapshot"] != "false"
        if not same_log or snapshot or payload["op"] == "m":
            for name in ("ts_ms", "ts_us", "ts_ns", "lsn", "txId", "sequence", "gtid", "file", "pos"):
                payload["source"].pop(name, None)
        if payload["transaction"] is not None and not same_log:
            payload["transaction"]["id"] = None
    return part


def _unlike(a, b, place):
    if isinstance(a, dict) and isinstance(b, dict):
        for name in sorted({*a, *b}):
            yield from _unlike(a.get(name, "absent"), b.get(name, "absent"), f"{place}.{name}")
    elif _fields(a) and _fields(b):
        if [each["field"] for each in a if each in b] != [each["field"] for each in b if each in a]:
            yield f"{place} order", a, b
        yield from _unlike({each["field"]: each for each in a}, {each["field"]: each for each in b}, place)
    elif a != b:
        yield place, a, b


def _fields(part):
    return isinstance(part, list) and bool(part) and all(isinstance(each, dict) and "field" in each for each in part)
