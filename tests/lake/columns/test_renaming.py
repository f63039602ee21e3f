"""`--rename` in JSON values, in blocks and row by row, and the lake's memory of it."""

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.formats.evolution import aliases
from ottla.formats.renames import Rename
from ottla.lake.columns.renaming import parse_renames
from ottla.lake.columns.shape import LakeShape
from ottla.lake.columns.types import EMPTY
from ottla.lake.columns.values import ValueKind, lake_columns
from ottla.lake.rounds.settings import load_settings, with_renames
from ottla.stores import LakeRefused


def read(kind, *found, schema=EMPTY):
    """Rows, faults and columns of JSON values, read until the columns are wide enough."""
    values = pa.array([None if each is None else json.dumps(each).encode() for each in found], pa.binary())
    reader = kind.reader("t")
    for _ in range(5):
        block = reader.read(values, schema)
        if block.table is not None:
            return block.table.to_pylist(), block.faults, schema
        schema = block.wanted
    raise AssertionError("the columns do not come to rest")


def a_kind(*texts, **options):
    return ValueKind("json", renames=parse_renames(texts), **options)


@pytest.mark.parametrize("rows", [1, 100])
def test_values_under_the_old_name_go_into_the_new_column(rows):
    """A hundred rows are read in blocks, a single row by itself."""
    found = [{"name": "a"}, {"title": "b"}, {"title": None, "name": "c"}, None, {"id": 1}] * rows
    got, faults, schema = read(a_kind("name=title"), *found)
    assert not faults and sorted(schema.names) == ["id", "title"]
    assert aliases(schema.field("title")) == ("name",)
    assert [row["title"] for row in got] == ["a", "b", "c", None, None] * rows


def test_old_values_are_held_to_the_type_of_the_new_column():
    kind = a_kind("n=number")
    got, faults, _ = read(kind, {"number": 1.5}, {"n": 2}, {"n": "x"})
    assert [row["number"] for row in got] == [1.5, 2.0] and [row for row, _ in faults] == [2]
    assert "field number: string where the column holds double" in faults[0][1]


def test_a_value_under_both_names_is_a_dead_letter_wherever_it_stands():
    good = [{"a": 1}] * 50
    got, faults, _ = read(a_kind("a=b"), *good, {"a": 1, "b": 2}, *good)
    assert [row for row, _ in faults] == [50] and "under two of its names" in faults[0][1]
    assert [row["b"] for row in got] == [1] * 100


def test_members_of_objects_in_arrays_are_renamed_too():
    kind = a_kind("o.x=o.y", "l=items", "items.sku=items.code")
    for count in (1, 50):
        found = [{"o": {"x": 1}, "l": [{"sku": "a"}, {"code": "b"}]}, {"o": {"y": 2}, "items": []}] * count
        got, faults, _ = read(kind, *found)
        assert not faults
        assert (
            got
            == [
                {"o": {"y": 1}, "items": [{"code": "a"}, {"code": "b"}]},
                {"o": {"y": 2}, "items": []},
            ]
            * count
        )


def test_renames_go_before_flattening_and_before_the_choice_of_fields():
    kind = a_kind("o.x=o.y", flatten="_", only=frozenset({"o_y"}))
    got, faults, schema = read(kind, {"o": {"x": 1}, "z": 1}, {"o": {"y": 2}})
    assert not faults and [row["o"] for row in got] == [{"y": 1}, {"y": 2}]
    (column,) = lake_columns(schema, LakeShape(values="json", flatten="_")).values()
    assert (column.name, aliases(column)) == ("o_y", ("o_x",))


def test_columns_of_names_that_the_lake_has_itself_were_called_otherwise_before():
    schema = a_kind("date=day").renamed("t", pa.schema([("date", pa.string())]))
    (column,) = lake_columns(schema, LakeShape(values="json")).values()
    assert (column.name, aliases(column)) == ("day", ("value_date",))


VALUES = st.none() | st.integers(-3, 3)
DOCUMENTS = st.dictionaries(
    st.sampled_from(["a", "b", "c"]), VALUES | st.dictionaries(st.sampled_from("xy"), VALUES, max_size=2), max_size=3
)


@given(st.lists(DOCUMENTS, min_size=1, max_size=6))
def test_blocks_and_single_rows_give_the_same_columns_and_values(found):
    kind = a_kind("a=b", "b.x=b.y")
    many = 40
    one_by_one, faults, schema = read(kind, *found)
    refused = {row for row, _ in faults}
    good = [document for row, document in enumerate(found) if row not in refused]
    together, none, _ = read(kind, *good * many, schema=schema)
    assert not none and together == one_by_one * many


def test_renames_of_one_topic_are_not_those_of_others():
    renames = parse_renames(["a=b", "shop.orders:c=d", "x:y:z=w"])
    assert renames.of("other").texts() == ("a=b",)
    assert renames.of("shop.orders").texts() == ("c=d", "a=b")
    assert renames.of("x").given[0] == Rename((), "y:z", "w")


def test_a_lake_remembers_its_renames_and_takes_more_but_no_others():
    settings = load_settings(["t"], "lake", {"json": True, "rename": ["b=c"]})
    told = {"t": ("a=b",)}
    renames = with_renames(settings, told).values.renames
    assert dict(renames.of("t").at(())) == {"a": "c", "b": "c"} and renames.texts(["t"]) == {"t": ("a=b", "b=c")}
    assert with_renames(load_settings(["t"], "lake", {"json": True}), told).values.renames.texts(["t", "u"]) == told
    with pytest.raises(LakeRefused, match=r"--rename b=x: b is renamed to c already; topic t"):
        with_renames(load_settings(["t"], "lake", {"json": True, "rename": ["b=x"]}), {"t": ("a=b", "b=c")})


def test_columns_of_both_names_cannot_be_put_together():
    with pytest.raises(LakeRefused, match=r"topic t has columns of both names already .*Leave the rename"):
        a_kind("a=b").renamed("t", pa.schema([("a", pa.int64()), ("b", pa.int64())]))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"rename": ["a"]}, "--rename a: write OLD=NEW"),
        ({"rename": ["t:a=b", "t:a=c"]}, "renamed to b already; topic t"),
        ({"rename": ["a=b"], "values": "text", "json": False}, "are for values that become columns"),
        ({"rename": ["a=b"], "partition_by": "a"}, "the lake is divided or filtered by a"),
        ({"rename": ["a=b"], "event_time": "a"}, "the lake is divided or filtered by a"),
        ({"rename": ["a=b"], "key": "a", "format": "delta"}, "has it for its key"),
        ({"rename": ["a.x=a.y"], "where": "a.x > 1"}, "divided or filtered by x"),
        ({"rename": ["a=b"], "where": "a.x > 1"}, "divided or filtered by a"),
        ({"rename": ["a.x=a.y"], "where": "a_x > 1", "flatten": True}, "divided or filtered by x"),
        ({"rename": ["after.id=after.no"], "key": "id", "format": "delta", "debezium": True}, "for its key"),
        ({"flatten": True, "flatten_separator": " "}, "--flatten-separator ' '"),
        ({"flatten": True, "values": "binary", "json": False}, "are for values that become columns"),
    ],
)
def test_options_that_make_no_sense_together_are_refused(options, why):
    with pytest.raises(LakeRefused, match=why):
        load_settings(["t"], "lake", {"json": True, **options})


@pytest.mark.parametrize("name", ["name", "title"])
def test_fields_are_chosen_by_their_former_names_too(name):
    found = [{"name": "a", "id": 1}, {"title": "b"}]
    for flatten in ("", "_"):
        got, _, _ = read(a_kind("name=title", only=frozenset({name}), flatten=flatten), *found)
        assert got == [{"title": "a"}, {"title": "b"}]
        got, _, _ = read(a_kind("name=title", without=frozenset({name}), flatten=flatten), *found)
        assert got == [{"id": 1}, {"id": None}]
