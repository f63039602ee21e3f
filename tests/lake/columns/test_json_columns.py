import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.lake.columns.evolution import conform
from ottla.lake.columns.json_columns import ColumnRules, _Reading, column_names, decode, pack_schema, unpack_schema
from ottla.lake.columns.json_parser import MOST_BYTES, depth
from ottla.lake.columns.types import EMPTY, MOST_FIELDS, MOST_LEVELS, Rule


def values(*texts):
    return pa.array(texts, pa.binary())


def read(schema, *texts, **rule):
    return decode(values(*texts), schema, ColumnRules(Rule(**rule)))


def settled(schema, *texts, **rule):
    """Read with the schema that the values need, as the loader does."""
    for _ in range(20):
        block = read(schema, *texts, **rule)
        if block.table is not None:
            return block
        schema = block.wanted
    raise AssertionError("the schema never settles")


def test_fields_become_columns():
    texts = (b'{"a":1,"b":"x"}', b'{"a":2.5,"c":[1]}')
    block = read(EMPTY, *texts)
    assert block.table is None
    assert block.wanted == pa.schema({"a": pa.float64(), "b": pa.string(), "c": pa.list_(pa.int64())})
    block = read(block.wanted, *texts)
    assert block.table.to_pylist() == [{"a": 1.0, "b": "x", "c": None}, {"a": 2.5, "b": None, "c": [1]}]
    assert block.good.all() and block.faults == []


def test_a_time_in_a_text_stays_text():
    assert read(EMPTY, b'{"t":"2013-01-01 05:15:00"}').wanted == pa.schema({"t": pa.string()})


def test_fields_without_any_value_make_no_column():
    assert read(EMPTY, b'{"n":null,"l":[],"o":{},"p":{"q":null}}').wanted == EMPTY
    assert read(EMPTY, b'{"n":null}', b"{}").table.num_rows == 2


def test_a_list_of_nulls_inside_an_object_with_columns_is_left_out():
    block = settled(EMPTY, b'{"a":{"b":false,"c":[null,null]}}', b'{"a":{"c":[null]}}')
    assert block.table.to_pylist() == [{"a": {"b": False}}, {"a": {"b": None}}]


def test_new_members_of_objects_widen_them():
    schema = pa.schema({"s": pa.struct({"x": pa.int64()})})
    assert read(schema, b'{"s":{"y":"z"}}').wanted == pa.schema({"s": pa.struct({"x": pa.int64(), "y": pa.string()})})
    assert read(schema, b'{"s":{"x":1,"y":null}}').table.to_pylist() == [{"s": {"x": 1}}]


def test_whole_numbers_widen_to_doubles_also_where_files_hold_them():
    schema = pa.schema({"a": pa.int64(), "l": pa.list_(pa.struct({"x": pa.int64()}))})
    wanted = read(schema, b'{"a":0.5,"l":[{"x":1},{"x":2.5}]}').wanted
    assert wanted == pa.schema({"a": pa.float64(), "l": pa.list_(pa.struct({"x": pa.float64()}))})


def test_whole_numbers_widen_to_text_by_choice_only():
    schema = pa.schema({"a": pa.int64()})
    assert read(schema, b'{"a":"x"}').faults == [(0, "field a: string where the column holds int64")]
    block = settled(schema, b'{"a":"x"}', b'{"a":7}', numbers_as_text=True)
    assert block.table.to_pylist() == [{"a": "x"}, {"a": "7"}]
    assert read(pa.schema({"a": pa.float64()}), b'{"a":"x"}', numbers_as_text=True).misfits


DEEP = b'{"a":' * 500 + b"1" + b"}" * 500
POISON = [
    (b"", "not JSON"),
    (b"{", "not JSON"),
    (b"[1]", "a JSON array, not an object"),
    (b"1", "a JSON number, not an object"),
    (b"null", "a JSON null, not an object"),
    (b'{"a":1}{"a":2}', "not JSON"),
    (b'{"a":"\xff"}', "not JSON"),
    (b'{"a":NaN}', "NaN is not a number"),
    (b'{"d":-Infinity}', "-Infinity is not a number"),
    (b'{"a":"x"}', "field a: string where the column holds int64"),
    (b'{"a":[1]}', "field a: array where the column holds int64"),
    (b'{"b":"\\ud800"}', "not JSON that can be a column"),
    (b'{"d":123456789012345678901}', "a number too big"),
    (b'{"d":1e400}', "a number too big"),
    (b'{"A":2}', "field A: its name differs from a only in case"),
    (b'{"new":{"id":1,"ID":2}}', "its name differs from"),
    (b'{"n":' + b"9" * 5000 + b"}", "a number too big"),
    (b'{"deep":' + b"[" * 120 + b"1" + b"]" * 120 + b"}", f"nested deeper than {MOST_LEVELS} levels"),
    (DEEP, f"nested deeper than {MOST_LEVELS} levels"),
    (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, f"nested deeper than {MOST_LEVELS} levels"),
    (b'{"b":"' + b"x" * MOST_BYTES + b'"}', "bytes; at most"),
    (b"[" * 100_000, "nested deeper"),
    (json.dumps({f"f{number}": 1 for number in range(MOST_FIELDS + 1)}).encode(), f"more than {MOST_FIELDS:} fields"),
]


@pytest.mark.parametrize(("value", "why"), POISON, ids=[why for _, why in POISON])
@pytest.mark.parametrize("beside", [0, 100], ids=["in a small block", "in a large block"])
def test_a_value_that_cannot_be_columns_is_told_apart_with_its_reason(value, why, beside):
    schema = pa.schema({"a": pa.int64(), "b": pa.string(), "d": pa.float64()})
    block = read(schema, b'{"a":1}', *[b'{"a":2}'] * beside, value, b'{"a":3}')
    assert block.table.column("a").to_pylist() == [1, *[2] * beside, 3]
    assert block.good.tolist() == [True, *[True] * beside, False, True]
    assert [row for row, _ in block.faults] == [1 + beside] and why in block.faults[0][1]


def test_a_refused_value_widens_nothing():
    assert read(pa.schema({"a": pa.int64()}), b'{"b":1,"a":"x"}').wanted == pa.schema({"a": pa.int64()})


def test_brackets_in_strings_are_no_levels():
    assert depth(b'{"a":"[[[[[","b":[{"c":"\\"{{{"}]}') == 3


def test_an_empty_array_is_null_in_a_column_of_something_else():
    block = settled(EMPTY, b'{"b":[]}', b'{"b":false}', b'{"b":{}}')
    assert block.table.to_pylist() == [{"b": None}, {"b": False}, {"b": None}]


def test_names_that_show_no_type_collide_with_none():
    for text in (b'{"a":1,"A":null}', b'{"a":1,"A":[]}', b'{"a":1,"A":{"b":null}}'):
        assert settled(EMPTY, text, b"not JSON").table.to_pylist() == [{"a": 1}]
        assert settled(EMPTY, text).table.to_pylist() == [{"a": 1}]


def test_real_numbers_beyond_64_bits_are_fine():
    assert settled(EMPTY, b'{"d":1e30}').table.to_pylist() == [{"d": 1e30}]


def test_two_values_that_only_make_sense_together_are_both_faults():
    block = read(EMPTY, b'{"b":"}', b'{","c":1}{}')
    assert [row for row, _ in block.faults] == [0, 1]


def test_tombstones_are_rows_of_nulls():
    schema = pa.schema({"a": pa.int64()})
    assert read(schema, None, None).table.to_pylist() == [{"a": None}] * 2
    assert read(schema, b'{"a":1}', None).table.to_pylist() == [{"a": 1}, {"a": None}]


def test_tombstones_between_values_are_read_together_with_them(monkeypatch: pytest.MonkeyPatch):
    """Reading row by row is many times slower, and a compacted topic has tombstones everywhere."""

    def row_by_row(*_):
        raise AssertionError("read row by row")

    monkeypatch.setattr("ottla.lake.columns.json_columns._Reading._one_by_one", row_by_row)
    texts = [None if row % 3 == 0 else b'{"a":%d,"o":{"x":"%d"},"l":[%d]}' % (row, row, row) for row in range(100)]
    block = settled(EMPTY, *texts)
    assert block.table.to_pylist() == [
        {"a": None, "o": None, "l": None} if row % 3 == 0 else {"a": row, "o": {"x": str(row)}, "l": [row]}
        for row in range(100)
    ]
    assert block.good.all() and block.faults == []


@pytest.mark.parametrize(
    "poison",
    [b'{"a":1,}', b"[1]", b"not JSON", b"", b'{"a":"\xff"}', b'{"a":"x"}', b'{"a":' + b"[" * 300 + b"]" * 300 + b"}"],
)
def test_only_the_values_with_faults_are_read_one_by_one(poison: bytes, monkeypatch: pytest.MonkeyPatch):
    """Reading row by row is many times slower; one bad producer in a hundred would slow down a whole topic."""
    one_by_one = _Reading._one_by_one
    read_so = []

    def noted(reading: _Reading, values: pa.Array, first: int) -> None:
        read_so.extend(range(first, first + len(values)))
        one_by_one(reading, values, first)

    monkeypatch.setattr(_Reading, "_one_by_one", noted)
    bad = [3, 250, 251, 999]
    texts = [poison if row in bad else None if row % 7 == 5 else b'{"a":%d}' % row for row in range(1000)]
    block = read(pa.schema({"a": pa.int64()}), *texts)
    assert [row for row, _ in block.faults] == bad == np.flatnonzero(~block.good).tolist()
    assert read_so == bad
    assert block.table["a"].to_pylist() == [None if row % 7 == 5 else row for row in range(1000) if row not in bad]


def test_a_value_that_is_two_objects_hides_no_fault_behind_it():
    schema = pa.schema({"a": pa.int64()})
    texts = [b'{"a":1}'] * 100 + [b'{"a":2}{"a":3}'] + [b'{"a":4}'] * 5 + [b'{"a":5,}'] + [b'{"a":6}'] * 100
    block = read(schema, *texts)
    assert [row for row, _ in block.faults] == [100, 106]
    assert block.table["a"].to_pylist() == [1] * 100 + [4] * 5 + [6] * 100


def test_reserved_names_get_a_prefix_whatever_their_case():
    names = ["value_key", "key", "hour", "fine", "Month"]
    assert column_names(names) == ["value_key", "value_value_key", "value_hour", "fine", "value_Month"]


@pytest.mark.parametrize("names", [["key", "value_key"], ["value_key", "key"], ["offset", "Value_Offset"]])
def test_a_later_field_never_takes_the_column_of_an_earlier_one(names):
    (alone,) = column_names(names[:1])
    first, second = column_names(names)
    assert first == alone and second.casefold() != first.casefold()


BIG = [
    b'{"n":9007199254740993}',
    b'{"n":-9223372036854775808}',
    b'{"n":[9007199254740993]}',
    b'{"n":{"x":9007199254740993}}',
]
REAL = [b'{"n":0.5}', b'{"n":0.5}', b'{"n":[0.5]}', b'{"n":{"x":0.5}}']


@pytest.mark.parametrize("beside", [0, 100], ids=["in a small block", "in a large block"])
@pytest.mark.parametrize(("big", "real"), list(zip(BIG, REAL, strict=True)))
def test_no_digit_of_a_whole_number_beyond_2_to_the_53_is_lost_beside_a_real_one(big, real, beside):
    for texts in ((big, real), (real, big)):
        block = settled(EMPTY, texts[0], *[None] * beside, texts[1])
        assert [row for row, _ in block.faults] == [beside + 1] and "a double cannot hold" in block.faults[0][1]
        assert [row for row in block.table.to_pylist() if row["n"] is not None] == [json.loads(texts[0])]


def test_a_whole_number_that_fits_a_double_goes_on_to_widen():
    block = settled(EMPTY, b'{"n":9007199254740992}', b'{"n":0.5}', b'{"n":-9007199254740992}', b'{"n":1.7e18}')
    assert not block.faults and block.table["n"].to_pylist() == [2.0**53, 0.5, -(2.0**53), 1.7e18]


def test_a_column_of_large_whole_numbers_still_becomes_text_by_choice():
    block = settled(EMPTY, b'{"n":9007199254740993}', b'{"n":"x"}', numbers_as_text=True)
    assert block.table["n"].to_pylist() == ["9007199254740993", "x"]


def test_a_schema_survives_being_written_down():
    schema = pa.schema({"a": pa.list_(pa.struct({"x": pa.string()}))})
    assert unpack_schema(pack_schema(schema)) == schema


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.integers(-(2**54), 2**54)
    | st.floats(allow_nan=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abAB"), inner, max_size=3),
    max_leaves=6,
)
messages = st.lists(
    st.one_of(
        st.dictionaries(st.sampled_from("abcA"), json_values).map(lambda each: json.dumps(each).encode()),
        st.binary(max_size=8),
        st.none(),
    ),
    max_size=8,
)


@given(messages, st.booleans())
@settings(max_examples=80, deadline=None)
def test_every_value_is_a_row_or_a_fault_whatever_it_is(texts, numbers_as_text):
    block = settled(EMPTY, *texts, numbers_as_text=numbers_as_text)
    assert int(block.good.sum()) + len(block.faults) == len(texts)
    block.table.validate(full=True)
    assert int(block.good.sum()) == block.table.num_rows


@given(messages, st.integers(0, 8), st.booleans())
@settings(max_examples=150, deadline=None)
def test_what_loads_does_not_depend_on_where_a_round_ends(texts, cut, numbers_as_text):
    whole = settled(EMPTY, *texts, numbers_as_text=numbers_as_text)
    first = settled(EMPTY, *texts[:cut], numbers_as_text=numbers_as_text)
    second = settled(first.table.schema, *texts[cut:], numbers_as_text=numbers_as_text)
    assert [*first.good, *second.good] == whole.good.tolist()
    assert second.table.schema == whole.table.schema
    both = pa.concat_tables([conform(first.table, whole.table.schema), second.table])
    assert not both.column_names or shown(both) == shown(whole.table)


def shown(table):
    """The rows, without the difference between null and an array or object without any value.

    Such a value is null before its column came to be, and may be empty afterwards (docs/guide/lake-columns.md).
    """

    def bare(value):
        if isinstance(value, dict):
            return {name: kept for name, member in value.items() if (kept := bare(member)) is not None} or None
        if isinstance(value, list):
            items = [bare(item) for item in value]
            return items if any(item is not None for item in items) else None
        return value

    return [{name: bare(value) for name, value in row.items()} for row in table.to_pylist()]


@pytest.mark.parametrize("levels", [40, 120, 300, 500, 900])
@pytest.mark.parametrize("inner", [b"1", b"null", b"[]"])
def test_a_value_of_many_levels_among_good_ones_is_the_only_fault(levels, inner):
    deep = b'{"a":' * levels + inner + b"}" * levels
    read = decode(pa.array([b'{"b": 1}', deep, b'{"b": 2}'] * 100, pa.binary()), EMPTY)
    assert {reason for _, reason in read.faults} == {f"nested deeper than {MOST_LEVELS} levels"}
    assert [row for row, _ in read.faults] == list(range(1, 300, 3))
