"""Keyed tables hold the last row of each key, also after repeated commits, deletes, compactions and late loads."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.lake.tables.made import BASE, Lake, Row, a_round, row

from ottla.kernel.ids import TopicId
from ottla.lake import LakeRefused
from ottla.lake.columns.json_columns import DELETED
from ottla.lake.tables import TableFile

MARKED = BASE.append(pa.field(DELETED, pa.bool_()))


def staged(lake: Lake, name: str, *rows: Row, schema: pa.Schema = MARKED, **values: str | None) -> TableFile:
    partition = tuple(values.items())
    return lake.put(f"_ottla/staged/{name}.parquet", [{DELETED: False} | each for each in rows], schema, partition)


def put(lake: Lake, number: int, *rows: Row, key: tuple[str, ...] = ("id",), loader: str = "L") -> bool:
    file = staged(lake, f"{loader}{number}", *rows)
    return lake.table().commit_keyed(a_round(number, [file], loader=loader), key)


def held(lake: Lake) -> list[tuple[object, ...]]:
    return sorted(lake.frame().select("id", "offset").rows())


def test_the_last_row_of_each_key_stays(any_lake: Lake):
    assert put(any_lake, 1, row(1, id=1), row(2, id=2), row(3, id=1))
    assert held(any_lake) == [(1, 3), (2, 2)]
    assert put(any_lake, 2, row(4, id=2), row(5, id=3))
    assert held(any_lake) == [(1, 3), (2, 4), (3, 5)]
    assert DELETED not in any_lake.frame().columns


def test_a_tombstone_deletes_its_key_and_a_later_row_brings_it_back(lake: Lake):
    put(lake, 1, row(1, id=1), row(2, id=2))
    put(lake, 2, row(3, id=1) | {DELETED: True}, row(4, id=9) | {DELETED: True})
    assert held(lake) == [(2, 2)]
    put(lake, 3, row(5, id=1))
    assert held(lake) == [(1, 5), (2, 2)]


def test_a_keyed_round_again_changes_nothing(lake: Lake):
    put(lake, 1, row(1, id=1))
    put(lake, 2, row(2, id=1) | {DELETED: True})
    assert not put(lake, 1, row(1, id=1))
    assert not put(lake, 2, row(2, id=1) | {DELETED: True})
    assert held(lake) == []


def test_a_round_that_changes_nothing_is_known_all_the_same(lake: Lake):
    put(lake, 1, row(1, id=1))
    assert put(lake, 2, row(2, id=5) | {DELETED: True})
    standing = lake.table().standing("L")
    assert standing is not None
    assert standing.number == 2
    assert held(lake) == [(1, 1)]


def test_a_late_row_of_another_loader_does_not_overtake(lake: Lake):
    put(lake, 1, row(10, id=1), row(11, id=2))
    assert put(lake, 1, row(3, id=1), row(4, id=3), row(2, id=2) | {DELETED: True}, loader="backfill")
    assert held(lake) == [(1, 10), (2, 11), (3, 4)]


def test_files_whose_rows_stand_are_not_touched(lake: Lake):
    put(lake, 1, row(1, id=1))
    put(lake, 2, row(2, id=2), row(3, id=3))
    before = {name for name in lake.names() if name.endswith(".parquet")}
    put(lake, 3, row(4, id=1))
    visible = {path.rpartition("/")[2] for path in paths(lake)}
    assert len(visible & {name.rpartition("/")[2] for name in before}) == 1


def test_staged_files_may_be_removed_after_the_commit(lake: Lake):
    put(lake, 1, row(1, id=1))
    files, root = lake.files()
    files.delete_dir(f"{root}/_ottla")
    assert held(lake) == [(1, 1)]


def test_a_key_moves_between_partitions(lake: Lake):
    one = staged(lake, "1", row(1, id=1, country="de"), country="de")
    two = staged(lake, "2", row(2, id=2, country=None), country=None)
    assert lake.table(partition_by=("country",)).commit_keyed(a_round(1, [one, two]), ("id",))
    moved = staged(lake, "3", row(3, id=1, country="a b/ü"), country="a b/ü")
    assert lake.table(partition_by=("country",)).commit_keyed(a_round(2, [moved]), ("id",))
    assert sorted(lake.frame().select("id", "country").rows()) == [(1, "a b/ü"), (2, None)]


def test_compaction_and_evolution_keep_a_keyed_table(lake: Lake):
    for number in range(1, 6):
        put(lake, number, row(number, id=number), row(number + 100, id=0))
    assert lake.table().compact().files_after == 1
    wide = MARKED.set(MARKED.get_field_index("id"), pa.field("id", pa.float64())).append(pa.field("n", pa.string()))
    file = staged(lake, "6", row(200, id=0.0, n="new"), row(201, id=1.0) | {DELETED: True}, schema=wide)
    schema = pa.schema([field for field in wide if field.name != DELETED])
    assert lake.table().commit_keyed(a_round(6, [file], schema=schema), ("id",))
    found = sorted(lake.frame().select("id", "offset", "n").rows())
    assert found == [(0.0, 200, "new"), *((float(number), number, None) for number in range(2, 6))]


def test_a_topic_created_anew_is_refused(lake: Lake):
    file = staged(lake, "1", row(100, id=1))
    lake.table().commit_keyed(a_round(1, [file], topic_id=TopicId(b"a" * 16)), ("id",))
    with pytest.raises(LakeRefused, match="created anew"):
        lake.table().commit_keyed(a_round(2, [file], topic_id=TopicId(b"b" * 16)), ("id",))


def test_a_row_without_its_key_is_refused_and_nothing_of_the_round_is_visible(lake: Lake):
    put(lake, 1, row(1, id=1))
    with pytest.raises(LakeRefused, match=r"offset 3: the record lacks its key \(id\)"):
        put(lake, 2, row(2, id=1), row(3, id=None))
    assert held(lake) == [(1, 1)]


def test_a_table_whose_rows_never_had_the_key_takes_the_first_that_have_it(lake: Lake):
    schema = pa.schema([field for field in MARKED if field.name != "id"])
    bare = {name: value for name, value in row(1).items() if name != "id"} | {DELETED: True}
    plain = pa.schema([field for field in schema if field.name != DELETED])
    for number, files in ((1, []), (2, [staged(lake, "2", bare, schema=schema)])):
        assert lake.table().commit_keyed(a_round(number, files, schema=plain), ("id",))
    assert put(lake, 3, row(2, id=7))
    assert held(lake) == [(7, 2)]


def test_the_record_key_and_null_values_need_no_marks(lake: Lake):
    schema = pa.schema([*BASE.remove(BASE.get_field_index("id")), pa.field("value", pa.binary())])
    rows = [row(1, key=b"a", value=b"x"), row(2, key=b"b", value=b"y"), row(3, key=b"a", value=None)]
    for each in rows:
        each.pop("id")
    file = lake.put("_ottla/staged/1.parquet", rows, schema)
    assert lake.table().commit_keyed(a_round(1, [file], schema=schema), ("key",))
    assert lake.frame().select("key", "value").rows() == [(b"b", b"y")]


def paths(lake: Lake) -> list[str]:
    """The files of which the table consists."""
    if lake.format == "delta":
        from deltalake import DeltaTable

        return DeltaTable(f"{lake.url}/orders").file_uris()
    return [task.file.file_path for task in lake.iceberg().scan().plan_files()]
