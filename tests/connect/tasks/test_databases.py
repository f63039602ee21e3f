"""A standalone worker between two databases: a table becomes a topic, and the topic a table elsewhere."""

import asyncio
import json
import sqlite3

from ottla.connect.standalone import Standalone


def rows(path):
    with sqlite3.connect(path) as database:
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name='copy'").fetchall():
            return []
        return database.execute("SELECT id, v FROM copy ORDER BY id").fetchall()


def test_a_table_is_copied_and_a_second_run_copies_what_was_added(bootstrap, tmp_path, name):
    json_converter = "org.apache.kafka.connect.json.JsonConverter"
    worker = {
        "bootstrap.servers": bootstrap,
        "key.converter": json_converter,
        "value.converter": json_converter,
        "offset.storage.file.filename": str(tmp_path / "offsets"),
        "offset.flush.interval.ms": "50",
    }
    source = {
        "name": name, "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector", "mode": "incrementing",
        "connection.url": f"jdbc:sqlite:{tmp_path}/a", "topic.prefix": f"{name}-", "poll.interval.ms": "20",
    }  # fmt: skip
    sink = {
        "name": f"{name}-out", "connector.class": "JdbcSink", "connection.url": f"jdbc:sqlite:{tmp_path}/b",
        "topics": f"{name}-t", "table.name.format": "copy", "auto.create": "true", "insert.mode": "upsert",
        "pk.mode": "record_value", "pk.fields": "id",
    }  # fmt: skip

    async def run(count):
        standalone = Standalone(worker, [source, sink])
        running = asyncio.create_task(standalone.run())
        while len(rows(tmp_path / "b")) < count:
            assert not running.done(), running.result()
            await asyncio.sleep(0.02)
        standalone.stop()
        return await running

    with sqlite3.connect(tmp_path / "a") as database:
        database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)")
        database.execute("INSERT INTO t VALUES (1,'Grüße'),(2,NULL)")
    assert asyncio.run(run(2)) == 0
    with sqlite3.connect(tmp_path / "a") as database:
        database.execute("INSERT INTO t VALUES (3,'c')")
    assert asyncio.run(run(3)) == 0
    assert rows(tmp_path / "b") == [(1, "Grüße"), (2, None), (3, "c")]
    partition = {"protocol": "1", "table": "t"}
    assert json.loads((tmp_path / "offsets").read_text()) == [[[name, partition], {"incrementing": 3}]]
