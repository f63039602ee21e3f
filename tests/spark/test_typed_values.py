"""Values of a registry's schemas as columns, read without Spark as tasks do; and the same inside Spark itself."""

import json
import subprocess
import sys

import pytest
from pyspark.sql.types import DecimalType, IntegerType, LongType, StringType, StructType
from tests.formats.avro_cases import payload_of
from tests.registry_server import RegistryServer

from ottla.records.reader import Record
from ottla.spark.batch import plan_batch
from ottla.spark.reader import read_ranges
from ottla.spark.source import OttlaDataSource
from ottla.spark.values import BadValue

TIME = 1_700_000_000_000
V1 = {"type": "record", "name": "order", "fields": [{"name": "id", "type": "int"}, {"name": "item", "type": "string"}]}
V2 = {
    "type": "record",
    "name": "order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "article", "type": "string", "aliases": ["item"]},
        {"name": "count", "type": "int", "default": 1},
        {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}]},
        {"name": "tags", "type": {"type": "map", "values": "string"}, "default": {}},
        {"name": "at", "type": {"type": "int", "logicalType": "time-millis"}, "default": 1000},
        {"name": "when", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 1000},
    ],
}


@pytest.fixture(scope="module")
def registry():
    with RegistryServer() as running:
        yield running


def framed(schema_id, schema, value):
    return b"\x00" + schema_id.to_bytes(4, "big") + payload_of(schema, value)


def order(schema_id, number):
    value = {"id": number, "article": "x", "count": 2, "price": 125, "tags": {"a": "b"}, "at": 0, "when": TIME}
    return framed(schema_id, V2, value)


def fill(topics, topic, *values):
    topics.fill(topic, 0, [Record(0, TIME, b"k", value) for value in values])


def source(bootstrap, topic, **options):
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    return OttlaDataSource({**given, **{name.replace("__", "."): text for name, text in options.items()}})


def rows(bootstrap, topic, **options):
    """The rows that the tasks of a batch yield."""
    found = source(bootstrap, topic, **options)
    reader = found.reader(found.schema())
    batches = []
    for span in plan_batch(reader.options.survey(), reader.options, []):
        batches += read_ranges([span], reader.options)
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.fixture
def orders(topics, registry):
    """A topic with an order of the first version of its schema and two of the second."""
    topic = topics.new()
    first, second = registry.register(f"{topic}-value", V1), registry.register(f"{topic}-value", V2)
    fill(topics, topic, framed(first, V1, {"id": 1, "item": "old"}), order(second, 2), order(second, 3))
    return topic


def test_the_type_of_values_is_that_of_the_latest_schema(bootstrap, orders, registry):
    schema = source(bootstrap, orders, value__format="avro", registry__url=registry.url).schema()
    value = schema["value"].dataType
    assert isinstance(value, StructType) and value.names == [field["name"] for field in V2["fields"]]
    assert isinstance(value["id"].dataType, LongType) and value["price"].dataType == DecimalType(8, 2)
    assert schema.names == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]


def test_older_values_are_read_as_the_latest_schema_wants_them(bootstrap, orders, registry):
    found = rows(bootstrap, orders, value__format="avro", registry__url=registry.url, columns="value,offset")
    assert [(row["offset"], row["value"]["id"], row["value"]["article"]) for row in found] == [
        (0, 1, "old"),
        (1, 2, "x"),
        (2, 3, "x"),
    ]
    assert found[0]["value"]["count"] == 1 and found[0]["value"]["price"] is None


def test_a_bad_value_fails_the_query_with_its_place_and_reason(bootstrap, orders, registry, topics):
    fill(topics, orders, b"nonsense")
    with pytest.raises(BadValue, match=f"{orders}-0, offset 3: the first byte is 0x6e"):
        rows(bootstrap, orders, value__format="avro", registry__url=registry.url, columns="value")


def test_permissive_values_are_null_with_the_reason_beside_them(bootstrap, orders, registry, topics):
    fill(topics, orders, b"nonsense", None)
    options = {"value__format": "avro", "registry__url": registry.url, "value__mode": "permissive"}
    found = rows(bootstrap, orders, **options)
    assert [row["value"] is None for row in found] == [False, False, False, True, True]
    assert found[3]["value_error"].startswith("the first byte is 0x6e")
    assert [row["value_error"] is None for row in found] == [True, True, True, False, True]
    assert list(found[0])[-1] == "value_error"
    with pytest.raises(ValueError, match="value_error, which needs the column value"):
        source(bootstrap, orders, columns="value_error", **options).schema()


def test_several_topics_need_one_schema(bootstrap, orders, registry, topics):
    other = topics.new()
    registry.register(f"{other}-value", V1)
    both = f"{orders},{other}"
    options = {"value__format": "avro", "registry__url": registry.url}
    with pytest.raises(ValueError, match="have different schemas: read their topics one by one, or name the subject"):
        source(bootstrap, both, **options).schema()
    named = source(bootstrap, both, value__subject=f"{other}-value", **options).schema()
    assert named["value"].dataType.names == ["id", "item"]


def test_topics_of_a_pattern_are_found_for_their_subjects(bootstrap, orders, registry):
    given = {"kafka.bootstrap.servers": bootstrap, "subscribePattern": orders, "value.format": "avro"}
    schema = OttlaDataSource({**given, "registry.url": registry.url}).schema()
    assert schema["value"].dataType.names[0] == "id"


def test_a_schema_in_the_options_needs_no_registry(bootstrap, topics):
    topic = topics.new()
    fill(topics, topic, payload_of(V1, {"id": 7, "item": "bare"}))
    found = rows(bootstrap, topic, value__format="avro", value__schema=json.dumps(V1), columns="value")
    assert found == [{"value": {"id": 7, "item": "bare"}}]


def test_a_schema_in_the_options_goes_before_the_latest_one(bootstrap, orders, registry):
    narrow = {"type": "record", "name": "order", "fields": [{"name": "id", "type": "long"}]}
    options = {"value__format": "avro", "registry__url": registry.url, "value__schema": json.dumps(narrow)}
    assert [row["value"] for row in rows(bootstrap, orders, columns="value", **options)] == [
        {"id": 1},
        {"id": 2},
        {"id": 3},
    ]


def test_text_is_checked_to_be_utf8(bootstrap, topics):
    topic = topics.new()
    fill(topics, topic, "é".encode(), b"\xff", None)
    found = rows(bootstrap, topic, value__format="text", value__mode="permissive", columns="value,value_error")
    assert [row["value"] for row in found] == ["é", None, None]
    assert "UTF8" in found[1]["value_error"] and found[2]["value_error"] is None
    assert isinstance(source(bootstrap, topic, value__format="text").schema()["value"].dataType, StringType)


def test_a_value_that_is_no_record_is_a_plain_column(bootstrap, registry, topics):
    topic = topics.new()
    number = registry.register(f"{topic}-value", '"int"')
    fill(topics, topic, b"\x00" + number.to_bytes(4, "big") + b"\x0e")
    options = {"value__format": "avro", "registry__url": registry.url, "columns": "value"}
    assert rows(bootstrap, topic, **options) == [{"value": 7}]
    assert isinstance(source(bootstrap, topic, **options).schema()["value"].dataType, IntegerType)


def test_columns_without_the_value_ask_no_registry(bootstrap, topics):
    topic = topics.new()
    fill(topics, topic, b"x")
    options = {"value__format": "avro", "registry__url": "http://127.0.0.1:9", "columns": "offset"}
    assert rows(bootstrap, topic, **options) == [{"offset": 0}]


def test_protobuf_values_are_read_by_the_message_named(bootstrap, registry, topics):
    topic = topics.new()
    text = 'syntax="proto3"; message First { string a=1; } message Second { uint64 n=1; map<int32, string> m=2; }'
    number = registry.register(f"{topic}-value", text, "PROTOBUF")
    prefix = b"\x00" + number.to_bytes(4, "big")
    fill(topics, topic, prefix + b"\x02\x02\x08\x07\x12\x05\x08\x01\x12\x01x", prefix + b"\x00\x0a\x01a")
    options = {"value__format": "protobuf", "registry__url": registry.url, "value__mode": "permissive"}
    second = rows(bootstrap, topic, value__message="Second", columns="value,value_error", **options)
    assert second[0] == {"value": {"n": 7, "m": [(1, "x")]}, "value_error": None}
    assert "a message First where Second is read" in second[1]["value_error"]
    first = rows(bootstrap, topic, columns="value", **options)
    assert [row["value"] for row in first] == [None, {"a": "a"}]


def test_json_values_are_read_by_their_schema(bootstrap, registry, topics):
    topic = topics.new()
    text = {"type": "object", "properties": {"id": {"type": "integer"}, "any": {"type": ["string", "integer"]}}}
    number = registry.register(f"{topic}-value", text, "JSON")
    fill(topics, topic, b"\x00" + number.to_bytes(4, "big") + b'{"id": 1, "any": "x"}')
    options = {"value__format": "json", "registry__url": registry.url, "columns": "value"}
    assert rows(bootstrap, topic, **options) == [{"value": {"id": 1, "any": '"x"'}}]


def test_a_decimal_too_wide_for_spark_is_refused_by_its_name(bootstrap):
    wide = {"type": "bytes", "logicalType": "decimal", "precision": 50}
    text = json.dumps({"type": "record", "name": "r", "fields": [{"name": "d", "type": wide}]})
    with pytest.raises(ValueError, match=r"value\.d is a decimal256\(50, 0\).*Spark has no type for"):
        source(bootstrap, "t", value__format="avro", value__schema=text).schema()


def test_a_version_that_does_not_fit_makes_its_records_bad(bootstrap, orders, registry, topics):
    changed = {**V2, "fields": [{"name": "id", "type": "string"}]}
    options = {"value__format": "avro", "registry__url": registry.url, "value__mode": "permissive"}
    reader = source(bootstrap, orders, columns="value,value_error", **options)
    started = reader.reader(reader.schema())
    number = registry.register(f"{orders}-value", changed)
    fill(topics, orders, framed(number, changed, {"id": "seven"}))
    spans = plan_batch(started.options.survey(), started.options, [])
    found = [row for batch in read_ranges(spans, started.options) for row in batch.to_pylist()]
    assert [row["value"] is None for row in found] == [False, False, False, True]
    assert "value.id: string is written, int64 is wanted; start again" in found[3]["value_error"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"value__format": "yaml"}, "must be one of binary, text, avro, protobuf, json"),
        ({"value__format": "avro"}, "needs option 'registry.url', or 'value.schema'"),
        ({"value__format": "text", "registry__url": "http://h"}, "'registry.url' needs option 'value.format'"),
        ({"value__format": "avro", "value__schema": "x", "value__subject": "s"}, "needs option 'registry.url'"),
        ({"value__format": "text", "value__mode": "lenient"}, "failfast or permissive"),
        ({"value__format": "avro", "registry__url": "http://a:b@h"}, "must not hold credentials"),
        ({"value__format": "avro", "value__schema": '{"type":"record"}'}, "cannot be a column"),
    ],
)
def test_wrong_options_are_refused_when_the_query_is_made(bootstrap, options, reason):
    with pytest.raises(ValueError, match=reason):
        source(bootstrap, "t", **options).schema()


def test_a_subject_that_is_not_there_is_named(bootstrap, registry):
    with pytest.raises(ValueError, match="subject nowhere-value"):
        source(bootstrap, "nowhere", value__format="avro", registry__url=registry.url).schema()


def test_planning_loads_nothing_heavy():
    """Spark starts a new Python for each step of planning."""
    heavy = "('pyarrow', 'numpy', 'urllib3', 'polars', 'fastavro', 'google.protobuf')"
    said = (
        f"import sys, ottla.spark.source, ottla.spark.batch; print([each for each in {heavy} if each in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.spark
@pytest.mark.slow
def test_spark_reads_structs_and_computes_with_them(spark, bootstrap, orders, registry):
    frame = (
        spark.read.format("ottla")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", orders)
        .option("value.format", "avro")
        .option("registry.url", registry.url)
        .load()
    )
    found = frame.selectExpr(
        "value.id", "value.article", "value.price * 2 price", "value.tags['a'] tag", "value.count", "value.when",
        "value.at",
    ).orderBy("id")  # fmt: skip
    first, second, _ = found.collect()
    assert (first.id, first.article, first.price, first.tag, first["count"]) == (1, "old", None, None, 1)
    assert (second.id, str(second.price), second.tag, second["count"]) == (2, "2.50", "b", 2)
    assert (int(first.when.timestamp()), int(second.when.timestamp())) == (1, TIME // 1000)
    assert (first["at"], second["at"]) == (1_000_000, 0)


@pytest.mark.spark
@pytest.mark.slow
def test_a_stream_keeps_the_type_that_it_started_with(spark, bootstrap, orders, registry, topics, tmp_path):
    topic = orders
    stream = (
        spark.readStream.format("ottla")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("value.format", "avro")
        .option("value.mode", "permissive")
        .option("registry.url", registry.url)
        .load()
    )
    newer = {**V2, "fields": [*V2["fields"], {"name": "extra", "type": "int"}]}
    number = registry.register(f"{topic}-value", newer)
    value = {"id": 9, "article": "y", "count": 2, "price": None, "tags": {}, "at": 0, "when": TIME, "extra": 5}
    fill(topics, topic, framed(number, newer, value), b"junk")
    query = (
        stream.writeStream.format("parquet")
        .option("path", str(tmp_path / "out"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    found = spark.read.parquet(str(tmp_path / "out"))
    rows = found.selectExpr("value.*", "value_error", "offset").orderBy("offset").collect()
    assert [row.id for row in rows] == [1, 2, 3, 9, None] and "extra" not in rows[0]
    assert [row.value_error is None for row in rows] == [True] * 4 + [False]
