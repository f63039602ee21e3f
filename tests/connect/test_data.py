"""Schemas, structs and records: equality, defaults, and what fits into which."""

from __future__ import annotations

from decimal import Decimal

import pytest

from ottla.connect import data
from ottla.connect.data import Float32, Instant, Schema, Struct, Type, inferred, java_class, struct, validate
from ottla.connect.errors import DataException, SchemaBuilderException
from ottla.connect.records import ConnectRecord, Header, SinkRecord, SourceRecord

POINT = struct([("x", data.INT64), ("label", data.OPTIONAL_STRING)], name="Point")
HEADERS = (Header("h", None, 1),)


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (data.INT8, [0, 127, -128], [128, -129, True, 1.0, "1"]),
        (data.INT64, [(1 << 63) - 1], [1 << 63, None]),
        (data.FLOAT64, [1.5], [1, "1"]),
        (data.FLOAT32, [1.5, Float32(1.5)], [1]),
        (data.BOOLEAN, [True], [1]),
        (data.BYTES, [b"x"], ["x"]),
        (data.OPTIONAL_STRING, ["x", None], [b"x"]),
        (data.DATE_SCHEMA, [Instant(0)], [0]),
        (data.decimal(2), [Decimal("1.50")], [b"x"]),
        (data.array(data.INT8), [[], [1, 2]], [[1, None], (1,)]),
        (data.map_of(data.STRING, data.INT8), [{"a": 1}], [{1: 1}, {"a": "b"}]),
        (POINT, [Struct.of(POINT, x=1)], [{"x": 1}, Struct(POINT, [None, None])]),
    ],
)
def test_a_value_fits_its_schema_or_is_refused(schema, good, bad):
    for value in good:
        validate(schema, value)
    for value in bad:
        with pytest.raises(DataException):
            validate(schema, value)


def test_a_refusal_names_the_field_the_type_and_the_class():
    with pytest.raises(DataException) as refusal:
        validate(data.INT32, "x", "age")
    assert (
        str(refusal.value) == 'Invalid Java object for schema with type INT32: class java.lang.String for field: "age"'
    )
    with pytest.raises(DataException) as refusal:
        validate(data.INT32, None, "age")
    assert str(refusal.value) == 'Invalid value: null used for required field: "age", schema type: INT32'


@pytest.mark.parametrize(
    "other",
    [
        POINT.but(optional=True),
        POINT.but(name=None),
        POINT.but(version=2),
        POINT.but(doc="A place."),
        POINT.but(parameters={"a": "b"}),
        POINT.but(default=Struct.of(POINT, x=1)),
        struct([("label", data.OPTIONAL_STRING), ("x", data.INT64)], name="Point"),
        struct([("x", data.INT32), ("label", data.OPTIONAL_STRING)], name="Point"),
    ],
)
def test_schemas_differ_by_each_of_their_parts(other):
    assert other != POINT
    same = struct([("x", data.INT64), ("label", data.OPTIONAL_STRING)], name="Point")
    assert same == POINT
    assert hash(same) == hash(POINT)


def test_a_schema_that_contradicts_itself_is_refused():
    with pytest.raises(SchemaBuilderException, match="field name duplication x"):
        struct([("x", data.INT8), ("x", data.INT8)])
    with pytest.raises(SchemaBuilderException, match="Invalid default value"):
        Schema(Type.INT8, default="x")


def test_a_null_is_read_as_the_fields_default():
    counted = struct([("n", Schema(Type.INT32, default=42)), ("s", data.OPTIONAL_STRING)])
    empty = Struct(counted).validated()
    assert empty.get("n") == 42
    assert empty.filled() == [42, None]
    assert empty.values == [None, None]


def test_a_struct_takes_only_what_fits():
    point = Struct(POINT)
    point.put("x", 5)
    with pytest.raises(DataException, match="Invalid Java object"):
        point.put("x", "5")
    with pytest.raises(DataException, match="z is not a valid field name"):
        point.put("z", 1)
    assert repr(point) == "Struct{x=5}"
    assert point == Struct.of(POINT, x=5)
    assert point != Struct.of(POINT, x=6)


def test_fields_are_of_structs_alone():
    with pytest.raises(DataException, match="Cannot look up fields on non-struct type"):
        data.STRING.field("x")
    with pytest.raises(DataException, match="Cannot list fields on non-struct type"):
        _ = data.STRING.fields
    assert str(POINT) == "Schema{Point:STRUCT}"
    assert str(data.INT8) == "Schema{INT8}"


def test_values_without_schema_have_javas_classes():
    assert [java_class(value) for value in (1, 1 << 64, 1.5, True, b"", [], {}, Instant(0), None)] == [
        "java.lang.Long", "java.math.BigInteger", "java.lang.Double", "java.lang.Boolean", "[B", "java.util.ArrayList",
        "java.util.HashMap", "java.util.Date", "null",
    ]  # fmt: skip
    assert java_class(1, data.INT8) == "java.lang.Byte"
    assert [inferred(value) for value in (1, True, Instant(0), 1 << 64)] == [Type.INT64, Type.BOOLEAN, None, None]


@pytest.mark.parametrize(
    "record",
    [
        ConnectRecord("t", 1, None, "k", None, "v", 5, HEADERS),
        SourceRecord("t", 1, value="v", headers=HEADERS, source_partition={"file": "a"}, source_offset={"position": 3}),
        SinkRecord("t", 1, value="v", headers=HEADERS, offset=7),
    ],
)
def test_a_changed_record_shares_what_stayed(record):
    for changed in (record.with_value(data.STRING, "w"), record.with_key(None, "l"), record.with_headers(())):
        assert type(changed) is type(record)
        assert changed != record
    back = record.with_topic("u").with_topic("t")
    assert back == record
    assert back is not record


def test_a_sink_record_keeps_its_place_in_kafka():
    moved = SinkRecord("orders", 3, offset=77).with_topic("elsewhere")
    assert (moved.topic, moved.original_topic, moved.original_partition, moved.offset) == ("elsewhere", "orders", 3, 77)
