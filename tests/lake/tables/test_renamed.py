"""Renamed columns of tables: older rows are read under the new name, in both formats."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.lake.tables.made import BASE, Lake, a_round, row

from ottla.formats.evolution import described
from ottla.lake import LakeRefused
from ottla.lake.columns.json_columns import DELETED
from ottla.lake.columns.renamed import ColumnRename, moves, renamed_rows, renamed_schema


def renamed(schema: pa.Schema, old: str, new: str, kind: pa.DataType | None = None) -> pa.Schema:
    place = schema.get_field_index(old)
    return schema.set(place, described(pa.field(new, kind or schema.field(place).type), aliases=(old,)))


def put_round(lake: Lake, number: int, schema: pa.Schema, **columns: object) -> None:
    held = {name: value for name, value in row(number, **columns).items() if name in schema.names}
    file = lake.put(f"orders/{number}.parquet", [held], schema)
    assert lake.table().commit(a_round(number, [file], schema=schema))


def values(lake: Lake, name: str) -> list[object]:
    return lake.frame().sort("offset")[name].to_list()


def test_a_renamed_column_has_its_older_values(any_lake: Lake):
    schema = renamed(BASE, "country", "land")
    put_round(any_lake, 1, BASE, country="de")
    put_round(any_lake, 2, schema, land="fr")
    put_round(any_lake, 3, schema, land="it")
    assert values(any_lake, "land") == ["de", "fr", "it"]
    assert "country" not in any_lake.frame().columns


def test_a_column_may_be_renamed_and_widened_and_others_come_in_one_round(lake: Lake):
    wider = renamed(BASE, "id", "amount", pa.float64()).append(pa.field("note", pa.string()))
    put_round(lake, 1, BASE, id=1)
    put_round(lake, 2, wider, amount=2.5, note="x")
    assert values(lake, "amount") == [1.0, 2.5] and values(lake, "note") == [None, "x"]


def test_members_of_objects_and_of_lists_are_renamed(lake: Lake):
    inner = pa.struct([("a", pa.int64()), ("c", pa.int64())])
    later = pa.struct([described(pa.field("b", pa.int64()), aliases=("a",)), pa.field("c", pa.int64())])
    before = BASE.append(pa.field("o", inner)).append(pa.field("l", pa.list_(inner)))
    after = BASE.append(pa.field("o", later)).append(pa.field("l", pa.list_(later)))
    put_round(lake, 1, before, o={"a": 1, "c": 9}, l=[{"a": 1, "c": 9}])
    put_round(lake, 2, after, o={"b": 2, "c": 9}, l=[{"b": 2, "c": 9}])
    assert values(lake, "o") == [{"b": 1, "c": 9}, {"b": 2, "c": 9}]
    assert values(lake, "l") == [[{"b": 1, "c": 9}], [{"b": 2, "c": 9}]]


def test_a_keyed_table_finds_the_rows_that_are_overtaken_after_a_rename(lake: Lake):
    schema = renamed(BASE, "country", "land")
    for number, (columns, names) in enumerate([(BASE, "country"), (schema, "land")], 1):
        held = {name: value for name, value in row(number, id=7, **{names: names}).items() if name in columns.names}
        staged = columns.append(pa.field(DELETED, pa.bool_()))
        file = lake.put(f"_ottla/tmp/{number}.parquet", [held | {DELETED: False}], staged)
        assert lake.table().commit_keyed(a_round(number, [file], schema=columns), ("id",))
    assert lake.frame().select("id", "land").rows() == [(7, "land")]


def test_a_partition_column_is_not_renamed(lake: Lake):
    table = lake.table(partition_by=("country",))
    whole = lake.format == "iceberg"
    inside = BASE if whole else BASE.remove(BASE.get_field_index("country"))
    held = {name: value for name, value in row(1).items() if name in inside.names}
    file = lake.put("orders/country=de/1.parquet", [held], inside, (("country", "de"),))
    table.commit(a_round(1, [file], schema=inside))
    with pytest.raises(LakeRefused, match="partitioned by 'country', which cannot be renamed"):
        table.commit(a_round(2, [], schema=renamed(BASE, "country", "land")))


def test_a_name_that_the_table_has_already_is_not_given_to_another_column():
    held = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    wanted = pa.schema([described(pa.field("b", pa.int64()), aliases=("a",))])
    assert moves(held, wanted) == [] and renamed_schema(held, wanted).names == ["a", "b"]
    upper = pa.schema([described(pa.field("B", pa.int64()), aliases=("a",))])
    assert moves(held, upper) == []
    case = pa.schema([described(pa.field("A", pa.int64()), aliases=("a",))])
    assert moves(held, case) == [ColumnRename(("a",), "A")]


def test_rows_of_any_chunks_are_under_the_new_names_without_a_copy():
    rows = pa.table({"a": pa.chunked_array([[{"x": 1}, None], [{"x": 3}]]), "b": [1, 2, 3]})
    inner = pa.struct([described(pa.field("y", pa.int64()), aliases=("x",))])
    found = renamed_rows(rows, pa.schema([described(pa.field("o", inner), aliases=("a",))]))
    assert found.to_pylist() == [{"o": {"y": 1}, "b": 1}, {"o": None, "b": 2}, {"o": {"y": 3}, "b": 3}]
