"""Rounds become visible completely and once, and the table itself records how far its loaders are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from tests.lake.tables.made import Lake, a_round, append_as_somebody_else, row, rows_of, ten_rows

from ottla.kernel.ids import TopicId
from ottla.lake import LakeRefused
from ottla.lake.columns.shape import LakeShape
from ottla.lake.rounds.publishing import publisher
from ottla.lake.tables import TableFile, open_table
from ottla.stores import open_store

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
AN_ID = TopicId(bytes(range(16)))


def test_a_round_is_visible_once_it_is_committed(any_lake: Lake):
    table = any_lake.table()
    assert table.standing("L") is None
    assert table.commit(a_round(1, [ten_rows(any_lake, 1)]))
    assert any_lake.offsets() == rows_of(1)
    assert table.commit(a_round(2, [ten_rows(any_lake, 2)]))
    assert any_lake.offsets() == rows_of(2)


def test_the_same_round_again_changes_nothing(any_lake: Lake):
    done = a_round(1, [ten_rows(any_lake, 1)])
    assert any_lake.table().commit(done)
    assert not any_lake.table().commit(done)
    assert not any_lake.table().commit(a_round(0, [ten_rows(any_lake, 1, tries="-again")]))
    assert any_lake.offsets() == rows_of(1)


def test_rounds_may_skip_numbers(lake: Lake):
    assert lake.table().commit(a_round(3, [ten_rows(lake, 1)]))
    assert lake.table().commit(a_round(9, [ten_rows(lake, 2)]))
    assert lake.table().standing("L").number == 9
    assert lake.offsets() == rows_of(2)


def test_a_standing_tells_offsets_rows_and_topic_of_the_newest_round(any_lake: Lake):
    table = any_lake.table()
    table.commit(a_round(1, [ten_rows(any_lake, 1)], offsets={0: 10, 1: 0}, topic_id=AN_ID))
    table.commit(a_round(2, [ten_rows(any_lake, 2)], offsets={0: 20, 1: 0}, topic_id=AN_ID))
    held = any_lake.table().standing("L")
    assert held is not None
    assert (held.number, held.offsets, held.rows, held.topic_id) == (2, {0: 20, 1: 0}, {0: 20, 1: 0}, AN_ID)


def test_a_topic_created_anew_is_told_apart_from_the_earlier_one(lake: Lake):
    lake.table().commit(a_round(1, [ten_rows(lake, 1)], offsets={0: 10, 7: 3}, topic_id=AN_ID))
    other = TopicId(bytes(reversed(range(16))))
    lake.table().commit(a_round(2, [ten_rows(lake, 2)], offsets={0: 2}, topic_id=other))
    held = lake.table().standing("L")
    assert held is not None
    assert (held.offsets, held.topic_id) == ({0: 2}, other)


def test_standings_name_every_loader(lake: Lake):
    lake.table().commit(a_round(5, [ten_rows(lake, 1)], loader="main#1"))
    lake.table().commit(a_round(1, [ten_rows(lake, 2)], loader="backfill"))
    assert [(held.loader, held.number) for held in lake.table().standings()] == [("backfill", 1), ("main#1", 5)]
    assert lake.table("others").standings() == []


def test_a_standing_outlives_checkpoints_expiry_and_foreign_commits(lake: Lake):
    table = lake.table()
    for number in range(1, 24):
        table.commit(a_round(number, [ten_rows(lake, number)]))
    table.compact()
    table.expire(timedelta(0))
    append_as_somebody_else(lake, 1000)
    held = lake.table().standing("L")
    assert held is not None
    assert (held.number, held.offsets) == (23, {0: 230})
    assert not lake.table().commit(a_round(23, [ten_rows(lake, 99)]))
    assert lake.offsets() == [*rows_of(23), (0, 1000)]


def test_a_round_without_files_moves_the_standing(lake: Lake):
    lake.table().commit(a_round(1, [ten_rows(lake, 1)]))
    assert lake.table().commit(a_round(2, offsets={0: 15}))
    assert not lake.table().commit(a_round(2, offsets={0: 15}))
    held = lake.table().standing("L")
    assert held is not None
    assert held.offsets == {0: 15}
    assert lake.offsets() == rows_of(1)


@pytest.mark.parametrize("partition_by", [("day",), ("month",), ("hour",), ("day", "country"), ("country",)])
def test_partitions_are_what_readers_filter_by(lake: Lake, partition_by: tuple[str, ...]):
    files = []
    for place, country in enumerate(["de", None, "a b/ü"]):
        times = {"month": "2026-03", "date": "2026-03-01", "hour": "10"}
        units = {"day": ("date",), "month": ("month",), "hour": ("date", "hour"), "country": ("country",)}
        names = [name for entry in partition_by for name in units[entry]]
        values = tuple((name, country if name == "country" else times[name]) for name in names)
        folder = "/".join(f"{name}={quote(value or NO_VALUE, safe='')}" for name, value in values)
        files.append(lake.put(f"orders/{folder}/f {place}.parquet", [row(place, country=country)], partition=values))
    assert lake.table(partition_by=partition_by).commit(a_round(1, files))
    assert lake.offsets() == [(0, 0), (0, 1), (0, 2)]
    found = lake.frame().sort("offset")["country"].to_list()
    assert found == ["de", None, "a b/ü"]
    with pytest.raises(LakeRefused, match="is partitioned by"):
        lake.table().commit(a_round(2, [ten_rows(lake, 2)]))


def test_times_long_ago_are_found_by_filters(lake: Lake):
    """The log's bounds of a file must be times that readers can parse."""
    first = datetime(1, 1, 2, tzinfo=UTC)
    moments = [first, datetime(999, 3, 1, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)]
    ms = [(moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1) for moment in moments]
    files = [lake.put(f"orders/{at}.parquet", [row(at, ms=each)]) for at, each in enumerate(ms)]
    assert lake.table().commit(a_round(1, files))
    if lake.format == "delta":
        table = DeltaTable(f"{lake.url}/orders")
        assert sorted(pa.table(table.get_add_actions(flatten=True))["min.timestamp"].to_pylist()) == moments
    held = lake.frame().filter(pl.col("timestamp") < datetime(1000, 1, 1, tzinfo=UTC))
    assert sorted(held["offset"].to_list()) == [0, 1]


def test_a_topic_named_as_the_lakes_own_folder_is_no_table(tmp_path: Path):
    shape = LakeShape(format="delta")
    with pytest.raises(LakeRefused, match="topic _ottla cannot be a table"):
        publisher(shape, open_store(tmp_path.as_uri()), "L").begin("_ottla")


def test_a_lake_may_lie_in_a_folder_with_spaces_and_umlauts(format: str, tmp_path: Path):
    lake = Lake((tmp_path / "my lake ü").as_uri(), format, f"sqlite:///{tmp_path}/catalog.db")
    assert lake.table().commit(a_round(1, [ten_rows(lake, 1)]))
    staged = lake.put("_staged/1.parquet", [row(11, id=5)])
    assert lake.table().commit_keyed(a_round(2, [staged]), ("id",))
    assert lake.table().commit(a_round(3, [ten_rows(lake, 3)]))
    assert lake.table().compact().files_before == 3
    assert lake.table().expire(timedelta(0))
    # polars 2.1 looks up the files of a Delta table in such a folder under their URL-encoded names.
    delta = format == "delta"
    rows = DeltaTable(tmp_path / "my lake ü" / "orders").to_pyarrow_table().num_rows if delta else len(lake.offsets())
    assert rows == 20
    assert not list(tmp_path.glob("*%20*"))


def test_what_cannot_be_a_table_is_refused(lake: Lake):
    with pytest.raises(LakeRefused, match="not a table format"):
        open_table(lake.url, "hudi", "orders")
    with pytest.raises(LakeRefused, match="needs --catalog"):
        open_table(lake.url, "iceberg", "orders")
    with pytest.raises(LakeRefused, match="is not a catalog"):
        open_table(lake.url, "iceberg", "orders", catalog="ftp://somewhere")
    with pytest.raises(LakeRefused, match="cannot lie on hdfs"):
        open_table("hdfs://namenode/lake", "iceberg", "orders", catalog=lake.catalog)
    with pytest.raises(LakeRefused, match="cannot lie in /data/a%20b"):
        open_table("file:///data/a%2520b", "delta", "orders")
    with pytest.raises(LakeRefused, match="cannot lie in /data/a#b"):
        open_table("file:///data/a%23b", "iceberg", "orders", catalog=lake.catalog)
    with pytest.raises(LakeRefused, match="twice"):
        lake.table(partition_by=("day", "day")).commit(a_round(1, [ten_rows(lake, 1)]))
    with pytest.raises(LakeRefused, match="partitioned by 'headers'"):
        lake.table(partition_by=("headers",)).commit(a_round(1, [ten_rows(lake, 1)]))


def test_a_missing_data_file_makes_nothing_visible(lake: Lake):
    lake.table().commit(a_round(1, [ten_rows(lake, 1)]))
    with pytest.raises(OSError, match="gone"):
        lake.table().commit(a_round(2, [ten_rows(lake, 2), TableFile("orders/gone.parquet", 1, 1)]))
    assert lake.offsets() == rows_of(1)
    assert lake.table().commit(a_round(2, [ten_rows(lake, 2)]))
    assert lake.offsets() == rows_of(2)
