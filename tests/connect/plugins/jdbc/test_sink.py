"""The JDBC sink through the contract of connectors, on SQLite, on PostgreSQL and on MariaDB."""

import asyncio
from decimal import Decimal

import pytest
from sqlalchemy import text
from tests.connect.mariadb_server import ask as mariadb_ask

from ottla.connect import data
from ottla.connect.data import Instant, Struct, struct
from ottla.connect.errors import ConfigException, ConnectException, RetriableException
from ottla.connect.plugins.base import RefusedRecords
from ottla.connect.plugins.jdbc.database import engine_of
from ottla.connect.plugins.jdbc.sink import JdbcSinkConnector
from ottla.connect.plugins.known import connector
from ottla.connect.records import SinkRecord

SCHEMA = struct([("id", data.INT64), ("v", data.OPTIONAL_STRING)])
KEYED = {"pk.mode": "record_key", "pk.fields": "id"}


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"jdbc:sqlite:{tmp_path}/db"
    if request.param == "mariadb":
        server = request.getfixturevalue("mariadb")
        mariadb_ask(server.database(), "DROP DATABASE IF EXISTS written", "CREATE DATABASE written")
        return server.url("written")
    found = request.getfixturevalue("postgres")
    ask(found, "DROP SCHEMA IF EXISTS public CASCADE", "CREATE SCHEMA public")
    return found


def ask(url, *statements):
    engine = engine_of({"connection.url": url, "connection.user": None, "connection.password": None})
    with engine.begin() as connection:
        results = [connection.execute(text(each)) for each in statements]
        rows = [tuple(row) for row in results[-1]] if results[-1].returns_rows else []
    engine.dispose()
    return rows


def a_record(key, value, offset=0, schema=SCHEMA):
    made = None if value is None else Struct.of(schema, **value)
    return SinkRecord("t", 0, data.INT64, key, schema, made, offset=offset)


def rows_of(*pairs):
    return [a_record(key, {"id": key, "v": v}, offset) for offset, (key, v) in enumerate(pairs)]


def put(url, records, **options):
    async def story():
        config = {"connection.url": url, **{name.replace("_", "."): value for name, value in options.items()}}
        task = JdbcSinkConnector.task(config)
        try:
            await task.put(records)
            await task.flush()
        finally:
            await task.close()

    asyncio.run(story())


def test_confluents_names_find_the_sink():
    assert connector("JdbcSink") is connector("io.confluent.connect.jdbc.JdbcSinkConnector") is JdbcSinkConnector


def test_upsert_keeps_the_last_row_of_a_key_and_a_tombstone_deletes_it(url):
    options = {**KEYED, "auto.create": "true", "insert.mode": "upsert", "delete.enabled": "true"}
    put(url, [*rows_of((1, "a"), (2, "b"), (1, "c"), (3, "d")), a_record(2, None)], **options)
    put(url, rows_of((3, "e")), **options)
    assert ask(url, "SELECT id, v FROM t ORDER BY id") == [(1, "c"), (3, "e")]


def test_one_bad_record_costs_itself_alone(url):
    ask(url, "CREATE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR(9) CHECK (v <> 'bad'))")
    records = rows_of((1, "a"), (2, "b"), (3, "bad"), (4, "d"), (1, "again"), (5, "e"))
    with pytest.raises(RefusedRecords, match="2 records were refused") as fault:
        put(url, records)
    assert [record.offset for record, _ in fault.value.refused] == [2, 4]
    assert ask(url, "SELECT id, v FROM t ORDER BY id") == [(1, "a"), (2, "b"), (4, "d"), (5, "e")]


def test_a_bad_row_is_refused_also_where_a_later_one_of_its_batch_has_the_same_key(url):
    ask(url, "CREATE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR(9) CHECK (v <> 'bad'))")
    with pytest.raises(RefusedRecords) as fault:
        put(url, rows_of((1, "bad"), (1, "b"), (1, "c"), (2, "d")), **KEYED, insert_mode="upsert")
    assert [record.offset for record, _ in fault.value.refused] == [0]
    assert ask(url, "SELECT id, v FROM t ORDER BY id") == [(1, "c"), (2, "d")]


def test_rows_of_arrays_and_text_that_is_too_long_are_taken_one_by_one_and_whole(postgres):
    ask(postgres, "DROP SCHEMA IF EXISTS public CASCADE", "CREATE SCHEMA public")
    ask(postgres, "CREATE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR(5), code CHAR(3), f REAL, tags TEXT[], raw BYTEA)")
    wide = struct(
        [("id", data.INT64), ("v", data.OPTIONAL_STRING), ("code", data.OPTIONAL_STRING),
         ("f", data.FLOAT32.but(optional=True)), ("raw", data.BYTES.but(optional=True))]
    )  # fmt: skip
    tagged = struct([("id", data.INT64), ("tags", data.array(data.STRING))])
    records = [
        a_record(1, {"id": 1, "v": "short", "code": "abc", "f": 0.5, "raw": b"\x00\xff"}, 0, wide),
        a_record(2, {"id": 2, "v": "too long"}, 1, wide),
        a_record(3, {"id": 3, "v": 'q"{}', "code": "abcd"}, 2, wide),
        a_record(4, {"id": 4, "v": "NULL", "f": float("nan")}, 3, wide),
        a_record(5, {"id": 5, "tags": ["a", "b"]}, 4, tagged),
    ]
    with pytest.raises(RefusedRecords) as fault:
        put(postgres, records, **KEYED)
    assert [record.offset for record, _ in fault.value.refused] == [1, 2]
    assert ask(postgres, "SELECT id, v, code, f::text, tags, raw FROM t ORDER BY id") == [
        (1, "short", "abc", "0.5", None, b"\x00\xff"),
        (4, "NULL", None, "NaN", None, None),
        (5, None, None, None, ["a", "b"], None),
    ]


def test_records_without_schemas_and_with_changing_ones_each_have_their_own_columns(url):
    ask(url, "CREATE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR(9), w VARCHAR(9))")
    wider = struct([("w", data.OPTIONAL_STRING), ("id", data.INT64)])
    records = [
        SinkRecord("t", 0, None, {"k": 0}, None, {"v": "a", "id": 1}, offset=0),
        SinkRecord("t", 0, None, None, None, {"id": 2, "w": "b"}, offset=1),
        a_record(3, {"id": 3, "v": "c"}, 2),
        a_record(4, {"id": 4, "w": "d"}, 3, wider),
        a_record(5, {"id": 5, "v": "e"}, 4),
        SinkRecord("t", 0, None, None, None, "no row", offset=5),
    ]
    with pytest.raises(RefusedRecords) as fault:
        put(url, records, pk_mode="record_value", pk_fields="id")
    assert [record.offset for record, _ in fault.value.refused] == [5]
    assert ask(url, "SELECT id, v, w FROM t ORDER BY id") == [
        (1, "a", None), (2, None, "b"), (3, "c", None), (4, None, "d"), (5, "e", None),
    ]  # fmt: skip


def test_update_changes_rows_that_are_there_and_adds_none(url):
    ask(url, "CREATE TABLE t (id BIGINT PRIMARY KEY, v TEXT)", "INSERT INTO t VALUES (1,'a')")
    put(url, rows_of((1, "z"), (2, "b")), **KEYED, insert_mode="update")
    assert ask(url, "SELECT id, v FROM t") == [(1, "z")]


def test_the_place_in_kafka_makes_a_record_that_comes_twice_one_row(url):
    for _ in range(2):
        put(url, rows_of((7, "a"), (7, "b")), **{"pk.mode": "kafka", "insert.mode": "upsert", "auto.create": "true"})
    found = ask(url, "SELECT __connect_topic, __connect_partition, __connect_offset, id FROM t ORDER BY 3")
    assert found == [("t", 0, 0, 7), ("t", 0, 1, 7)]


def test_logical_types_make_columns_and_come_back_by_the_source(url):
    from ottla.connect.plugins.jdbc.source import JdbcSourceConnector

    schema = struct([
        ("id", data.INT64), ("n", data.decimal(2)), ("d", data.DATE_SCHEMA), ("h", data.TIME_SCHEMA),
        ("z", data.TIMESTAMP_SCHEMA), ("b", data.BYTES), ("o", data.BOOLEAN), ("f", data.FLOAT64),
    ])  # fmt: skip
    value = {"id": 1, "n": Decimal("1.25"), "d": Instant(data.DAY_MS), "h": Instant(1001),
             "z": Instant(1_500_000_000_123), "b": b"\x00", "o": True, "f": 0.5}  # fmt: skip
    put(url, [a_record(1, value, schema=schema)], **KEYED, auto_create="true")

    class Nothing:
        async def read(self, partitions):
            return [None for _ in partitions]

    async def story():
        (config,) = JdbcSourceConnector.tasks({"connection.url": url, "mode": "bulk", "topic.prefix": ""}, 1)
        task = JdbcSourceConnector.task(config)
        try:
            await task.start(Nothing())
            return await task.read()
        finally:
            await task.close()

    (back,) = asyncio.run(story())
    assert {name: back.value.get(name) for name in value} == value


def test_columns_are_added_for_optional_fields_where_that_is_allowed(url):
    ask(url, "CREATE TABLE t (id BIGINT PRIMARY KEY)")
    with pytest.raises(RefusedRecords, match=r"lacks the columns v.*auto.evolve=true"):
        put(url, rows_of((1, "a")), **KEYED)
    put(url, rows_of((1, "a")), **KEYED, auto_evolve="true")
    assert ask(url, "SELECT id, v FROM t") == [(1, "a")]


def test_a_table_that_does_not_exist_ends_the_task_with_the_way_out(url):
    with pytest.raises(ConnectException, match=r"create it, or set auto.create=true"):
        put(url, rows_of((1, "a")))


def test_a_tombstone_without_deletes_is_refused_by_name(url):
    ask(url, "CREATE TABLE t (id BIGINT PRIMARY KEY, v TEXT)")
    with pytest.raises(RefusedRecords, match=r"value is null: set delete.enabled=true"):
        put(url, [a_record(1, None)], **KEYED)


def test_a_database_that_is_away_is_tried_again_and_then_given_up():
    url = "jdbc:postgresql://127.0.0.1:1/none"
    with pytest.raises(RetriableException):
        put(url, rows_of((1, "a")), max_retries="2", retry_backoff_ms="0")


def test_options_that_contradict_each_other_are_refused():
    with pytest.raises(ConfigException, match=r"needs pk.mode=record_key"):
        JdbcSinkConnector.task({"connection.url": "sqlite://", "delete.enabled": "true"})
    with pytest.raises(ConfigException, match="needs a primary key"):
        JdbcSinkConnector.task({"connection.url": "sqlite://", "insert.mode": "upsert"})


def test_a_value_that_was_not_changed_leaves_its_column_alone_in_an_upsert(url):
    mode = {**KEYED, "insert.mode": "upsert", "auto.create": "true"}
    put(url, rows_of((1, "long")), **mode)
    put(url, rows_of((1, "__debezium_unavailable_value"), (2, "x")), **mode)
    assert ask(url, "SELECT id, v FROM t ORDER BY id") == [(1, "long"), (2, "x")]
    put(url, rows_of((2, "__debezium_unavailable_value")), **mode, **{"unavailable.value.placeholder": ""})
    assert ask(url, "SELECT v FROM t WHERE id = 2") == [("__debezium_unavailable_value",)]


def test_debeziums_types_keep_their_digits_in_mariadb_and_times_beyond_a_day(mariadb):
    mariadb_ask(mariadb.database(), "DROP DATABASE IF EXISTS written", "CREATE DATABASE written")
    url = mariadb.url("written")
    named = [("at", data.INT64.but(name="io.debezium.time.MicroTimestamp")),
             ("long", data.INT64.but(name="io.debezium.time.MicroTime"))]  # fmt: skip
    schema = struct([("k", data.BYTES), *named])
    value = {"k": b"\x00", "at": 1_500_000_000_123_456, "long": -90_000_000_001}
    put(url, [a_record(1, value, schema=schema)], **{"auto.create": "true", "pk.mode": "record_value",
        "pk.fields": "k", "insert.mode": "upsert"})  # fmt: skip
    asked = ask(url, "SELECT HEX(k), CAST(at AS CHAR), CAST(`long` AS CHAR) FROM t")
    assert asked == [("00", "2017-07-14 02:40:00.123456", "-25:00:00.000001")]


def test_a_value_that_does_not_fit_is_refused_where_the_server_would_cut_it_off(mariadb):
    mariadb_ask(mariadb.database(), "DROP DATABASE IF EXISTS written", "CREATE DATABASE written",
                "SET GLOBAL sql_mode = ''")  # fmt: skip
    url = mariadb.url("written")
    try:
        ask(url, "CREATE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR(3))")
        with pytest.raises(RefusedRecords, match="Data too long for column 'v'"):
            put(url, rows_of((1, "abc"), (2, "abcd")))
        assert ask(url, "SELECT id, v FROM t") == [(1, "abc")]
    finally:
        mariadb_ask(mariadb.database(), "SET GLOBAL sql_mode = DEFAULT")
