"""Rows of one topic become files, without Spark: written at once, or put aside and joined later."""

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.lake.columns.json_columns import EVENT_TIME
from ottla.lake.columns.layout import Layout
from ottla.lake.rounds import files, merge
from ottla.lake.rounds.files import FileTarget, TopicFiles
from ottla.lake.rounds.merge import merge_parts, merge_tasks
from ottla.rows.arrow import row_schema
from ottla.stores import open_store

HOUR = 3_600_000_000
COLUMNS = ("key", "value", "headers", "partition", "offset", "timestamp")


def rows(hours, *, partition=0, first=0, size=10):
    count = len(hours)
    return pa.table(
        {
            "key": pa.nulls(count, pa.binary()),
            "value": pa.array([b"x" * size] * count, pa.binary()),
            "headers": pa.nulls(count, row_schema(("headers",)).field(0).type),
            "partition": pa.array([partition] * count, pa.int32()),
            "offset": pa.array(range(first, first + count), pa.int64()),
            "timestamp": pa.array([hour * HOUR for hour in hours], pa.int64()).cast(pa.timestamp("us", "UTC")),
        }
    )


class Desk:
    """A store, a target, and the tasks that write there."""

    def __init__(self, path, target_bytes=1 << 20, layout=Layout(("hour",))):  # noqa: B008
        self.store = open_store(path.as_uri())
        self.target = FileTarget("_ottla/tmp/0-ab/", layout, "zstd", target_bytes)
        self.written = []
        self.parts = []

    def task(self, *tables):
        writer = TopicFiles(self.store, self.target, "t", {})
        for table in tables:
            writer.add(table)
        made = writer.close()
        self.written += made.written
        self.parts += made.parts

    def join(self, tasks=2):
        for task in merge_tasks(self.store.url, self.target, self.parts, tasks):
            self.written += merge_parts(self.store, task.target, task.parts)

    def read(self):
        """(values, offsets) by file, after a check of each file against its description."""
        found = []
        for file in self.written:
            table = pq.read_table(self.store.directory / file.name)
            assert table.num_rows == file.rows == sum(held.rows for held in file.held)
            assert (self.store.directory / file.name).stat().st_size == file.bytes
            for held in file.held:
                mine = [row["offset"] for row in table.to_pylist() if row["partition"] == held.partition]
                assert (len(mine), min(mine), max(mine)) == (held.rows, held.first, held.last)
            found.append((file.values, table.column("offset").to_pylist()))
        return sorted(found)


def test_small_groups_of_many_tasks_become_one_file_each(tmp_path):
    desk = Desk(tmp_path)
    for partition in range(3):
        desk.task(rows([0, 1, 0, 2], partition=partition))
    assert desk.written == []
    desk.join()
    assert [(values[1], offsets) for values, offsets in desk.read()] == [
        ("00", [0, 2] * 3),
        ("01", [1] * 3),
        ("02", [3] * 3),
    ]


def test_a_group_with_much_in_it_is_written_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "DIRECT_BYTES", 1000)
    desk = Desk(tmp_path)
    desk.task(rows([0] * 100 + [1]))
    assert [file.rows for file in desk.written] == [100]
    assert [part.rows for part in desk.parts] == [1]


def test_what_comes_after_the_start_of_a_file_goes_into_it(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "DIRECT_BYTES", 1000)
    monkeypatch.setattr(files, "HELD_BYTES", 5000)
    desk = Desk(tmp_path)
    desk.task(*[rows([0] * 100, first=first) for first in range(0, 500, 100)], rows([0, 0], first=500))
    assert desk.parts == [] and [file.rows for file in desk.written] == [502]


def test_few_files_are_open_at_once_whatever_comes(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "DIRECT_BYTES", 1)
    desk = Desk(tmp_path)
    writer = TopicFiles(desk.store, desk.target, "t", {})
    writer.add(rows([hour % 24 for hour in range(48)]))
    writer._flush(last=False)
    assert len(writer._open) == files.DIRECT_FILES
    assert sum(file.rows for file in writer.close().written) == 48


def test_files_end_at_about_the_target(tmp_path):
    desk = Desk(tmp_path, target_bytes=10_000)
    uneven = pa.array([random.randbytes(30) for _ in range(2000)], pa.binary())
    desk.task(rows([0] * 2000).set_column(1, "value", uneven))
    desk.join()
    assert len(desk.written) > 3
    assert all(file.bytes < 40_000 for file in desk.written)
    assert sorted(offset for _, offsets in desk.read() for offset in offsets) == list(range(2000))


def test_the_event_time_divides_and_is_in_no_file(tmp_path):
    desk = Desk(tmp_path, layout=Layout(("hour",), "UTC", "at"))
    desk.task(rows([9, 9]).append_column(EVENT_TIME, pa.array([0, HOUR], pa.int64())))
    desk.join()
    assert [values for values, _ in desk.read()] == [("1970-01-01", "00"), ("1970-01-01", "01")]
    assert pq.read_table(tmp_path / desk.written[0].name).column_names == list(COLUMNS)


def test_nothing_is_left_open_where_a_task_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "DIRECT_BYTES", 500)
    desk = Desk(tmp_path)
    writer = TopicFiles(desk.store, desk.target, "t", {})
    writer.add(rows([0] * 50 + [1]))
    writer._flush(last=False)
    writer.abandon()
    assert desk.store.entries("") == []


def test_merging_shares_groups_out_and_never_cuts_one(tmp_path, monkeypatch):
    monkeypatch.setattr(merge, "SMALL_TASK", 1)
    desk = Desk(tmp_path)
    for partition in range(2):
        desk.task(rows(list(range(20)), partition=partition))
    tasks = merge_tasks(desk.store.url, desk.target, desk.parts, 3)
    assert 2 < len(tasks) <= 7
    groups = [{part.values for part in task.parts} for task in tasks]
    assert sum(map(len, groups)) == len(set().union(*groups)) == 20


hours = st.lists(st.integers(0, 5), min_size=0, max_size=40)


@pytest.mark.parametrize("held", [1, 3000, 1 << 20])
@given(st.lists(st.lists(hours, max_size=4), min_size=1, max_size=4))
@settings(max_examples=25, deadline=None)
def test_every_row_is_in_one_file_of_its_hour_in_order(tmp_path_factory, held, tasks):
    desk = Desk(tmp_path_factory.mktemp("lake"))
    expected = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "HELD_BYTES", held)
        patch.setattr(files, "DIRECT_BYTES", 1500)
        for partition, pieces in enumerate(tasks):
            first, tables = 0, []
            for piece in pieces:
                tables.append(rows(piece, partition=partition, first=first))
                for place, hour in enumerate(piece):
                    expected.setdefault(f"{hour:02d}", []).append((partition, first + place))
                first += len(piece)
            desk.task(*tables)
        desk.join()
    found = {}
    for file in desk.written:
        table = pq.read_table(desk.store.directory / file.name, columns=["partition", "offset"])
        pairs = list(zip(*table.to_pydict().values(), strict=True))
        assert pairs == sorted(pairs)
        found.setdefault(file.values[1], []).extend(pairs)
    assert {hour: sorted(pairs) for hour, pairs in found.items()} == {h: sorted(p) for h, p in expected.items()}
