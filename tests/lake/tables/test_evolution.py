"""Columns of two rounds are merged into one table's schema, before any file is touched."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ottla.lake import LakeRefused
from ottla.lake.columns.evolution import CannotWiden, conform, evolve, union
from ottla.lake.columns.names import check_column_names, table_column_names


def schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()))


def test_new_columns_come_behind_those_of_the_table():
    found = evolve(schema(a=pa.int64()), schema(b=pa.string(), a=pa.int64()))
    assert (found.schema.names, found.added, found.widened) == (["a", "b"], ("b",), ())


def test_a_column_that_a_round_lacks_stays():
    found = evolve(schema(a=pa.int64(), b=pa.string()), schema(a=pa.int64()))
    assert (found.schema.names, found.added, found.widened) == (["a", "b"], (), ())


def test_members_are_added_inside_objects_and_lists():
    one = pa.struct([("x", pa.int64())])
    two = pa.struct([("y", pa.string())])
    both = pa.struct([("x", pa.int64()), ("y", pa.string())])
    found = evolve(schema(o=one, l=pa.list_(one)), schema(o=two, l=pa.list_(two)))
    assert found.schema == schema(o=both, l=pa.list_(both))
    assert (found.added, found.widened) == (("o", "l"), ())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (pa.int32(), pa.int64()),
        (pa.int64(), pa.float64()),
        (pa.int64(), pa.string()),
        (pa.float32(), pa.float64()),
        (pa.list_(pa.int64()), pa.list_(pa.float64())),
        (pa.struct([("x", pa.int64())]), pa.struct([("x", pa.float64())])),
    ],
)
def test_types_widen(before: pa.DataType, after: pa.DataType):
    found = evolve(schema(a=before), schema(a=after))
    assert found.schema == schema(a=after)
    assert found.widened == ("a",)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (pa.float64(), pa.int64()),
        (pa.string(), pa.int64()),
        (pa.float64(), pa.string()),
        (pa.bool_(), pa.int64()),
        (pa.int64(), pa.list_(pa.int64())),
        (pa.struct([("x", pa.int64())]), pa.string()),
    ],
)
def test_other_changes_are_refused_by_name(before: pa.DataType, after: pa.DataType):
    with pytest.raises(CannotWiden, match="column a is") as refused:
        evolve(schema(a=before), schema(a=after))
    assert refused.value.column == "a"


def test_text_is_text_in_whatever_form_arrow_holds_it():
    found = evolve(schema(a=pa.string()), schema(a=pa.large_string()))
    assert (found.added, found.widened) == ((), ())


def test_a_union_takes_the_wider_type_of_either_side():
    assert union(schema(a=pa.float64(), b=pa.int64()), schema(a=pa.int64(), b=pa.string())) == schema(
        a=pa.float64(), b=pa.string()
    )


def test_rows_take_the_wider_form_and_keep_their_nulls():
    wide = schema(
        a=pa.float64(),
        o=pa.struct([("x", pa.float64()), ("y", pa.string())]),
        l=pa.list_(pa.struct([("x", pa.string())])),
        n=pa.string(),
    )
    rows = pa.table(
        {
            "l": pa.array([[{"x": 1}, None], None, []], pa.list_(pa.struct([("x", pa.int64())]))),
            "o": pa.array([{"x": 1}, None, {"x": None}], pa.struct([("x", pa.int64())])),
            "a": pa.array([1, None, 3], pa.int64()),
        }
    )
    found = [
        {"a": 1.0, "o": {"x": 1.0, "y": None}, "l": [{"x": "1"}, None], "n": None},
        {"a": None, "o": None, "l": None, "n": None},
        {"a": 3.0, "o": {"x": None, "y": None}, "l": [], "n": None},
    ]
    assert conform(rows, wide).to_pylist() == found
    assert conform(rows.slice(1), wide).to_pylist() == found[1:]


def test_an_integer_that_a_double_cannot_hold_is_refused():
    with pytest.raises(CannotWiden, match="column a cannot become double without loss"):
        conform(pa.table({"a": [(1 << 53) + 1]}), schema(a=pa.float64()))


def test_names_that_delta_forbids_are_renamed_without_collision():
    names = ["a b", "a_b", "a;b", "plain", "x=y", " "]
    renamed = table_column_names(names)
    assert renamed == ["a_b", "a_b_2", "a_b_3", "plain", "x_y", "_"]
    for count in range(len(names)):  # a field that comes later never takes the column of an earlier one
        assert table_column_names(names[:count]) == renamed[:count]
    check_column_names(renamed)


@pytest.mark.parametrize("names", [["a b"], ["a\n"], [""], ["a", "A"]])
def test_columns_that_no_table_may_have_are_refused(names: list[str]):
    with pytest.raises(LakeRefused, match="a table cannot have"):
        check_column_names(names)
