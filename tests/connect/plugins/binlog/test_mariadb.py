"""The task against a real server: where it begins again, what it captures, and what it refuses."""

import asyncio

import pytest
from tests.connect.mariadb_server import ask
from tests.connect.plugins.binlog.scenario import task_of
from tests.connect.plugins.capture.scenario import Kept

from ottla.connect.errors import ConfigException, ConnectException, RetriableException
from ottla.connect.plugins.binlog.source import MariaDbConnector
from ottla.connect.plugins.known import connector
from ottla.connect.records import PassedPlace


@pytest.fixture
def database(mariadb):
    ask(mariadb.database(), "DROP DATABASE IF EXISTS begun", "CREATE DATABASE begun")
    found = mariadb.database("begun")
    ask(found, "CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t SELECT seq, 'v' FROM seq_1_to_5")
    yield found
    ask(mariadb.database(), "DROP DATABASE begun")


class Running:
    """A started task, and what it has read."""

    def __init__(self, database, *kept, **options):
        config = {
            "topic.prefix": "p", "database.hostname": database["host"], "database.port": str(database["port"]),
            "database.user": database["user"], "database.include.list": "begun", "status.update.interval.ms": "50",
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

    async def passed(self):
        """The next place that is passed without a record."""
        while True:
            (*_, last) = await asyncio.wait_for(self.task.read(), 60)
            if isinstance(last, PassedPlace):
                return last.source_offset


def ids(records):
    return [(each.value.get("op"), each.key.get("id")) for each in records if each.value is not None]


def test_debeziums_names_find_the_connector():
    assert connector("MariaDbConnector") is connector("io.debezium.connector.mariadb.MariaDbConnector")
    assert connector("MariaDb") is MariaDbConnector


def test_a_snapshot_that_was_cut_short_is_taken_again_and_the_log_follows_it(database):
    async def story():
        async with Running(database, snapshot_fetch_size="2") as first:
            cut = await first.records(2)
        assert ids(cut) == [("r", 1), ("r", 2)]
        await asyncio.to_thread(ask, database, "INSERT INTO t VALUES (6, 'late')", "DELETE FROM t WHERE id = 1")
        async with Running(database, cut[-1].source_offset) as second:
            await asyncio.to_thread(ask, database, "INSERT INTO t VALUES (7, 'during')")
            found = await second.records(6)
        assert ids(found) == [("r", 2), ("r", 3), ("r", 4), ("r", 5), ("r", 6), ("c", 7)]
        markers = [each.value.get("source").get("snapshot") for each in found[:5]]
        assert markers == ["first", "true", "true", "true", "last"]

    asyncio.run(story())


@pytest.mark.parametrize("by_gtid", [True, False])
def test_each_record_of_a_transaction_is_a_place_to_go_on_behind(database, by_gtid):
    statements = ["BEGIN", "INSERT INTO t VALUES (6, 'a'), (7, 'b')", "UPDATE t SET id = 8 WHERE id = 6",
                  "DELETE FROM t WHERE id = 7", "COMMIT", "INSERT INTO t VALUES (9, 'c')"]  # fmt: skip
    whole = ["c", "c", "d", None, "c", "d", None, "c"]
    begins = [1, 2, 2, 2, 5, 5, 7]  # a deletion, or a changed key, is passed with its last record

    async def story():
        async with Running(database, snapshot_mode="no_data") as running:
            await asyncio.to_thread(ask, database, *statements)
            found = await running.records(8)
        assert ops(found) == whole
        for record, begin in zip(found, begins, strict=False):
            kept = {name: value for name, value in record.source_offset.items() if by_gtid or name != "gtids"}
            async with Running(database, kept) as again:
                left = await again.records(8 - begin)
                assert ops(left) == whole[begin:]
                assert [each.source_offset for each in left] == [each.source_offset for each in found[begin:]]

    asyncio.run(story())


def ops(records):
    return [None if each.value is None else each.value.get("op") for each in records]


def test_an_offset_of_debezium_in_the_middle_of_a_transaction_reads_it_again(database):
    async def story():
        async with Running(database, snapshot_mode="no_data") as running:
            await asyncio.to_thread(ask, database, "INSERT INTO t VALUES (6, 'a'), (7, 'b')")
            first, _ = await running.records(2)
        theirs = {name: first.source_offset[name] for name in ("ts_sec", "file", "pos", "gtids", "server_id")}
        async with Running(database, {**theirs, "row": 1, "event": 2}) as again:
            assert ids(await again.records(2)) == [("c", 6), ("c", 7)]

    asyncio.run(story())


def test_a_place_without_changes_is_passed_so_that_the_offset_follows_the_log(database):
    async def story():
        async with Running(database, table_include_list=r"begun\.none", snapshot_mode="no_data") as running:
            await asyncio.to_thread(ask, database, "INSERT INTO t VALUES (6, 'a')")
            ((file, position, *_),) = ask(database, "SHOW MASTER STATUS")
            while True:
                place = await running.passed()
                if (place["file"], place["pos"]) == (file, position):
                    break

    asyncio.run(story())


def test_a_log_that_is_gone_is_refused_or_a_new_snapshot_is_taken(database):
    async def story(**options):
        async with Running(database, snapshot_mode="no_data") as running:
            await asyncio.to_thread(ask, database, "INSERT INTO t VALUES (6, 'a')")
            (last,) = await running.records(1)
        ask(database, "DELETE FROM t WHERE id = 6", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (6, 'a')")
        ((file, *_),) = ask(database, "SHOW MASTER STATUS")
        while ask(database, "SHOW BINARY LOGS")[0][0] != file:  # the server holds a file until it misses its reader
            ask(database, f"PURGE BINARY LOGS TO '{file}'")
        async with Running(database, last.source_offset, **options) as again:
            return ids(await again.records(6))

    with pytest.raises(ConnectException, match=r"does not have the place that was read last.*snapshot\.mode=when_need"):
        asyncio.run(story())
    ask(database, "DELETE FROM t WHERE id = 6")
    assert asyncio.run(story(snapshot_mode="when_needed"))[-1] == ("r", 6)


def test_heartbeats_come_in_time_and_run_their_statement(database):
    ask(database, "CREATE TABLE begun.beat (at int)")

    async def story():
        options = {"heartbeat_interval_ms": "20", "heartbeat_action_query": "INSERT INTO begun.beat VALUES (1)"}
        async with Running(database, snapshot_mode="no_data", **options) as running:
            found = await running.records(4)
        assert {each.topic for each in found} == {"__debezium-heartbeat.p", "p.begun.beat"}

    asyncio.run(story())


def test_uuids_and_addresses_are_the_same_from_the_rows_and_from_the_log(database):
    ask(database, "DROP TABLE t", "CREATE TABLE t (id int PRIMARY KEY, u uuid, s inet6, f inet4, zero date)",
        "SET sql_mode = ''", "INSERT INTO t VALUES "
        "(1, '0123abcd-4567-11ef-89ab-cdef01234567', '::1', '10.1.2.3', '0000-00-00')")  # fmt: skip

    async def story():
        async with Running(database) as running:
            (row,) = await running.records(1)
            reading = asyncio.ensure_future(running.records(1))
            await asyncio.to_thread(ask, database, "UPDATE t SET id = 2")
            deleted, *_ = await reading
        return row.value.get("after").values[1:], deleted.value.get("before").values[1:]

    row, logged = asyncio.run(story())
    assert row == logged == ["0123abcd-4567-11ef-89ab-cdef01234567", "::1", "10.1.2.3", None]


def test_a_date_that_no_calendar_has_ends_the_task_where_no_null_may_be(database):
    ask(database, "CREATE TABLE z (id int PRIMARY KEY, at date NOT NULL)", "SET sql_mode = ''",
        "INSERT INTO z VALUES (1, '0000-00-00')")  # fmt: skip

    async def story():
        async with Running(database, table_include_list=r"begun\.z") as running:
            await running.records(1)

    with pytest.raises(ConnectException, match=r"the column begun\.z\.at: "):
        asyncio.run(story())


@pytest.mark.parametrize(
    ("name", "value"), [("binlog_row_metadata", "NO_LOG"), ("binlog_row_image", "MINIMAL"), ("binlog_format", "MIXED")]
)
def test_a_server_whose_log_lacks_something_is_refused_with_the_statement_that_sets_it(database, name, value):
    async def story():
        async with Running(database):
            pass

    ask(database, f"SET GLOBAL {name} = '{value}'")
    try:
        with pytest.raises(ConfigException, match=f"{name}={value}: SET GLOBAL {name}="):
            asyncio.run(story())
    finally:
        ask(database, f"SET GLOBAL {name} = '{'ROW' if name == 'binlog_format' else 'FULL'}'")


def test_rows_in_the_log_without_names_are_refused_with_the_way_out(database):
    async def story():
        async with Running(database, snapshot_mode="no_data") as running:
            ask(database, "SET GLOBAL binlog_row_metadata = 'NO_LOG'", "INSERT INTO t VALUES (6, 'a')")
            await running.records(1)

    try:
        with pytest.raises(
            ConnectException, match=r"does not name the columns of begun\.t: SET GLOBAL binlog_row_meta"
        ):
            asyncio.run(story())
    finally:
        ask(database, "SET GLOBAL binlog_row_metadata = 'FULL'")


def test_compressed_events_and_tables_of_other_character_sets_are_read(database):
    text = "ЖЖ" * 300

    async def story():
        async with Running(database, snapshot_mode="no_data") as running:
            ask(database, "SET GLOBAL log_bin_compress = ON",
                "CREATE TABLE c (id int PRIMARY KEY, v varchar(900), e enum('Ж','x')) CHARACTER SET cp1251",
                f"INSERT INTO c VALUES (1, '{text}', 'Ж')", "UPDATE c SET e = 'x'", "DELETE FROM c")  # fmt: skip
            return await running.records(4)

    try:
        found = asyncio.run(story())
    finally:
        ask(database, "SET GLOBAL log_bin_compress = OFF")
    assert ops(found) == ["c", "u", "d", None]
    assert found[0].value.get("after").values == [1, text, "Ж"]
    assert found[1].value.get("after").get("e") == "x"


def test_a_table_that_is_emptied_is_told_also_where_none_of_its_rows_was_before(database):
    async def story():
        async with Running(database, snapshot_mode="no_data", skipped_operations="none") as running:
            ask(database, "/* all */ truncate table `begun`.t", "CREATE TABLE o (id int)", "TRUNCATE o")
            return await running.records(2)

    found = asyncio.run(story())
    assert [(each.topic, each.value.get("op")) for each in found] == [("p.begun.t", "t"), ("p.begun.o", "t")]
    assert found[0].source_offset != found[1].source_offset


def test_a_user_needs_no_more_rights_than_the_guide_says(database):
    ask(database, "CREATE OR REPLACE USER reader@'127.0.0.1'", "GRANT SELECT ON begun.* TO reader@'127.0.0.1'",
        "GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO reader@'127.0.0.1'")  # fmt: skip

    async def story():
        async with Running({**database, "user": "reader"}) as running:
            await running.records(5)
            reading = asyncio.ensure_future(running.records(1))
            await asyncio.to_thread(ask, database, "INSERT INTO t VALUES (6, 'a')")
            assert ids(await reading) == [("c", 6)]

    asyncio.run(story())


def test_a_server_that_is_not_there_may_come_back_and_a_wrong_password_is_not_tried_again(database):
    async def story(**options):
        async with Running({**database, **options}):
            pass

    with pytest.raises(RetriableException):
        asyncio.run(story(port=1))
    with pytest.raises(ConnectException, match="Access denied") as fault:
        asyncio.run(story(user="nobody"))
    assert not isinstance(fault.value, RetriableException)


def test_a_server_without_tls_is_refused_where_tls_is_asked_for(database):
    async def story():
        async with Running(database, database_ssl_mode="trust"):
            pass

    with pytest.raises(ConnectException, match=r"SSL is required|the server offers no TLS") as fault:
        asyncio.run(story())
    assert not isinstance(fault.value, RetriableException)


def test_a_session_that_ends_is_a_failure_that_may_pass(database):
    async def story():
        async with Running(database, snapshot_mode="no_data") as running:
            await asyncio.to_thread(ask, database, "INSERT INTO t VALUES (6, 'a')")
            await running.records(1)
            ((number, *_),) = ask(database, "SELECT id FROM information_schema.processlist WHERE command='Binlog Dump'")
            await asyncio.to_thread(ask, database, f"KILL {number}")
            await running.records(1)

    with pytest.raises(RetriableException):
        asyncio.run(story())


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("include.schema.changes", "true", "the statements that change tables are not sent"),
        ("gtid.source.includes", "x", "is an option of Debezium that is not there"),
        ("database.ssl.truststore", "t.jks", "give a PEM file in database.ssl.ca"),
        ("snapshot.mode", "initail", "initail"),
        ("database.server.id", "-1", "database.server.id"),
    ],
)
def test_options_without_a_meaning_here_are_refused_by_name(option, value, reason):
    config = {"topic.prefix": "p", "database.hostname": "h", "database.user": "u", option: value}
    with pytest.raises(ConfigException, match=reason):
        MariaDbConnector.tasks(config, 1)


def test_offsets_that_somebody_sets_name_a_file_and_a_position():
    config = {"topic.prefix": "p"}
    MariaDbConnector.check_offsets(config, [({"server": "p"}, {"file": "binlog.1", "pos": 4, "gtids": "0-1-2"})])
    for offset, reason in (
        ({"pos": 4}, "the text file"),
        ({"file": "b", "pos": 4, "gtids": "x"}, "no GTID of MariaDB"),
    ):
        with pytest.raises(ConfigException, match=reason):
            MariaDbConnector.check_offsets(config, [({"server": "p"}, offset)])
