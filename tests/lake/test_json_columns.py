import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.lake.json_columns import EMPTY, column_names, decode, merge, pack_schema, unpack_schema


def values(*texts):
    return pa.array(texts, pa.binary())


def read(schema, *texts, fixed=True):
    return decode(values(*texts), schema, fixed=fixed)


def test_fields_become_columns():
    block = read(EMPTY, b'{"a":1,"b":"x"}', b'{"a":2.5,"c":[1]}', fixed=False)
    assert block.table is None
    assert block.wanted == pa.schema({"a": pa.float64(), "b": pa.string(), "c": pa.list_(pa.int64())})
    block = read(block.wanted, b'{"a":1,"b":"x"}', b'{"a":2.5,"c":[1]}')
    assert block.table.to_pylist() == [{"a": 1.0, "b": "x", "c": None}, {"a": 2.5, "b": None, "c": [1]}]
    assert block.good.all() and block.faults == []


def test_what_looks_like_a_time_stays_text():
    assert read(EMPTY, b'{"t":"2013-01-01 05:15:00"}').wanted == pa.schema({"t": pa.string()})


def test_fields_without_any_value_make_no_column():
    assert read(EMPTY, b'{"n":null,"l":[],"o":{},"p":{"q":null}}').wanted == EMPTY


def test_new_members_of_objects_widen_them():
    schema = pa.schema({"s": pa.struct({"x": pa.int64()})})
    assert read(schema, b'{"s":{"y":"z"}}').wanted == pa.schema({"s": pa.struct({"x": pa.int64(), "y": pa.string()})})
    assert read(schema, b'{"s":{"x":1,"y":null}}').table.to_pylist() == [{"s": {"x": 1}}]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[1]", "a JSON array, not an object"),
        (b"1", "a JSON number, not an object"),
        (b"null", "a JSON null, not an object"),
        (b'{"a":1}{"a":2}', "not JSON"),
        (b'{"a":"\xff"}', "not JSON"),
        (b'{"a":NaN}', "not JSON"),
        (b'{"a":"x"}', "field a: string where the column holds int64"),
        (b'{"a":0.5}', "field a: double where the column holds int64"),
        (b'{"b":"\\ud800"}', "not JSON that can be a column"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_a_value_that_cannot_be_columns_is_told_apart_with_its_reason(value, why):
    schema = pa.schema({"a": pa.int64(), "b": pa.string()})
    block = read(schema, b'{"a":1}', value, b'{"a":3}')
    assert block.table.column("a").to_pylist() == [1, 3]
    assert block.good.tolist() == [True, False, True]
    assert [row for row, _ in block.faults] == [1] and why in block.faults[0][1]


def test_two_values_that_only_make_sense_together_are_both_faults():
    block = read(EMPTY, b'{"b":"}', b'{","c":1}{}', fixed=False)
    assert [row for row, _ in block.faults] == [0, 1]


def test_tombstones_are_rows_of_nulls():
    schema = pa.schema({"a": pa.int64()})
    assert read(schema, None, None).table.to_pylist() == [{"a": None}] * 2
    assert read(schema, b'{"a":1}', None).table.to_pylist() == [{"a": 1}, {"a": None}]


def test_numbers_widen_until_files_exist():
    schema = pa.schema({"a": pa.int64()})
    assert read(schema, b'{"a":0.5}', fixed=False).wanted == pa.schema({"a": pa.float64()})
    assert merge(schema, pa.schema({"a": pa.float64()}), fixed=True) == schema


def test_reserved_names_get_a_prefix():
    names = ["key", "value_key", "hour", "fine"]
    assert column_names(pa.schema([(name, pa.int64()) for name in names])) == [
        "value_value_key",
        "value_key",
        "value_hour",
        "fine",
    ]


def test_a_schema_survives_being_written_down():
    schema = pa.schema({"a": pa.list_(pa.struct({"x": pa.string()}))})
    assert unpack_schema(pack_schema(schema)) == schema


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.lists(
        st.one_of(
            st.dictionaries(st.sampled_from("abc"), json_values).map(lambda each: json.dumps(each).encode()),
            st.binary(max_size=8),
            st.none(),
        ),
        max_size=6,
    )
)
@settings(max_examples=80, deadline=None)
def test_every_value_is_a_row_or_a_fault_whatever_it_is(texts):
    schema = EMPTY
    for _ in range(10):
        block = decode(values(*texts), schema, fixed=False)
        if block.table is not None:
            break
        widened = merge(schema, block.wanted, fixed=False)
        assert widened != schema
        schema = widened
    assert int(block.good.sum()) + len(block.faults) == len(texts)
    block.table.validate(full=True)
    assert not schema.names or int(block.good.sum()) == block.table.num_rows
