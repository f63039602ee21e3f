"""The kit for plugins over the connectors that are shipped."""

import os
import shutil
import sqlite3
from collections import Counter
from contextlib import closing, contextmanager

import pytest
from tests.connect.plugins.http.web_service import serving_service

from ottla.connect import data
from ottla.connect.data import STRING, Struct
from ottla.connect.plugins.directory.source import DirectorySourceConnector
from ottla.connect.plugins.file_stream import FileStreamSinkConnector, FileStreamSourceConnector
from ottla.connect.plugins.http.sink import HttpSinkConnector
from ottla.connect.plugins.jdbc.sink import JdbcSinkConnector
from ottla.connect.plugins.jdbc.source import JdbcSourceConnector
from ottla.connect.records import SinkRecord
from ottla.connect.testing import OtherSide, check_sink, check_source, sink_records

LINES = sink_records(["a", "b", "c", "d"])


@pytest.fixture
def fresh(tmp_path):
    """The same directory, empty again."""

    def make():
        made = tmp_path / "side"
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir()
        return made

    return make


@pytest.fixture
def service():
    with serving_service() as made:
        yield made


def test_the_file_source_passes(fresh):
    def side():
        path = fresh() / "in"
        path.write_text("one\nzwei ü\nthree\n")
        return OtherSide({"file": str(path), "topic": "t"})

    check_source(FileStreamSourceConnector, side, records=3)


def test_the_directory_source_passes(fresh):
    def side():
        path = fresh()
        (path / "a.txt").write_bytes(b"one\n\xff\n")
        (path / "b.txt").write_text("three\n")
        for name in ("a.txt", "b.txt"):
            os.utime(path / name, (1, 1))  # a file with another time is another file
        return OtherSide({"input.directory": str(path), "topic": "t", "poll.interval.ms": "1"})

    check_source(DirectorySourceConnector, side, records=3, poison=1)


def test_the_jdbc_source_passes(fresh):
    def side():
        path = fresh() / "db"
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("CREATE TABLE birds (id INTEGER NOT NULL PRIMARY KEY, name TEXT)")
            connection.executemany("INSERT INTO birds VALUES (?, ?)", [(1, "a"), (2, "b"), (3, "c")])
        return OtherSide({
            "connection.url": f"jdbc:sqlite:{path}", "mode": "incrementing", "incrementing.column.name": "id",
            "table.whitelist": "birds", "topic.prefix": "t-", "poll.interval.ms": "1",
        })  # fmt: skip

    check_source(JdbcSourceConnector, side, records=3)


def test_the_file_sink_passes(fresh):
    def side():
        path = fresh() / "out"
        return OtherSide({"file": str(path)}, lambda: path.read_text().splitlines() if path.exists() else ())

    check_sink(FileStreamSinkConnector, side, LINES)


def test_the_jdbc_sink_passes_with_each_record_once(fresh):
    schema = data.struct([("name", STRING)])
    records = [each.with_value(schema, Struct(schema, [each.value])) for each in LINES]

    def side():
        path = fresh() / "db"

        def written():
            with closing(sqlite3.connect(path)) as connection:
                tables = connection.execute("SELECT name FROM sqlite_master WHERE name = 't'").fetchall()
                return [name for (name,) in connection.execute("SELECT name FROM t")] if tables else ()

        options = {"insert.mode": "upsert", "pk.mode": "kafka", "auto.create": "true"}
        return OtherSide({"connection.url": f"jdbc:sqlite:{path}", **options}, written)

    check_sink(JdbcSinkConnector, side, records, exactly_once=True, identity=lambda each: each.value.get("name"))


def test_the_http_sink_passes(service):
    def side():
        service.seen.clear()

        @contextmanager
        def away():
            service.answers = lambda body: (503, {})
            yield
            service.answers = lambda body: (400 if body == "bad" else 200, {})
            service.seen.clear()

        service.answers = lambda body: (400 if body == "bad" else 200, {})
        config = {"http.url": service.url, "retry.backoff.ms": "0", "max.retries": "1"}
        return OtherSide(config, lambda: list((Counter(service.bodies) - Counter(["bad"])).elements()), away)

    check_sink(HttpSinkConnector, side, LINES, poison=SinkRecord("t", 0, value="bad", offset=9))
