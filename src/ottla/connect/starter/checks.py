"""The kit drives both connectors through restarts, crashes, rebalances, bad records and a failing other side."""

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from ottla.connect.plugins.known import connector
from ottla.connect.records import SinkRecord
from ottla.connect.starter.sink import StarterSinkConnector
from ottla.connect.starter.source import StarterSourceConnector
from ottla.connect.testing import OtherSide, check_sink, check_source, sink_records


def files() -> OtherSide:
    """A directory with two files; its trouble is that it is gone for a while."""
    directory = Path(tempfile.mkdtemp()) / "in"
    directory.mkdir()
    (directory / "a.txt").write_bytes(b"one\ntwo\n\xff\n")
    (directory / "b.txt").write_bytes(b"three\nfour\nnot yet whole")

    @contextmanager
    def gone() -> Iterator[None]:
        away = directory.rename(directory.with_name("away"))
        yield
        away.rename(directory)

    return OtherSide({"directory": str(directory), "topic": "lines", "poll.interval.ms": "1"}, trouble=gone)


def database() -> OtherSide:
    """A new database; its trouble is that a directory stands in its place."""
    path = Path(tempfile.mkdtemp()) / "out.db"

    def written() -> list[str]:
        with closing(sqlite3.connect(path)) as connection:
            tables = connection.execute("SELECT name FROM sqlite_master WHERE name = 'records'").fetchall()
            return [value for (value,) in connection.execute("SELECT value FROM records")] if tables else []

    @contextmanager
    def locked() -> Iterator[None]:
        path.mkdir()
        yield
        path.rmdir()

    return OtherSide({"database": str(path)}, written, trouble=locked)


def test_the_source_gives_each_line_once_wherever_it_is_begun_again() -> None:
    records = check_source(StarterSourceConnector, files, records=5, poison=1)
    assert sorted(each.value for each in records if each.fault is None) == ["four", "one", "three", "two"]


def test_the_sink_writes_each_record_once_wherever_it_is_ended() -> None:
    poison = SinkRecord("t", 0, value=b"\x00", offset=2)
    check_sink(StarterSinkConnector, database, sink_records(["a", "b", "c", "d"]), poison=poison, exactly_once=True)


def test_workers_find_both_by_the_entry_points() -> None:
    assert connector("StarterSource") is StarterSourceConnector
    assert connector("StarterSink") is StarterSinkConnector
