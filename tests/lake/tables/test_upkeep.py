"""Compaction and expiry beside loaders and other writers keep all rows, and every file that is needed."""

from __future__ import annotations

from datetime import timedelta

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from tests.lake.tables.made import BASE, Lake, a_round, age, append_as_somebody_else, row, rows_of, ten_rows

WEEK = timedelta(days=7)
OLD = 8 * 24 * 3600.0


def data_files(lake: Lake) -> set[str]:
    return {name for name in lake.names() if name.endswith(".parquet") and "_delta_log" not in name}


def load(lake: Lake, rounds: int, partition_by: tuple[str, ...] = ()) -> None:
    for number in range(1, rounds + 1):
        lake.table(partition_by=partition_by).commit(a_round(number, [ten_rows(lake, number)]))


def test_compaction_puts_small_files_together(any_lake: Lake):
    load(any_lake, 5)
    done = any_lake.table().compact()
    assert (done.files_before, done.files_after) == (5, 1)
    assert any_lake.offsets() == rows_of(5)
    again = any_lake.table().compact()
    assert (again.files_before, again.files_after) == (0, 0)


def test_compaction_keeps_partitions_apart(lake: Lake):
    files = []
    for place, country in enumerate(["de", "fr"] * 2):
        partition = (("country", country),)
        name = f"orders/country={country}/{place}.parquet"
        files.append(lake.put(name, [row(place, country=country)], partition=partition))
    lake.table(partition_by=("country",)).commit(a_round(1, files))
    done = lake.table(partition_by=("country",)).compact()
    assert (done.files_before, done.files_after) == (4, 2)
    found = lake.frame().sort("offset")["country"].to_list()
    assert found == ["de", "fr", "de", "fr"]


def test_compaction_leaves_files_of_the_target_size_alone(lake: Lake):
    load(lake, 3)
    assert lake.table().compact(target_bytes=1).files_before == 0


def test_compaction_keeps_the_rows_of_evolved_columns(lake: Lake):
    load(lake, 1)
    wider = BASE.append(pa.field("note", pa.string()))
    file = lake.put("orders/2.parquet", [row(10, note="x")], wider)
    lake.table().commit(a_round(2, [file], schema=wider))
    assert lake.table().compact().files_after == 1
    assert lake.frame().sort("offset")["note"].to_list() == [None] * 10 + ["x"]


def test_compaction_keeps_null_lists_of_objects_apart_from_empty_ones(lake: Lake):
    files = [lake.put(f"orders/{at}.parquet", [row(at, headers=held)]) for at, held in enumerate((None, [], None))]
    lake.table().commit(a_round(1, files))
    before = data_files(lake)
    assert lake.table().compact().files_after == 1
    (copy,) = data_files(lake) - before
    source, root = lake.files()
    rows = pq.read_table(f"{root}/{copy}", filesystem=source).sort_by("offset")
    assert rows["headers"].to_pylist() == [None, [], None]


def test_a_lake_without_the_table_has_nothing_to_keep_up(lake: Lake):
    assert lake.table().compact().files_before == 0
    assert lake.table().expire() == []


def test_a_round_after_compaction_and_expiry_is_still_known(lake: Lake):
    load(lake, 3)
    lake.table().compact()
    lake.table().expire(timedelta(0))
    assert not lake.table().commit(a_round(3, [ten_rows(lake, 3, tries="-again")]))
    assert lake.offsets() == rows_of(3)


def test_expiry_removes_files_that_were_replaced(any_lake: Lake):
    load(any_lake, 3)
    before = data_files(any_lake)
    any_lake.table().compact()
    assert any_lake.table().expire(WEEK) == []
    assert any_lake.offsets() == rows_of(3)
    assert set(any_lake.table().expire(timedelta(0))) >= before
    assert not before & data_files(any_lake)
    assert any_lake.offsets() == rows_of(3)


def test_expiry_spares_files_of_an_uncommitted_round(lake: Lake):
    load(lake, 1)
    waiting, lost = ten_rows(lake, 2), ten_rows(lake, 3)
    odd = lake.put("orders/date=a%20b/odd 1.parquet", [row(99)])
    for file in (waiting, lost, odd):
        age(lake, file.path, OLD)
    young = ten_rows(lake, 4)
    removed = lake.table().expire(WEEK, uncommitted=[waiting.path, odd.path].__contains__)
    assert removed == [lost.path]
    assert young.path in lake.names()
    assert lake.table().commit(a_round(2, [waiting, odd]))
    assert lake.offsets() == [*rows_of(2), (0, 99)]
    assert lake.table().expire(WEEK) == []
    assert lake.offsets() == [*rows_of(2), (0, 99)]


def test_expiry_leaves_the_files_of_other_topics_alone(lake: Lake):
    load(lake, 1)
    lake.table("other").commit(a_round(1, [ten_rows(lake, 1, topic="other")], topic="other"))
    for name in data_files(lake):
        age(lake, name, OLD)
    assert lake.table().expire(WEEK) == []
    assert lake.offsets("other") == rows_of(1)


def test_another_writer_in_between_loses_and_doubles_nothing(lake: Lake):
    for number in range(1, 7):
        lake.table().commit(a_round(number, [ten_rows(lake, number)]))
        append_as_somebody_else(lake, 1000 + number)
        tidy_as_somebody_else(lake)
        assert not lake.table().commit(a_round(number, [ten_rows(lake, number, tries="-again")]))
    assert lake.offsets() == [*rows_of(6), *((0, 1000 + number) for number in range(1, 7))]


def test_a_table_of_many_rounds_has_checkpoints(tmp_path):
    lake = Lake((tmp_path / "lake").as_uri(), "delta")
    load(lake, 41)
    checkpoints = sorted(name for name in lake.names() if ".checkpoint." in name)
    assert len(checkpoints) == 2
    assert lake.table().standing("L").number == 41
    assert pl.scan_delta(f"{lake.url}/orders").collect().height == 410


def tidy_as_somebody_else(lake: Lake) -> None:
    """Compact and vacuum, or drop all older snapshots, with the table's library alone as an administrator would."""
    if lake.format == "delta":
        from deltalake import DeltaTable

        table = DeltaTable(f"{lake.url}/orders")
        table.optimize.compact()
        table.vacuum(0, dry_run=False, enforce_retention_duration=False)
        table.create_checkpoint()
        table.cleanup_metadata()
    else:
        table = lake.iceberg()
        kept = table.current_snapshot().snapshot_id
        older = [old.snapshot_id for old in table.snapshots() if old.snapshot_id != kept]
        table.maintenance.expire_snapshots().by_ids(older).commit()
