"""Runs the readers that the guide shows, as printed there, over a lake whose columns came and widened."""

import contextlib
import io
import json
import re
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from tests.lake.in_process import TOPIC, Load
from tests.lake.matrix_cases import avro_payload, every_avro_type
from tests.lake.matrix_readers import as_held as as_table_has
from tests.lake.matrix_readers import columns_of
from tests.lake.matrix_readers import seen as as_seen

from ottla import lake
from ottla.lake.columns import json_columns
from ottla.lake.readers import as_held
from ottla.records.reader import Record

pytestmark = [pytest.mark.spark, pytest.mark.slow]

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "lake-columns.md"
SNIPPETS = {match[1]: match[2] for match in re.finditer(r"```python\n# (\w+)[^\n]*\n(.*?)```", GUIDE.read_text(), re.S)}
NEW_YEAR = 1_356_998_400_000
EARLY = [{"price": 1, "code": 7, "s": {"x": 1}, "l": [1, 2], "carrier": "UA"}, {"price": 2, "carrier": "UA"}]
LATE = [{"price": 2.5, "code": "AB", "s": {"x": 1.5, "y": "z"}, "l": [0.5], "late": True, "carrier": "B6"}]
EXPECTED = [
    {"offset": 0, "price": 1.0, "code": "7", "s": {"x": 1.0, "y": None}, "l": [1.0, 2.0], "late": None},
    {"offset": 1, "price": 2.0, "code": None, "s": None, "l": None, "late": None},
    {"offset": 2, "price": 2.5, "code": "AB", "s": {"x": 1.5, "y": "z"}, "l": [0.5], "late": True},
]
NAMES = list(EXPECTED[0])


@pytest.fixture
def evolved(load, topics, tmp_path, monkeypatch):
    """`lake/topic=flights` with three versions of columns, beside a topic that has one field in another type."""
    topics.admin.create_topic("flights", 1) if "flights" not in topics.cluster.topics() else None
    other = topics.new()
    start = topics.cluster.list_offsets(topics.cluster.partitions("flights"), -1)
    assert all(end.offset == 0 for end in start.values()), "the topic serves one test"

    def fill(topic, documents):
        for document in documents:
            topics.fill(topic, 0, [Record(0, NEW_YEAR, None, json.dumps(document).encode())])

    fill(other, [{"price": "text"}])
    for documents in (EARLY, LATE):
        fill("flights", documents)
        load("flights", other, json=True, numbers_as_text=True)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    topics.admin.delete_topics(["flights"])


def test_the_guide_shows_four_readers_and_all_of_them_see_every_value(evolved, spark):
    assert set(SNIPPETS) == {"pyarrow", "Spark", "polars", "duckdb"}
    seen = {}
    for reader, code in SNIPPETS.items():
        names = {}
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(code, str(GUIDE), "exec"), names)
        assert out.getvalue().strip() == "3", reader
        seen[reader] = names
    assert rows(seen["pyarrow"]["files"].to_table()) == EXPECTED
    assert rows(pl.scan_pyarrow_dataset(seen["polars"]["files"]).collect().to_arrow()) == EXPECTED
    assert rows(seen["duckdb"]["flights"].to_arrow_table()) == EXPECTED
    assert {"date", "topic"} <= set(seen["duckdb"]["flights"].columns)
    assert rows(seen["Spark"]["flights"].toArrow()) == EXPECTED
    assert seen["Spark"]["flights"].schema["date"].dataType.typeName() == "date"


def rows(table):
    return sorted(table.select(NAMES).to_pylist(), key=lambda row: row["offset"])


def test_a_topic_that_is_not_there_is_said(tmp_path, spark):
    with pytest.raises(lake.LakeRefused, match="there is nothing of topic nosuch"):
        lake.table(spark, tmp_path, "nosuch")


def test_the_types_of_older_files_stand_in_for_the_newest():
    old = pa.schema({"a": pa.int64(), "s": pa.struct({"x": pa.int64()}), "l": pa.list_(pa.int64())})
    new = pa.schema(
        {
            "a": pa.float64(),
            "s": pa.struct({"x": pa.float64(), "y": pa.string()}),
            "l": pa.list_(pa.string()),
            "b": pa.bool_(),
        }
    )
    assert as_held(new, old) == pa.schema(
        {
            "a": pa.int64(),
            "s": pa.struct({"x": pa.int64(), "y": pa.string()}),
            "l": pa.list_(pa.int64()),
            "b": pa.bool_(),
        }
    )


def test_a_lake_divided_by_a_field_gives_it_back_with_its_type(load, topics, spark, tmp_path):
    topic = topics.new()
    for number in (1, 2):
        topics.fill(topic, 0, [Record(0, NEW_YEAR, None, json.dumps({"n": number, "x": "y"}).encode())])
    load(topic, json=True, partition_by="hour,n")
    found = lake.table(spark, tmp_path / "lake", topic).select("offset", "hour", "n").orderBy("offset").collect()
    assert [tuple(row) for row in found] == [(0, 0, 1), (1, 0, 2)]
    assert duckdb.read_parquet(f"{tmp_path}/lake/topic={topic}/**/*.parquet").count("*").fetchall() == [(2,)]
    assert ds.dataset(tmp_path / "lake", partitioning="hive").count_rows() == 2


def test_values_that_folders_must_escape_come_back_from_every_reader(load, topics, spark, tmp_path):
    topic = topics.new()
    values = ["Zürich", "日本" * 30, "a/b", "50%", "x=y", "q'\"", "a{b}", "st*r", " lead", "back\\s", "new\nline"]
    for number, value in enumerate(values):
        topics.fill(topic, 0, [Record(0, NEW_YEAR, None, json.dumps({"n": number, "c": value}).encode())])
    load(topic, json=True, partition_by="c")
    folder = tmp_path / "lake" / f"topic={topic}"
    files = f"{folder}/**/*.parquet"
    seen = {
        "Spark": spark.read.parquet(str(folder)).toArrow(),
        "lake.table": lake.table(spark, tmp_path / "lake", topic).toArrow(),
        "pyarrow": ds.dataset(folder, partitioning="hive").to_table(),
        "duckdb": duckdb.read_parquet(files, hive_partitioning=True).to_arrow_table(),
        "polars": pl.scan_parquet(files, hive_partitioning=True).collect().to_arrow(),
    }
    for reader, table in seen.items():
        found = sorted(zip(table["n"].to_pylist(), table["c"].to_pylist(), strict=True))
        assert found == list(enumerate(values)), reader


def test_fields_of_any_name_are_read_back(load, topics, spark, tmp_path):
    topic = topics.new()
    document = {"a`b": 1, "c.d": 2, "e f": 3, 'q"x': {"in.ner": 4, "b`t": 5}}
    topics.fill(topic, 0, [Record(0, NEW_YEAR, None, json.dumps(document).encode())])
    load(topic, json=True)
    (row,) = lake.table(spark, tmp_path / "lake", topic).collect()
    assert {name: row[name] for name in document} == {**document, 'q"x': (4, 5)}


def test_spark_reads_a_value_of_each_type_from_plain_files(spark, tmp_path, monkeypatch):
    schema, row, expected = every_avro_type()
    load = Load(monkeypatch, tmp_path, "parquet", values="avro", schema=schema)
    load.round([avro_payload(schema, {**row, "id": 1})])
    table = lake.table(spark, load.folder, TOPIC).toArrow()
    for name, value in expected.items():
        assert columns_of(table, name) == [as_seen(as_table_has(value, "delta"))], name


def test_spark_refuses_older_files_of_a_type_that_it_lacks(spark, tmp_path, monkeypatch):
    load = Load(monkeypatch, tmp_path, "parquet", values="json")
    load.round([b'{"n":1}'])
    place = load.folder / f"topic={TOPIC}" / "_schema.json"
    stored = json.loads(place.read_text())
    older = json_columns.unpack_schema(stored["versions"][0]["arrow"])
    wide = older.set(older.get_field_index("n"), pa.field("n", pa.decimal256(40, 2)))
    stored["versions"][0]["arrow"] = json_columns.pack_schema(wide)
    place.write_text(json.dumps(stored))
    with pytest.raises(lake.LakeRefused, match=r"the column n of the type decimal256.*lake.rows"):
        lake.table(spark, load.folder, TOPIC)
