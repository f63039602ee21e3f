"""Loads into keyed tables: records without a key, change events in divided tables, fields of odd names."""

import json
from datetime import date

import polars as pl
import pytest

from ottla import lake
from ottla.lake.rounds.settings import load_settings
from ottla.records.reader import Record

pytestmark = pytest.mark.slow

NEW_YEAR = 1_356_998_400_000


@pytest.fixture(params=["delta", "iceberg"])
def options(request, tmp_path):
    if request.param == "iceberg":
        return {"format": "iceberg", "catalog": f"sqlite:///{tmp_path}/catalog.db"}
    return {"format": "delta"}


def fill(topics, topic, *documents, key=b"k"):
    for document in documents:
        value = None if document is None else json.dumps(document).encode()
        topics.fill(topic, 0, [Record(0, NEW_YEAR, key, value)])


def rows(tmp_path, topic, options, *names):
    if options["format"] == "delta":
        found = pl.read_delta(str(tmp_path / "lake" / topic))
    else:
        from pyiceberg.catalog import load_catalog

        catalog = load_catalog("ottla", uri=options["catalog"], warehouse=(tmp_path / "lake").as_uri())
        found = pl.DataFrame(catalog.load_table(("ottla", topic)).scan().to_arrow())
    return sorted(found.select(*names).rows())


def reasons(topics, dead):
    return [dict(letter.headers)["ottla.reason"] for letter in topics.read(dead)]


@pytest.mark.parametrize("first", [{"n": 1}, None], ids=["a bad record", "a tombstone"])
def test_a_lake_whose_records_have_no_key_yet_goes_on(load, topics, tmp_path, options, first):
    topic, dead = topics.new(), topics.new()
    options = {"json": True, "key": "id", "dead_letter": dead, **options}
    fill(topics, topic, first)
    load(topic, **options)
    fill(topics, topic, {"id": 1, "n": 1}, {"id": 1, "n": 2})
    load(topic, **options)
    assert rows(tmp_path, topic, options, "id", "n") == [(1, 2)]
    assert reasons(topics, dead) == ([] if first is None else [b"no key: id"])


def test_a_record_without_a_key_is_a_dead_letter_also_where_values_stay_bytes(load, topics, tmp_path, options):
    topic, dead = topics.new(), topics.new()
    records = [(b"a", b"1"), (None, b"2"), (None, None), (b"b", b"3"), (b"b", None)]
    topics.fill(topic, 0, [Record(0, NEW_YEAR, key, value) for key, value in records])
    with pytest.raises(lake.LakeRefused, match=f"{topic}-0 at offset 1: no key: key"):
        load(topic, key="key", **options)
    assert load(topic, key="key", dead_letter=dead, **options).rows == 4
    assert rows(tmp_path, topic, options, "key", "value") == [(b"a", b"1")]
    assert reasons(topics, dead) == [b"no key: key"]


@pytest.mark.parametrize("name", ["date", "offset", "order id", "_ottla_deleted"])
def test_a_key_is_the_field_of_its_name_whatever_its_column_is_called(load, topics, tmp_path, options, name):
    topic = topics.new()
    fill(topics, topic, {name: 1, "n": 1}, {name: 2, "n": 2}, {name: 1, "n": 3})
    load(topic, json=True, key=name, **options)
    fill(topics, topic, {name: 2, "n": 4})
    load(topic, json=True, key=name, **options)
    assert rows(tmp_path, topic, options, "n") == [(3,), (4,)]


@pytest.mark.parametrize("name", ["_deleted", "_group", "_ottla_deleted", "_ottla_group"])
def test_a_field_may_have_the_name_of_a_column_that_rows_have_on_their_way(load, topics, tmp_path, options, name):
    topic = topics.new()
    fill(topics, topic, {"id": 1, name: True}, {"id": 2, name: True})
    load(topic, json=True, key="id", **options)
    fill(topics, topic, {"id": 1, name: False})
    load(topic, json=True, key="id", **options)
    column = f"value_{name}" if name.startswith("_ottla") else name
    assert rows(tmp_path, topic, options, "id", column) == [(1, False), (2, True)]


def event(op, before, after, **more):
    return {"op": op, "before": before, "after": after, **more}


@pytest.mark.parametrize("flatten", [False, True])
def test_a_table_of_change_events_is_divided_by_the_fields_of_rows(load, topics, tmp_path, options, flatten):
    topic, dead = topics.new(), topics.new()
    at = {"to": {"country": "de"}} if flatten else {"country": "de"}
    name = "to_country" if flatten else "country"
    options = {"json": True, "debezium": True, "key": "id", "partition_by": name, "dead_letter": dead} | options
    first, second = {"id": 1, **at}, {"id": 2, **json.loads(json.dumps(at).replace("de", "fr"))}
    fill(topics, topic, event("c", None, first), event("c", None, second), event("c", None, {"id": 3}))
    load(topic, flatten=flatten, **options)
    assert rows(tmp_path, topic, options, "id", name) == [(1, "de"), (2, "fr"), (3, None)]
    long = json.loads(json.dumps(at).replace("de", "x" * 300))
    fill(
        topics,
        topic,
        event("u", first, {**second, "id": 1}),
        event("d", second, None),
        event("c", None, {"id": 4, **long}),
    )
    load(topic, flatten=flatten, **options)
    assert rows(tmp_path, topic, options, "id", name) == [(1, "fr"), (3, None)]
    (reason,) = reasons(topics, dead)
    assert b"too long for the name of a folder" in reason


def test_a_table_of_change_events_is_divided_by_the_events_time(load, topics, tmp_path):
    topic = topics.new()
    fill(topics, topic, event("c", None, {"id": 1}, ts_ms=1_580_600_000_000), None)
    fill(topics, topic, event("x", None, {"id": 2}, ts_ms=1), event("c", None, {"id": 3}, ts_ms=1_580_800_000_000))
    options = {"format": "delta", "partition_by": "day", "event_time": "ts_ms", "dead_letter": topics.new()}
    loaded = load(topic, json=True, debezium=True, key="id", **options)
    found = rows(tmp_path, topic, options, "id", "date")
    assert found == [(1, "2020-02-01"), (3, "2020-02-04")]
    assert date.fromtimestamp(loaded.committed.latest[next(iter(loaded.committed.latest))] / 1e6).year == 2020


def test_columns_of_change_events_have_names_that_a_table_takes(load, topics, tmp_path, options):
    topic = topics.new()
    fill(topics, topic, event("c", None, {"order id": 1, "first name": "x"}))
    fill(topics, topic, event("u", None, {"order id": 1, "first name": "y"}))
    load(topic, json=True, debezium=True, key="order id", **options)
    assert rows(tmp_path, topic, options, "order_id", "first_name") == [(1, "y")]


POISON = [
    {"op": "c", "before": None, "after": {"id": 5, "x": [1]}},
    {"op": "d", "before": {"id": 5, "x": {"y": 1}}, "after": None},
    {"op": "d", "before": {"ID": 5}, "after": None},
    {"op": 5, "after": "x"},
    {"op": "c", "after": 5},
    {"op": "c", "payload": 5},
]


@pytest.mark.parametrize("first", [0, 3])
def test_no_change_event_stops_a_lake(load, topics, tmp_path, options, first):
    """The fields or the states of an event may have other types, also in the first event of all."""
    topic, dead = topics.new(), topics.new()
    good = [event("c", None, {"id": 1, "x": 1.5}), event("d", {"id": 2, "x": 2.5}, None)]
    fill(topics, topic, *POISON[first:], *good[:first], *POISON[:first], *good[first:])
    options = {"json": True, "debezium": True, "key": "id", "dead_letter": dead, **options}
    load(topic, **options)
    fill(topics, topic, *good)
    load(topic, **options)
    assert load(topic, **options).rows == 0


def test_an_object_in_the_place_of_a_rows_key_is_a_dead_letter(load, topics, tmp_path, options):
    topic, dead = topics.new(), topics.new()
    fill(topics, topic, event("c", None, {"id": {"x": 1}}), event("c", None, {"id": 1}))
    assert load(topic, json=True, debezium=True, key="id", dead_letter=dead, **options).rows == 1
    assert rows(tmp_path, topic, options, "id") == [(1,)]


def test_options_that_no_table_can_have_are_refused(tmp_path):
    for more, why in (
        ({"key": "id"}, "--key id: fields for a key need values with columns"),
        ({"json": True, "partition_by": "a b"}, "--partition-by a b: a table cannot be divided by"),
    ):
        with pytest.raises(lake.LakeRefused, match=why):
            load_settings(["t"], tmp_path, {"format": "delta", **more})
