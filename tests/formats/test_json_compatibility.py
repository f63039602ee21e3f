"""A reader called compatible accepts all documents that jsonschema-rs accepts for the writer; and each rule."""

from __future__ import annotations

import json

import jsonschema_rs
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from tests.formats.json_examples import Json, changed, documents, of_2020, schemas

from ottla.formats import json_facts as facts
from ottla.formats.canonical import json_text
from ottla.formats.compatibility import InvalidSchema
from ottla.formats.json_compatibility import json_incompatibilities
from ottla.formats.json_schema_tree import parse_json_schema

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"


def kinds(reader: Json, writer: Json, **references: str) -> list[str]:
    parsed = [parse_json_schema(json.dumps(each), references) for each in (reader, writer)]
    return [each.kind for each in json_incompatibilities(*parsed)]


def passes(schema: Json, document: Json) -> bool:
    return jsonschema_rs.Draft7Validator(schema).is_valid(document)


@settings(max_examples=400)
@given(st.data())
def test_a_compatible_reader_accepts_what_the_writer_accepts(data: st.DataObject) -> None:
    writer = data.draw(schemas(), label="writer")
    reader = data.draw(changed(writer), label="reader")
    assume(not kinds(reader, writer))
    for document in data.draw(st.lists(documents, min_size=1, max_size=20), label="documents"):
        assert not passes(writer, document) or passes(reader, document)


@settings(max_examples=400)
@given(schemas(), schemas(), st.lists(documents, max_size=30))
@example({"oneOf": [{"type": "object"}, {"required": ["a"]}]}, {"type": "object"}, [{"a": 1}])
def test_unrelated_schemas_are_never_called_compatible_wrongly(reader: Json, writer: Json, given: list[Json]) -> None:
    assume(not kinds(reader, writer))
    for document in given:
        assert not passes(writer, document) or passes(reader, document)


@settings(max_examples=250)
@given(st.data())
def test_the_newest_draft_keeps_the_promise_too(data: st.DataObject) -> None:
    old = data.draw(schemas())
    writer, reader = (
        {"$schema": DRAFT_2020, **each} if isinstance(each := of_2020(given), dict) else each
        for given in (old, data.draw(changed(old)))
    )
    assume(not kinds(reader, writer))
    checks = [jsonschema_rs.Draft202012Validator(each) for each in (writer, reader)]
    for document in data.draw(st.lists(documents, min_size=1, max_size=20)):
        assert not checks[0].is_valid(document) or checks[1].is_valid(document)


@settings(max_examples=200)
@given(schemas())
def test_a_schema_reads_its_own_documents(schema: Json) -> None:
    assert kinds(schema, schema) == []


OBJECT = {"type": "object", "properties": {"a": {"type": "string"}}}
CLOSED = {**OBJECT, "additionalProperties": False}


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        (OBJECT, CLOSED),
        ({**CLOSED, "properties": {**CLOSED["properties"], "b": {"type": "integer"}}}, CLOSED),  # type: ignore[dict-item]
        ({"type": "number"}, {"type": "integer"}),
        ({"type": ["string", "null"]}, {"type": "string"}),
        ({"enum": ["a", "b", "c"]}, {"enum": ["a", "b"]}),
        ({"type": "string"}, {"enum": ["a", "b"]}),
        ({"minimum": 1}, {"type": "integer", "minimum": 2}),
        ({"type": "integer", "minimum": 1}, {"type": "integer", "exclusiveMinimum": 1}),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, {"type": ["string", "integer"]}),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
         {"oneOf": [{"type": "string"}, {"type": "integer"}]}),
        ({"type": "string"}, {"allOf": [{"type": "string"}, {"maxLength": 3}]}),
        ({"items": {"type": "number"}}, {"type": "array", "items": [{"type": "integer"}], "additionalItems": False}),
        ({"$ref": "#/definitions/s", "definitions": {"s": {"type": "string"}}}, {"type": "string"}),
        ({"type": "string", "pattern": "^a"}, {"type": "string", "pattern": "^a", "maxLength": 2}),
        ({"multipleOf": 2}, {"type": "integer", "multipleOf": 4}),
        ({"not": {"type": "string"}}, {"type": "integer"}),
    ],
)  # fmt: skip
def test_what_is_looser_reads_what_is_stricter(reader: Json, writer: Json) -> None:
    assert kinds(reader, writer) == []


@pytest.mark.parametrize(
    ("reader", "writer", "kind"),
    [
        ({**OBJECT, "properties": {"a": {}, "b": {"type": "integer"}}}, OBJECT, "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"),
        ({**OBJECT, "required": ["a"]}, OBJECT, "REQUIRED_ATTRIBUTE_ADDED"),
        (CLOSED, OBJECT, "NOTHING_ALLOWED"),
        ({"type": "integer"}, {"type": "number"}, "TYPE_NARROWED"),
        ({"enum": ["a"]}, {"enum": ["a", "b"]}, "ENUM_ARRAY_NARROWED"),
        ({"type": "string", "maxLength": 2}, {"type": "string", "maxLength": 3}, "MAX_LENGTH_NARROWED"),
        ({"type": "number", "minimum": 2}, {"type": "number", "minimum": 1}, "MINIMUM_NARROWED"),
        ({"type": "array", "uniqueItems": True}, {"type": "array"}, "UNIQUE_ITEMS_NARROWED"),
        ({"anyOf": [{"type": "string"}]}, {"type": ["string", "null"]}, "COMBINED_TYPE_SUBSCHEMAS_CHANGED"),
        ({"oneOf": [{"type": "object"}, {"required": ["a"]}]}, {"type": "object"}, "COMBINED_TYPE_SUBSCHEMAS_CHANGED"),
        ({"not": {"type": "string"}}, {"type": ["string", "null"]}, "NOT_TYPE_EXTENDED"),
        ({"type": "string", "format": "date"}, {"type": "string"}, "FORMAT_NARROWED"),
    ],
)
def test_what_is_stricter_is_refused(reader: Json, writer: Json, kind: str) -> None:
    assert kind in kinds(reader, writer)


def test_one_and_true_are_not_the_same() -> None:
    assert kinds({"const": 1}, {"const": True}) == ["ENUM_ARRAY_NARROWED"]
    assert kinds({"properties": {"a": {"enum": [0]}}}, {"properties": {"a": {"enum": [False]}}})
    assert kinds({"const": 1}, {"const": 1.0}) == []


def test_going_in_circles_proves_nothing() -> None:
    """Opening a writer's alternatives, or a reader's $ref, must not assume what is to be proved."""
    assert kinds({"type": "string"}, {"not": False, "allOf": [{"anyOf": [{}]}]})
    assert kinds({"anyOf": [{"$ref": "#"}, {"type": "string"}]}, {"type": "integer"})
    assert not kinds({"anyOf": [{"$ref": "#"}, {"type": "string"}]}, {"type": "string"})


def test_recursive_schemas_come_to_an_end() -> None:
    tree = {"type": "object", "properties": {"next": {"$ref": "#"}, "v": {"type": "integer"}}}
    wider = {"type": "object", "properties": {"next": {"$ref": "#"}, "v": {"type": "number"}}}
    assert kinds(wider, tree) == []
    assert kinds(tree, wider) == ["TYPE_NARROWED"]


def test_equal_references_to_different_definitions_differ() -> None:
    def schema(kind: str) -> Json:
        return {"properties": {"a": {"$ref": "#/definitions/x"}}, "definitions": {"x": {"type": kind}}}

    assert kinds(schema("string"), schema("integer")) == ["TYPE_NARROWED"]


def test_keywords_of_other_drafts_say_nothing() -> None:
    old = {"$schema": DRAFT_7, "type": "array", "prefixItems": [{"type": "string"}]}
    assert kinds({"$schema": DRAFT_7, "type": "array", "items": [{"type": "string"}]}, old) == ["TYPE_NARROWED"]
    new = {"$schema": DRAFT_2020, "type": "array", "prefixItems": [{"type": "string"}]}
    assert kinds(new, new) == []
    assert kinds({**new, "prefixItems": [{"type": "integer"}]}, new) == ["TYPE_NARROWED"]


def test_draft_4_has_flags_for_exclusive_bounds() -> None:
    four = {"$schema": "http://json-schema.org/draft-04/schema#", "type": "number"}
    assert kinds({**four, "minimum": 1}, {**four, "minimum": 1, "exclusiveMinimum": True}) == []
    assert kinds({**four, "minimum": 1, "exclusiveMinimum": True}, {**four, "minimum": 1}) == ["MINIMUM_NARROWED"]


def test_references_lead_into_other_schemas() -> None:
    other = '{"type":"string"}'
    schema = {"properties": {"a": {"$ref": "other.json"}}}
    with pytest.raises(InvalidSchema, match="leads nowhere"):
        kinds(schema, schema)
    references = {"other.json": other}
    assert kinds(schema, schema, **references) == []
    assert kinds({"properties": {"a": {"type": "integer"}}}, schema, **references) == ["TYPE_NARROWED"]


def test_ids_and_anchors_are_found() -> None:
    schema = {
        "$schema": DRAFT_2020,
        "$id": "http://x/root.json",
        "properties": {"a": {"$ref": "part.json"}, "b": {"$ref": "#here"}},
        "$defs": {"p": {"$id": "part.json", "type": "string"}, "h": {"$anchor": "here", "type": "integer"}},
    }
    assert kinds(schema, schema) == []
    plain = {"$schema": DRAFT_2020, "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    assert kinds(plain, schema) == ["TYPE_NARROWED"]


@pytest.mark.parametrize("text", ["", "1", '{"type":"odd"}', '{"minimum":"x"}', '{"$ref":"#/nowhere"}', "NaN"])
def test_what_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchema):
        parse_json_schema(text, {})


def test_the_printed_schema_keeps_its_order_and_the_normal_form_sorts() -> None:
    document = parse_json_schema('{ "type" : "object",\n "description": "\\u00e9" }', {}).document
    assert json_text(document) == '{"type":"object","description":"é"}'
    assert json_text(document, normalized=True) == '{"description":"é","type":"object"}'


@pytest.mark.timeout(20)
@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(?=(a+)+$)\\1$"])
def test_a_pattern_that_backtracks_without_end_is_not_waited_for(pattern: str) -> None:
    """One such schema held up the registry, which compares in its only thread, for years."""
    name = "a" * 60 + "!"
    writer = {"type": "object", "properties": {name: {"type": "string"}}, "additionalProperties": False}
    reader = {"type": "object", "patternProperties": {pattern: {"type": "string"}}}
    assert kinds(reader, writer) == []


def test_patterns_are_those_of_javascript() -> None:
    """Python's `$` also stands before the last line break, so that the property seemed to match."""
    writer = {"properties": {"a\n": {"type": "string"}}, "additionalProperties": False}
    assert kinds({"patternProperties": {"^a$": {"type": "string"}}, "additionalProperties": False}, writer) != []


@pytest.mark.timeout(20)
def test_thousands_of_parts_are_not_compared_one_with_each() -> None:
    parts = [{f"word{number}": 1} for number in range(50_000)]
    assert kinds({"allOf": parts, "title": "a"}, {"allOf": parts, "title": "b"}) == ["TOO_COMPLEX"]


def test_values_of_a_long_enum_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were written out anew for each value of the writer: at 20,000 of them a registry stood still for hours."""
    counted: list[Json] = []

    def key(value: Json) -> str:
        counted.append(value)
        return json.dumps(value)

    monkeypatch.setattr(facts, "json_key", key)
    count = 300
    assert kinds({"enum": list(range(count))}, {"enum": list(range(count + 1))}) == ["ENUM_ARRAY_NARROWED"]
    assert len(counted) < 20 * count


@pytest.mark.timeout(60)
def test_long_enums_in_many_branches_are_not_compared_without_end() -> None:
    branches = [{"enum": list(range(start, start + 1_000))} for start in range(0, 20_000, 1_000)]
    assert kinds({"anyOf": branches}, {"enum": list(range(20_001))}) == ["TOO_COMPLEX"]
