"""Transformations and predicates on picked records: what each makes, and what it refuses in Kafka's words."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from ottla.connect import data
from ottla.connect.data import Float32, Instant, Schema, Struct, Type, struct
from ottla.connect.errors import ConfigException, ConnectException
from ottla.connect.plugin import found
from ottla.connect.records import Header, SinkRecord, SourceRecord
from ottla.connect.transforms import TRANSFORMATIONS

MOMENT = 1700000000123
INNER = struct([("x", data.INT64), ("y", data.OPTIONAL_STRING)], optional=True)
ORDER = struct(
    [
        ("id", data.INT32),
        ("name", data.OPTIONAL_STRING),
        ("at", data.TIMESTAMP_SCHEMA.but(optional=True)),
        ("price", data.decimal(2).but(optional=True)),
        ("sub", INNER),
        ("count", Schema(Type.INT32, default=42)),
    ],
    name="Order",
)
VALUE = Struct.of(
    ORDER, id=300, name="12", at=Instant(MOMENT), price=Decimal("1.50"), sub=Struct.of(INNER, x=5), count=1
)
PLAIN = {"id": 300, "name": "12", "at": Instant(MOMENT), "by": b"\xde\xad", "sub": {"x": 5, "z": {"q": 0.5}}, "n": None}
HEADERS = (Header("h", data.STRING, "v"), Header("k", data.INT32, 5), Header("h", data.STRING, "w"))


def record(schema: Schema | None, value: Any, **parts: Any) -> SinkRecord:
    given = {"key": {"id": 1}, "timestamp": MOMENT, "headers": HEADERS, "offset": 77, **parts}
    return SinkRecord("orders-eu", 3, value_schema=schema, value=value, **given)


def applied(name: str, config: dict[str, str], of: SinkRecord) -> Any:
    return found(TRANSFORMATIONS, name).make(config).apply(of)


def plain(name: str, config: dict[str, str], value: Any = PLAIN) -> Any:
    return applied(name, config, record(None, value)).value


def typed(name: str, config: dict[str, str], value: Struct = VALUE) -> dict[str, Any]:
    """The fields of the struct that a transformation makes, by name."""
    made = applied(name, config, record(value.schema, value))
    assert made.value.schema == made.value_schema
    return {member.name: item for member, item in zip(made.value_schema.fields, made.value.values, strict=True)}


@pytest.mark.parametrize(
    ("kind", "value", "cast"),
    [
        ("int8", 300, 44),
        ("int64", "12", 12),
        ("int8", -2.75, -2),
        ("boolean", "TRUE", True),
        ("boolean", "12", False),
        ("boolean", 0, False),
        ("float64", True, 1.0),
        ("string", 1.0, "1.0"),
        ("string", True, "true"),
        ("string", b"\xde\xad", "3q0="),
        ("float32", "0.1", Float32(0.10000000149011612)),
        ("int8", None, None),
    ],
)
def test_cast_follows_javas_rules(kind, value, cast):
    made = plain("Cast$Value", {"spec": kind}, value)
    assert (made, type(made)) == (cast, type(cast))


def test_cast_changes_the_fields_and_their_schemas():
    assert typed("Cast$Value", {"spec": "id:int8,name:int64,at:string,price:float64,count:string"}) == {
        "id": 44, "name": 12, "at": "2023-11-14T22:13:20.123Z", "price": 1.5, "sub": VALUE.get("sub"), "count": "1",
    }  # fmt: skip
    made = applied("Cast$Value", {"spec": "count:string"}, record(ORDER, VALUE))
    assert made.value_schema.field("count").schema == Schema(Type.STRING, default="42")
    assert plain("Cast$Value", {"spec": "nope:int8"}, {})["nope"] is None


def test_extract_field_takes_one_field_or_a_path():
    made = applied("ExtractField$Value", {"field": "sub.x", "field.syntax.version": "V2"}, record(ORDER, VALUE))
    assert (made.value_schema, made.value) == (data.INT64, 5)
    assert plain("ExtractField$Value", {"field": "sub.z.q", "field.syntax.version": "v2"}) == 0.5
    assert (
        plain("ExtractField$Value", {"field": "a.`b.c`.d", "field.syntax.version": "V2"}, {"a": {"b.c": {"d": 1}}}) == 1
    )
    assert plain("ExtractField$Value", {"field": "nope"}) is None
    assert applied("ExtractField$Value", {"field": "id"}, record(ORDER, None)).value is None


def test_flatten_joins_the_names_of_structs_and_maps():
    assert plain("Flatten$Value", {"delimiter": "_"}, {"a": {"b": {"c": 1}, "d": None}, "e": [1]}) == {
        "a_b_c": 1, "a_d": None, "e": [1],
    }  # fmt: skip
    flat = typed("Flatten$Value", {})
    assert (flat["sub.x"], flat["sub.y"]) == (5, None)
    missing = Struct.of(ORDER, id=1, count=1)
    made = applied("Flatten$Value", {}, record(ORDER, missing))
    assert made.value_schema.field("sub.x").schema == data.INT64.but(optional=True)
    assert made.value.get("sub.x") is None


def test_hoist_field_wraps_a_value():
    assert plain("HoistField$Value", {"field": "w"}, None) == {"w": None}
    made = applied("HoistField$Key", {"field": "w"}, record(None, 1, key_schema=data.INT8, key=5))
    assert (made.key_schema, made.key.get("w"), made.value) == (struct([("w", data.INT8)]), 5, 1)


def test_insert_field_adds_parts_of_the_record():
    config = {
        "topic.field": "t!",
        "partition.field": "p",
        "offset.field": "o",
        "timestamp.field": "ts",
        "static.field": "s?",
        "static.value": "x",
    }
    assert plain("InsertField$Value", config, {}) == {"t": "orders-eu", "p": 3, "o": 77, "ts": MOMENT, "s": "x"}
    made = typed("InsertField$Value", config)
    assert [made[name] for name in ("t", "p", "o", "ts", "s")] == ["orders-eu", 3, 77, Instant(MOMENT), "x"]
    updated = applied("InsertField$Value", config, record(ORDER, VALUE)).value_schema
    assert [updated.field(name).schema.optional for name in ("t", "p", "s")] == [False, True, True]
    with pytest.raises(ConnectException, match="only supported for sink connectors"):
        found(TRANSFORMATIONS, "InsertField$Value").make({"offset.field": "o"}).apply(SourceRecord("t", value={}))


def test_mask_field_empties_or_replaces():
    masked = plain("MaskField$Value", {"fields": "id,name,at,sub,n"})
    assert masked == {**PLAIN, "id": 0, "name": "", "at": Instant(0), "sub": {}}
    assert typed("MaskField$Value", {"fields": "id,name", "replacement": "7"})["id"] == 7
    assert plain("MaskField$Value", {"fields": "name", "replacement": "***"})["name"] == "***"


def test_replace_field_keeps_drops_and_renames():
    assert plain("ReplaceField$Value", {"include": "id,name", "exclude": "id", "renames": "name:text"}) == {
        "text": "12"
    }
    assert typed("ReplaceField$Value", {"include": "id,name", "renames": "name:text"}) == {"id": 300, "text": "12"}
    assert applied("ReplaceField$Value", {"exclude": "id"}, record(ORDER, None)).value is None


def test_set_schema_metadata_names_the_schema():
    made = applied("SetSchemaMetadata$Value", {"schema.name": "N", "schema.version": "3"}, record(ORDER, VALUE))
    assert made.value_schema == ORDER.but(name="N", version=3)
    assert made.value == Struct(made.value_schema, VALUE.values)


@pytest.mark.parametrize(
    ("config", "value", "made"),
    [
        ({"target.type": "string", "format": "yyyy-MM-dd"}, Instant(MOMENT), "2023-11-14"),
        ({"target.type": "unix"}, Instant(MOMENT), MOMENT),
        ({"target.type": "unix", "unix.precision": "seconds"}, Instant(-1500), -1),
        ({"target.type": "unix", "unix.precision": "nanoseconds"}, Instant(1 << 60), (1 << 63) - 1),
        ({"target.type": "Timestamp", "unix.precision": "microseconds"}, 1700000000123456, Instant(MOMENT)),
        ({"target.type": "Date", "format": "yyyy-MM-dd"}, "2024-02-30 x", Instant(1709251200000)),
        ({"target.type": "Time"}, Instant(MOMENT), Instant(80000123)),
        ({"target.type": "Date"}, Instant(-1), Instant(-data.DAY_MS)),
        ({"target.type": "Date"}, None, None),
    ],
)
def test_timestamp_converter_changes_the_form_of_a_time(config, value, made):
    assert plain("TimestampConverter$Value", config, value) == made


def test_timestamp_converter_changes_a_field_and_its_schema():
    config = {"field": "at", "target.type": "string", "format": "yyyy"}
    assert typed("TimestampConverter$Value", config)["at"] == "2023"
    assert plain("TimestampConverter$Value", config)["at"] == "2023"
    made = applied("TimestampConverter$Value", config, record(ORDER, VALUE))
    assert made.value_schema.field("at").schema == data.OPTIONAL_STRING


def test_value_to_key_makes_the_key_of_fields():
    made = applied("ValueToKey", {"fields": "name,id"}, record(ORDER, VALUE))
    assert made.key_schema == struct([("name", data.OPTIONAL_STRING), ("id", data.INT32)])
    assert made.key.values == ["12", 300]
    assert applied("ValueToKey", {"fields": "name,nope"}, record(None, PLAIN)).key == {"name": "12", "nope": None}


def test_headers_are_dropped_inserted_and_taken_from_fields():
    assert [each.key for each in applied("DropHeaders", {"headers": "h,x"}, record(None, 1)).headers] == ["k"]
    inserted = applied("InsertHeader", {"header": "n", "value.literal": "300"}, record(None, 1)).headers[-1]
    assert inserted == Header("n", data.INT16, 300)
    moved = applied("HeaderFrom$Value", {"fields": "name", "headers": "h", "operation": "move"}, record(ORDER, VALUE))
    assert moved.headers == (*HEADERS, Header("h", data.OPTIONAL_STRING, "12"))
    assert moved.value_schema.field("name") is None
    copied = applied("HeaderFrom$Value", {"fields": "id", "headers": "i", "operation": "copy"}, record(None, PLAIN))
    assert (copied.headers[-1], copied.value) == (Header("i", None, 300), PLAIN)


@pytest.mark.parametrize(
    ("name", "config", "topic"),
    [
        ("RegexRouter", {"regex": r"(\w+)-(\w+)", "replacement": "$2_$1"}, "eu_orders"),
        ("RegexRouter", {"regex": "orders", "replacement": "x"}, "orders-eu"),
        ("RegexRouter", {"regex": "o|orders-eu", "replacement": "x"}, "xrders-eu"),
        ("TimestampRouter", {}, "orders-eu-20231114"),
        ("TimestampRouter", {"topic.format": "${timestamp}.${topic}", "timestamp.format": "yyyy"}, "2023.orders-eu"),
    ],
)
def test_routers_rename_the_topic(name, config, topic):
    made = applied(name, config, record(None, 1))
    assert (made.topic, made.original_topic) == (topic, "orders-eu")


def test_filter_drops_every_record():
    assert applied("Filter", {}, record(None, 1)) is None


@pytest.mark.parametrize(
    ("name", "config", "value", "message"),
    [
        ("Cast$Value", {"spec": "int8"}, "text", "Value (text) was out of range for requested data type"),
        (
            "Cast$Value",
            {"spec": "int8"},
            [],
            "Cast transformation does not support casting from ARRAY; supported types "
            "are [INT8, INT16, INT32, INT64, FLOAT32, FLOAT64, BOOLEAN, STRING, BYTES]",
        ),
        (
            "ExtractField$Value",
            {"field": "x"},
            True,
            "Only Map objects supported in absence of schema for [field extraction], found: java.lang.Boolean",
        ),
        (
            "MaskField$Value",
            {"fields": "x"},
            None,
            "Only Map objects supported in absence of schema for [mask fields], found: null",
        ),
        (
            "MaskField$Value",
            {"fields": "x", "replacement": "y"},
            {"x": 1},
            "Unable to convert y (class java.lang.String) to a number",
        ),
        ("MaskField$Value", {"fields": "x"}, {"x": b""}, "Cannot mask value of type: class [B"),
        (
            "Flatten$Value",
            {},
            {"x": Instant(0)},
            "Flatten transformation was passed a value of type class java.util.Date "
            "which is not supported by Connect's data API",
        ),
        ("SetSchemaMetadata$Value", {"schema.name": "N"}, 1, "Schema required for [updating schema metadata]"),
        (
            "TimestampConverter$Value",
            {"target.type": "unix"},
            True,
            "TimestampConverter does not support class java.lang.Boolean objects as timestamps",
        ),
        (
            "TimestampConverter$Value",
            {"target.type": "Date", "format": "yyyy"},
            "x",
            "Could not parse timestamp: value (x) does not match pattern (yyyy)",
        ),
        ("RegexRouter", {"regex": ".*", "replacement": "$3"}, 1, "No group 3"),
        (
            "ValueToKey",
            {"fields": "x"},
            None,
            "Only Map objects supported in absence of schema for [copying fields from value to key], found: null",
        ),
    ],
)
def test_a_record_that_does_not_fit_is_refused_in_kafkas_words(name, config, value, message):
    with pytest.raises(ConnectException) as refusal:
        plain(name, config, value)
    assert str(refusal.value) == message


@pytest.mark.parametrize(
    ("name", "config", "error", "message"),
    [
        ("ExtractField$Value", {"field": "nope"}, "java.lang.IllegalArgumentException", "Unknown field: nope"),
        (
            "ValueToKey",
            {"fields": "nope"},
            "org.apache.kafka.connect.errors.DataException",
            "Field does not exist: nope",
        ),
        (
            "HeaderFrom$Value",
            {"fields": "nope", "headers": "a", "operation": "copy"},
            "org.apache.kafka.connect.errors.DataException",
            "Field does not exist: nope",
        ),
        (
            "ReplaceField$Value",
            {"renames": "id:name"},
            "org.apache.kafka.connect.errors.SchemaBuilderException",
            "Cannot create field because of field name duplication name",
        ),
        (
            "TimestampConverter$Value",
            {"field": "id", "target.type": "Date"},
            "org.apache.kafka.connect.errors.ConnectException",
            "Schema Schema{INT32} does not correspond to a known timestamp type format",
        ),
    ],
)
def test_a_schema_that_does_not_fit_is_refused_in_kafkas_words(name, config, error, message):
    with pytest.raises(ConnectException) as refusal:
        typed(name, config)
    assert (refusal.value.java_class, str(refusal.value)) == (error, message)


def test_a_record_without_time_has_no_topic_of_its_time():
    with pytest.raises(ConnectException) as refusal:
        applied("TimestampRouter", {}, record(None, "secret", timestamp=None))
    assert str(refusal.value).startswith("Timestamp missing on record: SinkRecord{topic='orders-eu', partition=3")
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "config", "message"),
    [
        ("Cast$Value", {"spec": ""}, "Must specify at least one field to cast."),
        (
            "Cast$Value",
            {"spec": "a:int8,int32"},
            "Cast transformations that specify a type to cast the entire value to may "
            "only specify a single cast in their spec",
        ),
        (
            "Cast$Value",
            {"spec": "s:uuid"},
            "Invalid value java.lang.IllegalArgumentException: No enum constant "
            "org.apache.kafka.connect.data.Schema.Type.UUID for configuration Invalid type found in casting spec: uuid",
        ),
        (
            "Cast$Value",
            {"spec": "bytes"},
            "Cast transformation does not support casting to BYTES; supported types are "
            "[INT8, INT16, INT32, INT64, FLOAT32, FLOAT64, BOOLEAN, STRING]",
        ),
        (
            "HeaderFrom$Value",
            {"fields": "a,b", "headers": "a", "operation": "copy"},
            "'fields' config must have the same number of elements as 'headers' config.",
        ),
        (
            "RegexRouter",
            {"regex": "(", "replacement": "x"},
            "Invalid value ( for configuration regex: Invalid regex: Unclosed group near index 1\n(",
        ),
        (
            "TimestampConverter$Value",
            {"target.type": "string"},
            "TimestampConverter requires format option to be specified when using string timestamps",
        ),
        (
            "TimestampConverter$Value",
            {"target.type": "Date", "format": "b"},
            "Invalid value "
            "java.lang.IllegalArgumentException: Illegal pattern character 'b' for configuration TimestampConverter "
            "requires a SimpleDateFormat-compatible pattern for string timestamps: b",
        ),
        (
            "TimestampRouter",
            {"timestamp.format": "bbb"},
            "Invalid value bbb for configuration timestamp.format: Illegal pattern character 'b'",
        ),
        ("InsertField$Value", {}, "No field insertion configured"),
        (
            "InsertHeader",
            {"header": "h", "value.literal": "{}"},
            "Invalid value {} for configuration value.literal: a map without entries has no type; add one, or use []",
        ),
        (
            "ExtractField$Value",
            {"field": "`a", "field.syntax.version": "V2"},
            "Incomplete backtick pair in path: [`a], "
            "consider adding a backslash before backtick at position 0 to escape it",
        ),
        (
            "ReplaceField$Value",
            {"renames": "a"},
            "Invalid value [a] for configuration renames: Invalid rename mapping: a",
        ),
    ],
)
def test_a_configuration_is_refused_before_the_first_record(name, config, message):
    with pytest.raises(ConfigException) as refusal:
        found(TRANSFORMATIONS, name).make(config)
    assert str(refusal.value) == message


def test_a_plugin_is_found_by_its_class_or_the_end_of_it():
    whole = "org.apache.kafka.connect.transforms.Cast$Key"
    assert found(TRANSFORMATIONS, whole) is found(TRANSFORMATIONS, "Cast$Key")
    with pytest.raises(ConfigException, match=r"Class Cast\$Valeu could not be found \(did you mean Cast\$Value\?\)"):
        found(TRANSFORMATIONS, "Cast$Valeu")
    assert len(TRANSFORMATIONS) == 27


def test_plans_are_kept_for_a_bounded_number_of_schemas():
    cast = found(TRANSFORMATIONS, "Cast$Value").make({"spec": "a:string"})
    for number in range(200):
        schema = struct([("a", data.INT32)], name=f"S{number}")
        assert cast.apply(record(schema, Struct(schema, [number]))).value.values == [str(number)]
    assert len(cast._plans._plans) <= 64
