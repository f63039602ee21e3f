"""`--flatten`: members of objects become columns of their own; two fields of one name make a dead letter."""

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.formats.wire import framed
from ottla.formats.writer import WriterSchema
from ottla.lake.columns import values
from ottla.lake.columns.flat import check_flat, flat_table
from ottla.lake.columns.shape import LakeShape
from ottla.lake.columns.types import EMPTY, Misfit
from ottla.lake.columns.values import ValueKind, ValueReader, lake_columns, lake_table

FLAT = ValueKind("json", flatten="_")
SHAPE = LakeShape(values="json", flatten="_")


def documents(*found):
    return pa.array([None if each is None else json.dumps(each).encode() for each in found], pa.binary())


def read(kind, *found, schema=EMPTY, reader=None):
    """The lake's rows and the faults of JSON values, read until the columns are wide enough."""
    reader = reader or kind.reader("t")
    block = reader.read(documents(*found), schema)
    while block.table is None or not block.wanted.equals(schema):
        schema = block.wanted
        block = reader.read(documents(*found), schema)
    return lake_table(block.table, SHAPE).to_pylist(), block.faults, schema


def test_members_at_any_depth_become_columns_and_arrays_stay():
    rows, faults, _ = read(FLAT, {"id": 1, "a": {"b": {"c": 2}, "d": [{"e": 3}]}}, {"id": 2, "a": None}, None)
    assert not faults
    assert rows == [
        {"id": 1, "a_b_c": 2, "a_d": [{"e": 3}]},
        {"id": 2, "a_b_c": None, "a_d": None},
        {"id": None, "a_b_c": None, "a_d": None},
    ]


def test_members_that_come_later_and_types_that_widen_do_so_inside_their_objects():
    _, _, schema = read(FLAT, {"a": {"b": 1}})
    rows, faults, schema = read(FLAT, {"a": {"b": 1.5, "c": "x"}}, {"a": {"b": 2}}, schema=schema)
    assert not faults and rows == [{"a_b": 1.5, "a_c": "x"}, {"a_b": 2.0, "a_c": None}]
    assert schema.field("a").type == pa.struct([("b", pa.float64()), ("c", pa.string())])


@pytest.mark.parametrize("later", [{"a_b": 2}, {"A": {"x": 1}, "a_B": 1}, {"a_b": {"c": 1}, "a": {"b_c": 1}}])
def test_two_fields_of_one_name_make_a_dead_letter_of_the_record_that_brings_the_second(later):
    rows, faults, _ = read(FLAT, {"a": {"b": 1}}, later, {"a": {"b": 3}})
    assert [row for row, _ in faults] == [1]
    assert "--flatten makes" in faults[0][1] or "differs from" in faults[0][1]
    assert [row["a_b"] for row in rows] == [1, 3]


def test_columns_of_one_name_are_told_by_both_their_fields():
    with pytest.raises(Misfit, match=r"field a_b: --flatten makes a_b of it, as of a\.b"):
        check_flat(pa.schema([("a", pa.struct([("b", pa.int64())])), ("a_b", pa.int64())]), "_")
    check_flat(pa.schema([("a", pa.struct([("b", pa.int64())])), ("a_b", pa.int64())]), ".")


def test_names_of_the_lake_itself_get_their_prefix_after_they_are_joined():
    columns = pa.schema([("value", pa.struct([("hour", pa.int64())])), ("hour", pa.int64())])
    assert [each.name for each in lake_columns(columns, SHAPE).values()] == ["value_hour", "value_value_hour"]


def test_fields_are_kept_and_left_out_by_their_joined_names():
    columns = pa.schema([("id", pa.int64()), ("a", pa.struct([("b", pa.int64()), ("c", pa.int64())]))])

    def names(**options):
        return flat_table(ValueKind("json", flatten="_", **options).kept(columns).empty_table(), "_").column_names

    assert names(only=frozenset({"a_b"})) == ["a_b"]
    assert names(only=frozenset({"a"})) == ["a_b", "a_c"]
    assert names(without=frozenset({"a_b"})) == ["id", "a_c"]
    assert names(without=frozenset({"a"})) == ["id"]
    assert names(only=frozenset({"a"}), without=frozenset({"a_c"})) == ["a_b"]


VALUES = st.none() | st.integers(-3, 3)
OBJECTS = st.dictionaries(st.sampled_from("pqr"), VALUES | st.dictionaries(st.sampled_from("st"), VALUES), max_size=3)


@given(st.lists(OBJECTS, min_size=1, max_size=12))
def test_a_record_that_is_loaded_has_each_of_its_values_under_its_joined_name(found):
    rows, faults, _ = read(FLAT, *found)
    refused = {row for row, _ in faults}
    for row, document in zip(rows, [each for at, each in enumerate(found) if at not in refused], strict=True):
        wanted = {}
        for name, value in document.items():
            inner = value if isinstance(value, dict) else {"": value}
            wanted.update({f"{name}_{member}".rstrip("_"): each for member, each in inner.items()})
        assert {name: value for name, value in row.items() if value is not None} == {
            name: value for name, value in wanted.items() if value is not None
        }


def avro_reader(monkeypatch, schemas):
    """A reader of Avro values with these schemas by id."""

    class Registry:
        def schema(self, schema_id):
            return WriterSchema("AVRO", json.dumps({"type": "record", "name": "R", "fields": schemas[schema_id]}))

    monkeypatch.setattr(values, "registry", lambda urls: Registry())
    return ValueReader(ValueKind("avro", urls=("http://registry",), flatten="_"))


def test_an_avro_schema_that_repeats_a_name_is_refused_and_the_others_are_read(monkeypatch):
    inner = {"type": "record", "name": "I", "fields": [{"name": "b", "type": "int"}]}
    one = [{"name": "a", "type": inner}]
    reader = avro_reader(monkeypatch, {1: one, 2: [*one, {"name": "a_b", "type": "int"}]})
    column = pa.concat_arrays([framed(1, [b"\x02"]), framed(2, [b"\x04\x06"]), framed(1, [b"\x08"])])
    schema = reader.read(column, EMPTY).wanted
    block = reader.read(column, schema)
    assert lake_table(block.table, SHAPE).to_pylist() == [{"a_b": 1}, {"a_b": 4}]
    assert block.faults[0][0] == 1 and "schema 2 cannot be read: field a_b: --flatten makes" in block.faults[0][1]
