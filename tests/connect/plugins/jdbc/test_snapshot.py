"""Tables that are read in pieces before they are polled, through the contract of connectors."""

import asyncio
import json
from datetime import UTC, datetime

import pytest
from sqlalchemy import text
from tests.connect.plugins.jdbc.asking import Kept, ask, ids

from ottla.connect.plugins.jdbc import pieces
from ottla.connect.plugins.jdbc.database import engine_of
from ottla.connect.plugins.jdbc.source import JdbcSourceConnector
from ottla.connect.records import PassedPlace


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(pieces, "IDS", 10)


class Reading:
    """A task that has pieces read by tasks of this process."""

    def __init__(self, config, kept=()):
        config = {"topic.prefix": "db-", "poll.interval.ms": "1", **config}
        (own,) = JdbcSourceConnector.tasks(config, 1)
        self.task, self.kept = JdbcSourceConnector.task_after_pieces(own, self.read_pieces), Kept(kept)
        self.jobs, self.in_pieces = [], []
        self.before = lambda: None
        """Called while pieces are known and none was read."""

    async def __aenter__(self):
        await self.task.start(self.kept)
        return self

    async def __aexit__(self, *_):
        await self.task.close()

    async def read_pieces(self, configs):
        self.jobs.append(configs)
        self.before()
        for each in configs:
            piece = JdbcSourceConnector.task(each)
            await piece.start(Kept())
            while (records := await piece.read()) is not None:
                assert all(record.source_partition is None for record in records)
                self.in_pieces += records
            await piece.close()

    async def read(self):
        return await asyncio.wait_for(self.task.read(), 20)

    async def records(self, count):
        found = []
        while len(found) < count:
            found += await self.read()
        return found

    async def nothing(self):
        for poller in self.task._pollers:
            poller.due = 0
        for _ in range(5):
            for poller in self.task._pollers:
                assert await self.task._turn(poller) == []


TIMES = {
    "incrementing": {},
    "timestamp": {"timestamp.column.name": "at"},
    "timestamp+incrementing": {"timestamp.column.name": "at"},
}


def fill(url, table, numbers):
    kind = "DATETIME(3)" if "mariadb" in url else "TIMESTAMP"
    ask(url, f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, at {kind} NOT NULL)")
    add(url, table, numbers)


def add(url, table, numbers, year=2001):
    rows = ",".join(f"({number},'{year}-02-03 04:05:{abs(number) % 60:02}.500')" for number in numbers)
    ask(url, f"INSERT INTO {table} VALUES {rows}")


@pytest.mark.parametrize("mode", TIMES)
def test_a_table_is_read_in_pieces_up_to_its_last_row_and_polled_from_there(database, mode):
    fill(database, "t", range(-5, 30))
    config = {"connection.url": database, "mode": mode, **TIMES[mode]}

    async def story():
        async with Reading(config) as reading:
            # The rows that come meanwhile are behind the bound: pieces leave them, polls read them.
            reading.before = lambda: add(database, "t", range(30, 35), year=2002)
            (place,) = await reading.read()
            polled = await reading.records(5)
            await reading.nothing()
            return reading, place, polled

    reading, place, polled = asyncio.run(story())
    assert len(reading.jobs) == 1 and len(reading.jobs[0]) == 4
    assert sorted(ids(reading.in_pieces)) == list(range(-5, 30))
    assert ids(polled) == list(range(30, 35))
    assert isinstance(place, PassedPlace) and place.at_once
    assert place.source_partition == polled[0].source_partition
    last_ms = int(datetime(2001, 2, 3, 4, 5, 29, 500_000, UTC).timestamp() * 1000)
    time = {"timestamp": last_ms, "timestamp_nanos": 500_000_000}
    expected = {"incrementing": {"incrementing": 29}, "timestamp": time,
                "timestamp+incrementing": {"incrementing": 29, **time}}  # fmt: skip
    assert place.source_offset == expected[mode]


def test_several_tables_are_read_together_and_one_with_an_offset_is_only_polled(sqlite):
    for table in "abc":
        fill(sqlite, table, range(25))
    config = {"connection.url": sqlite, "mode": "incrementing"}
    kept = [({"protocol": "1", "table": "b"}, {"incrementing": 23})]

    async def story():
        async with Reading(config, kept) as reading:
            return reading, await reading.records(3)

    reading, found = asyncio.run(story())
    assert [[json.loads(each["tables"])[0][1] for each in job] for job in reading.jobs] == [["a"] * 3 + ["c"] * 3]
    places = [each.source_partition["table"] for each in found if isinstance(each, PassedPlace)]
    assert places == ["a", "c"]
    assert [each.value.get("id") for each in found if not isinstance(each, PassedPlace)] == [24]


def test_a_table_without_rows_is_polled_at_once(database):
    fill(database, "t", [0])
    ask(database, "DELETE FROM t")

    async def story():
        async with Reading({"connection.url": database, "mode": "incrementing"}) as reading:
            await reading.nothing()
            add(database, "t", [7])
            return reading, await reading.records(1)

    reading, found = asyncio.run(story())
    assert reading.jobs == [] and ids(found) == [7]


@pytest.mark.parametrize("mode", TIMES)
def test_the_last_row_is_noted_once_no_row_before_it_can_be_missing(fresh, mode):
    ask(fresh, "CREATE TABLE t (id SERIAL PRIMARY KEY, at TIMESTAMPTZ NOT NULL DEFAULT now())",
        "CREATE TABLE other (id SERIAL PRIMARY KEY, at TIMESTAMPTZ NOT NULL DEFAULT now())")  # fmt: skip
    engine = engine_of({"connection.url": fresh, "connection.user": None, "connection.password": None})

    async def story():
        async with Reading({"connection.url": fresh, "mode": mode, **TIMES[mode]}) as reading:
            late = engine.connect()
            late.execute(text("INSERT INTO t DEFAULT VALUES"))  # takes id 1 and its time
            ask(fresh, "INSERT INTO t DEFAULT VALUES")
            await reading.nothing()
            assert reading.jobs == []
            late.commit()
            late.close()
            return reading, await reading.read()

    reading, places = asyncio.run(story())
    assert [each.source_partition["table"] for each in places] == ["public.t"]
    assert sorted(ids(reading.in_pieces)) == [1, 2]
    engine.dispose()


def test_rows_before_timestamp_initial_are_in_no_piece(database):
    fill(database, "t", range(25))
    initial = int(datetime(2001, 2, 3, 4, 5, 20, 500_000, UTC).timestamp() * 1000)
    config = {"connection.url": database, "mode": "timestamp", "timestamp.column.name": "at",
              "timestamp.initial": str(initial)}  # fmt: skip

    async def story():
        async with Reading(config) as reading:
            await reading.read()
            return reading

    assert sorted(ids(asyncio.run(story()).in_pieces)) == [21, 22, 23, 24]


def test_a_row_that_changes_between_the_bound_and_its_piece_is_polled_as_it_is_then(database):
    fill(database, "t", range(25))
    config = {"connection.url": database, "mode": "timestamp+incrementing", "timestamp.column.name": "at"}

    async def story():
        async with Reading(config) as reading:
            reading.before = lambda: ask(database, "UPDATE t SET at='2002-02-03 04:05:06' WHERE id=3")
            await reading.read()
            return reading, await reading.records(1)

    reading, polled = asyncio.run(story())
    assert sorted(ids(reading.in_pieces)) == [each for each in range(25) if each != 3]
    assert ids(polled) == [3]


def test_a_table_is_cut_by_its_incrementing_column_where_that_is_never_null(fresh):
    ask(fresh, "CREATE TABLE t (name TEXT PRIMARY KEY, id BIGINT NOT NULL)",
        "CREATE TABLE u (name TEXT PRIMARY KEY, id BIGINT)",
        "INSERT INTO t SELECT 'row ' || n, n FROM generate_series(1, 25) n",
        "INSERT INTO u SELECT 'row ' || n, nullif(n, 7) FROM generate_series(1, 25) n")  # fmt: skip
    config = {"connection.url": fresh, "mode": "incrementing", "incrementing.column.name": "id",
              "validate.non.null": "false"}  # fmt: skip

    async def story():
        async with Reading(config) as reading:
            await reading.read()
            return reading

    reading = asyncio.run(story())
    assert [json.loads(each["tables"])[0][1] for each in reading.jobs[0]] == ["t", "t", "t", "u"]
    assert sorted(ids(reading.in_pieces)) == sorted([*range(1, 26), *(each for each in range(1, 26) if each != 7)])
