"""Loads with transformations: rows, counts, types over rounds, and a lake that keeps its chain."""

import asyncio
import json
import time

import polars as pl
import pytest

from ottla import lake
from ottla.client import Producer
from ottla.connect.standalone import Standalone
from ottla.lake.audit.check import CheckOptions, check
from ottla.sinks.lake import steps_of
from ottla.testing import TestBroker

_WAIT_S = 90
CHAIN = {
    "json": "true",
    "transforms": "debug,mask,names,place",
    "transforms.debug.type": "Filter", "transforms.debug.predicate": "debug",
    "transforms.mask.type": "MaskField$Value", "transforms.mask.fields": "card", "transforms.mask.replacement": "***",
    "transforms.mask.predicate": "deleted", "transforms.mask.negate": "true",
    "transforms.names.type": "ReplaceField$Value", "transforms.names.exclude": "junk",
    "transforms.names.renames": "n:number",
    "transforms.place.type": "InsertField$Value", "transforms.place.offset.field": "at",
    "transforms.place.static.field": "site", "transforms.place.static.value": "north",
    "predicates": "debug,deleted",
    "predicates.debug.type": "HasHeaderKey", "predicates.debug.name": "debug",
    "predicates.deleted.type": "RecordIsTombstone",
}  # fmt: skip


@pytest.fixture
def broker():
    with TestBroker() as running:
        yield running


def send(broker, *values, key="k", headers=()):
    with Producer(broker.bootstrap_servers) as producer:
        for value in values:
            text = None if value is None else json.dumps(value)
            producer.produce("t", text, key=key, partition=0, headers=headers)


def load(broker, place, config=CHAIN, **options):
    """One round; what was loaded."""
    given = {"json": True, "bootstrap": broker.bootstrap_servers, "on": "local", "tell": lambda line: None, **options}
    with lake.opened(("t",), to=place, steps=steps_of(config), **given) as loader:
        loader.catch_up()
        assert loader.loaded.adds_up
        return loader.loaded


def rows(place, form, *names):
    found = pl.read_delta(str(place / "t")) if form == "delta" else pl.from_arrow(lake.rows(place, "t").read_all())
    return sorted(found.select(*names).rows(), key=str)


def complete(broker, place):
    checked = check(place, CheckOptions(broker.bootstrap_servers), time.time_ns() // 1000)
    assert not checked.findings.wrong, checked.findings


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_rows_are_what_the_chain_leaves_and_all_records_are_accounted_for(broker, tmp_path, form):
    place = tmp_path / "lake"
    send(broker, {"card": "4111", "n": 1, "junk": {"x": 1}}, {"n": 2})
    send(broker, {"card": "secret", "n": 3}, headers={"debug": "1"})
    send(broker, None, {"card": None, "n": 4})
    loaded = load(broker, place, format=form)
    assert (loaded.records, loaded.rows, loaded.filtered, loaded.dead) == (5, 4, 1, 0)
    names = ("card", "number", "at", "site")
    first = [("***", 1, 0, "north"), (None, 2, 1, "north"), (None, 4, 4, "north"), (None, None, None, None)]
    assert rows(place, form, *names) == sorted(first, key=str)
    complete(broker, place)
    send(broker, {"n": 5.5, "card": "x", "new": True})
    loaded = load(broker, place, format=form)
    assert (loaded.rows, loaded.filtered) == (1, 0)
    assert (5.5, True, "north") in rows(place, form, "number", "new", "site")
    with pytest.raises(pl.exceptions.ColumnNotFoundError):
        rows(place, form, "junk")
    complete(broker, place)


def test_a_lake_keeps_its_chain(broker, tmp_path):
    place = tmp_path / "lake"
    send(broker, {"n": 1, "card": "4111"})
    load(broker, place)
    send(broker, {"n": 2, "card": "4112"})
    for other in ({"json": "true"}, {**CHAIN, "transforms.mask.fields": "n"}):
        with pytest.raises(lake.LakeRefused, match="was made with transforms"):
            load(broker, place, other)
    with pytest.raises(lake.LakeRefused, match="was made with transforms"):
        lake.load("t", to=place, bootstrap=broker.bootstrap_servers, on="local", tell=lambda line: None)
    renamed = {name.replace("transforms.mask", "transforms.hide"): text for name, text in CHAIN.items()}
    load(broker, place, {**renamed, "transforms": "debug,hide,names,place"})
    assert rows(place, "parquet", "card", "number") == [("***", 1), ("***", 2)]


def test_a_lake_without_a_chain_takes_none_later(broker, tmp_path):
    send(broker, {"n": 1})
    load(broker, tmp_path / "lake", {"json": "true"})
    with pytest.raises(lake.LakeRefused, match="was made without transforms"):
        load(broker, tmp_path / "lake")


def test_records_that_a_step_refuses_are_dead_letters(broker, tmp_path):
    config = {
        "json": "true", "transforms": "c", "transforms.c.type": "Cast$Value", "transforms.c.spec": "n:int32,m:string",
    }  # fmt: skip
    send(broker, {"n": "12", "m": 1}, {"n": "twelve", "m": 2}, {"n": "7", "m": 2.5}, {"n": "8", "m": 3})
    with pytest.raises(lake.LakeRefused, match="out of range for requested data type"):
        load(broker, tmp_path / "strict", config)
    loaded = load(broker, tmp_path / "lake", config, dead_letter="dead")
    assert (loaded.records, loaded.rows, loaded.dead) == (4, 2, 2)
    assert rows(tmp_path / "lake", "parquet", "n", "m") == [(12, "1"), (8, "3")]
    reasons = [dict(each.headers)["ottla.reason"] for each in broker.records("dead")]
    assert sum(b"out of range" in each for each in reasons) == 1
    assert sum(b"does not tell 1 from 1.0" in each for each in reasons) == 1
    complete(broker, tmp_path / "lake")


def test_the_key_the_division_and_the_filter_are_of_rows_behind_the_chain(broker, tmp_path):
    place = tmp_path / "lake"
    config = {
        "json": "true", "transforms": "flat", "transforms.flat.type": "Flatten$Value",
        "transforms.flat.delimiter": "_",
    }  # fmt: skip
    options = {"format": "delta", "key": "who_id", "partition_by": "who_land", "where": "amount > 1"}
    send(broker, {"who": {"id": 1, "land": "de"}, "amount": 5}, {"who": {"id": 2, "land": "fr"}, "amount": 1})
    send(broker, {"who": {"id": 1, "land": "de"}, "amount": 6})
    loaded = load(broker, place, config, **options)
    assert (loaded.records, loaded.filtered) == (3, 1)
    assert rows(place, "delta", "who_id", "who_land", "amount") == [(1, "de", 6)]


def test_records_without_columns_are_filtered_by_headers(broker, tmp_path):
    config = {
        "transforms": "drop,own", "transforms.drop.type": "Filter", "transforms.drop.predicate": "debug",
        "transforms.own.type": "DropHeaders", "transforms.own.headers": "trace", "predicates": "debug",
        "predicates.debug.type": "HasHeaderKey", "predicates.debug.name": "debug",
    }  # fmt: skip
    send(broker, 1, headers={"debug": "1"})
    send(broker, 2, headers={"trace": "x", "kept": "y"})
    loaded = load(broker, tmp_path / "lake", config, json=False)
    assert (loaded.rows, loaded.filtered) == (1, 1)
    (row,) = lake.rows(tmp_path / "lake", "t").read_all().to_pylist()
    assert row["headers"] == [{"key": "kept", "value": b"y"}] and row["value"] == b"2"


@pytest.mark.parametrize("runner", ["light", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])])
def test_a_connector_loads_through_its_chain(broker, tmp_path, runner, request):
    if runner == "spark":
        request.getfixturevalue("spark")
    place, string = tmp_path / "lake", "org.apache.kafka.connect.storage.StringConverter"
    worker = {
        "bootstrap.servers": broker.bootstrap_servers, "key.converter": string, "value.converter": string,
        "offset.storage.file.filename": str(tmp_path / "offsets"),
    }  # fmt: skip
    sink = {
        "name": "out", "connector.class": "LakeSink", "topics": "t", "to": str(place), "every": "50ms",
        "ottla.runner": runner, **CHAIN,
    }  # fmt: skip

    def loaded():
        try:
            return rows(place, "parquet", "card", "number")
        except (OSError, lake.LakeRefused):
            return []

    async def story():
        standalone = Standalone(worker, [sink])
        running = asyncio.create_task(standalone.run())
        async with asyncio.timeout(_WAIT_S):
            while len(loaded()) < 2:
                assert not running.done(), [task.status for task in standalone.tasks]
                await asyncio.sleep(0.05)
        standalone.stop()
        return await running

    send(broker, {"n": 1, "card": "4111"}, {"n": 2, "card": "4112"})
    send(broker, {"n": 3}, headers={"debug": "1"})
    assert asyncio.run(story()) == 0
    assert loaded() == [("***", 1), ("***", 2)]
    complete(broker, place)
