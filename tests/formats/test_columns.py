"""Walks over types of columns."""

import pyarrow as pa
import pytest

from ottla.formats.arrays import leaves, refilled
from ottla.formats.columns import alike, leaf_pairs, places, with_plain_leaves
from ottla.formats.evolution import wider_number

DEEP = pa.schema(
    [
        ("a", pa.struct([("b", pa.list_(pa.list_(pa.int32())))])),
        ("m", pa.map_(pa.string(), pa.struct([("c", pa.int64())]))),
    ]
)


def test_places_are_all_columns_and_what_is_inside_them():
    found = [".".join(path) for path, _ in places(DEEP)]
    assert found == ["a", "a.b", "a.b.element", "a.b.element.element", "m", "m.key", "m.value", "m.value.c"]
    assert ("m", "[]", "c") in [path for path, kind in places(DEEP, "[]") if kind == pa.int64()]


def test_leaves_of_two_types_are_paired_by_the_names_of_members():
    one = pa.struct([("a", pa.int32()), ("l", pa.list_(pa.int32())), ("x", pa.list_(pa.int32()))])
    other = pa.struct([("x", pa.string()), ("new", pa.int8()), ("l", pa.list_(pa.int64())), ("a", pa.int32())])
    assert list(leaf_pairs(one, other)) == [
        (("a",), pa.int32(), pa.int32()),
        (("l", "element"), pa.int32(), pa.int64()),
        (("x",), pa.list_(pa.int32()), pa.string()),
    ]
    assert list(leaf_pairs(pa.struct([]), other)) == []


def test_large_kinds_become_plain_ones_and_fields_keep_their_notes():
    inside = pa.field("b", pa.large_list(pa.field("item", pa.large_string(), nullable=False, metadata={"id": "7"})))
    kind = pa.struct([inside, pa.field("m", pa.map_(pa.large_string(), pa.large_binary()))])
    plain = with_plain_leaves(kind)
    item = pa.field("item", pa.string(), nullable=False, metadata={"id": "7"})
    wanted = pa.struct([pa.field("b", pa.list_(item)), pa.field("m", pa.map_(pa.string(), pa.binary()))])
    assert plain.equals(wanted, check_metadata=True)


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.large_list(pa.int64())])
def test_a_slice_of_lists_is_rebuilt_of_its_own_items(kind):
    lists = pa.array([[1], None, [2, 3], [], [4]], pa.list_(pa.int32()))
    seen = []
    made = refilled(lists.slice(1, 3), kind, lambda held, to, step: seen.append(held) or held.cast(to.type))
    made.validate(full=True)
    assert made.type == kind and made.to_pylist() == [None, [2, 3], []]
    assert seen[0].to_pylist() == [2, 3] and alike(kind, lists.type)


def test_leaves_of_columns_leave_out_keys_and_all_inside_a_null():
    inside = pa.StructArray.from_arrays([pa.array([1, 2])], ["x"], mask=pa.array([False, True]))
    maps = pa.array([[("k", [3])], None], pa.map_(pa.string(), pa.list_(pa.int32())))
    column = pa.chunked_array([pa.StructArray.from_arrays([inside, maps], ["s", "m"])])
    found = {path: leaf.to_pylist() for path, leaf in leaves(column, ("c",))}
    assert found == {("c", "s", "x"): [1, None], ("c", "m", "[]", "[]"): [3]}


def test_numbers_widen_to_wider_ones_alone():
    integer, decimal = pa.int32(), pa.decimal128(9, 2)
    assert wider_number(integer, pa.int64()) and not wider_number(pa.int64(), integer)
    assert wider_number(integer, pa.decimal128(21, 2)) and not wider_number(integer, pa.decimal128(20, 2))
    assert wider_number(decimal, pa.decimal128(10, 3)) and not wider_number(decimal, pa.decimal128(9, 3))
    assert wider_number(pa.float32(), pa.float64()) and not wider_number(pa.float64(), pa.float32())
    assert not wider_number(pa.uint8(), pa.int64()) and not wider_number(decimal, pa.float64())
