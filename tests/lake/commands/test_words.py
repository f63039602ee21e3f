"""The loader with Spark and renamed, flattened or filtered fields."""

import json
from argparse import Namespace

import polars as pl
import pyarrow.dataset as ds
import pytest

from ottla import lake
from ottla.client.blocking.producer import Producer
from ottla.client.produce.audit_trail import WINDOW_MS, AuditTrail
from ottla.lake.audit.check import CheckOptions, check
from ottla.lake.audit.upkeep import Lake
from ottla.lake.commands import upkeep as upkeep_command
from ottla.records.reader import Record

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NEW_YEAR = 1_356_998_400_000


def fill(topics, topic, *documents, partition=0):
    topics.fill(topic, partition, [Record(0, NEW_YEAR, b"k", json.dumps(each).encode()) for each in documents])


def rows(place, topic, *names):
    files = ds.dataset(place / f"topic={topic}", lake.schema(place, topic), format="parquet")
    return sorted(tuple(row[name] for name in names) for row in files.to_table().to_pylist())


def test_only_rows_that_match_are_loaded_and_the_audit_adds_up(load, topics, bootstrap, tmp_path, capsys):
    topic, dead, audit = topics.new(2), topics.new(), topics.new()
    for partition in (0, 1):
        fill(topics, topic, *({"id": at, "a": {"kind": "ab"[at % 2]}} for at in range(10)), partition=partition)
    topics.fill(topic, 0, [Record(0, NEW_YEAR, b"k", b"bad"), Record(0, NEW_YEAR, b"k", None)])
    options = {"json": True, "dead_letter": dead, "flatten": True, "where": "a_kind = 'a' AND id > 3"}
    loaded = load(topic, **options)
    assert rows(load.place, topic, "partition", "id", "a_kind") == [
        (partition, at, "a") for partition in (0, 1) for at in (4, 6, 8)
    ]
    assert [(each.records, each.rows, each.dead, each.filtered) for each in loaded.counts] == [
        (12, 3, 1, 8),
        (10, 3, 0, 7),
    ]
    assert "15 filtered, 1 dead letter" in load.told[-1]
    trail = AuditTrail(host="h", service="s", clock=lambda: NEW_YEAR)
    for _ in range(22):
        trail.count(topic, NEW_YEAR, 5)
    with Producer(bootstrap) as producer:
        trail.flush(producer, audit)
    now_us = (NEW_YEAR + 3 * WINDOW_MS) * 1000
    checked = check(load.place, CheckOptions(bootstrap, audit_topic=audit), now_us)
    assert (checked.status, [(each.told, each.in_lake) for each in checked.compared]) == (0, [(22, 22)])
    asked = Namespace(verb="status", to=load.place, topics=[], format="json", bootstrap_server=None)
    assert upkeep_command.run(asked) == 0
    (status,) = json.loads(capsys.readouterr().out)
    assert (status["rows"], status["dead"], status["filtered"]) == (6, 1, 15)
    with pytest.raises(
        lake.LakeRefused, match="was made with `where` a_kind = 'a' AND id > 3; this load comes without `where`"
    ):
        load(topic, **{**options, "where": ""})


def test_a_filter_that_cannot_be_applied_loads_nothing_and_says_why(load, topics):
    topic = topics.new()
    fill(topics, topic, {"n": 1}, {"n": 2})
    with pytest.raises(lake.LakeRefused, match=rf"cannot compare string.*topic {topic}.*Nothing of this round"):
        load(topic, json=True, where="n = 'x'")
    place = load.place.with_name("other")
    with pytest.raises(lake.LakeRefused, match="`where` names m, which no record has had so far: nothing was loaded"):
        load(topic, to=place, json=True, where="m IS NULL")
    assert not Lake(place).committed().offsets
    assert load(topic, to=place, json=True, where="m IS NULL", where_absent_is_null=True).rows == 2
    fill(topics, topic, {"n": 3, "m": 1}, {"n": 4})
    assert load(topic, to=place, json=True, where="m IS NULL").rows == 1
    assert rows(place, topic, "n") == [(1,), (2,), (4,)]


def test_change_events_are_taken_apart_once_they_are_rows(load, topics, tmp_path):
    topic = topics.new()
    states = [{"id": 1, "to": {"zip": "a"}}, {"id": 2, "to": {"zip": "b", "city": "c"}}]
    fill(topics, topic, *({"op": "c", "before": None, "after": state} for state in states))
    fill(topics, topic, {"op": "d", "before": states[0], "after": None})
    options = {"json": True, "debezium": True, "key": "id", "format": "delta", "flatten": True}
    load(topic, where="op <> 'r'", **options)
    found = pl.read_delta(str(tmp_path / "lake" / topic))
    assert found.select("id", "to_zip", "to_city").rows() == [(2, "b", "c")]


def test_a_renamed_field_continues_its_column_also_when_the_option_is_left_out_later(load, topics, spark):
    topic = topics.new()
    fill(topics, topic, {"name": "a", "o": {"x": 1}}, {"name": "b"})
    load(topic, json=True)
    fill(topics, topic, {"title": "c", "o": {"y": 2.5}}, {"name": "d"}, {"id": 1})
    load(topic, json=True, rename=["name=title", f"{topic}:o.x=o.y"])
    fill(topics, topic, {"name": "e", "o": {"x": 3}})
    load(topic, json=True)
    expected = [
        ("a", {"y": 1.0}),
        ("b", None),
        ("c", {"y": 2.5}),
        ("d", None),
        (None, None),
        ("e", {"y": 3.0}),
    ]
    arrow = pl.DataFrame(lake.rows(load.place, topic)).sort("offset")
    assert arrow.select("title", "o").rows() == expected and arrow["date"][0].isoformat() == "2013-01-01"
    table = lake.table(spark, load.place, topic).orderBy("offset")
    assert [(row.title, row.o and row.o.asDict()) for row in table.collect()] == expected
    assert "name" not in table.columns
    assert Lake(load.place).committed().renames == {topic: ("o.x=o.y", "name=title")}
    with pytest.raises(lake.LakeRefused, match="name is renamed to title already"):
        load(topic, json=True, rename=["name=other"])


def test_a_renamed_field_renames_the_column_of_a_table_with_its_older_rows(load, topics, tmp_path):
    topic = topics.new()
    options = {"json": True, "debezium": True, "key": "id", "format": "delta"}
    fill(topics, topic, {"op": "c", "after": {"id": 1, "name": "a"}}, {"op": "c", "after": {"id": 2, "name": "b"}})
    load(topic, **options)
    fill(topics, topic, {"op": "u", "after": {"id": 2, "title": "c"}})
    load(topic, rename=["after.name=after.title", "before.name=before.title"], **options)
    found = pl.read_delta(str(tmp_path / "lake" / topic)).sort("id")
    assert found.select("id", "title").rows() == [(1, "a"), (2, "c")] and "name" not in found.columns
