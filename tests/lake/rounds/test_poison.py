"""No value stops a loader with a dead letter topic, and no dead letter is loaded later."""

import json
import random

import pytest

from ottla import lake
from ottla.lake.columns.types import MOST_LEVELS
from ottla.records.reader import Record

pytestmark = pytest.mark.slow

NEW_YEAR = 1_356_998_400_000
POISON = {
    "120 levels": b'{"a":' * 120 + b"1" + b"}" * 120,
    "500 levels": b'{"a":' * 500 + b"1" + b"}" * 500,
    "400,000 levels": b'{"a":' * 150_000 + b"1" + b"}" * 150_000,
    "case": b'{"id":1,"ID":2}',
    "long name": b'{"%s":1,"%s":2}' % (b"x" * 600_000, b"X" * 600_000),
    "NaN": b'{"id":NaN}',
    "surrogate": b'{"text":"\\ud800"}',
    "big": b'{"id":123456789012345678901234567890}',
    "infinite": b'{"real":1e999}',
    "no JSON": b"\x00\x01\xff",
    "array": b"[1,2]",
    "type": b'{"id":[1]}',
}


def fill(topics, topic, values, partition=0):
    for value in values:
        topics.fill(topic, partition, [Record(0, NEW_YEAR, b"k", value)])


def good(count):
    return [json.dumps({"id": at, "text": "x", "real": at / 2}).encode() for at in range(count)]


def test_every_kind_of_poison_is_a_dead_letter_with_its_reason(load, topics):
    topic, dead = topics.new(**{"max.message.bytes": "4000000"}), topics.new(**{"max.message.bytes": "4000000"})
    values = [*good(5), *POISON.values(), *good(3)]
    fill(topics, topic, values)
    loaded = load(topic, json=True, dead_letter=dead)
    assert loaded.rows == 8
    letters = topics.read(dead)
    assert [letter.value for letter in letters] == list(POISON.values())
    reasons = dict(zip(POISON, (dict(letter.headers)["ottla.reason"].decode() for letter in letters), strict=True))
    assert reasons["120 levels"] == reasons["500 levels"] == f"nested deeper than {MOST_LEVELS} levels"
    assert len(reasons["long name"]) < 1_000
    assert "only in case" in reasons["case"] and "NaN" in reasons["NaN"] and "too big" in reasons["big"]
    assert load(topic, json=True, dead_letter=dead).rows == 0


def test_a_letter_too_large_for_its_topic_is_sent_without_what_is_too_much(load, topics):
    topic, dead = topics.new(), topics.new(**{"max.message.bytes": "1000"})
    fill(topics, topic, [b"[" + b"1," * 40_000 + b"1]", b"[1]", b'{"a":1}'])
    assert load(topic, json=True, dead_letter=dead).rows == 1
    letters = sorted(topics.read(dead), key=lambda letter: int(dict(letter.headers)["ottla.offset"]))
    assert [(dict(each.headers)["ottla.offset"], each.value) for each in letters] == [(b"0", b""), (b"1", b"[1]")]
    assert dict(letters[0].headers)["ottla.value.bytes"] == b"80003"


def test_a_dead_letter_topic_that_matches_the_pattern_is_not_loaded(load, topics):
    topic = topics.new()
    dead = f"{topic}.bad"
    topics.admin.create_topic(dead, 1)
    fill(topics, topic, [b'{"a":1}', b"bad"])
    for _ in range(3):
        loaded = load(pattern=f"{topic}.*", json=True, dead_letter=dead)
    assert [letter.value for letter in topics.read(dead)] == [b"bad"]
    assert {partition.topic for partition in loaded.committed.offsets} == {topic}


def test_a_topic_cannot_take_its_own_dead_letters(load, topics):
    topic = topics.new()
    with pytest.raises(lake.LakeRefused, match="cannot take its own dead letters"):
        load(topic, json=True, dead_letter=topic)


@pytest.mark.parametrize("seed", range(3))
def test_what_loads_does_not_depend_on_rounds_or_tasks(load, topics, tmp_path, monkeypatch, seed):
    """Fields change their type, and the first type decides, in one round of many tasks as record by record."""
    choose = random.Random(seed)
    kinds = [1, 2.5, "x", [1], {"m": 1}, {"m": "y"}, None, True]
    values = [json.dumps({choose.choice("abc"): choose.choice(kinds) for _ in range(2)}).encode() for _ in range(60)]
    topic = topics.new()
    fill(topics, topic, values)
    monkeypatch.setattr("ottla.lake.rounds.attempt.SAMPLED_RECORDS", 1)
    found = []
    for name, size in (("whole", 10**6), ("rounds", 7)):
        monkeypatch.setattr("ottla.lake.notes.plans.WORTH_A_TASK", 9 if name == "whole" else 25_000)
        dead = topics.new()
        loaded = load(topic, to=tmp_path / name, json=True, dead_letter=dead, max_offsets=size, partition_by="none")
        refused = sorted(int(dict(letter.headers)["ottla.offset"]) for letter in topics.read(dead))
        schema = lake.schema(tmp_path / name, topic)
        found.append((refused, {field.name: field.type for field in schema}, loaded.rows))
    assert found[0] == found[1]
    assert found[0][0]


def test_a_letter_whose_time_its_topic_refuses_gets_the_present_one(load, topics):
    topic, bad = topics.new(message_timestamp_after_max_ms=str((1 << 63) - 1)), topics.new()
    late = 7_258_118_400_000
    topics.fill(topic, 0, [Record(0, late, b"k", b"no json", ((("own", b"x"),))), Record(0, 5, None, b"neither")])
    load(topic, json=True, dead_letter=bad)
    first, second = topics.read(bad)
    assert first.timestamp < late and second.timestamp == 5
    assert {"own": b"x", "ottla.timestamp": b"%d" % late}.items() <= dict(first.headers).items()
    assert "ottla.timestamp" not in dict(second.headers)


@pytest.mark.parametrize("format", ["parquet", "delta", "iceberg"])
@pytest.mark.parametrize("values", ["binary", "json"])
def test_a_timestamp_after_the_year_9999_does_not_stop_a_lake(load, topics, tmp_path, format, values):
    topic, bad = topics.new(message_timestamp_after_max_ms=str((1 << 63) - 1)), topics.new()
    for time_ms in (1_356_998_400_000, 1_356_998_400_000_000, (1 << 63) - 1):
        topics.fill(topic, 0, [Record(0, time_ms, None, b'{"n":1}')])
    catalog = {"catalog": f"sqlite:///{tmp_path}/catalog.db"} if format == "iceberg" else {}
    loaded = load(topic, format=format, values=values, dead_letter=bad, **catalog)
    assert loaded.rows == (1 if format == "iceberg" else 3)
    reasons = [dict(letter.headers)["ottla.reason"] for letter in topics.read(bad)]
    assert reasons == [b"timestamp: an Iceberg table has times of the years 1 to 9999"] * (3 - loaded.rows)
