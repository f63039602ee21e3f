"""The task against a real server: where it begins again, what the server may forget, and what it refuses."""

import asyncio

import psycopg
import pytest
from tests.connect.plugins.capture.scenario import Kept, ask, drop_slots, task_of

from ottla.connect.errors import ConfigException, ConnectException, RetriableException
from ottla.connect.records import PassedPlace


@pytest.fixture
def database(postgres_server):
    ask(postgres_server.database(), "DROP DATABASE IF EXISTS begun", "CREATE DATABASE begun")
    found = postgres_server.database("begun")
    ask(
        found, "CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t SELECT n, 'v' FROM generate_series(1, 5) n"
    )
    yield found
    drop_slots(found)
    ask(postgres_server.database(), "DROP DATABASE begun WITH (FORCE)")


class Running:
    """A started task, and what it has read."""

    def __init__(self, database, *kept, **options):
        config = {
            "topic.prefix": "p", "database.hostname": database["host"], "database.port": str(database["port"]),
            "database.user": database["user"], "database.dbname": database["dbname"], "slot.name": "begun",
            "status.update.interval.ms": "50",
        }  # fmt: skip
        self.task = task_of(config | {name.replace("_", "."): value for name, value in options.items()})
        self.kept = kept

    async def __aenter__(self):
        try:
            await self.task.start(Kept(*self.kept))
        except BaseException:
            await self.task.close()
            raise
        return self

    async def __aexit__(self, *_):
        await self.task.close()

    async def records(self, count):
        """So many records; places that were passed are none."""
        found = []
        while len(found) < count:
            read = await asyncio.wait_for(self.task.read(), 60)
            found += [each for each in read if not isinstance(each, PassedPlace)]
        return found


def ids(records):
    return [(each.value.get("op"), each.key.get("id")) for each in records if each.value is not None]


def slot(database):
    """The place up to which the server may forget its log, None without the slot."""
    found = ask(database, "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = 'begun'")
    return found[0][0] if found else None


def test_a_snapshot_that_was_cut_short_is_taken_again_and_the_log_follows_it(database):
    async def story():
        async with Running(database, snapshot_fetch_size="2") as first:
            cut = await first.records(2)
        assert ids(cut) == [("r", 1), ("r", 2)]
        await asyncio.to_thread(ask, database, "INSERT INTO t VALUES (6, 'late')", "DELETE FROM t WHERE id = 1")
        async with Running(database, cut[-1].source_offset) as second:
            found = await second.records(8)
        assert ids(found) == [("r", 2), ("r", 3), ("r", 4), ("r", 5), ("r", 6), ("c", 6), ("d", 1)]
        markers = [each.value.get("source").get("snapshot") for each in found[:5]]
        assert markers == ["first", "true", "true", "true", "last"]

    asyncio.run(story())


def test_the_server_forgets_what_is_kept_and_nothing_more(database):
    async def story():
        async with Running(database) as running:
            snapshot = await running.records(5)
            begun = slot(database)
            await asyncio.to_thread(ask, database, "INSERT INTO t VALUES (6, 'a')", "INSERT INTO t VALUES (7, 'b')")
            _, two = await running.records(2)
            assert slot(database) == begun
            await running.task.commit([({"server": "p"}, two.source_offset)])
        async with Running(database, two.source_offset, snapshot_mode="initial") as again:
            await asyncio.to_thread(ask, database, "INSERT INTO t VALUES (8, 'c')")
            assert ids(await again.records(1)) == [("c", 8)]
        async with Running(database, snapshot[-1].source_offset) as lost:
            await lost.records(1)

    with pytest.raises(ConnectException, match="made anew, or another reader has moved it"):
        asyncio.run(story())


def test_a_place_without_changes_is_passed_so_that_the_slot_follows_the_log(database):
    async def story():
        async with Running(database, table_include_list=r"public\.none", snapshot_mode="no_data") as running:
            begun = slot(database)
            await asyncio.to_thread(ask, database, "INSERT INTO t SELECT n, 'v' FROM generate_series(10, 99) n")
            (end,) = ask(database, "SELECT (pg_current_wal_lsn() - '0/0')::int8")
            while True:
                read = await asyncio.wait_for(running.task.read(), 60)
                assert all(isinstance(each, PassedPlace) for each in read)
                if read[-1].source_offset["lsn_commit"] >= end[0]:
                    break
            assert slot(database) == begun
            await running.task.commit([({"server": "p"}, read[-1].source_offset)])
            while slot(database) == begun:
                await asyncio.sleep(0.01)

    asyncio.run(story())


def test_heartbeats_come_in_time_and_run_their_statement(database):
    async def story():
        ask(database, "CREATE TABLE beats (n int)")
        statement = {"heartbeat_action_query": "INSERT INTO beats VALUES (1)", "heartbeat_interval_ms": "20"}
        async with Running(database, snapshot_mode="no_data", **statement) as running:
            found = await running.records(3)
            beats = [each for each in found if each.topic == "__debezium-heartbeat.p"]
            assert beats[0].key.get("serverName") == "p"
            assert "lsn_commit" in beats[0].source_offset
        assert ask(database, "SELECT count(*) FROM beats")[0][0] >= len(beats)

    asyncio.run(story())


def test_a_lost_slot_is_told_and_a_slot_can_go_with_its_connector(database):
    async def story():
        async with Running(database, slot_drop_on_stop="true") as running:
            *_, last = await running.records(5)
            assert slot(database) is not None
        assert slot(database) is None
        async with Running(database, last.source_offset, snapshot_mode="when_needed") as again:
            assert len(await again.records(5)) == 5
        drop_slots(database)
        async with Running(database, last.source_offset):
            pass

    with pytest.raises(ConnectException, match="the replication slot begun is gone"):
        asyncio.run(story())


def test_rows_alone_need_no_slot_and_end_the_task(database):
    async def story():
        async with Running(database, snapshot_mode="initial_only") as running:
            *_, last = await running.records(5)
            assert await running.task.read() is None
        async with Running(database, last.source_offset, snapshot_mode="initial_only") as again:
            assert await again.task.read() is None
        assert slot(database) is None

    asyncio.run(story())


def test_two_tables_of_one_topic_are_refused(database):
    ask(database, 'CREATE TABLE "a b" (id int)', "CREATE TABLE a_b (id int)")

    async def story():
        async with Running(database):
            pass

    with pytest.raises(ConfigException, match=r"would share a topic, p\.public\.a_b"):
        asyncio.run(story())


def test_one_slot_has_one_reader_and_the_second_may_try_again(database):
    async def story():
        async with Running(database, snapshot_mode="no_data") as first:
            ask(database, "INSERT INTO t VALUES (6, 'a')")
            await first.records(1)
            async with Running(database, snapshot_mode="no_data") as second:
                await second.records(1)

    with pytest.raises(RetriableException, match="is active for PID"):
        asyncio.run(story())


def test_publications_are_made_as_it_is_asked(database, caplog):
    async def story(**options):
        async with Running(database, snapshot_mode="no_data", **options):
            return ask(database, "SELECT pubname, tablename FROM pg_publication_tables ORDER BY 1, 2")

    with pytest.raises(ConfigException, match="the publication p1 does not exist"):
        asyncio.run(story(publication_name="p1", publication_autocreate_mode="disabled"))
    ask(database, "CREATE TABLE other (id int)")
    only = {"table_include_list": r"public\.t", "publication_autocreate_mode": "filtered", "publication_name": "p1"}
    assert asyncio.run(story(**only)) == [("p1", "t")]
    both = {**only, "table_include_list": r"public\..*"}
    assert asyncio.run(story(**both)) == [("p1", "other"), ("p1", "t")]
    ask(database, "ALTER PUBLICATION p1 DROP TABLE other")
    asyncio.run(story(**{**both, "publication_autocreate_mode": "disabled"}))
    assert "public.other is captured, but not in the publication p1" in caplog.text


def test_a_server_that_is_not_there_may_come_back(database):
    async def story():
        async with Running({**database, "port": 1}):
            pass

    with pytest.raises(RetriableException, match="port 1"):
        asyncio.run(story())


def test_a_session_that_ends_is_a_failure_that_may_pass(database):
    async def story():
        async with Running(database, snapshot_mode="no_data") as running:
            ask(database, "INSERT INTO t VALUES (6, 'a')")
            await running.records(1)
            with psycopg.connect(**database, autocommit=True) as other:
                other.execute("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active")
                await running.records(1)

    with pytest.raises(RetriableException, match="ended"):
        asyncio.run(story())
