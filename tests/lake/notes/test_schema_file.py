"""The schema file beside the files of a topic: a loader that comes late does not change it."""

from dataclasses import replace

import pyarrow as pa

from ottla.lake.columns.json_columns import pack_schema
from ottla.lake.columns.shape import LakeShape
from ottla.lake.notes import schema_file
from ottla.lake.notes.plans import HeldRows, LoadPlan, Publication, WrittenFile, named_files
from ottla.stores.local import LocalStore

SHAPE = LakeShape(values="json")
ONE, TWO = pa.schema([("a", pa.int64())]), pa.schema([("a", pa.float64()), ("b", pa.string())])


def round_of(number, columns):
    file = WrittenFile("t", "x", ("2013-01-01",), 1, 9, (HeldRows(0, 1, 0, 0),))
    files = named_files(number, [file], SHAPE.layout)
    return Publication(LoadPlan(number, ()), files, (), (), {"t": pack_schema(columns)})


def test_a_loader_that_lost_the_lake_does_not_take_later_columns_back(tmp_path):
    store = LocalStore(tmp_path)
    schema_file.write(store, SHAPE, round_of(0, ONE))
    schema_file.write(store, SHAPE, round_of(1, TWO))
    schema_file.write(store, SHAPE, round_of(0, ONE))
    found = schema_file.read(store, "t")
    assert [first for first, _ in found.versions] == [0, 1]
    assert found.columns.field("a").type == pa.float64() and "b" in found.columns.names


def test_columns_of_a_round_without_files_are_written_with_the_next_files(tmp_path):
    store = LocalStore(tmp_path)
    for each in (round_of(0, ONE), replace(round_of(1, TWO), files=()), round_of(2, TWO), round_of(3, TWO)):
        schema_file.write(store, SHAPE, each)
    found = schema_file.read(store, "t")
    assert [number for number, _ in found.versions] == [0, 2]
    assert "b" in found.columns.names
