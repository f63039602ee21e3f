"""Connectors whose work Spark's own workers do."""

import asyncio
import json
import sqlite3

import pytest

from ottla.client import Admin
from ottla.connect.standalone import Standalone
from ottla.testing import TestBroker

STRING = "org.apache.kafka.connect.storage.StringConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"
ROWS = 40


@pytest.mark.slow
def test_a_table_is_read_into_a_topic_and_the_topic_written_to_files_by_sparks_workers(spark, tmp_path):
    with sqlite3.connect(tmp_path / "db") as database:
        database.execute("CREATE TABLE birds (id INTEGER PRIMARY KEY, v TEXT)")
        database.executemany("INSERT INTO birds VALUES (?, ?)", [(each, f"v{each}") for each in range(ROWS)])
    plain = {"value.converter": JSON, "value.converter.schemas.enable": "false", "ottla.runner": "spark"}
    source = {
        "name": "in", "connector.class": "JdbcSource", "connection.url": f"jdbc:sqlite:{tmp_path}/db", "mode": "bulk",
        "topic.prefix": "db-", "poll.interval.ms": "3600000", **plain,
    }  # fmt: skip
    sink = {
        "name": "out", "connector.class": "HdfsSink", "store.url": f"file://{tmp_path}/out", "topics": "db-birds",
        "flush.size": "10", "format.class": "JsonFormat", "transforms": "name",
        "transforms.name.type": "InsertField$Value", "transforms.name.static.field": "from",
        "transforms.name.static.value": "here", **plain,
    }  # fmt: skip

    def written():
        texts = [each.read_text() for each in (tmp_path / "out").rglob("*.json")]
        return [json.loads(line) for text in texts for line in text.splitlines()]

    async def story(broker):
        worker = {
            "bootstrap.servers": broker.bootstrap_servers, "key.converter": STRING, "value.converter": STRING,
            "offset.storage.file.filename": str(tmp_path / "offsets"), "offset.flush.interval.ms": "100",
        }  # fmt: skip
        standalone = Standalone(worker, [source, sink])
        running = asyncio.create_task(standalone.run())
        while len(written()) < ROWS:
            assert not running.done(), [task.status for task in standalone.tasks]
            await asyncio.sleep(0.05)
        standalone.stop()
        return await running

    with TestBroker() as broker:
        assert asyncio.run(story(broker)) == 0
        with Admin(broker.bootstrap_servers) as admin:
            assert [each.offset for each in admin.committed_offsets("connect-out").values()] == [ROWS]
    found = sorted(written(), key=lambda row: row["id"])
    assert found == [{"id": each, "v": f"v{each}", "from": "here"} for each in range(ROWS)]
    assert spark.sparkContext.parallelize([1]).count() == 1  # the session of the program stays
