"""JSON payloads become the columns that their schema declares, the same in blocks as row by row."""

import json
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.formats import json_schema as module
from ottla.formats.decoder import Decoder, arrow_schema
from ottla.formats.faults import SchemaFault
from ottla.formats.json_schema import JsonReader
from ottla.formats.wire import framed
from ottla.formats.writer import WriterSchema

UNHURRIED = settings(deadline=None, suppress_health_check=list(HealthCheck))
ORDER = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "price": {"type": ["number", "null"]},
        "paid": {"type": "boolean"},
        "item": {"$ref": "#/$defs/item"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "at": {"type": "string", "format": "date-time"},
        "on": {"type": "string", "format": "date"},
    },
    "$defs": {"item": {"type": "object", "properties": {"name": {"oneOf": [{"type": "null"}, {"type": "string"}]}}}},
}
I64 = st.integers(-(1 << 63), (1 << 63) - 1)
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=5)
TIMES = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "id": I64,
        "price": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "paid": st.booleans(),
        "item": st.none() | st.fixed_dictionaries({"name": st.none() | TEXT}, optional={"more": TEXT}),
        "tags": st.lists(TEXT, max_size=3),
        "at": TIMES.map(lambda time: time.isoformat() + "Z"),
        "on": st.dates().map(str),
        "undeclared": st.integers(),
    },
)


def reader(schema, **options):
    return JsonReader(WriterSchema("JSON", schema if isinstance(schema, str) else json.dumps(schema)), **options)


def column(*payloads):
    return pa.array([each if isinstance(each, bytes) else json.dumps(each).encode() for each in payloads], pa.binary())


def as_row(value):
    row = {name: value.get(name) for name in ORDER["properties"]}
    row["item"] = None if row["item"] is None else {"name": row["item"]["name"]}
    row["at"] = None if row["at"] is None else datetime.fromisoformat(row["at"])
    row["on"] = None if row["on"] is None else date.fromisoformat(row["on"])
    return row


@pytest.mark.parametrize("rows_alone", [0, 1000])
@UNHURRIED
@given(values=st.lists(VALUES, min_size=1, max_size=6))
def test_declared_members_are_read_at_once_and_alone(rows_alone, values):
    before, module.ROWS_ALONE = module.ROWS_ALONE, rows_alone
    try:
        block = reader(ORDER).read(column(*values))
    finally:
        module.ROWS_ALONE = before
    assert block.faults == []
    block.array.validate(full=True)
    assert block.array.to_pylist() == [as_row(value) for value in values]


def test_blocks_are_used_for_what_arrow_can_parse(monkeypatch):
    monkeypatch.setattr(JsonReader, "_alone", None)
    block = reader(ORDER).read(column(*[{"id": at, "at": "2026-11-22T10:00:00.5Z"} for at in range(100)]))
    assert block.array.field("id").to_pylist() == list(range(100))


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"{", "not JSON"),
        (b"", "not JSON"),
        (b"null", "null"),
        (b"[1]", "value is [1], where an object is declared"),
        (b'{"id": "x"}', 'value.id is "x", where an integer is declared'),
        (b'{"id": 1.5}', "value.id is 1.5"),
        (b'{"id": true}', "value.id is true"),
        (b'{"id": 9999999999999999999}', "too large"),
        (b'{"price": NaN}', "NaN is not JSON"),
        (b'{"price": -1e400}', "value.price is a number that is too large"),
        (b'{"undeclared": [1, -Infinity]}', "Infinity is not JSON"),
        (b'{"at": "yesterday"}', "value.at is 'yesterday', which is no time"),
        (b'{"on": "2026-02-30"}', "which is no date"),
        (b'{"tags": {"a": 1}}', "where an array is declared"),
        (b'{"item": {"name": "\xff"}}', "not JSON"),
        (b'{"item": {"name": "\\ud800"}}', "surrogates"),
        (b'{"id": 1}{"id": 2}', "not JSON"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_each_fault_has_its_reason_and_costs_only_its_row(payload, reason):
    good = [{"id": at} for at in range(50)]
    block = reader(ORDER).read(column(*good, payload, *good))
    ((row, said),) = block.faults
    assert row == 50 and reason in said
    assert block.array.field("id").to_pylist() == [*range(50), *range(50)]


def test_whole_numbers_written_as_fractions_are_integers_and_bare_times_are_utc():
    (row,) = reader(ORDER).read(column(b'{"id": 3.0, "at": "2026-01-02T03:04:05"}')).array.to_pylist()
    assert row["id"] == 3 and row["at"] == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_maps_free_objects_and_mixed_types_have_their_columns():
    schema = {
        "properties": {
            "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
            "free": {"type": "object"},
            "mixed": {"type": ["string", "integer"]},
            "kind": {"enum": ["a", "b", None]},
            "tree": {"$ref": "#"},
        }
    }
    value = {"counts": {"x": 1}, "free": {"é": [1]}, "mixed": 5, "kind": "a", "tree": {"kind": "b"}}
    (row,) = reader(schema).read(column(value)).array.to_pylist()
    assert row["counts"] == [("x", 1)] and row["free"] == '{"é": [1]}' and row["mixed"] == "5" and row["kind"] == "a"
    assert row["tree"] == '{"kind": "b"}'


def test_parts_of_all_of_and_references_to_other_documents_are_followed():
    base = '{"type":"object","properties":{"id":{"type":"integer"}}}'
    text = json.dumps({"allOf": [{"$ref": "base.json"}, {"properties": {"name": {"type": "string"}}}]})
    found = JsonReader(WriterSchema("JSON", text, (("base.json", base),)))
    assert found.read(column({"id": 1, "name": "x"})).array.to_pylist() == [{"id": 1, "name": "x"}]


def test_a_part_of_all_of_that_is_true_declares_nothing():
    found = reader({"type": "object", "allOf": [True, {"properties": {"id": {"type": "integer"}}}]})
    assert found.read(column({"id": 1})).array.to_pylist() == [{"id": 1}]


def test_json_as_text_holds_no_infinity():
    schema = {"properties": {"id": {"type": "integer"}, "free": {"type": "object"}}}
    block = reader(schema).read(column(b'{"id": 1, "free": {"x": 1e400}}', b'{"id": 2, "undeclared": 1e400}'))
    assert block.array.to_pylist() == [{"id": 2, "free": None}]
    assert block.faults == [(0, "not of its JSON Schema: value.free holds a number that is too large")]


def test_validation_holds_values_against_all_that_the_schema_says():
    schema = {"type": "object", "properties": {"id": {"type": "integer", "minimum": 5}}, "required": ["id"]}
    block = reader(schema, validate=True).read(column({"id": 5}, {"id": 4}, {}))
    assert block.good.tolist() == [True, False, False]
    assert "less than the minimum of 5 at id" in block.faults[0][1] and "required" in block.faults[1][1]
    assert reader(schema).read(column({"id": 4}, {})).faults == []


def test_a_value_that_is_no_object_is_one_column():
    decoder = Decoder("json", lambda _: WriterSchema("JSON", '{"type":"integer"}'))
    decoded = decoder.decode(framed(1, [b"7", b'"x"']))
    assert decoded.table.to_pylist() == [{"value": 7}] and [row for row, _ in decoded.faults] == [1]


def test_an_older_writer_lacks_what_is_null_then():
    old, new = (WriterSchema("JSON", json.dumps({"properties": each})) for each in (
        {"id": {"type": "integer"}}, {"id": {"type": "number"}, "name": {"type": "string"}}))  # fmt: skip
    decoded = Decoder("json", {1: old, 2: new}.__getitem__, arrow_schema(new)).decode(framed(1, [b'{"id":1}']))
    assert decoded.table.to_pylist() == [{"id": 1.0, "name": None}]


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("{", "not JSON"),
        ("[]", "an object, true or false"),
        ('{"$ref":"#/nowhere"}', "'#/nowhere' leads nowhere"),
        ('{"$ref":"other.json"}', "'other.json' leads nowhere"),
    ],
)
def test_a_schema_that_is_none_is_refused_with_a_reason(schema, reason):
    with pytest.raises(SchemaFault, match=reason):
        reader(schema)
