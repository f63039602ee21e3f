"""Our payloads are read by our decoder and by others, and payloads of others are read by ours."""

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import message_factory
from hypothesis import HealthCheck, assume, given, settings
from tests.formats.avro_cases import has_column, payload_of, records
from tests.formats.shop_orders import WRITER, Order
from tests.registry_server import RegistryServer

from ottla.formats.avro import AvroReader
from ottla.formats.avro_writing import AvroWriter
from ottla.formats.decoder import Decoder, arrow_schema
from ottla.formats.encoder import Encoder, derived
from ottla.formats.faults import BadPayload, SchemaFault, Unresolvable
from ottla.formats.fitting import fitting
from ottla.formats.protoc import compiled
from ottla.formats.writer import WriterSchema

UNHURRIED = settings(deadline=None, suppress_health_check=list(HealthCheck))
CONTEXT = SerializationContext("t", MessageField.VALUE)
COLUMNS = pa.struct(
    [
        ("id", pa.int64()),
        ("count", pa.int32()),
        ("name", pa.string()),
        ("price", pa.float64()),
        ("paid", pa.bool_()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("tags", pa.list_(pa.string())),
        ("to", pa.struct([("city", pa.string())])),
        ("counts", pa.map_(pa.string(), pa.int64())),
    ]
)
ROWS = [
    {
        "id": 1 << 40, "count": 7, "name": "é", "price": 1.5, "paid": True,
        "at": datetime(2026, 11, 22, 10, 0, 0, 123456, tzinfo=UTC), "tags": ["a", "b"], "to": {"city": "x"},
        "counts": [("k", 1)],
    },
    None,
    {
        "id": 2, "count": None, "name": None, "price": None, "paid": None, "at": None, "tags": [], "to": None,
        "counts": [],
    },
]  # fmt: skip


@pytest.fixture(scope="module")
def server():
    with RegistryServer() as running:
        yield running


@pytest.fixture
def client(server):
    return SchemaRegistryClient({"url": server.url})


@pytest.mark.parametrize("kind", ["avro", "protobuf", "json"])
def test_rows_written_by_a_derived_schema_are_read_again(kind):
    schema = derived(kind, COLUMNS)
    encoder = Encoder(schema, 9)
    encoder.check(COLUMNS)
    payloads = encoder.encode(pa.array(ROWS, COLUMNS))
    decoded = Decoder(kind, lambda _: schema).decode(payloads)
    assert decoded.faults == []
    assert decoded.values.to_pylist() == ROWS


@UNHURRIED
@given(records())
def test_avro_that_was_read_is_written_to_the_same_bytes(case):
    schema, values = case
    assume(has_column(schema))
    writer = WriterSchema("AVRO", json.dumps(schema))
    payloads = pa.array([payload_of(schema, value) for value in values], pa.binary())
    array = AvroReader(writer).read(payloads).array
    again = AvroReader(writer).read(Encoder(writer, None).encode(array))
    assert again.faults == [] and again.array.equals(array)


def test_confluents_avro_is_read_and_ours_is_read_by_confluents(server, client):
    text = json.dumps(
        {
            "type": "record",
            "name": "Order",
            "fields": [
                {"name": "id", "type": "long"},
                {"name": "on", "type": {"type": "int", "logicalType": "date"}},
                {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}},
                {"name": "note", "type": ["null", "string"], "default": None},
            ],
        }
    )
    row = {"id": 5, "on": date(2026, 1, 2), "price": Decimal("12.50"), "note": None}
    payload = AvroSerializer(client, text)(row, CONTEXT)
    number = int.from_bytes(payload[1:5], "big")
    find = lambda schema_id: WriterSchema("AVRO", server.ids[schema_id]["schema"])  # noqa: E731
    decoded = Decoder("avro", find).decode(pa.array([payload], pa.binary()))
    assert decoded.table.to_pylist() == [row]
    ours = Encoder(find(number), number).encode(decoded.values)[0].as_py()
    assert AvroDeserializer(client)(ours, CONTEXT) == row


def test_confluents_json_is_read_and_ours_is_read_by_confluents(server, client):
    text = json.dumps({"title": "o", "type": "object", "properties": {"id": {"type": "integer"}}})
    payload = JSONSerializer(text, client)({"id": 5}, CONTEXT)
    number = int.from_bytes(payload[1:5], "big")
    schema = WriterSchema("JSON", server.ids[number]["schema"])
    decoded = Decoder("json", lambda _: schema).decode(pa.array([payload], pa.binary()))
    assert decoded.table.to_pylist() == [{"id": 5}]
    ours = Encoder(schema, number).encode(decoded.values)[0].as_py()
    assert JSONDeserializer(text, schema_registry_client=client)(ours, CONTEXT) == {"id": 5}


def test_confluents_protobuf_is_read_and_ours_is_read_by_confluents(server, client):
    text = 'syntax="proto3"; package p; message First { int32 x=1; } message Order { int64 id=1; }'
    file = compiled(WriterSchema("PROTOBUF", text))
    order = message_factory.GetMessageClass(file.message_types_by_name["Order"])
    serializer = ProtobufSerializer(order, client, {"use.deprecated.format": False})
    payload = serializer(order(id=5), CONTEXT)
    number = int.from_bytes(payload[1:5], "big")
    schema = WriterSchema("PROTOBUF", server.ids[number]["schema"])
    decoded = Decoder("protobuf", lambda _: schema, message="p.Order").decode(pa.array([payload], pa.binary()))
    assert decoded.table.to_pylist() == [{"id": 5}]
    ours = Encoder(schema, number, message="Order").encode(decoded.values)[0].as_py()
    assert ours == payload
    deserializer = ProtobufDeserializer(order, {"use.deprecated.format": False}, client)
    assert deserializer(ours, CONTEXT).id == 5


def test_columns_that_the_schema_has_no_place_for_are_refused():
    schema = WriterSchema("AVRO", '{"type":"record","name":"r","fields":[{"name":"a","type":"int"}]}')
    with pytest.raises(Unresolvable, match=r"no place for value\.b"):
        Encoder(schema, 1).check(pa.struct([("a", pa.int32()), ("b", pa.int32())]))
    with pytest.raises(Unresolvable, match=r"value\.a: int64 is written, int32 is wanted"):
        Encoder(schema, 1).check(pa.struct([("a", pa.int64())]))


def test_a_column_that_is_not_given_is_its_default():
    fields = [{"name": "a", "type": "int"}, {"name": "b", "type": "string", "default": "x"}]
    schema = WriterSchema("AVRO", json.dumps({"type": "record", "name": "r", "fields": fields}))
    payloads = Encoder(schema, 1).encode(pa.array([{"a": 1}], pa.struct([("a", pa.int32())])))
    assert Decoder("avro", lambda _: schema).decode(payloads).table.to_pylist() == [{"a": 1, "b": "x"}]


def test_a_null_that_the_schema_does_not_allow_is_named():
    schema = WriterSchema("AVRO", '{"type":"record","name":"r","fields":[{"name":"a","type":"int"}]}')
    with pytest.raises(BadPayload, match="field a is null"):
        Encoder(schema, 1).encode(pa.array([{"a": None}], pa.struct([("a", pa.int32())])))


def test_records_of_a_derived_schema_have_names_of_their_own():
    inner = pa.struct([("x", pa.int32())])
    columns = pa.struct([("a", pa.list_(inner)), ("a_item", inner), ("a_item_2", inner)])
    rows = [{"a": [{"x": 1}], "a_item": {"x": 2}, "a_item_2": {"x": 3}}]
    schema = derived("avro", columns)
    payloads = Encoder(schema, 1).encode(pa.array(rows, columns))
    assert Decoder("avro", lambda _: schema).decode(payloads).table.to_pylist() == rows


def test_a_duration_that_avro_cannot_hold_is_named():
    fixed = '{"type":"fixed","name":"f","size":12,"logicalType":"duration"}'
    schema = WriterSchema("AVRO", f'{{"type":"record","name":"r","fields":[{{"name":"a","type":{fixed}}}]}}')
    parts = {"months": -1, "days": 0, "milliseconds": 0}
    with pytest.raises(BadPayload, match="does not fit the Avro schema"):
        Encoder(schema, 1).encode(pa.array([{"a": parts}], pa.struct(list(arrow_schema(schema)))))


def test_rich_protobuf_fields_are_written_as_they_were_read():
    order = Order(u64=(1 << 64) - 1, color=5, counts={"a": 1}, by_number={3: {"name": "x"}}, right={"name": "y"})
    order.at.seconds, order.wrapped.value = 5, 0
    order.free.update({"a": [1, None]})
    payload = pa.array([b"\0\0\0\0\1\0" + order.SerializeToString()], pa.binary())
    decoder = Decoder("protobuf", lambda _: WRITER, arrow_schema(WRITER))
    written = Encoder(WRITER, 1).encode(decoder.decode(payload).values)
    assert Order.FromString(written[0].as_py()[6:]) == order


@pytest.mark.parametrize("kind", ["avro", "protobuf", "json"])
def test_types_that_no_schema_is_derived_for_are_refused(kind):
    with pytest.raises(SchemaFault, match="give a schema"):
        derived(kind, pa.struct([("x", pa.duration("us"))]))
    with pytest.raises(SchemaFault, match="structs only"):
        derived(kind, pa.string())


@pytest.mark.parametrize(
    ("logical", "kind", "value"),
    [
        ("timestamp-millis", "long", datetime(2026, 1, 1, 0, 0, 0, 1001, tzinfo=UTC)),
        ("local-timestamp-millis", "long", datetime(2026, 1, 1, 0, 0, 0, 1)),
        ("time-millis", "int", time(0, 0, 0, 999)),
    ],
)
def test_a_time_with_digits_beyond_milliseconds_is_not_written_where_milliseconds_are_declared(logical, kind, value):
    fields = [{"name": "v", "type": {"type": kind, "logicalType": logical}}]
    writer = AvroWriter(WriterSchema("AVRO", json.dumps({"type": "record", "name": "R", "fields": fields})))
    with pytest.raises(BadPayload, match="digits beyond milliseconds"):
        writer.write({"v": value})
    assert writer.write({"v": value.replace(microsecond=2000)})


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.float32(), (1 << 24) + 1),
        (pa.float64(), (1 << 53) + 1),
        (pa.float64(), str((1 << 53) + 1)),
        (pa.float64(), Decimal((1 << 53) + 1)),
        (pa.float32(), 1e300),
        (pa.timestamp("us", "UTC"), "2026-01-01T00:00:00.0000001Z"),
        (pa.time64("us"), "10:00:00.1234567"),
    ],
)
def test_a_value_given_as_text_or_number_is_refused_where_its_type_would_drop_digits(kind, value):
    with pytest.raises(BadPayload, match="path"):
        fitting(kind, text=True)(value, "path")


def test_a_value_that_its_type_holds_is_taken_as_it_is():
    assert [fitting(pa.float32())(value, "path") for value in (1 << 24, 0.1, 2)] == [1 << 24, 0.1, 2]
    assert fitting(pa.float64(), text=True)("1e300", "path") == 1e300
