"""The digest of rows: the same in any order and in any batches, different for other rows."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.rows.arrow import HEADERS
from ottla.spark.content import COLUMNS, content_of
from ottla.spark.marker import Content

SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("key", pa.binary()),
        ("value", pa.string()),
        ("headers", HEADERS),
        ("partition", pa.int32()),
    ]
)
texts = st.one_of(st.none(), st.text(max_size=9))
pairs = st.fixed_dictionaries({"key": st.text(max_size=3), "value": st.one_of(st.none(), st.binary(max_size=5))})
rows = st.fixed_dictionaries(
    {
        "topic": st.sampled_from(["a", "b"]),
        "key": st.one_of(st.none(), st.binary(max_size=9)),
        "value": texts,
        "headers": st.one_of(st.none(), st.lists(pairs, max_size=3)),
        "partition": st.one_of(st.none(), st.integers(-5, 5)),
    }
)


def batch(given):
    return pa.RecordBatch.from_pylist(given, schema=SCHEMA)


ROW = {"topic": "a", "key": b"k", "value": "v", "headers": [{"key": "h", "value": b"1"}], "partition": 2}


@settings(deadline=None)
@given(st.lists(rows, max_size=12), st.randoms(use_true_random=False), st.integers(0, 12))
def test_order_and_batches_do_not_matter(given, chance, cut):
    shuffled = list(given)
    chance.shuffle(shuffled)
    whole = batch(shuffled)
    parts = content_of(whole.slice(0, cut)) + content_of(whole.slice(cut)) if cut <= len(given) else content_of(whole)
    assert parts == content_of(batch(given))


@settings(deadline=None)
@given(rows, rows)
def test_two_rows_have_the_same_content_only_if_they_are_the_same(one, other):
    assert (content_of(batch([one])) == content_of(batch([other]))) == (batch([one]).equals(batch([other])))


@pytest.mark.parametrize(
    "change",
    [
        {"topic": "b"},
        {"key": None},
        {"key": b""},
        {"value": "w"},
        {"value": None},
        {"value": ""},
        {"headers": None},
        {"headers": []},
        {"headers": [{"key": "h", "value": None}]},
        {"headers": [{"key": "h", "value": b"1"}, {"key": "h", "value": b"1"}]},
        {"partition": None},
        {"partition": -1},
        {"key": b"v", "value": "k"},
    ],
)
def test_every_column_counts(change):
    assert content_of(batch([{**ROW, **change}])) != content_of(batch([ROW]))


def test_times_count_where_they_are_written():
    kind = pa.timestamp("us", tz="UTC")
    one, other = (batch([ROW]).append_column("timestamp", pa.array([time], kind)) for time in (1, 2))
    assert content_of(one, (*COLUMNS, "timestamp")) != content_of(other, (*COLUMNS, "timestamp"))
    assert content_of(one) == content_of(other)


def test_the_order_of_headers_counts():
    headers = [{"key": "a", "value": b"1"}, {"key": "b", "value": b"2"}]
    assert content_of(batch([{**ROW, "headers": headers}])) != content_of(batch([{**ROW, "headers": headers[::-1]}]))


def test_columns_that_are_not_written_do_not_count():
    mine = batch([ROW])
    assert content_of(mine.append_column("other", pa.array([1]))) == content_of(mine)


def test_no_rows_have_no_content():
    assert content_of(batch([])) == Content()
