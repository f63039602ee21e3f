"""Converters: bytes of values, and values of bytes."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from ottla.connect import data
from ottla.connect.converters import CONVERTERS, HEADER_CONVERTERS
from ottla.connect.data import Instant, Schema, Struct, Type, array, map_of, struct
from ottla.connect.errors import ConfigException, ConnectException, DataException
from ottla.connect.plugin import found

POINT = struct([("x", data.INT64), ("label", data.OPTIONAL_STRING), ("n", Schema(Type.INT8, default=7))], name="Point")
JSON = "JsonConverter"


def converter(name, **options):
    return found(HEADER_CONVERTERS, name).make({"converter.type": "value", **options})


def read(made, content):
    both = made.to_connect("t", content)
    return both.schema, both.value


@pytest.mark.parametrize(
    ("name", "kind", "value", "content"),
    [
        ("ShortConverter", Type.INT16, -2, b"\xff\xfe"),
        ("IntegerConverter", Type.INT32, 258, b"\0\0\1\2"),
        ("LongConverter", Type.INT64, 1, b"\0" * 7 + b"\1"),
        ("FloatConverter", Type.FLOAT32, 1.5, b"\x3f\xc0\0\0"),
        ("DoubleConverter", Type.FLOAT64, 1.5, b"\x3f\xf8" + b"\0" * 6),
        ("BooleanConverter", Type.BOOLEAN, True, b"\1"),
        ("ByteArrayConverter", Type.BYTES, b"\0x", b"\0x"),
        ("StringConverter", Type.STRING, "zwölf", "zwölf".encode()),
    ],
)
def test_a_primitive_value_goes_there_and_back(name, kind, value, content):
    made = converter(name)
    schema = Schema(kind, optional=True)
    assert made.from_connect("t", schema, value) == content
    assert made.from_connect("t", None, None) is None
    assert read(made, content) == (schema, value)
    assert read(made, None) == (schema, None)


@pytest.mark.parametrize(
    ("name", "value", "content"),
    [("IntegerConverter", 1 << 31, b"\0"), ("LongConverter", "1", b"\0" * 9), ("BooleanConverter", 1, b"\2"),
     ("DoubleConverter", True, b"")],
)  # fmt: skip
def test_a_value_of_another_type_is_refused(name, value, content):
    with pytest.raises(DataException):
        converter(name).from_connect("t", None, value)
    with pytest.raises(DataException):
        converter(name).to_connect("t", content)


def test_text_is_made_of_any_value_in_an_encoding():
    assert converter("StringConverter").from_connect("t", None, {"a": [1.0, None]}) == b"{a=[1.0, null]}"
    assert converter("StringConverter", **{"converter.encoding": "UTF-16BE"}).from_connect("t", None, "a") == b"\0a"
    with pytest.raises(ConfigException, match="the encoding klingon is not known"):
        converter("StringConverter", **{"converter.encoding": "klingon"})


@pytest.mark.parametrize(
    ("schema", "value", "payload"),
    [
        (data.INT64, 5, "5"),
        (data.FLOAT64, 1e21, "1.0E21"),
        (data.FLOAT64, float("nan"), '"NaN"'),
        (data.BOOLEAN, True, "true"),
        (data.BYTES, b"\xde\xad", '"3q0="'),
        (data.STRING, 'ä"\n', '"ä\\"\\n"'),
        (data.OPTIONAL_STRING, None, "null"),
        (data.DATE_SCHEMA, Instant(data.DAY_MS * 19000), "19000"),
        (data.TIME_SCHEMA, Instant(5), "5"),
        (data.TIME_SCHEMA, Instant(data.DAY_MS), "86400000"),
        (data.TIMESTAMP_SCHEMA, Instant(-5), "-5"),
        (data.decimal(2), Decimal("-1.50"), '"/2o="'),
        (array(data.INT8), [1, 2], "[1,2]"),
        (map_of(data.STRING, data.INT8), {"a": 1}, '{"a":1}'),
        (map_of(data.INT8, data.INT8), {1: 2}, "[[1,2]]"),
        (POINT, Struct.of(POINT, x=1), '{"x":1,"label":null,"n":7}'),
    ],
)
def test_json_holds_a_value_with_its_schema(schema, value, payload):
    made = converter(JSON)
    content = made.from_connect("t", schema, value)
    assert content.decode().endswith(f',"payload":{payload}}}')
    back = read(made, content)
    assert back[0] == schema
    assert back[1] == value or str(value) == "nan" or back[1].filled() == value.filled()


def test_json_keeps_every_part_of_a_schema_in_javas_order():
    schema = POINT.but(version=2, doc="A place.", parameters={"a": "b"}, optional=True)
    content = converter(JSON).from_connect("t", schema, None)
    assert content == (
        b'{"schema":{"type":"struct","fields":[{"type":"int64","optional":false,"field":"x"},{"type":"string",'
        b'"optional":true,"field":"label"},{"type":"int8","optional":false,"default":7,"field":"n"}],"optional":true,'
        b'"name":"Point","version":2,"doc":"A place.","parameters":{"a":"b"}},"payload":null}'
    )
    assert read(converter(JSON), content) == (schema, None)


def test_json_without_schemas_is_the_value_alone():
    made = converter(JSON, **{"schemas.enable": "false"})
    assert made.from_connect("t", POINT, Struct.of(POINT, x=1)) == b'{"x":1,"label":null,"n":7}'
    assert read(made, b'{"a":[1,2.5,null,true],"b":99999999999999999999}') == (
        None, {"a": [1, 2.5, None, True], "b": 7766279631452241919},
    )  # fmt: skip
    assert read(made, None) == (None, None)
    assert made.from_connect("t", None, None) is None


def test_a_null_without_replacement_stays_null():
    keeping = converter(JSON, **{"schemas.enable": "false", "replace.null.with.default": "false"})
    optional = struct([("n", Schema(Type.INT8, optional=True, default=7))])
    assert keeping.from_connect("t", optional, Struct(optional)) == b'{"n":null}'
    assert converter(JSON, **{"schemas.enable": "false"}).from_connect("t", optional, Struct(optional)) == b'{"n":7}'


def test_decimals_can_be_numbers_and_keep_all_digits():
    number = Decimal("12345678901234567890123456789012345678.90")
    written = converter(JSON, **{"decimal.format": "numeric", "schemas.enable": "false"})
    assert written.from_connect("t", data.decimal(2), number) == str(number).encode()
    both = converter(JSON)
    assert read(both, both.from_connect("t", data.decimal(2), number)) == (data.decimal(2), number)
    with pytest.raises(DataException, match="Schema has scale 1, value has scale 2"):
        both.from_connect("t", data.decimal(1), number)


def test_a_fixed_schema_reads_values_without_one():
    schema = json.dumps({"type": "struct", "fields": [{"field": "x", "type": "int8", "optional": True}]})
    made = converter(JSON, **{"schema.content": schema})
    found_schema, value = read(made, b'{"x":5,"y":6}')
    assert (found_schema.field("x").schema.type, value.values) == (Type.INT8, [5])
    with pytest.raises(ConfigException, match=r"schema\.content"):
        converter(JSON, **{"schema.content": "{"})
    with pytest.raises(ConfigException, match="Unknown schema type: int7"):
        converter(JSON, **{"schema.content": '{"type":"int7"}'})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{}", 'requires "schema" and "payload" fields'),
        (b"{", "serialization error"),
        (b"\xff", "serialization error"),
        (b'{"schema":null,"payload":NaN}', "NaN is no JSON"),
        (b'{"schema":null,"payload":' + b"[" * 300 + b"]" * 300 + b"}", "nested more than 200 deep"),
        (b'{"schema":{},"payload":1}', "Schema must contain 'type' field"),
        (b'{"schema":{"type":"int7"},"payload":1}', "Unknown schema type: int7"),
        (b'{"schema":{"type":"array"},"payload":1}', "Array schema did not specify the element type"),
        (b'{"schema":{"type":"struct"},"payload":1}', "is not an array"),
        (b'{"schema":{"type":"int8"},"payload":null}', "Invalid null value for required INT8 field"),
        (b'{"schema":{"type":"int8"},"payload":"1"}', "Expected a number, but found STRING"),
        (b'{"schema":{"type":"bytes"},"payload":"?"}', "Invalid bytes field"),
        (b'{"schema":{"type":"struct","fields":[]},"payload":1}', "Structs should be encoded as JSON objects"),
    ],
)
def test_json_that_is_no_value_is_refused(content, message):
    with pytest.raises(ConnectException) as refusal:
        converter(JSON).to_connect("t", content)
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        (data.INT8, None, "Conversion error: null value for field that is required and has no default value"),
        (data.INT8, "x", "Invalid type for INT8: class java.lang.String"),
        (data.DATE_SCHEMA, Instant(5), "should not have any time fields set"),
        (data.DATE_SCHEMA, Instant(data.DAY_MS << 31), "holds days of 32 bits"),
        (data.TIME_SCHEMA, Instant(data.DAY_MS + 1), "must have date within a day of the epoch"),
        (data.TIME_SCHEMA, Instant(-5), "must have date within a day of the epoch"),
        (POINT, Struct.of(INNER := struct([("x", data.INT8)]), x=1), "Mismatching schema."),
        (None, Instant(5), "does not have corresponding schema type"),
        (data.STRING, "\ud800", "serialization error"),
    ],
)
def test_a_value_that_does_not_fit_its_schema_is_refused(schema, value, message):
    with pytest.raises(DataException) as refusal:
        converter(JSON).from_connect("t", schema, value)
    assert message in str(refusal.value)


def test_headers_are_text_from_which_values_are_recognised():
    made = converter("SimpleHeaderConverter")
    assert made.from_connect("t", data.INT8, 5) == b"5"
    assert made.from_connect("t", None, None) is None
    assert read(made, b"[1,2]") == (array(data.INT8), [1, 2])
    assert read(made, b"\xff") == (data.BYTES, b"\xff")
    assert read(made, None) == (None, None)


def test_every_converter_of_keys_and_values_declares_its_part_of_the_record():
    for plugin in CONVERTERS.values():
        with pytest.raises(ConfigException, match=r'Missing required configuration "converter\.type"'):
            plugin.make({})
        assert plugin.options.options["converter.type"].required
