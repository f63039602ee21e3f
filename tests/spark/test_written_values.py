"""Structs are written as typed values with a given, found or derived schema, and are read back equal."""

import json

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType
from tests.registry_server import RegistryServer

from ottla.client.registry_client import RegistryClient
from ottla.formats.decoder import Decoder
from ottla.formats.faults import BadPayload
from ottla.spark.source import OttlaDataSource
from ottla.spark.writer import write_rows

VALUE = StructType([StructField("id", LongType()), StructField("item", StringType())])
AVRO = {"type": "record", "name": "o", "fields": [{"name": "id", "type": "long"}, {"name": "item", "type": "string"}]}
ARROW = pa.struct([("id", pa.int64()), ("item", pa.string())])
ROWS = [{"id": 1, "item": "a"}, None, {"id": 2, "item": "é"}]


@pytest.fixture(scope="module")
def registry():
    with RegistryServer() as running:
        yield running


@pytest.fixture
def sink(bootstrap, registry):
    def make(topic, value=VALUE, **options):
        given = {"kafka.bootstrap.servers": bootstrap, "registry.url": registry.url, "value.format": "avro"}
        if topic is not None:
            given["topic"] = topic
        given |= {name.replace("__", "."): text for name, text in options.items()}
        given = {name: text for name, text in given.items() if text is not None}
        return OttlaDataSource(given).writer(StructType([StructField("value", value)]), overwrite=False)

    return make


def write(writer, rows=ROWS, kind=ARROW):
    batch = pa.RecordBatch.from_arrays([pa.array(rows, kind)], ["value"])
    return write_rows(writer.options, iter([batch]))


def values(topics, topic):
    return pa.array([record.value for record in topics.read(topic)], pa.binary())


@pytest.mark.parametrize("kind", ["avro", "protobuf", "json"])
def test_a_schema_is_derived_and_registered_where_the_subject_has_none(sink, topics, registry, kind):
    topic = topics.new()
    write(sink(topic, value__format=kind))
    client = RegistryClient((registry.url,))
    assert client.latest(f"{topic}-value").schema.kind == kind.upper()
    decoded = Decoder(kind, client.schema).decode(values(topics, topic))
    assert decoded.values.to_pylist() == ROWS


def test_the_latest_schema_of_the_subject_is_used(sink, topics, registry):
    topic = topics.new()
    fields = [{"name": "count", "type": "int", "default": 3}]
    number = registry.register(f"{topic}-value", {**AVRO, "fields": AVRO["fields"] + fields})
    writer = sink(topic)
    assert writer.options.written_by.schema_id == number
    write(writer)
    found = Decoder("avro", RegistryClient((registry.url,)).schema).decode(values(topics, topic))
    assert found.values.to_pylist()[0] == {"id": 1, "item": "a", "count": 3}


def test_a_given_schema_is_registered(sink, topics, registry):
    topic = topics.new()
    sink(topic, value__schema=json.dumps(AVRO), value__subject="shared")
    assert registry.subjects["shared"] and f"{topic}-value" not in registry.subjects


def test_without_a_registry_payloads_have_no_prefix(sink, topics):
    topic = topics.new()
    write(sink(topic, registry__url=None, value__schema=json.dumps(AVRO)), ROWS[:1])
    assert [record.value for record in topics.read(topic)] == [b"\x02\x02a"]


def test_a_column_that_does_not_fit_is_refused_before_anything_is_written(sink, topics, registry):
    topic = topics.new()
    registry.register(f"{topic}-value", AVRO)
    with pytest.raises(ValueError, match=r"cannot be written as avro: the schema has no place for value\.more"):
        sink(topic, StructType([*VALUE.fields, StructField("more", IntegerType())]))
    with pytest.raises(ValueError, match=r"value\.id: string is written, int64 is wanted"):
        sink(topic, StructType([StructField("id", StringType())]))
    with pytest.raises(ValueError, match="structs only"):
        sink(topics.new(), LongType())


def test_topics_of_a_column_need_a_subject(bootstrap, registry):
    given = {"kafka.bootstrap.servers": bootstrap, "registry.url": registry.url, "value.format": "avro"}
    schema = StructType([StructField("topic", StringType()), StructField("value", VALUE)])
    with pytest.raises(ValueError, match=r"need option 'topic', or option 'value\.subject'"):
        OttlaDataSource(given).writer(schema, overwrite=False)


def test_a_row_that_does_not_fit_fails_its_task(sink, topics, registry):
    topic = topics.new()
    registry.register(f"{topic}-value", AVRO)
    with pytest.raises(BadPayload, match="field item is null"):
        write(sink(topic), [{"id": 1, "item": None}])


@pytest.mark.spark
@pytest.mark.slow
def test_spark_writes_structs_and_reads_them_again(spark, bootstrap, topics, registry):
    topic = topics.new(2)
    frame = spark.range(500).selectExpr(
        "cast(id as string) key",
        "named_struct('id', id, 'name', concat('n', id), 'tags', array(id, id + 1), 'price', cast(id as decimal(9,2)), "
        "'at', timestamp_seconds(id)) value",
    )
    options = {"kafka.bootstrap.servers": bootstrap, "value.format": "avro", "registry.url": registry.url}
    frame.write.format("ottla").options(**options).option("topic", topic).mode("append").save()
    found = spark.read.format("ottla").options(**options).option("subscribe", topic).load()
    both = found.selectExpr("cast(key as string) key", "value").exceptAll(frame)
    assert found.count() == 500 and both.count() == 0
