"""Tests of where loading a topic begins, and of which fields become columns."""

import json
import threading

import pytest

from ottla import lake
from ottla.kernel.ids import TopicPartition
from ottla.lake.notes.state import LakeRecords
from ottla.lake.readers import topic_schema
from ottla.lake.rounds.beginning import parse_beginning
from ottla.records.reader import Record
from ottla.rows.plan import Edge, SpecificOffsets, Timestamps
from ottla.rows.survey import Survey
from ottla.stores import lake_url, open_store

pytestmark = pytest.mark.slow

NEW_YEAR = 1_356_998_400_000


def loaded_offsets(loaded):
    return {(each.span.start, each.span.end) for each in loaded.counts}


def fill(topics, topic, *documents, partition=0, first=0):
    for at, document in enumerate(documents, first):
        topics.fill(topic, partition, [Record(0, NEW_YEAR + at * 1000, None, json.dumps(document).encode())])


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("earliest", Edge.EARLIEST),
        ("latest", Edge.LATEST),
        ("1500", Timestamps(1500, latest_where_none=True)),
        ("1970-01-01T00:00:01Z", Timestamps(1000, latest_where_none=True)),
        ("1970-01-01T01:00:01+01:00", Timestamps(1000, latest_where_none=True)),
        ("yesterday 10:00", Timestamps(1_356_948_000_000, latest_where_none=True)),
        ("-1h", Timestamps(NEW_YEAR - 3_600_000, latest_where_none=True)),
        ('{"t":{"0":7}}', SpecificOffsets({TopicPartition("t", 0): 7})),
    ],
)
def test_beginnings_are_edges_times_or_offsets(text, limit):
    assert parse_beginning(text, NEW_YEAR) == limit


@pytest.mark.parametrize(
    "text",
    [
        "someday",
        "{",
        '{"t":7}',
        "-5",
        '{"t":{"0":-3}}',
        '{"t":{"0":9223372036854775808}}',
        "1969-12-31T23:59:59.999Z",
        "1960-01-01",
        "9223372036854775808",
    ],
)
def test_other_beginnings_are_refused(text):
    with pytest.raises(lake.LakeRefused, match="--from"):
        parse_beginning(text)


def test_a_new_topic_begins_where_it_is_told_and_goes_on_from_there(load, topics):
    topic = topics.new()
    fill(topics, topic, *[{"n": at} for at in range(5)])
    assert loaded_offsets(load(topic, json=True, beginning=json.dumps({topic: {"0": 3}}))) == {(3, 5)}
    fill(topics, topic, {"n": 6})
    assert loaded_offsets(load(topic, json=True, beginning="earliest")) == {(5, 6)}


def test_a_time_begins_at_the_first_record_from_then_on(load, topics):
    topic = topics.new()
    fill(topics, topic, *[{"n": at} for at in range(5)])
    assert loaded_offsets(load(topic, beginning="2013-01-01T00:00:02Z")) == {(2, 5)}
    assert topic_schema(load.place, topic).columns.names[0] == "key"


def test_what_comes_after_the_first_look_is_not_passed_over(load, topics, eventually):
    topic = topics.new()
    fill(topics, topic, {"n": 1}, {"n": 2})
    stop, found = threading.Event(), []
    loader = threading.Thread(
        target=lambda: found.append(load(topic, json=True, beginning="latest", every="50ms", stop=stop))
    )
    loader.start()
    try:
        eventually((load.place / "_ottla" / "commit-0000000000.json").exists)
        fill(topics, topic, {"n": 3})
        eventually((load.place / "_ottla" / "commit-0000000001.json").exists)
    finally:
        stop.set()
        loader.join(60)
    assert loaded_offsets(found[0]) == {(2, 3)}


@pytest.mark.parametrize("beginning", ["latest", "2100-01-01"])
def test_records_that_come_while_the_end_is_asked_for_are_no_lost_ones(load, topics, monkeypatch, beginning):
    topic = topics.new()
    topics.count(topic, 0, 3)
    real = Survey.limit

    def limit(self, *given, **options):
        topics.count(topic, 0, 2)
        return real(self, *given, **options)

    monkeypatch.setattr(Survey, "limit", limit)
    assert load(topic, beginning=beginning).rows == 0
    topics.count(topic, 0, 2)
    assert loaded_offsets(load(topic, beginning=beginning)) == {(5, 7)}


def test_an_offset_after_the_end_is_refused_and_nothing_is_written_down(load, topics):
    topic = topics.new()
    topics.count(topic, 0, 3)
    with pytest.raises(lake.LakeRefused, match=f"`beginning`: {topic}-0 ends at offset 3: it cannot begin at 99"):
        load(topic, beginning=json.dumps({topic: {"0": 99}}))
    assert loaded_offsets(load(topic, beginning=json.dumps({topic: {"0": 2}}))) == {(2, 3)}


def test_a_partition_that_a_known_topic_gets_later_begins_at_its_first_record(load, topics, eventually):
    topic = topics.new()
    fill(topics, topic, {"n": 1})
    assert load(topic, beginning="latest").rows == 0
    topics.admin.create_partitions({topic: 2})
    topics.cluster.refresh([topic])
    eventually(lambda: len(topics.cluster.partitions(topic)) == 2)
    fill(topics, topic, {"n": 2}, partition=1)
    assert loaded_offsets(load(topic, beginning="latest")) == {(0, 1)}


def test_a_topic_that_begins_later_changes_nothing_of_the_others(load, topics):
    one, two = topics.new(), topics.new()
    fill(topics, one, {"x": 1})
    load(one, json=True, rename=["x=y"])
    before = LakeRecords(open_store(lake_url(load.place))).committed()
    load(one, two, json=True, beginning="latest")
    after = LakeRecords(open_store(lake_url(load.place))).committed()
    assert (after.renames, after.latest) == (before.renames, before.latest)
    assert after.renames == {one: ("x=y",)} and len(after.latest) == 1
    fill(topics, one, {"x": 2})
    fill(topics, two, {"x": 2})
    load(one, two, json=True, beginning="latest")
    assert "x" not in lake.schema(load.place, one).names


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"fields": "a, b"}, ["a", "b"]),
        ({"exclude_fields": "c"}, ["a", "b"]),
        ({"fields": "a,c", "exclude_fields": "c"}, ["a"]),
    ],
)
def test_fields_are_chosen_or_left_out(load, topics, options, names):
    topic = topics.new()
    fill(topics, topic, {"a": 1, "b": "x", "c": 1}, {"a": 2, "c": "text"}, {"c": None})
    assert load(topic, json=True, **options).rows == 3
    found = [name for name in lake.schema(load.place, topic).names if name in "abc"]
    assert found == names


def test_fields_of_bytes_are_refused(load, topics):
    with pytest.raises(lake.LakeRefused, match="values that become columns"):
        load(topics.new(), fields="a")
