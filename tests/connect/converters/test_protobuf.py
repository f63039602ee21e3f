"""Protobuf with its schema in a registry: there and back, messages of others, and refusals."""

from __future__ import annotations

from decimal import Decimal

import pytest
from tests.registry_server import RegistryServer

from ottla.client.registry_client import RegistryClient
from ottla.connect import data
from ottla.connect.converters import CONVERTERS
from ottla.connect.converters.protobuf import ProtobufConverter
from ottla.connect.converters.protobuf_text import ENUM, TAG, UNION, proto_text
from ottla.connect.data import Instant, Schema, Struct, Type, array, map_of, struct
from ottla.connect.errors import DataException
from ottla.formats.protobuf_writing import ProtobufWriter
from ottla.formats.writer import WriterSchema

INNER = struct([("x", Schema(Type.INT8, optional=True))], name="Inner", optional=True)
COLOUR = Schema(
    Type.STRING, optional=True, name="Colour",
    parameters={ENUM: "Colour", f"{ENUM}.RED": "0", f"{ENUM}.BLUE": "5"},
)  # fmt: skip
CHOICE = struct(
    [("a", Schema(Type.INT64, optional=True)), ("b", data.OPTIONAL_STRING)], name=f"{UNION}choice", optional=True
)
ORDER = struct(
    [
        ("zone", data.STRING),
        ("id", data.INT64),
        ("small", Schema(Type.INT16, optional=True)),
        ("count", Schema(Type.INT32, optional=True)),
        ("price", data.decimal(2)),
        ("day", data.DATE_SCHEMA),
        ("time", data.TIME_SCHEMA),
        ("at", data.TIMESTAMP_SCHEMA),
        ("ratio", data.FLOAT32),
        ("far", Schema(Type.FLOAT64)),
        ("yes", Schema(Type.BOOLEAN)),
        ("raw", data.BYTES),
        ("tags", array(data.STRING)),
        ("counts", map_of(data.STRING, data.INT64)),
        ("inner", INNER),
        ("colour", COLOUR),
    ],
    name="shop.Order",
)  # fmt: skip
VALUES = ["eu", 1 << 40, None, -5, Decimal("-1.50"), Instant(86_400_000 * 3), Instant(3_723_004), Instant(-1),
          0.5, 1e300, True, b"\xff", ["a", ""], {"a": 1}, Struct(INNER, [-3]), "BLUE"]  # fmt: skip


@pytest.fixture
def server():
    with RegistryServer() as started:
        yield started


def converter(server, **options):
    given = {"converter.type": "value", "schema.registry.url": server.url, **options}
    return ProtobufConverter(given, RegistryClient((server.url,)))


def plain(value):
    """Structs as dictionaries: a schema that was read says of each field that it may be missing, and its number."""
    if isinstance(value, Struct):
        return {each.name: plain(value.get(each.name)) for each in value.schema.members}
    return value


@pytest.mark.parametrize("wrappers", ["false", "true"])
def test_a_value_of_every_type_goes_there_and_back(server, wrappers):
    content = converter(server, **{"wrapper.for.nullables": wrappers}).from_connect(
        "orders", ORDER, Struct(ORDER, VALUES)
    )
    back = converter(server, **{"wrapper.for.nullables": wrappers}).to_connect("orders", content)
    assert plain(back.value) == plain(Struct(ORDER, VALUES))
    assert server.ids[1]["schemaType"] == "PROTOBUF"
    kinds = {each.name: (each.schema.type, each.schema.name) for each in back.schema.members}
    assert kinds == {each.name: (each.schema.type, each.schema.name) for each in ORDER.members}
    assert (back.schema.name, back.schema.places["id"].schema.parameters) == ("Order", {TAG: "2"})


def test_what_was_read_is_written_with_the_same_schema(server):
    first = converter(server).from_connect("orders", ORDER, Struct(ORDER, VALUES))
    found = converter(server, **{"enhanced.protobuf.schema.support": "true"}).to_connect("orders", first)
    assert found.schema.name == "shop.Order"
    again = converter(server).from_connect("copies", found.schema, found.value)
    assert plain(converter(server).to_connect("copies", again).value) == plain(found.value)


def test_the_text_has_confluents_types_and_parameters():
    text = proto_text(ORDER, optional=True, wrappers=False)
    for line in (
        "package shop;",
        'import "confluent/type/decimal.proto";',
        '  optional int32 small = 3 [(confluent.field_meta) = {params: [{key: "connect.type", value: "int16"}]}];',
        "  google.type.TimeOfDay time = 7;",
        "  map<string, int64> counts = 14;",
        "    BLUE = 5;",
    ):
        assert line in text


def test_one_of_several_fields_is_a_struct_in_which_one_is_set(server):
    schema = struct([("choice_0", CHOICE), ("n", Schema(Type.INT32, optional=True))], name="M")
    content = converter(server).from_connect("t", schema, Struct(schema, [Struct(CHOICE, [None, "x"]), None]))
    assert "oneof choice {" in server.ids[1]["schema"]
    assert plain(converter(server).to_connect("t", content).value) == {"choice_0": {"a": None, "b": "x"}, "n": None}


def test_a_message_inside_another_is_read_by_its_place(server):
    text = 'syntax = "proto3"; message A { int32 x = 1; } message B { message C { string s = 1; } }'
    client = RegistryClient((server.url,))
    number = client.register("t-value", WriterSchema("PROTOBUF", text))
    payload = ProtobufWriter(WriterSchema("PROTOBUF", text), message="B.C").write({"s": "here"})
    found = converter(server).to_connect("t", b"\0" + int(number).to_bytes(4, "big") + payload)
    assert (found.schema.name, plain(found.value)) == ("C", {"s": "here"})


def test_an_unknown_number_of_an_enumeration_and_values_of_proto3_that_nobody_set_are_told(server):
    text = (
        'syntax = "proto3"; enum E { A = 0; } message M { E e = 1; int64 n = 2; optional string s = 3; uint64 u = 4; }'
    )
    number = int(RegistryClient((server.url,)).register("t-value", WriterSchema("PROTOBUF", text)))
    prefix = b"\0" + number.to_bytes(4, "big") + b"\0"
    assert plain(converter(server).to_connect("t", prefix + b"\x08\x07").value) == {
        "e": "UNKNOWN_ENUM_VALUE_E_7", "n": 0, "s": None, "u": 0,
    }  # fmt: skip
    with pytest.raises(DataException, match="beyond the 64 bits of Connect's numbers"):
        converter(server).to_connect("t", prefix + b"\x20" + b"\xff" * 9 + b"\x01")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\0\0\0\0\x01\0\x12\x05a", "not of its Protobuf schema"),
        (b"\0\0\0\0\x01\x02\x0e", r"no message at \[7\]"),
        (b"\x01\0\0\0\x01\0", "is not the prefix of a schema id"),
    ],
)
def test_bytes_that_are_no_value_are_refused(server, content, said):
    converter(server).from_connect("t", INNER, Struct(INNER, [1]))
    with pytest.raises(DataException, match=said):
        converter(server).to_connect("t", content)


@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        (data.STRING, "x", "a Protobuf message is a struct, not STRING: HoistField makes one"),
        (struct([("a b", data.STRING)]), ["x"], "'a b' is no name in Protobuf"),
        (struct([("a", array(array(data.STRING)))]), [[["x"]]], "an array or a map of arrays or maps"),
        (struct([("a", map_of(Schema(Type.FLOAT64), data.STRING))]), [{1.0: "x"}], "the keys of the map a are FLOAT64"),
        (struct([("a", array(data.OPTIONAL_STRING))]), [[None]], "does not fit its Protobuf schema"),
        (struct([("a", data.DATE_SCHEMA)]), [Instant(1)], "should not have any time fields"),
    ],
)
def test_what_protobuf_cannot_hold_is_refused(server, schema, value, said):
    with pytest.raises(DataException, match=said):
        converter(server).from_connect("t", schema, value if schema is data.STRING else Struct(schema, value))


def test_a_message_that_holds_itself_is_refused(server):
    text = 'syntax = "proto3"; message M { M m = 1; }'
    number = int(RegistryClient((server.url,)).register("t-value", WriterSchema("PROTOBUF", text)))
    with pytest.raises(DataException, match="the message M holds itself"):
        converter(server).to_connect("t", b"\0" + number.to_bytes(4, "big") + b"\0")


def test_the_converter_is_found_by_confluents_class(server):
    plugin = CONVERTERS["io.confluent.connect.protobuf.ProtobufConverter"]
    assert isinstance(plugin.make({"converter.type": "value", "schema.registry.url": server.url}), ProtobufConverter)
