"""Tables get wider with their rounds: readers see nulls for columns that older files lack, and all older values."""

from __future__ import annotations

from contextlib import nullcontext

import polars as pl
import pyarrow as pa
import pytest
from tests.lake.tables.made import BASE, Lake, a_round, row, rows_of, ten_rows

from ottla.lake import LakeRefused
from ottla.lake.columns.evolution import CannotWiden

INNER = pa.struct([("a", pa.int64())])
WIDER = pa.struct([("a", pa.int64()), ("b", pa.string())])


def put_round(lake: Lake, number: int, schema: pa.Schema, **columns: object) -> None:
    rows = [row(number, **columns)]
    file = lake.put(f"orders/{number}.parquet", rows, schema)
    assert lake.table().commit(a_round(number, [file], schema=schema))


def with_type(name: str, kind: pa.DataType) -> pa.Schema:
    place = BASE.get_field_index(name)
    return BASE.append(pa.field(name, kind)) if place < 0 else BASE.set(place, pa.field(name, kind))


def values(lake: Lake, name: str) -> list[object]:
    return lake.frame().sort("offset")[name].to_list()


def test_a_new_column_reads_null_in_older_files(any_lake: Lake):
    put_round(any_lake, 1, BASE)
    put_round(any_lake, 2, with_type("note", pa.string()), note="new")
    put_round(any_lake, 3, BASE)
    assert values(any_lake, "note") == [None, "new", None]


def test_new_members_of_objects_and_lists_read_null_in_older_files(lake: Lake):
    put_round(lake, 1, with_type("o", INNER).append(pa.field("l", pa.list_(INNER))), o={"a": 1}, l=[{"a": 1}])
    wider = with_type("o", WIDER).append(pa.field("l", pa.list_(WIDER)))
    put_round(lake, 2, wider, o={"a": 2, "b": "x"}, l=[{"a": 2, "b": "x"}])
    assert values(lake, "o") == [{"a": 1, "b": None}, {"a": 2, "b": "x"}]
    assert values(lake, "l") == [[{"a": 1, "b": None}], [{"a": 2, "b": "x"}]]


@pytest.mark.parametrize(
    ("kind", "given", "found"),
    [(pa.float64(), 2.5, [1.0, 2.5]), (pa.string(), "two", ["1", "two"])],
    ids=["to double", "to text"],
)
def test_integers_widen_and_keep_their_values(any_lake: Lake, kind: pa.DataType, given: object, found: list[object]):
    put_round(any_lake, 1, BASE, id=1)
    put_round(any_lake, 2, with_type("id", kind), id=given)
    assert values(any_lake, "id") == found
    held = any_lake.table().standing("L")
    assert held is not None
    assert held.number == 2


def test_integers_inside_objects_and_lists_widen(lake: Lake):
    double = pa.struct([("a", pa.float64())])
    put_round(lake, 1, with_type("o", INNER).append(pa.field("l", pa.list_(pa.int64()))), o={"a": 1}, l=[1, None])
    put_round(lake, 2, with_type("o", double).append(pa.field("l", pa.list_(pa.float64()))), o={"a": 0.5}, l=[0.5])
    assert values(lake, "o") == [{"a": 1.0}, {"a": 0.5}]
    assert values(lake, "l") == [[1.0, None], [0.5]]


def test_a_table_widens_together_with_new_columns_and_partitions_stay(lake: Lake):
    partition = (("country", "de"),)
    file = lake.put("orders/country=de/1.parquet", [row(1)], partition=partition)
    assert lake.table(partition_by=("country",)).commit(a_round(1, [file]))
    wide = with_type("id", pa.float64()).append(pa.field("note", pa.string()))
    file = lake.put("orders/country=de/2.parquet", [row(2, id=0.5, note="x")], wide, partition)
    assert lake.table(partition_by=("country",)).commit(a_round(2, [file], schema=wide))
    found = lake.frame().sort("offset").select("id", "country", "note").rows()
    assert found == [(1.0, "de", None), (0.5, "de", "x")]


def test_what_would_lose_digits_is_refused_and_changes_nothing(lake: Lake):
    put_round(lake, 1, BASE, id=(1 << 53) + 1)
    with pytest.raises(CannotWiden, match="column id cannot become double without loss"):
        put_round(lake, 2, with_type("id", pa.float64()), id=0.5)
    assert values(lake, "id") == [(1 << 53) + 1]
    put_round(lake, 2, BASE, id=2)


def test_types_that_do_not_widen_are_refused_and_change_nothing(lake: Lake):
    put_round(lake, 1, BASE)
    with pytest.raises(CannotWiden, match="column country is string in the table and int64 in the round"):
        put_round(lake, 2, with_type("country", pa.int64()), country=1)
    put_round(lake, 2, BASE)
    assert values(lake, "country") == ["de", "de"]


def test_the_type_of_a_partition_column_stays(lake: Lake):
    file = lake.put("orders/id=1/1.parquet", [row(1)], partition=(("id", "1"),))
    assert lake.table(partition_by=("id",)).commit(a_round(1, [file]))
    wide = with_type("id", pa.string())
    with pytest.raises(LakeRefused, match="partitioned by 'id'"):
        lake.table(partition_by=("id",)).commit(a_round(2, schema=wide))


def test_an_older_version_reads_its_own_types(lake: Lake):
    put_round(lake, 1, BASE, id=1)
    if lake.format == "delta":
        put_round(lake, 2, with_type("id", pa.float64()), id=0.5)
        found = pl.read_delta(f"{lake.url}/orders", version=1)["id"].to_list()
    else:
        first = lake.iceberg().current_snapshot().snapshot_id
        put_round(lake, 2, with_type("id", pa.float64()), id=0.5)
        found = lake.iceberg().scan(snapshot_id=first).to_arrow().column("id").to_pylist()
    assert [type(value) for value in found] == [int]
    assert found == [1]


def test_rows_of_somebody_else_survive_a_widening(lake: Lake):
    lake.table().commit(a_round(1, [ten_rows(lake, 1)]))
    rows = pa.Table.from_pylist([row(10)], schema=BASE)
    if lake.format == "delta":
        from deltalake import write_deltalake

        write_deltalake(f"{lake.url}/orders", rows, mode="append")
    else:
        lake.iceberg().append(rows)
    assert lake.table().commit(a_round(2, schema=with_type("id", pa.float64())))
    assert lake.offsets() == [*rows_of(1), (0, 10)]
    assert values(lake, "id") == [float(offset) for offset in range(11)]


def test_columns_that_no_table_may_have_are_refused_before_anything_is_made(lake: Lake):
    with pytest.raises(LakeRefused, match="a table cannot have a column named 'a b'"):
        lake.table().commit(a_round(1, schema=BASE.append(pa.field("a b", pa.string()))))
    assert lake.names() == set()


@pytest.mark.parametrize("first", [False, True])
def test_a_column_named_as_a_members_path_is_refused_where_it_cannot_be(lake: Lake, first: bool):
    if not first:
        put_round(lake, 1, with_type("l", pa.list_(INNER)), l=[{"a": 1}])
    both = with_type("l", pa.list_(INNER)).append(pa.field("l.element.a", pa.int64()))
    with (
        pytest.raises(LakeRefused, match=r"both a column 'l\.element\.a'")
        if lake.format == "iceberg"
        else nullcontext()
    ):
        lake.table().check(a_round(2, schema=both))


def test_older_values_are_checked_against_a_wider_type_and_nothing_is_changed(lake: Lake):
    put_round(lake, 1, BASE, id=2**53 + 1)
    before = lake.names()
    with pytest.raises(CannotWiden, match="id cannot become double"):
        lake.table().check(a_round(2, schema=with_type("id", pa.float64())))
    lake.table().check(a_round(2, schema=with_type("id", pa.string())))
    assert lake.names() == before and values(lake, "id") == [2**53 + 1]
