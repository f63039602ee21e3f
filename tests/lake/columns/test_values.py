"""Typed values in lakes: schemas from ottla's registry, values by other people's serializers."""

import json
from datetime import UTC, datetime

import polars as pl
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from ottla import lake
from ottla.records.reader import Record
from ottla.registry.server import RegistryThread

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NEW_YEAR = 1_356_998_400_000


@pytest.fixture(scope="module")
def registry(bootstrap):
    with RegistryThread(bootstrap, port=0, topic="_schemas-of-lakes") as running:
        yield running


def fill(topics, topic, *values):
    for value in values:
        topics.fill(topic, 0, [Record(0, NEW_YEAR, b"k", value)])


def avro(registry, topic, schema, *documents):
    serializer = AvroSerializer(SchemaRegistryClient({"url": registry.url}), json.dumps(schema))
    context = SerializationContext(topic, MessageField.VALUE)
    return [serializer(document, context) for document in documents]


def order(*more):
    fields = [
        {"name": "id", "type": "int"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ]
    return {"type": "record", "name": "Order", "fields": [*fields, *more]}


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_avro_values_become_columns_that_follow_the_schema(load, topics, registry, tmp_path, format):
    topic, dead = topics.new(), topics.new()
    when = datetime(2020, 2, 1, 12, tzinfo=UTC)
    options = {"values": "avro", "registry": registry.url, "dead_letter": dead, "event_time": "at", "format": format}
    fill(
        topics, topic, *avro(registry, topic, order(), {"id": 1, "at": when}), b"\x00\x00\x00\xff\xff?", b"plain", None
    )
    loaded = load(topic, **options)
    assert (loaded.rows, len(topics.read(dead))) == (2, 2)
    late = {"name": "note", "type": ["null", "string"], "default": None}
    wider = order(late)
    wider["fields"][0]["type"] = "long"
    fill(topics, topic, *avro(registry, topic, wider, {"id": 2**40, "at": when, "note": "x"}))
    assert load(topic, **options).rows == 1
    if format == "delta":
        rows = pl.read_delta(str(tmp_path / "lake" / topic)).to_dicts()
    else:
        rows = pl.scan_parquet(
            f"{tmp_path}/lake/topic={topic}/**/*.parquet",
            schema=pl.Schema(pl.from_arrow(lake.schema(tmp_path / "lake", topic).empty_table()).schema),
            missing_columns="insert",
            cast_options=pl.ScanCastOptions(integer_cast="upcast"),
            extra_columns="ignore",
        )
        rows = rows.collect().to_dicts()
    found = sorted((row["offset"], row["id"], row["at"], row["note"]) for row in rows)
    assert found == [(0, 1, when, None), (3, None, None, None), (4, 2**40, when, "x")]
    reasons = [dict(letter.headers)["ottla.reason"].decode() for letter in topics.read(dead)]
    assert "is not known" in reasons[0] and reasons[1]


def test_values_whose_header_names_their_schema_are_read_by_it(load, topics, registry, tmp_path):
    topic, dead = topics.new(), topics.new()
    client = SchemaRegistryClient({"url": registry.url})
    by_header = AvroSerializer(client, json.dumps(order()), conf={"schema.id.serializer": header_schema_id_serializer})
    when, headers = datetime(2020, 2, 1, 12, tzinfo=UTC), []
    value = by_header({"id": 7, "at": when}, SerializationContext(topic, MessageField.VALUE, headers))
    ((name, schema),) = headers
    assert (name, schema[0], len(schema)) == ("__value_schema_id", 1, 17)
    topics.fill(topic, 0, [Record(0, NEW_YEAR, b"k", value, ((name, schema),))])
    topics.fill(topic, 0, [Record(0, NEW_YEAR, b"k", value, ((name, b"\x01" + b"?" * 16),))])
    fill(topics, topic, *avro(registry, topic, order(), {"id": 8, "at": when}))
    assert load(topic, values="avro", registry=registry.url, dead_letter=dead).rows == 2
    found = pl.DataFrame(lake.rows(tmp_path / "lake", topic)).sort("offset")
    assert found["id"].to_list() == [7, 8] and found["at"].to_list() == [when, when]
    (letter,) = topics.read(dead)
    assert b"schema 3f3f3f3f-3f3f-3f3f-3f3f-3f3f3f3f3f3f is not known" in dict(letter.headers)["ottla.reason"]


def test_json_with_a_schema_has_the_declared_types(load, topics, registry, tmp_path):
    topic = topics.new()
    schema = {"type": "object", "title": "T", "properties": {"n": {"type": "number"}, "d": {"type": "string"}}}
    serializer = JSONSerializer(json.dumps(schema), SchemaRegistryClient({"url": registry.url}))
    fill(topics, topic, serializer({"n": 1, "d": "x"}, SerializationContext(topic, MessageField.VALUE)))
    load(topic, values="json", registry=registry.url)
    columns = lake.schema(tmp_path / "lake", topic)
    assert (columns.field("n").type, columns.field("d").type) == (pa.float64(), pa.string())


def test_text_stays_one_column_and_what_is_none_is_a_dead_letter(load, topics, tmp_path):
    topic, dead = topics.new(), topics.new()
    fill(topics, topic, "grüß".encode(), b"\xff", None)
    assert load(topic, values="text", dead_letter=dead).rows == 2
    assert lake.schema(tmp_path / "lake", topic).field("value").type == pa.string()
    assert [letter.value for letter in topics.read(dead)] == [b"\xff"]


def test_avro_without_prefixes_is_read_by_the_schema_given(load, topics, tmp_path):
    import io

    import fastavro

    topic = topics.new()
    out = io.BytesIO()
    schema = {"type": "record", "name": "R", "fields": [{"name": "s", "type": "string"}]}
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), {"s": "x"})
    fill(topics, topic, out.getvalue())
    assert load(topic, values="avro", schema=json.dumps(schema)).rows == 1


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"values": "avro"}, "needs `registry=URL`, or `schema=FILE`"),
        ({"values": "text", "registry": "http://localhost:1"}, "are for values of avro"),
        ({"values": "avro", "json": True, "registry": "http://localhost:1"}, "contradict each other"),
        ({"values": "avro", "registry": "ftp://x"}, "`registry` takes http:// and https:// URLs"),
        ({"values": "orc"}, "give one of"),
    ],
)
def test_values_that_cannot_be_read_so_are_refused(load, topics, options, why):
    with pytest.raises(lake.LakeRefused, match=why):
        load(topics.new(), **options)
