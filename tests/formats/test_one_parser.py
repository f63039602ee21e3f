"""The registry and the readers take the same schemas: none is registered whose values could not be read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.formats.compatibility import InvalidSchema
from ottla.formats.decoder import arrow_schema
from ottla.formats.faults import SchemaFault
from ottla.formats.writer import WriterSchema
from ottla.registry import parsing

NO_COLUMNS = (
    "contains itself",
    "nested deeper than",
    "more than 5000",
    "no field that could be a column",
    "no message",
)
"""Reasons that readers give for a valid schema of which no columns can be made."""
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"


def registered(kind: str, text: str, references: tuple[tuple[str, str], ...] = ()) -> str:
    """Empty where the registry takes the schema, else its reason."""
    try:
        parsing.parse(kind, text, references)
    except InvalidSchema as fault:
        return str(fault) or "refused"
    return ""


def read(kind: str, text: str, references: tuple[tuple[str, str], ...] = ()) -> str:
    """Empty where a reader takes the schema, or only finds no columns in it, else its reason."""
    try:
        arrow_schema(WriterSchema(kind, text, references))
    except SchemaFault as fault:
        return "" if any(each in str(fault) for each in NO_COLUMNS) else str(fault) or "refused"
    return ""


def avro_enum(*symbols: object, **more: object) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


def avro_fixed(size: object, **more: object) -> dict[str, Any]:
    return {"type": "fixed", "name": "X", "size": size, **more}


def avro_record(*fields: object, **more: object) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields), **more}


def avro_field(kind: object, **more: object) -> dict[str, Any]:
    return avro_record({"name": "a", "type": kind, **more})


BAD_AVRO: list[Any] = [
    avro_enum("A", "A"), avro_enum("a-b"), avro_enum("A", default="B"), avro_enum(1), avro_enum("A", default=1),
    {"type": "enum", "name": "E"}, avro_fixed(True), avro_fixed(1 << 31), avro_fixed(-1), avro_fixed("3"),
    avro_field("int", aliases=None), avro_field("int", aliases="b"), avro_field("int", aliases=[1]),
    avro_record(aliases=None), avro_record({"name": "a-b", "type": "int"}), avro_record({"name": 1, "type": "int"}),
    avro_field("int", order="up"), avro_field("int", order=[]), avro_field("int", default="x"),
    avro_field("double", default="0"), avro_field("bytes", default="\u0100"), avro_field(avro_fixed(2), default="a"),
    avro_field("long", default=1 << 63), avro_field("string", default=None), avro_record(namespace=1),
    {"type": "record", "name": "int", "fields": []}, {"type": "record", "name": "a..b", "fields": []},
    ["int", "int"], [{"type": "array", "items": "int"}, {"type": "array", "items": "long"}], [avro_record(), "R"],
    ["int", ["null"]], {"type": "array"}, {"type": "nosuch"}, {}, 5, None,
]  # fmt: skip
GOOD_AVRO: list[Any] = [
    avro_field(avro_enum()), avro_field([]), avro_field({"type": "map", "values": []}), avro_field(["int"]),
    avro_field(["null", "int"], default=5), avro_field("R"), avro_field({"type": {"type": "int"}}),
    avro_field({"type": "int", "logicalType": 5}), avro_field(avro_fixed(5, logicalType="uuid")), avro_record(),
    avro_field("int", doc=5), "string",
]  # fmt: skip


@pytest.mark.parametrize("schema", BAD_AVRO, ids=json.dumps)
def test_an_avro_schema_that_the_registry_refuses_is_refused_by_readers_for_the_same_reason(schema):
    text = json.dumps(schema)
    assert registered("AVRO", text)
    assert read("AVRO", text) == f"the Avro schema is not valid: {registered('AVRO', text)}"


@pytest.mark.parametrize("text", [*map(json.dumps, GOOD_AVRO), "int"])
def test_an_avro_schema_that_the_registry_takes_is_taken_by_readers(text):
    assert (registered("AVRO", text), read("AVRO", text)) == ("", "")


def json_object(kind: Any, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": kind}, **more}


WHOLE = {"type": "integer"}
URL = "http://h/r.json"
JSON: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (json_object({"$ref": "#x"}, **{"$schema": DRAFT_2020, "$defs": {"d": {"$anchor": "x", **WHOLE}}}), {}),
    (json_object({"$ref": "#x"}, definitions={"d": {"$id": "#x", **WHOLE}}), {}),
    (json_object({"$ref": "i.json"}, **{"$id": URL, "definitions": {"d": {"$id": "i.json", **WHOLE}}}), {}),
    (json_object({"$ref": "i#/definitions/y"}, definitions={"d": {"$id": "i", "definitions": {"y": WHOLE}}}), {}),
    (json_object({"$ref": f"{URL}#/definitions/d"}, **{"$id": URL, "definitions": {"d": WHOLE}}), {}),
    (json_object({"$ref": "c.json"}), {"c.json": WHOLE}),
    (json_object({"$ref": "http://h/c.json#/definitions/q"}), {"c.json": {"definitions": {"q": WHOLE}}}),
    (json_object({"$ref": "#/definitions/a~1b%20c"}, definitions={"a/b c": WHOLE}), {}),
    (json_object({"allOf": [{"$ref": "#x"}]}, definitions={"d": {"$id": "#x", "properties": {"n": WHOLE}}}), {}),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "references"), JSON, ids=lambda given: json.dumps(given)[:60])
def test_a_reference_that_the_registry_follows_is_followed_by_readers(schema, references):
    named = tuple((name, json.dumps(document)) for name, document in references.items())
    assert registered("JSON", json.dumps(schema), named) == ""
    found = str(arrow_schema(WriterSchema("JSON", json.dumps(schema), named)).field("a").type)
    assert found in ("int64", "struct<n: int64>")


@pytest.mark.parametrize(
    "schema",
    [
        json_object({"$ref": "#/nowhere"}), json_object({"$ref": "no.json"}), json_object({"$ref": "#nowhere"}),
        json_object({"$ref": 5}), json_object({"type": "strin"}), json_object({"anyOf": []}), json_object({"type": 5}),
        {"type": "object", "properties": 5}, {"enum": 5}, [], 5,
    ],
    ids=json.dumps,
)  # fmt: skip
def test_a_json_schema_that_the_registry_refuses_is_refused_by_readers_for_the_same_reason(schema):
    text = json.dumps(schema)
    assert read("JSON", text) == f"the JSON Schema is not valid: {registered('JSON', text)}"


def proto(body: str, head: str = "") -> str:
    return f'syntax = "proto3"; {head} {body}'


@pytest.mark.parametrize(
    "text",
    [
        proto("message M { int32 a = 1; int32 a = 2; }"), proto("message M { int32 a = 1; string b = 1; }"),
        proto("message M { Nope m = 1; }"), proto("message M { int32 a = 0; }"),
        proto("message M { int32 a = 19000; }"), proto("message M { int32 a = 1 }"), "message M { int32 a = 1; }",
        proto("message M { message N { int32 a = 19999; } N n = 1; }"),
        proto("enum E { A = 1; } message M { E e = 1; }"),
        proto("message M { int32 a = 1; }", 'import "no.proto";'), proto("message M { map<float, int32> a = 1; }"),
        proto("message M { oneof x { repeated int32 a = 1; } }"), proto("message M { reserved 1; int32 a = 1; }"),
        proto("message M { int32 a = 1 [default = 5]; }"),
        proto("message M { int32 a = 1; }", "option (foo) = 1;"), proto("message M { google.protobuf.Any a = 1; }"),
    ],
)  # fmt: skip
def test_a_protobuf_schema_that_the_registry_refuses_is_refused_by_readers(text):
    assert registered("PROTOBUF", text) and read("PROTOBUF", text)


@pytest.mark.parametrize(
    "text",
    [
        proto("message M { int32 a = 18999; int32 b = 20000; }"), proto("message M { M m = 1; int32 a = 2; }"),
        "message M { required int32 a = 1; }", 'edition = "2023"; message M { int32 a = 1; }',
        proto("message M { google.protobuf.Any a = 1; }", 'import "google/protobuf/any.proto";'),
        proto("service S { rpc R (M) returns (M); } message M { int32 a = 1; }"), proto("enum E { A = 0; }"),
    ],
)  # fmt: skip
def test_a_protobuf_schema_that_the_registry_takes_is_taken_by_readers(text):
    assert (registered("PROTOBUF", text), read("PROTOBUF", text)) == ("", "")


SCALARS = st.sampled_from(
    [None, True, 0, 1, -1, 1.5, "", "A", "int", "null", "R", "string", "record", "a-b", "#x", "#"]
)
KEYS = ["type", "name", "fields", "symbols", "size", "items", "values", "default", "aliases", "namespace",
        "logicalType", "precision", "scale", "order", "$ref", "$id", "$anchor", "properties", "additionalProperties",
        "anyOf", "allOf", "enum", "const", "format", "definitions"]  # fmt: skip
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=8,
)


@st.composite
def changed(draw: st.DrawFn, schemas: list[Any]) -> Any:
    """A schema, some part of which is something else."""
    document = json.loads(json.dumps(draw(st.sampled_from(schemas))))
    for _ in range(draw(st.integers(0, 2))):
        place, inside = None, document
        while isinstance(inside, dict | list) and inside and (place is None or draw(st.booleans())):
            keys = list(inside) if isinstance(inside, dict) else list(range(len(inside)))
            place, key = inside, draw(st.sampled_from(keys))
            inside = inside[key]
        if place is not None:
            place[key] = draw(ANYTHING)
    return document


WITHOUT_HASTE = settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))


@WITHOUT_HASTE
@given(changed([*GOOD_AVRO, *BAD_AVRO]))
def test_any_avro_schema_is_taken_or_refused_by_both(schema):
    why = registered("AVRO", json.dumps(schema))
    if not why.startswith("fastavro refuses it"):  # it also refuses decimals that the specification has ignored
        assert bool(read("AVRO", json.dumps(schema))) == bool(why)


@WITHOUT_HASTE
@given(changed([schema for schema, references in JSON if not references]))
def test_any_json_schema_is_taken_or_refused_by_both(schema):
    text = json.dumps(schema)
    assert bool(read("JSON", text)) == bool(registered("JSON", text))
