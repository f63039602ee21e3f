"""The filter of `--where`: an expression over one row decides whether it is loaded."""

import itertools
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.lake.columns.where import RowFilter
from ottla.rows.arrow import HEADERS
from ottla.stores import LakeRefused

INNER = pa.struct([("country", pa.string()), ("at", pa.timestamp("us", "UTC"))])
ROWS = pa.table(
    {
        "key": pa.array([b"one", None, b"\xff"], pa.binary()),
        "n": pa.array([1, None, 3]),
        "amount": pa.array([1, 2, 3], pa.decimal128(10, 2)),
        "name": pa.array(["5", None, "ax"]),
        "day": pa.array([date(2026, 3, 1), None, date(2026, 3, 2)]),
        "from": pa.array(
            [{"country": "DE", "at": datetime(2026, 3, 1, tzinfo=UTC)}, None, {"country": "FR", "at": None}], INNER
        ),
        "tags": pa.array([["a", "b"], [], None]),
        "headers": pa.array(
            [
                [{"key": "source", "value": b"shop"}, {"key": "source", "value": b"web"}],
                None,
                [{"key": "other", "value": b"web"}, {"key": "source", "value": b"\xff"}],
            ],
            HEADERS,
        ),
        "partition": pa.array([0, 0, 1], pa.int32()),
        "offset": pa.array([7, 8, 9]),
        "timestamp": pa.array([datetime(2026, 3, day, tzinfo=UTC) for day in (1, 2, 3)], pa.timestamp("us", "UTC")),
    }
)


def chosen(expression, rows=ROWS):
    """The indexes of the rows that match."""
    matching, faults = RowFilter(expression).matches(rows)
    assert not faults
    return [place for place, matches in enumerate(matching.tolist()) if matches]


@pytest.mark.parametrize(
    ("expression", "places"),
    [
        ("n > 1", [2]),
        ("n * 2 + 1 = 3 OR n % 2 = 1", [0, 2]),
        ("NOT n = 1", [2]),
        ("n IS NULL", [1]),
        ("n IN (1, 2)", [0]),
        ("n BETWEEN 1 AND 2", [0]),
        ("amount > 1.5", [1, 2]),
        ("name LIKE 'a%' AND length(name) = 2", [2]),
        ("coalesce(name, 'none') = 'none'", [1]),
        ("CASE WHEN n = 1 THEN true ELSE false END", [0]),
        ("TRY_CAST(name AS INT) > 3", [0]),
        ("day >= DATE '2026-03-02'", [2]),
        ("\"from\".country = 'DE'", [0]),
        ("\"from\".at >= TIMESTAMP '2026-03-01 00:00:00'", [0]),
        ("array_contains(tags, 'b')", [0]),
        ("key = 'one'", [0]),
        ('"partition" = 0 AND "offset" > 7', [1]),
        ("timestamp >= TIMESTAMP '2026-03-02 00:00:00'", [1, 2]),
        ("\"header.source\" = 'web'", [0]),
        ('"header.source" IS NULL', [1, 2]),
        ("\"header.other\" = 'web'", [2]),
        ("name = 'now()'", []),
    ],
)
def test_a_row_is_chosen_where_the_expression_is_true(expression, places):
    RowFilter(expression).check(ROWS.schema)
    assert chosen(expression) == places


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("n >", "unable to parse"),
        ("n > 1; DROP TABLE x", "unexpected token"),
        ("true", "it names no field"),
        ("count(n) > 1", "by that row alone"),
        ("n > avg(n)", "by that row alone"),
        ("sum(n) OVER () > n", "by that row alone"),
        ('row_number() OVER (ORDER BY n) > "offset"', "by that row alone"),
        ("string_agg(name) = 'x'", "by that row alone"),
        ("median(n) = n", "by that row alone"),
        ("n > (SELECT 1)", "by that row alone"),
        ("n IN (SELECT n FROM self)", "relation 'self'"),
        ("unnest(tags) = 'a'", "by that row alone"),
        ("timestamp < now()", "now gives another answer each time"),
        ("day = CURRENT_DATE", "CURRENT_DATE gives another answer"),
    ],
)
def test_what_says_nothing_of_one_row_is_refused_before_anything_is_read(expression, why):
    with pytest.raises(LakeRefused, match=f"^--where .*{why}"):
        RowFilter(expression)


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("n = 'one'", "cannot compare string"),
        ("n + 1", "true or false, and this gives Int64"),
        ("name", "true or false"),
    ],
)
def test_types_that_do_not_go_together_are_refused_once_the_columns_are_known(expression, why):
    with pytest.raises(LakeRefused, match=why):
        RowFilter(expression).check(ROWS.schema)


def test_fields_that_are_not_there_are_null_and_told():
    condition = RowFilter("coalesce(gone.deep, n) = 1 OR \"from\".zip = 'x' OR \"header.h\" = 'x' OR key = 'x'")
    condition.check(ROWS.schema)
    assert condition.matches(ROWS)[0].tolist() == [True, False, False]
    assert condition.absent([ROWS.schema]) == ["from.zip", "gone.deep"]
    assert condition.absent([ROWS.schema, pa.schema([("gone", pa.struct([("deep", pa.int64())]))])]) == ["from.zip"]


def test_a_row_for_which_the_expression_fails_is_told_and_the_others_have_their_answer():
    names = pa.table({"name": ["1", "x", "2", None, "y", "1"]})
    matching, faults = RowFilter("CAST(name AS INT) = 1").matches(names)
    assert matching.tolist() == [True, False, False, False, False, True]
    assert [row for row, _ in faults] == [1, 4]
    assert all(why.startswith("--where cannot be evaluated: conversion") for _, why in faults)


NUMBERS = st.lists(st.none() | st.integers(-5, 5), max_size=30)


@given(NUMBERS, st.lists(st.integers(0, 30), max_size=4))
def test_the_answer_for_a_row_does_not_depend_on_the_rows_beside_it(values, cuts):
    rows = pa.table({"n": pa.array(values, pa.int64())})
    condition = RowFilter("n > 0 AND n % 2 = 1 OR n = -2")
    expected = [value is not None and ((value > 0 and value % 2 == 1) or value == -2) for value in values]
    edges = sorted({0, len(values), *(cut for cut in cuts if cut < len(values))})
    pieces = [rows.slice(one, two - one) for one, two in itertools.pairwise(edges)] or [rows]
    assert condition.matches(rows)[0].tolist() == expected
    assert [found for piece in pieces for found in condition.matches(piece)[0].tolist()] == expected


def test_no_rows_and_rows_in_many_chunks_have_answers_too():
    assert chosen("n > 1", ROWS.slice(0, 0)) == []
    assert chosen("n > 1 OR \"header.source\" = 'web'", pa.concat_tables([ROWS, ROWS.slice(1)])) == [0, 2, 4]
