"""Schemas called compatible are read by fastavro; and tests of each rule."""

from __future__ import annotations

import io
import json

import fastavro
import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from tests.formats.avro_examples import Json, changed, schemas, values

from ottla.formats.avro_compatibility import avro_incompatibilities
from ottla.formats.avro_tree import parse_avro
from ottla.formats.canonical import avro_text
from ottla.formats.compatibility import InvalidSchema


def kinds(reader: Json, writer: Json) -> list[str]:
    found = avro_incompatibilities(parse_avro(json.dumps(reader)), parse_avro(json.dumps(writer)))
    return [each.kind for each in found]


def record(*fields: Json, name: str = "R", **more: Json) -> Json:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Json, **more: Json) -> Json:
    return {"name": name, "type": kind, **more}


@settings(max_examples=400)
@given(st.data())
def test_a_compatible_reader_reads_all_that_was_written(data: st.DataObject) -> None:
    writer = data.draw(schemas())
    reader = data.draw(changed(writer))
    compatible = not kinds(reader, writer)
    event(f"compatible: {compatible}")
    assume(compatible)
    written = data.draw(values(writer))
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(writer), written)
    out.seek(0)
    fastavro.schemaless_reader(out, fastavro.parse_schema(writer), fastavro.parse_schema(reader))
    assert not out.read()


@settings(max_examples=300)
@given(schemas())
def test_the_printed_schema_is_the_same_schema(schema: Json) -> None:
    once = avro_text(parse_avro(json.dumps(schema)))
    assert avro_text(parse_avro(once)) == once
    assert not avro_incompatibilities(parse_avro(once), parse_avro(json.dumps(schema)))
    assert not avro_incompatibilities(parse_avro(json.dumps(schema)), parse_avro(once))
    normal = avro_text(parse_avro(once), normalized=True)
    assert avro_text(parse_avro(normal), normalized=True) == normal


def test_a_new_field_needs_a_default() -> None:
    old = record(field("a", "int"))
    assert kinds(record(field("a", "int"), field("b", "int")), old) == ["READER_FIELD_MISSING_DEFAULT_VALUE"]
    assert kinds(record(field("a", "int"), field("b", "int", default=0)), old) == []


def test_a_field_is_found_by_its_alias() -> None:
    assert kinds(record(field("b", "int", aliases=["a"])), record(field("a", "int"))) == []


def test_records_are_matched_by_short_name_or_alias() -> None:
    old = record(field("a", "int"), name="x.Old")
    assert kinds(record(field("a", "int"), name="y.Old"), old) == []
    assert kinds(record(field("a", "int"), name="New"), old) == ["NAME_MISMATCH"]
    assert kinds(record(field("a", "int"), name="New", aliases=["x.Old"]), old) == []


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        ("int", "long"),
        ("int", "double"),
        ("long", "float"),
        ("float", "double"),
        ("string", "bytes"),
        ("bytes", "string"),
    ],
)
def test_numbers_and_texts_are_promoted(writer: str, reader: str) -> None:
    assert kinds(reader, writer) == []


@pytest.mark.parametrize(("writer", "reader"), [("long", "int"), ("double", "float"), ("string", "int")])
def test_other_types_are_not_promoted(writer: str, reader: str) -> None:
    assert kinds(reader, writer) == ["TYPE_MISMATCH"]


def test_all_branches_of_a_written_union_must_be_readable() -> None:
    assert kinds(["null", "int", "string"], ["null", "int"]) == []
    assert kinds(["null", "int"], ["null", "int", "string"]) == ["MISSING_UNION_BRANCH"]
    assert kinds("int", ["int"]) == []
    assert kinds("int", ["null", "int"]) == ["TYPE_MISMATCH"]


def test_an_enum_may_lose_symbols_only_with_a_default() -> None:
    old = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
    new = {"type": "enum", "name": "E", "symbols": ["A"]}
    assert kinds(new, old) == ["MISSING_ENUM_SYMBOLS"]
    assert kinds({**new, "default": "A"}, old) == []


def test_fixed_keeps_its_size() -> None:
    fixed = {"type": "fixed", "name": "F", "size": 2}
    assert kinds({**fixed, "size": 3}, fixed) == ["FIXED_SIZE_MISMATCH"]


@pytest.mark.parametrize("carrier", [{"type": "bytes"}, {"type": "fixed", "name": "F", "size": 8}])
def test_decimals_keep_their_scale_and_lose_no_digits(carrier: Json) -> None:
    """The bytes do not tell the scale: a reader with another one would read 1.00 as 100."""

    def decimal(precision: int, scale: int) -> Json:
        return {**carrier, "logicalType": "decimal", "precision": precision, "scale": scale}

    assert kinds(decimal(10, 4), decimal(10, 2)) == ["DECIMAL_CHANGED"]
    assert kinds(decimal(8, 2), decimal(10, 2)) == ["DECIMAL_CHANGED"]
    assert kinds(decimal(12, 2), decimal(10, 2)) == []
    assert kinds(carrier, decimal(10, 2)) == []


def test_recursive_types_come_to_an_end() -> None:
    node = record(field("next", ["null", "N"], default=None), field("v", "int"), name="N")
    wider = record(field("next", ["null", "N"], default=None), field("v", "long"), name="N")
    assert kinds(wider, node) == []
    assert kinds(node, wider) == ["TYPE_MISMATCH"]


def test_a_pair_that_passed_inside_a_failed_one_is_looked_at_again() -> None:
    """The union's first branch fails; assumptions made while it was tried must not count later."""
    inner = record(field("up", ["null", "A"], default=None), name="B")
    writer = record(field("b", inner), field("x", "string"), field("again", ["null", "B"]), name="A")
    new_inner = record(field("up", ["null", "A"], default=None), name="B")
    reader = record(field("b", new_inner), field("x", "int"), field("again", ["null", "B"]), name="A")
    assert "TYPE_MISMATCH" in kinds(reader, writer)


def test_names_that_are_used_twice_do_not_multiply_the_reasons() -> None:
    def nested(last: str) -> Json:
        kind: Json = record(field("x", last), name="R0")
        for level in range(1, 20):
            kind = record(field("a", kind), field("b", f"R{level - 1}"), name=f"R{level}")
        return kind

    assert 1 <= len(kinds(nested("int"), nested("string"))) <= 40


def test_a_default_deep_inside_unions_is_judged_in_few_steps() -> None:
    inner = record(field("f", ["int", "A", record(field("f", ["int", "A", "B"]), name="B")]), name="A")

    def schema(last: Json) -> str:
        default = last
        for _ in range(60):
            default = {"f": default}
        return json.dumps(record(field("a", inner), field("x", ["A", "B"], default=default)))

    assert parse_avro(schema(1)).root.fields[1].has_default
    with pytest.raises(InvalidSchema, match="the default"):
        parse_avro(schema("x"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        '"nonsense"',
        '{"type":"record","name":"R"}',
        '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}',
        '{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":"x"}]}',
        '{"type":"enum","name":"E","symbols":["A","A"]}',
        '{"type":"enum","name":"E","symbols":["A"],"default":"B"}',
        '{"type":"fixed","name":"F"}',
        '["int","int"]',
        '[["int"],"string"]',
        '{"type":"record","name":"1x","fields":[]}',
        '{"type":"array"}',
        "NaN",
    ],
)
def test_what_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchema):
        parse_avro(text)


def test_names_come_from_references() -> None:
    text = '{"type":"record","name":"R","fields":[{"name":"a","type":"x.Other"}]}'
    other = '{"type":"record","name":"Other","namespace":"x","fields":[]}'
    with pytest.raises(InvalidSchema):
        parse_avro(text)
    schema = parse_avro(text, [other])
    assert avro_text(schema) == '{"type":"record","name":"R","fields":[{"name":"a","type":"x.Other"}]}'


def test_the_printed_order_is_that_of_the_java_library() -> None:
    text = """{"fields": [{"default": 1, "type": {"type": "int"}, "name": "a", "doc": "d", "x": 1},
               {"type": {"logicalType": "date", "type": "int"}, "name": "b"},
               {"type": {"namespace": "q.s", "name": "E", "symbols": ["A"], "type": "enum"}, "name": "c"}],
               "aliases": ["Old"], "extra": true, "name": "q.s.R", "type": "record"}"""
    assert avro_text(parse_avro(text)) == (
        '{"type":"record","name":"R","namespace":"q.s","fields":[{"name":"a","type":"int","doc":"d","default":1,"x":1},'
        '{"name":"b","type":{"type":"int","logicalType":"date"}},'
        '{"name":"c","type":{"type":"enum","name":"E","symbols":["A"]}}],"extra":true,"aliases":["Old"]}'
    )
