"""Tests of which row of a key wins, and of reading Debezium's events, without any table."""

from __future__ import annotations

from contextlib import nullcontext

import pyarrow as pa
import pytest
from tests.lake.tables.made import BASE, Row, row

from ottla.lake import LakeRefused
from ottla.lake.columns.envelopes import unwrap_envelopes
from ottla.lake.columns.json_columns import DELETED
from ottla.lake.tables import TableFile
from ottla.lake.tables.keyed import (
    RoundChanges,
    check_key,
    keyless,
    last_per_key,
    mark_tombstones,
    overtaken,
    round_changes,
)

CHANGES = BASE.append(pa.field(DELETED, pa.bool_()))


def held(*rows: Row) -> pa.Table:
    return pa.Table.from_pylist([{DELETED: False} | each for each in rows], schema=CHANGES)


def ids(rows: pa.Table) -> list[tuple[object, object]]:
    return sorted(zip(rows.column("key").to_pylist(), rows.column("id").to_pylist(), strict=True))


def changes_of(*rows: Row) -> RoundChanges:
    file = TableFile("staged", len(rows), 1)
    return round_changes(lambda _: [held(*rows)], [file], BASE, ("key",))


def test_the_highest_offset_of_a_key_wins():
    rows = held(row(3, key=b"a"), row(1, key=b"a"), row(2, key=b"b"))
    assert ids(last_per_key(rows, ("key",))) == [(b"a", 3), (b"b", 2)]


def test_within_a_partition_the_offset_counts_and_not_the_timestamp():
    rows = held(row(1, key=b"a", ms=9_000), row(2, key=b"a", ms=1_000))
    assert ids(last_per_key(rows, ("key",))) == [(b"a", 2)]


def test_between_partitions_the_later_timestamp_wins_and_then_the_higher_partition():
    rows = held(row(50, key=b"a", ms=1_000), row(1, key=b"a", ms=2_000, partition=1))
    assert ids(last_per_key(rows, ("key",))) == [(b"a", 1)]
    rows = held(row(50, key=b"a", ms=1_000), row(1, key=b"a", ms=1_000, partition=1))
    assert ids(last_per_key(rows, ("key",))) == [(b"a", 1)]


def test_a_key_may_be_several_fields():
    rows = held(row(1, id=7, country="de"), row(2, id=7, country="fr"), row(3, id=7, country="de"))
    found = last_per_key(rows, ("id", "country"))
    assert sorted(found.column("offset").to_pylist()) == [2, 3]


def test_rows_without_their_key_are_found_and_refused():
    rows = held(row(1), row(2, key=None))
    assert keyless(rows, ("id", "key")).to_pylist() == [False, True]
    with pytest.raises(LakeRefused, match=r"partition 0, offset 2: the record lacks its key \(key\)"):
        last_per_key(rows, ("key",))


def test_a_delete_without_its_key_says_nothing():
    rows = held(row(1), row(2, key=None) | {DELETED: True})
    assert ids(last_per_key(rows, ("key",))) == [(b"k1", 1)]


def test_a_round_without_any_key_has_no_changes():
    """No record has had the field yet, so that the table has no such column."""
    for rows, refused in ((held(row(1) | {DELETED: True}), False), (held(row(1)), True)):
        with pytest.raises(LakeRefused, match="offset 1: the record lacks its key") if refused else nullcontext():
            found = round_changes(lambda _, rows=rows: [rows], [TableFile("staged", 1, 1)], BASE, ("nobody",))
            assert not found.rows.num_rows


@pytest.mark.parametrize("key", [(), ("headers",), ("offset",)])
def test_a_key_is_made_of_plain_columns(key: tuple[str, ...]):
    with pytest.raises(LakeRefused):
        check_key(BASE, key)


def test_newer_changes_overtake_rows_and_older_ones_lose():
    changes = changes_of(row(5, key=b"a"), row(6, key=b"b"), row(7, key=b"new"))
    table = held(row(4, key=b"a"), row(9, key=b"b"), row(3, key=b"other"), row(2, key=b"a"))
    found = overtaken(table, changes)
    assert found.keep.tolist() == [False, True, True, False]
    assert [rows.column("key").to_pylist() for _, rows in changes.without(set(found.losers))] == [[b"a", b"new"]]


def test_deletes_are_never_inserted():
    changes = changes_of(row(5, key=b"a") | {DELETED: True}, row(6, key=b"b"))
    assert [rows.column("key").to_pylist() for _, rows in changes.without(set())] == [[b"b"]]


def test_a_null_value_deletes_where_staged_files_hold_values():
    schema = BASE.append(pa.field("value", pa.binary()))
    rows = pa.Table.from_pylist([row(1, value=b"x"), row(2, value=None)], schema=schema)
    found = round_changes(lambda _: [rows], [TableFile("staged", 2, 1)], schema, ("key",))
    assert sorted(zip(found.rows["id"].to_pylist(), found.rows[DELETED].to_pylist(), strict=True)) == [
        (1, False),
        (2, True),
    ]


def test_rows_keep_the_partition_of_their_staged_file():
    files = [TableFile("one", 1, 1, (("date", "2026-03-01"),)), TableFile("two", 1, 1, (("date", None),))]
    pieces = {"one": [held(row(1, key=b"a"))], "two": [held(row(2, key=b"b"))]}
    schema = BASE.append(pa.field("date", pa.string()))
    changes = round_changes(lambda file: pieces[file.path], files, schema, ("key",))
    found = {partition: rows.column("date").to_pylist() for partition, rows in changes.without(set())}
    assert found == {(("date", "2026-03-01"),): ["2026-03-01"], (("date", None),): [None]}


def test_tombstones_are_marked_beside_json_columns():
    marked = mark_tombstones(pa.table({"id": [1, None]}), pa.array([b"{}", None]))
    assert marked.column(DELETED).to_pylist() == [False, True]


STATE = pa.struct([("id", pa.int64()), ("name", pa.string())])
ENVELOPE = [("before", STATE), ("after", STATE), ("op", pa.string()), ("ts_ms", pa.int64())]
RECORD = [("key", pa.binary()), ("partition", pa.int32()), ("offset", pa.int64())]


def events(*envelopes: dict[str, object] | None, wrapped: bool = False) -> pa.Table:
    rows: list[dict[str, object]] = []
    for offset, envelope in enumerate(envelopes):
        value = {"payload": envelope} if wrapped else envelope or {}
        rows.append(value | {"key": b"k", "partition": 0, "offset": offset})
    fields = [("payload", pa.struct(ENVELOPE))] if wrapped else ENVELOPE
    return pa.Table.from_pylist(rows, schema=pa.schema(fields + RECORD))


@pytest.mark.parametrize("wrapped", [False, True], ids=["bare", "payload"])
def test_change_events_become_the_state_they_leave(wrapped: bool):
    one, two = {"id": 1, "name": "one"}, {"id": 1, "name": "two"}
    found = unwrap_envelopes(
        events(
            {"op": "r", "after": one},
            {"op": "c", "after": one},
            {"op": "u", "before": one, "after": two},
            {"op": "d", "before": two},
            None,
            wrapped=wrapped,
        )
    )
    assert found.faults == ()
    assert found.rows.column("name").to_pylist() == ["one", "one", "two", "two", None]
    assert found.rows.column(DELETED).to_pylist() == [False, False, False, True, True]
    assert found.rows.column("offset").to_pylist() == [0, 1, 2, 3, 4]
    assert found.rows.column_names == ["id", "name", "key", "partition", "offset", DELETED]


def test_events_that_change_no_row_are_faults_with_their_place():
    one = {"id": 1, "name": "one"}
    found = unwrap_envelopes(
        events({"op": "t"}, {"op": "c", "after": one}, {"op": "u"}, {"op": "d"}, {"after": one}, {"op": "m"}),
        key=("id",),
    )
    assert found.rows.column("offset").to_pylist() == [1]
    assert [place for place, _ in found.faults] == [0, 2, 3, 4, 5]
    assert found.faults[1][1] == "a change event of op u without after"
    assert found.faults[2][1] == "a change event of op d without before, and without id in its record's JSON key"
    assert found.faults[3][1] == "not a change event: it has no op"


def test_a_field_named_as_a_record_column_is_prefixed():
    state = pa.struct([("offset", pa.int64()), ("partition", pa.string())])
    schema = pa.schema([("after", state), ("op", pa.string()), *RECORD])
    rows = [{"after": {"offset": 70, "partition": "p"}, "op": "c", "key": b"k", "partition": 3, "offset": 5}]
    found = unwrap_envelopes(pa.Table.from_pylist(rows, schema=schema)).rows.to_pylist()
    assert found == [
        {"value_offset": 70, "value_partition": "p", "key": b"k", "partition": 3, "offset": 5, DELETED: False}
    ]


def test_before_and_after_may_differ_in_type():
    schema = pa.schema(
        [
            ("before", pa.struct([("id", pa.float64())])),
            ("after", pa.struct([("id", pa.int64()), ("x", pa.string())])),
            ("op", pa.string()),
            *RECORD,
        ]
    )
    rows = [{"after": {"id": 1, "x": "x"}, "op": "c", "offset": 1}, {"before": {"id": 1.5}, "op": "d", "offset": 2}]
    found = unwrap_envelopes(pa.Table.from_pylist(rows, schema=schema)).rows
    assert found.column("id").to_pylist() == [1.0, 1.5]
    assert found.column("x").to_pylist() == ["x", None]
