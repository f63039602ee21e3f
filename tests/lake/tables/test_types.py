"""A type that a table format lacks has a fitting one in its place, or its column is refused by a sentence."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.lake.tables.made import BASE, Lake, a_round

from ottla.lake import LakeRefused
from ottla.lake.columns.evolution import conform
from ottla.lake.columns.held_types import held_type

NESTED = [
    lambda kind: kind,
    pa.list_,
    lambda kind: pa.map_(pa.string(), kind),
    lambda kind: pa.struct([("a", kind)]),
    lambda kind: pa.list_(pa.map_(pa.string(), pa.struct([("a", kind)]))),
]


@pytest.mark.parametrize("nested", NESTED)
@pytest.mark.parametrize(
    "kind", [pa.timestamp("ns"), pa.time64("ns"), pa.decimal256(40, 2), pa.uint64(), pa.struct([])]
)
def test_a_column_that_a_table_cannot_hold_is_refused_by_name_and_nothing_is_made(kind, nested, lake: Lake):
    wanted = BASE.append(pa.field("odd", nested(kind)))
    with pytest.raises(LakeRefused, match=r"column odd has values of the type .*--exclude-fields"):
        lake.table().check(a_round(1, schema=wanted))
    assert lake.table().columns() == pa.schema([])


@pytest.mark.parametrize("nested", NESTED)
@pytest.mark.parametrize("kind", [pa.time64("us"), pa.timestamp("ns", "UTC"), pa.decimal256(40, 2), pa.null()])
def test_a_type_in_the_place_of_another_can_be_held(kind, nested, lake: Lake):
    lake.table().check(a_round(1, schema=BASE.append(pa.field("v", held_type(nested(kind), lake.format)))))


def test_the_notes_of_members_stay_with_their_types():
    member = pa.field("a", pa.time64("us")).with_metadata({"ottla.aliases": '["b"]'})
    inside = held_type(pa.list_(pa.map_(pa.string(), pa.struct([member]))), "delta").value_type.item_type.field("a")
    assert inside.type == pa.int64() and inside.metadata == member.metadata


def test_values_inside_slices_of_maps_and_lists_become_those_of_the_types_in_their_place():
    kind = pa.list_(pa.map_(pa.string(), pa.timestamp("ns")))
    array = pa.array([[{"a": 1}], None, [{"b": 2, "c": None}, None, {}]], kind)
    wanted = pa.schema([("v", held_type(kind, "delta"))])
    rows = conform(pa.table({"v": array}).slice(1), wanted)
    assert rows.column("v").to_pylist() == [None, [[("b", 2), ("c", None)], None, []]]
