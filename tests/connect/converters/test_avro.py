"""Avro with a registry: schemas there and back, bytes as fastavro reads and writes them, subjects and refusals."""

from __future__ import annotations

import io
import json
from decimal import Decimal

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.formats.avro_cases import payload_of, records
from tests.registry_server import RegistryServer

from ottla.client.registry_client import RegistryClient
from ottla.connect import data
from ottla.connect.converters.avro import AvroConverter
from ottla.connect.converters.avro_codec import reader, writer
from ottla.connect.converters.avro_schema import avro_schema, connect_schema
from ottla.connect.data import Instant, Schema, Struct, Type, array, map_of, struct
from ottla.connect.errors import ConfigException, DataException, RetriableException
from ottla.formats.avro_tree import parse_avro

INNER = struct([("x", data.INT8), ("y", Schema(Type.INT16, optional=True))], name="shop.Inner", optional=True)
ORDER = struct(
    [
        ("id", data.INT64),
        ("name", data.OPTIONAL_STRING),
        ("count", Schema(Type.INT32, default=7)),
        ("note", Schema(Type.STRING, optional=True, default="none")),
        ("price", data.decimal(2)),
        ("day", data.DATE_SCHEMA.but(default=Instant(5 * data.DAY_MS))),
        ("time", data.TIME_SCHEMA),
        ("at", data.TIMESTAMP_SCHEMA.but(optional=True)),
        ("ratio", data.FLOAT64),
        ("share", data.FLOAT32),
        ("paid", data.BOOLEAN),
        ("raw", data.BYTES),
        ("tags", array(data.STRING)),
        ("counts", map_of(data.STRING, data.INT64)),
        ("places", map_of(data.INT32, data.STRING)),
        ("inner", INNER),
        ("again", INNER),
    ],
    name="shop.Order", version=3, doc="An order.",
)  # fmt: skip
VALUES = {
    "id": 1 << 40, "name": None, "count": -5, "note": "n", "price": Decimal("-1.50"),
    "day": Instant(19000 * data.DAY_MS),
    "time": Instant(5), "at": Instant(1700000000123), "ratio": 1.5, "share": 0.5, "paid": True, "raw": b"\0\xff",
    "tags": ["a", ""], "counts": {"a": 1}, "places": {1: "x"}, "inner": Struct(INNER, [1, None]), "again": None,
}  # fmt: skip


@pytest.fixture
def server():
    with RegistryServer() as started:
        yield started


def converter(server, **options):
    given_options = {"converter.type": "value", "schema.registry.url": server.url, **options}
    return AvroConverter(given_options, RegistryClient((server.url,)))


def test_a_value_of_every_type_goes_there_and_back(server):
    value = Struct.of(ORDER, **VALUES)
    content = converter(server).from_connect("orders", ORDER, value)
    assert content[:5] == b"\0\0\0\0\1"
    back = converter(server).to_connect("orders", content)
    assert back.schema.but(doc=ORDER.doc) == ORDER
    assert back.value.values == value.values
    assert list(server.subjects) == ["orders-value"]


def test_other_readers_of_avro_understand_the_bytes(server):
    content = converter(server).from_connect("orders", ORDER, Struct.of(ORDER, **VALUES))
    written = json.loads(server.ids[1]["schema"])
    read = fastavro.schemaless_reader(io.BytesIO(content[5:]), fastavro.parse_schema(written), None)
    assert (read["id"], read["price"], read["day"].isoformat(), read["counts"]) == (
        1 << 40, Decimal("-1.50"), "2022-01-08", {"a": 1},
    )  # fmt: skip
    assert (read["inner"], read["places"]) == ({"x": 1, "y": None}, [{"key": 1, "value": "x"}])


@settings(max_examples=150, deadline=None)
@given(case=records())
def test_any_payload_of_fastavro_is_written_again_byte_for_byte(case):
    written, values = case
    node = parse_avro(json.dumps(written)).root
    try:
        schema = connect_schema(node)
    except DataException as fault:
        assert "null alone" in str(fault)
        return
    read, write = reader(node, schema), writer(node)
    for value in values:
        payload = payload_of(written, value)
        found, end = read(payload, 0)
        out = bytearray()
        write(found, out)
        assert end == len(payload)
        if bytes(out) != payload:  # fastavro writes the unscaled -128 in two bytes; one is enough, as for Java
            assert "decimal" in json.dumps(written)
            assert len(out) < len(payload)
            assert read(bytes(out), 0) == (found, len(out))


@settings(max_examples=200, deadline=None)
@given(content=st.binary(max_size=40))
def test_bytes_that_are_no_value_are_refused_and_nothing_else(content):
    node = parse_avro(json.dumps(avro_schema(ORDER))).root
    try:
        found, _ = reader(node, connect_schema(node))(content, 0)
    except DataException:
        return
    assert isinstance(found, Struct)


def test_a_union_of_several_types_is_a_struct_of_optional_fields(server):
    written = {"type": "record", "name": "R", "fields": [{"name": "u", "type": ["null", "int", "string"]}]}
    node = parse_avro(json.dumps(written)).root
    schema = connect_schema(node)
    union = schema.field("u").schema
    assert (union.name, [each.name for each in union.fields], union.optional) == (
        "io.confluent.connect.avro.Union", ["int", "string"], True,
    )  # fmt: skip
    out = bytearray()
    writer(node)(Struct(schema, [Struct(union, [None, "x"])]), out)
    assert reader(node, schema)(bytes(out), 0)[0].get("u").values == [None, "x"]
    with pytest.raises(DataException, match="one branch that is not null; 2 are"):
        writer(node)(Struct(schema, [Struct(union, [1, "x"])]), bytearray())


def test_an_optional_union_is_one_union_with_null(server):
    union = struct(
        [("int", Schema(Type.INT32, optional=True)), ("string", data.OPTIONAL_STRING)],
        name="io.confluent.connect.avro.Union", optional=True,
    )  # fmt: skip
    assert avro_schema(union) == ["null", "int", "string"]
    made = converter(server)
    content = made.from_connect("t", union, Struct(union, [None, "x"]))
    assert made.to_connect("t", content).value.values == [None, "x"]


def test_text_that_is_no_unicode_is_refused(server):
    with pytest.raises(DataException, match="text that Avro cannot hold"):
        converter(server).from_connect("t", data.STRING, "\ud800")


def test_an_enum_keeps_its_symbols_and_a_fixed_its_size():
    written = {"type": "record", "name": "R", "fields": [
        {"name": "e", "type": {"type": "enum", "name": "a.Colour", "symbols": ["RED", "BLUE"]}, "default": "BLUE"},
        {"name": "f", "type": {"type": "fixed", "name": "Two", "size": 2}},
    ]}  # fmt: skip
    schema = connect_schema(parse_avro(json.dumps(written)).root)
    colour, two = (member.schema for member in schema.fields)
    assert (colour.name, colour.default, colour.parameters) == (
        "a.Colour", "BLUE", {"io.confluent.connect.avro.Enum": "a.Colour", "io.confluent.connect.avro.Enum.RED": "RED",
                             "io.confluent.connect.avro.Enum.BLUE": "BLUE"},
    )  # fmt: skip
    assert (two.type, two.name, two.parameters) == (Type.BYTES, "Two", {"connect.fixed.size": "2"})


def test_values_are_written_with_the_latest_schema_where_none_is_registered(server):
    server.register("t-value", avro_schema(struct([("x", data.INT64)], name="P")))
    options = {"auto.register.schemas": "false", "use.latest.version": "true"}
    small = struct([("x", data.INT32)], name="Q")
    assert converter(server, **options).from_connect("t", small, Struct(small, [1])) == b"\0\0\0\0\1\2"
    wider = struct([("x", data.INT32), ("y", data.INT32)], name="Q")
    with pytest.raises(DataException, match="has no field for y"):
        converter(server, **options).from_connect("t", wider, Struct(wider, [1, 2]))
    with pytest.raises(DataException, match="subject u-value"):
        converter(server, **options).from_connect("u", small, Struct(small, [1]))


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [("io.confluent.kafka.serializers.subject.RecordNameStrategy", "P"), ("TopicRecordNameStrategy", "t-P"),
     ("TopicNameStrategy", "t-key")],
)  # fmt: skip
def test_a_strategy_names_the_subject(server, strategy, subject):
    made = converter(server, **{"converter.type": "key", "key.subject.name.strategy": strategy})
    schema = struct([("x", data.INT8)], name="P")
    made.from_connect("t", schema, Struct(schema, [1]))
    assert list(server.subjects) == [subject]


def test_null_is_no_bytes(server):
    assert converter(server).from_connect("t", None, None) is None
    assert converter(server).from_connect("t", data.OPTIONAL_STRING, None) is None
    assert converter(server).to_connect("t", None).value is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"auto.register.schemas": "false"}, "use.latest.version=true to write with registered ones"),
        ({"basic.auth.user.info": "me:secret"}, "in the worker's environment"),
        ({"value.subject.name.strategy": "MyStrategy"}, "there are TopicNameStrategy"),
        ({"schema.registry.url": "ftp://x"}, "takes http:// and https:// URLs"),
    ],
)
def test_options_that_cannot_be_are_refused(server, options, message):
    with pytest.raises(ConfigException) as refusal:
        converter(server, **options)
    assert message in str(refusal.value)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (struct([("a b", data.INT8)]), "'a b' is no name of a field in Avro"),
        (struct([("x", data.INT8)], name="no-name"), "'no-name' is no name in Avro"),
        (array(None), "An array or a map of nulls alone"),
        (struct([("a", struct([], name="N")), ("b", struct([("x", data.INT8)], name="N"))]), "Two different schemas"),
    ],
)
def test_a_schema_that_avro_cannot_name_is_refused(schema, message):
    with pytest.raises(DataException) as refusal:
        avro_schema(schema)
    assert message in str(refusal.value)


def test_a_type_that_refers_to_itself_is_refused():
    node = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}
    with pytest.raises(DataException, match="N refers to itself"):
        connect_schema(parse_avro(json.dumps(node)).root)


def test_bytes_without_a_known_schema_are_refused(server):
    made = converter(server)
    for content in (b"", b"\1\0\0\0\1", b"\0\0\0\0\x63"):
        with pytest.raises(DataException):
            made.to_connect("t", content)
    with pytest.raises(DataException, match="needs a schema"):
        made.from_connect("t", None, {"x": 1})


def test_a_registry_that_does_not_answer_may_do_so_later(server):
    server.faults = [503] * 4
    with pytest.raises(RetriableException):
        converter(server).to_connect("t", b"\0\0\0\0\1")
