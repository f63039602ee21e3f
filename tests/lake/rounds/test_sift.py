"""Rows of one piece on their way into files: filtered, dated and placed; dead letters are separated."""

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from ottla.lake.columns.json_columns import DELETED, EVENT_TIME, JsonBlock
from ottla.lake.columns.layout import Layout
from ottla.lake.columns.shape import LakeShape
from ottla.lake.rounds.sift import RECORD_COLUMNS, Sieve
from ottla.rows.arrow import TYPES

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


def batch(*values_):
    count = len(values_)
    columns = ([b"k%d" % at for at in range(count)], list(values_), [None] * count, [0] * count, list(range(count)))
    arrays = [
        pa.array(column, TYPES[name])
        for name, column in zip(RECORD_COLUMNS, (*columns, [NEW_YEAR] * count), strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, list(RECORD_COLUMNS))


def block(table, good, faults=()):
    return JsonBlock(table, np.array(good), list(faults), table.schema)


def offsets(rows):
    return rows.column("offset").to_pylist()


def test_rows_that_do_not_match_are_left_out_and_no_dead_letters():
    table = pa.table({"n": pa.array([1, None, 3])})
    sieve = Sieve(Layout(), LakeShape(values="json", where="n > 1 AND key <> 'k9'"), table.schema)
    sifted = sieve.sift(batch(b"1", b"bad", None, b"3"), block(table, [True, False, True, True], [(1, "not JSON")]))
    assert offsets(sifted.rows) == [3] and sifted.faults == [(1, "not JSON")]
    assert sifted.left_out.places.tolist() == [0, 2]


def test_a_row_for_which_the_filter_fails_is_a_dead_letter():
    table = pa.table({"name": ["1", "x", "2"]})
    sieve = Sieve(Layout(), LakeShape(values="json", where="CAST(name AS INT) = 1"), table.schema)
    sifted = sieve.sift(batch(b"a", b"b", b"c"), block(table, [True] * 3))
    assert offsets(sifted.rows) == [0] and sifted.left_out.places.tolist() == [2]
    assert [row for row, _ in sifted.faults] == [1]


def test_values_that_stay_bytes_are_filtered_by_the_record_itself():
    sieve = Sieve(Layout(), LakeShape(where="\"offset\" <> 1 AND value = 'x'"), None)
    sifted = sieve.sift(batch(b"x", b"x", b"y"), None)
    assert offsets(sifted.rows) == [0] and sifted.left_out.places.tolist() == [1, 2]
    assert sifted.rows.column_names == list(RECORD_COLUMNS)


def test_what_is_left_out_needs_no_event_time_but_counts_by_it_where_it_has_one():
    table = pa.table({"kind": ["order", "beat", "order", "beat"], "at": [1_000, None, None, 5_000]})
    layout = Layout(("day",), "UTC", "at")
    sieve = Sieve(layout, LakeShape(values="json", layout=layout, where="kind = 'order'"), table.schema)
    sifted = sieve.sift(batch(b"", b"", b"", b""), block(table, [True] * 4))
    assert offsets(sifted.rows) == [0] and sifted.rows.column(EVENT_TIME).to_pylist() == [1_000_000]
    assert sifted.faults == [(2, "field at: no time that can be read")]
    own = int(NEW_YEAR.timestamp()) * 1_000_000
    assert sifted.left_out.places.tolist() == [1, 3] and sifted.left_out.times.tolist() == [own, 5_000_000]


@pytest.mark.parametrize(("key", "kept"), [((), [0]), (("key",), [0, 2])])
def test_a_tombstone_deletes_its_key_in_a_keyed_table_whatever_the_filter_says(key, kept):
    table = pa.table({"n": pa.array([1, 0, None])})
    shape = LakeShape("delta", "json", Layout(()), key=key, where="n = 1")
    sifted = Sieve(Layout(()), shape, table.schema).sift(batch(b"1", b"0", None), block(table, [True] * 3))
    assert offsets(sifted.rows) == kept
    if key:
        assert sifted.rows.column(DELETED).to_pylist() == [False, True]


def test_the_filter_sees_the_lakes_columns_also_taken_apart_and_renamed():
    table = pa.table({"a": pa.array([{"b": 1}, {"b": 2}]), "hour": [5, 6]})
    sieve = Sieve(Layout(), LakeShape(values="json", flatten="_", where="a_b = 2 AND value_hour = 6"), table.schema)
    sifted = sieve.sift(batch(b"", b""), block(table, [True, True]))
    assert sifted.rows.select(["offset", "a_b", "value_hour"]).to_pylist() == [{"offset": 1, "a_b": 2, "value_hour": 6}]
