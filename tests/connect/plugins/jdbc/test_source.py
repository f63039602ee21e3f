"""The JDBC source through the contract of connectors, on SQLite, on PostgreSQL and on MariaDB."""

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from sqlalchemy import text
from tests.connect.plugins.jdbc.asking import Kept, ask, ids

from ottla.connect import data
from ottla.connect.config_def import Password
from ottla.connect.data import Instant
from ottla.connect.errors import ConfigException, ConnectException
from ottla.connect.plugins.jdbc.database import engine_of, url_of
from ottla.connect.plugins.jdbc.source import JdbcSourceConnector
from ottla.connect.plugins.known import connector


class Reading:
    """One task of a connector; each read is of one poll."""

    def __init__(self, config, kept=()):
        config = {"topic.prefix": "db-", "poll.interval.ms": "1", **config}
        (task,) = JdbcSourceConnector.tasks(config, 1)
        self.task, self.kept = JdbcSourceConnector.task(task), Kept(kept)

    async def __aenter__(self):
        await self.task.start(self.kept)
        return self

    async def __aexit__(self, *_):
        await self.task.close()

    async def records(self, count):
        found = []
        while len(found) < count:
            found += await asyncio.wait_for(self.task.read(), 20)
        return found

    async def nothing(self, polls=5):
        for _ in range(polls):
            for poller in self.task._pollers:
                records, _ = await self.task._apart(poller.page)
                assert records == []


def test_confluents_names_find_the_source():
    assert connector("JdbcSource") is connector("io.confluent.connect.jdbc.JdbcSourceConnector") is JdbcSourceConnector


def test_rows_are_read_once_and_a_restart_goes_on_behind_the_last(database):
    ask(database, "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)", "INSERT INTO t VALUES (-1,'a'),(0,'b'),(5,NULL)")
    config = {"connection.url": database, "mode": "incrementing", "batch.max.rows": "2"}

    async def story():
        async with Reading(config) as reading:
            first = await reading.records(3)
            await reading.nothing()
            ask(database, "INSERT INTO t VALUES (6,'c')")
            second = await reading.records(1)
        ask(database, "INSERT INTO t VALUES (7,'d')")
        kept = [(each.source_partition, each.source_offset) for each in second]
        async with Reading(config, kept) as reading:
            return first, second, await reading.records(1)

    first, second, third = asyncio.run(story())
    assert (ids(first), ids(second), ids(third)) == ([-1, 0, 5], [6], [7])
    assert first[0].topic == "db-t" and first[2].value.get("v") is None
    assert first[2].source_offset == {"incrementing": 5}
    assert first[2].source_partition["table"] in ("t", "public.t", "polled.t")


def test_changed_rows_are_read_again_by_time_and_epoch_0_is_a_time(database):
    kind = "DATETIME(3)" if "mariadb" in database else "TIMESTAMP"
    ask(database, f"CREATE TABLE t (id INTEGER PRIMARY KEY, at {kind} NOT NULL)",
        "INSERT INTO t VALUES (1,'1970-01-01 00:00:00')",
        "INSERT INTO t VALUES (2,'2001-02-03 04:05:06.789'),(3,'2001-02-03 04:05:06.789')")  # fmt: skip
    config = {"connection.url": database, "mode": "timestamp+incrementing", "timestamp.column.name": "at"}

    async def story():
        async with Reading(config) as reading:
            first = await reading.records(3)
            ask(database, "UPDATE t SET at='2002-01-01 00:00:00' WHERE id=1",
                "INSERT INTO t VALUES (4,'2001-02-03 04:05:06.789')")  # fmt: skip
            return first, await reading.records(2)

    first, second = asyncio.run(story())
    assert (ids(first), ids(second)) == ([1, 2, 3], [4, 1])
    assert first[0].value.get("at") == Instant(0)
    assert second[0].source_offset == {"incrementing": 4, "timestamp": 981173106789, "timestamp_nanos": 789000000}


def test_times_without_a_zone_stand_in_the_zone_of_the_database(database):
    kind = "DATETIME" if "mariadb" in database else "TIMESTAMP"  # there a TIMESTAMP has a zone
    ask(database, f"CREATE TABLE t (id INTEGER PRIMARY KEY, at {kind} NOT NULL)",
        "INSERT INTO t VALUES (1,'2001-07-01 12:00:00')")  # fmt: skip
    config = {"connection.url": database, "mode": "timestamp", "timestamp.column.name": "at",
              "db.timezone": "Europe/Berlin"}  # fmt: skip

    async def story():
        async with Reading(config) as reading:
            return await reading.records(1)

    (record,) = asyncio.run(story())
    assert record.value.get("at") == Instant(int(datetime(2001, 7, 1, 10, tzinfo=UTC).timestamp() * 1000))


def test_rows_of_the_future_wait_for_the_clock_of_the_database(database):
    later = (datetime.now(UTC) + timedelta(days=1)).strftime("%Y-%m-%d %H:%M:%S")
    ask(database, "CREATE TABLE t (id INTEGER PRIMARY KEY, at TIMESTAMP NOT NULL)",
        f"INSERT INTO t VALUES (1,'{later}')")  # fmt: skip
    config = {"connection.url": database, "mode": "timestamp", "timestamp.column.name": "at"}

    async def story():
        async with Reading(config) as reading:
            await reading.nothing()

    asyncio.run(story())


def test_bulk_reads_all_rows_in_each_poll(database):
    ask(database, "CREATE TABLE t (id INTEGER)", "INSERT INTO t VALUES (1),(2)")

    async def story():
        async with Reading({"connection.url": database, "mode": "bulk"}) as reading:
            return await reading.records(4)

    assert ids(asyncio.run(story())) == [1, 2, 1, 2]


@pytest.mark.parametrize(
    ("columns", "where"),
    [
        ({"mode": "incrementing"}, "id"),
        ({"mode": "timestamp", "timestamp.column.name": "at"}, "at"),
        ({"mode": "timestamp+incrementing", "timestamp.column.name": "at"}, "both"),
    ],
)
def test_a_transaction_that_commits_late_loses_no_row(fresh, columns, where):
    ask(fresh, "CREATE TABLE t (id SERIAL PRIMARY KEY, at TIMESTAMPTZ NOT NULL DEFAULT now())")
    ask(fresh, "ALTER DATABASE postgres SET default_transaction_isolation = 'repeatable read'")
    engine = engine_of({"connection.url": fresh, "connection.user": None, "connection.password": None})

    async def story():
        async with Reading({"connection.url": fresh, **columns}) as reading:
            late = engine.connect()
            late.execute(text("INSERT INTO t DEFAULT VALUES"))  # takes id 1 and its time
            ask(fresh, "INSERT INTO t DEFAULT VALUES")
            await reading.nothing()
            late.commit()
            late.close()
            return await reading.records(2)

    assert ids(asyncio.run(story())) == [1, 2]
    engine.dispose()


def test_columns_of_postgresql_have_schemas_of_connect(fresh):
    ask(fresh, """CREATE TABLE t (id BIGINT PRIMARY KEY, s SMALLINT, n NUMERIC(10,2), d DATE, t TIME, z TIMESTAMPTZ,
        b BYTEA, j JSONB, u UUID, f REAL, o BOOLEAN, a INTEGER[])""",
        """INSERT INTO t VALUES (1, 2, 3.5, '1970-01-02', '00:00:01.5', '1970-01-01 01:00:00+01', '\\x01', '[1]',
        '00000000-0000-0000-0000-000000000001', 1.5, true, '{1,NULL}')""")  # fmt: skip

    async def story():
        async with Reading({"connection.url": fresh, "mode": "bulk"}) as reading:
            return await reading.records(1)

    value = asyncio.run(story())[0].value.validated()
    assert value.values == [
        1, 2, Decimal("3.50"), Instant(data.DAY_MS), Instant(1500), Instant(0), b"\x01", "[1]",
        "00000000-0000-0000-0000-000000000001", 1.5, True, [1, None],
    ]  # fmt: skip
    assert value.schema.field("n").schema == data.decimal(2, optional=True)
    assert value.schema.field("id").schema == data.INT64


def test_tables_are_shared_out_among_tasks_and_filtered(sqlite):
    ask(sqlite, *(f"CREATE TABLE {each} (id INTEGER PRIMARY KEY)" for each in ("a", "b", "c", "x_d")))
    config = {"connection.url": sqlite, "mode": "bulk", "topic.prefix": "", "table.exclude.list": "x_.*"}
    shares = [each["tables"] for each in JdbcSourceConnector.tasks(config, 2)]
    assert shares == ['[[null, "a"], [null, "c"]]', '[[null, "b"]]']


def test_a_column_that_may_be_null_is_refused_with_the_way_out(sqlite):
    ask(sqlite, "CREATE TABLE t (id INTEGER PRIMARY KEY, at TIMESTAMP)")

    async def story():
        config = {"connection.url": sqlite, "mode": "timestamp", "timestamp.column.name": "at"}
        async with Reading(config):
            pass

    with pytest.raises(ConfigException, match=r"at of t may be null.*validate.non.null=false"):
        asyncio.run(story())


def test_rows_younger_than_the_delay_wait(database):
    ask(database, "CREATE TABLE t (id INTEGER PRIMARY KEY, at TIMESTAMP NOT NULL)",
        f"INSERT INTO t VALUES (1,'{datetime.now(UTC) - timedelta(hours=20):%Y-%m-%d %H:%M:%S}')",
        f"INSERT INTO t VALUES (2,'{datetime.now(UTC) - timedelta(days=2):%Y-%m-%d %H:%M:%S}')")  # fmt: skip
    config = {"connection.url": database, "mode": "timestamp", "timestamp.column.name": "at",
              "timestamp.delay.interval.ms": "86400000"}  # fmt: skip

    async def story():
        async with Reading(config) as reading:
            first = await reading.records(1)
            await reading.nothing()
            return first

    assert ids(asyncio.run(story())) == [2]


QUERY = "SELECT o.id AS id, o.v, c.name FROM t o JOIN c ON c.id = o.c WHERE o.v <> ':gone' AND o.v NOT LIKE 'x%';"


def test_the_rows_of_a_query_go_to_the_topic_of_the_prefix_alone_and_a_restart_goes_on_behind_the_last(database):
    ask(database, "CREATE TABLE c (id INTEGER PRIMARY KEY, name VARCHAR(9))", "INSERT INTO c VALUES (1,'one')",
        "CREATE TABLE t (id INTEGER PRIMARY KEY, v VARCHAR(9), c INTEGER)",
        "INSERT INTO t VALUES (1,'a',1),(2,'\\:gone',1),(3,'x',1),(4,'b',2),(5,'c',1)")  # fmt: skip
    config = {"connection.url": database, "mode": "incrementing", "incrementing.column.name": "id", "query": QUERY,
              "topic.prefix": "joined"}  # fmt: skip

    async def story():
        async with Reading(config) as reading:
            first = await reading.records(2)
            await reading.nothing()
        ask(database, "INSERT INTO t VALUES (6,'d',1)")
        kept = [(each.source_partition, each.source_offset) for each in first]
        async with Reading(config, kept[-1:]) as reading:
            return first, await reading.records(1)

    first, second = asyncio.run(story())
    assert (ids(first), ids(second)) == ([1, 5], [6])
    assert {each.topic for each in first} == {"joined"}
    assert (first[0].source_partition, first[0].source_offset) == ({"query": "query"}, {"incrementing": 1})
    assert first[0].value.schema.name is None and first[0].value.get("name") == "one"


def test_a_query_in_bulk_is_read_whole_in_each_poll(database):
    ask(database, "CREATE TABLE t (id INTEGER PRIMARY KEY)", "INSERT INTO t VALUES (1),(2),(3)")

    async def story():
        query = "SELECT id FROM t WHERE id > 1 ORDER BY id"
        async with Reading({"connection.url": database, "mode": "bulk", "query": query}) as reading:
            return await reading.records(4)

    assert ids(asyncio.run(story())) == [2, 3, 2, 3]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"table.whitelist": "t"}, "table.whitelist cannot be set together with query"),
        ({"mode": "incrementing"}, "needs incrementing.column.name"),
        ({"mode": "timestamp", "timestamp.column.name": "at"}, "query has no column at: it has id"),
        ({"query": "SELECT 1 AS id, 2 AS id"}, "two columns have one name, id: name one with AS"),
    ],
)
def test_what_does_not_go_with_a_query_is_refused_by_name(sqlite, more, reason):
    async def story():
        config = {"connection.url": sqlite, "mode": "bulk", "query": "SELECT 1 AS id", **more}
        async with Reading(config):
            pass

    with pytest.raises(ConfigException, match=reason):
        asyncio.run(story())


KINDS = """CREATE TABLE `odd ``name%` (id BIGINT UNSIGNED PRIMARY KEY, ti TINYINT UNSIGNED, b BOOLEAN,
    s SMALLINT UNSIGNED,
    i INT UNSIGNED,
    f FLOAT, n DECIMAL(10,2), b1 BIT(1), b9 BIT(9), y YEAR, e ENUM('x','y'), st SET('b','a'), j JSON,
    d DATE, t TIME(3), dt DATETIME(6), ts TIMESTAMP(3) NULL, vb VARBINARY(9), tx TEXT)"""


def test_columns_of_mariadb_have_schemas_of_connect_and_a_timestamp_is_a_moment_in_any_zone(maria):
    ask(maria, KINDS, """INSERT INTO `odd ``name%` VALUES (18446744073709551615, 255, true, 65535,
        4294967295, 1.5, 3.5, b'1', b'100000001', 2024, 'y', 'a,b', '[1]', '1970-01-02', '00:00:01.5',
        '1970-01-01 01:00:00.000001', '1970-01-01 01:00:00.5', x'01', 'ü')""")  # fmt: skip

    async def story():
        config = {"connection.url": maria, "mode": "bulk", "db.timezone": "Europe/Berlin"}
        async with Reading(config) as reading:
            return await reading.records(1)

    (record,) = asyncio.run(story())
    assert record.value.validated().values == [
        Decimal(2**64 - 1), 255, 1, 65535, 2**32 - 1, 1.5, Decimal("3.50"), 1, b"\x01\x01",
        Instant(19723 * data.DAY_MS), "y", "b,a", "[1]", Instant(data.DAY_MS), Instant(1500), Instant(0),
        Instant(3600_500), b"\x01", "ü",
    ]  # fmt: skip
    assert [each.schema.type for each in record.value.schema.fields[:6]] == [
        data.Type.BYTES, data.Type.INT16, data.Type.INT8, data.Type.INT32, data.Type.INT64, data.Type.FLOAT32,
    ]  # fmt: skip
    assert record.topic == "db-odd `name%"


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        ("DATE", "0000-00-00", "the column v has the date 0000-00-00"),
        ("DATETIME", "2024-00-15 01:02:03", "the column v has the date 2024-00-15"),
        ("TIME", "-00:00:01", "the column v has the time -1 day, 23:59:59"),
        ("POINT", "POINT(1 2)", "v has the type .*, for which Connect has none"),
    ],
)
def test_values_of_mariadb_that_connect_cannot_hold_are_refused_by_name(maria, kind, value, reason):
    literal = f"ST_GeomFromText('{value}')" if kind == "POINT" else f"'{value}'"
    ask(maria, f"CREATE TABLE t (v {kind})", "SET sql_mode = ''", f"INSERT INTO t VALUES ({literal})")

    async def story():
        async with Reading({"connection.url": maria, "mode": "bulk"}) as reading:
            await reading.records(1)

    with pytest.raises(ConnectException, match=reason):
        asyncio.run(story())


def test_tables_of_another_database_are_found_by_catalog_pattern_and_a_schema_is_refused(maria):
    ask(maria, "CREATE TABLE t (id INT PRIMARY KEY)")
    config = {"connection.url": maria.replace("/polled", "/"), "mode": "bulk", "topic.prefix": ""}
    (task,) = JdbcSourceConnector.tasks({**config, "catalog.pattern": "polled"}, 1)
    assert task["tables"] == '[["polled", "t"]]'
    with pytest.raises(ConfigException, match=r"connection\.url names no database"):
        JdbcSourceConnector.tasks(config, 1)
    with pytest.raises(ConfigException, match=r"no schemas below its databases; set catalog.pattern"):
        JdbcSourceConnector.tasks({**config, "schema.pattern": "polled"}, 1)


def test_a_view_is_read_where_table_types_says_so(database):
    ask(database, "CREATE TABLE t (id INTEGER PRIMARY KEY)", "INSERT INTO t VALUES (1),(2)",
        "CREATE VIEW w AS SELECT id FROM t WHERE id > 1")  # fmt: skip
    config = {"connection.url": database, "mode": "incrementing", "incrementing.column.name": "id",
              "table.types": "VIEW", "validate.non.null": "false"}  # fmt: skip

    async def story():
        async with Reading(config) as reading:
            return await reading.records(1)

    (record,) = asyncio.run(story())
    assert (record.topic, record.value.get("id")) == ("db-w", 2)


def test_urls_of_java_drivers_become_those_of_python_drivers():
    assert (
        url_of("jdbc:mysql://h:1/d?connectTimeout=5", "me", Password("p")).render_as_string(hide_password=False)
        == "mysql+pymysql://me:p@h:1/d?connect_timeout=5"
    )
    with pytest.raises(ConfigException, match=r"did you mean sslmode"):
        url_of("jdbc:postgresql://h/d?sslmod=x", None, None)
    with pytest.raises(ConfigException, match=r"jdbc:oracle is unknown"):
        url_of("jdbc:oracle:thin:@h", None, None)
