"""The loader, here and on Spark: topics in, Parquet out, read back by pyarrow."""

import json
import random
import threading

import pyarrow.dataset as ds
import pytest

from ottla import lake
from ottla.kernel.ids import TopicPartition
from ottla.lake.notes.plans import totals
from ottla.records.compression import Codec
from ottla.records.reader import Record

SPARK = pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])

NEW_YEAR = 1_356_998_400_000
HOUR = 3_600_000


@pytest.fixture(params=["local", SPARK])
def engine(request):
    """All tests of this module run here and on Spark."""
    return request.param


def rows(directory):
    """Every row of every visible file, by the topics' own schemas."""
    found = []
    for folder in sorted(directory.glob("topic=*")):
        topic = folder.name.removeprefix("topic=")
        files = ds.dataset(folder, lake.schema(directory, topic), format="parquet")
        found += [{**row, "topic": topic} for row in files.to_table().to_pylist()]
    return found


def offsets(directory):
    return sorted((row["topic"], row["partition"], row["offset"]) for row in rows(directory))


def test_every_record_is_in_the_file_of_its_hour_once(load, topics, tmp_path):
    topic = topics.new(2)
    records = [
        Record(0, NEW_YEAR + (at * 7 % 5) * HOUR, b"k%d" % at, b"v%d" % at, (("h", b"x"),) if at % 2 else ())
        for at in range(300)
    ]
    for codec in (Codec.NONE, Codec.ZSTD):
        topics.fill(topic, 0, records, codec)
    topics.fill(topic, 1, [Record(0, NEW_YEAR, None, None)])
    loaded = load(topic, partition_by="hour")
    assert loaded.rows == 601
    found = rows(tmp_path / "lake")
    hive = ds.dataset(tmp_path / "lake", format="parquet", partitioning="hive").to_table().to_pylist()
    assert offsets(tmp_path / "lake") == [(topic, 0, at) for at in range(600)] + [(topic, 1, 0)]
    for row in hive:
        assert (row["date"], row["hour"]) == (row["timestamp"].date().isoformat(), row["timestamp"].hour)
    for row in found:
        if row["partition"] == 0:
            at = row["offset"] % 300
            assert (row["key"], row["value"]) == (b"k%d" % at, b"v%d" % at)
            assert row["headers"] == ([{"key": "h", "value": b"x"}] if at % 2 else None)
    names = {
        path.relative_to(tmp_path / "lake").as_posix() for path in (tmp_path / "lake").glob("topic=*/**/*.parquet")
    }
    assert names == {
        f"topic={topic}/date=2013-01-01/hour={hour:02d}/{topic}-00000000-{hour:05d}.parquet" for hour in range(5)
    }
    assert "601 records" in load.told[-1] and "nothing is left" in load.told[-1]


def test_the_next_load_goes_on_where_the_last_one_ended(load, topics, tmp_path):
    topic = topics.new()
    topics.count(topic, 0, 10)
    assert load(topic).rows == 10
    assert load(topic).rows == 0
    topics.count(topic, 0, 5)
    loaded = load(topic)
    assert (loaded.rows, loaded.committed.rows) == (5, {loaded.counts[0].span.topic_partition: 15})
    assert offsets(tmp_path / "lake") == [(topic, 0, at) for at in range(15)]


def test_rounds_are_bounded_and_add_up_to_all(load, topics, tmp_path):
    topic = topics.new(2)
    topics.count(topic, 0, 100)
    topics.count(topic, 1, 50)
    loaded = load(topic, max_offsets=60)
    assert loaded.rounds == 3 and loaded.rows == 150
    assert len(offsets(tmp_path / "lake")) == len(set(offsets(tmp_path / "lake"))) == 150


def test_small_target_sizes_make_more_files(load, topics, tmp_path):
    topic = topics.new()
    topics.fill(topic, 0, [Record(0, NEW_YEAR, None, random.randbytes(1000)) for _ in range(1000)])
    assert len(load(topic, to=tmp_path / "big").files) == 1
    files = load(topic, target_size="100k").files
    assert 5 < len(files) <= 11 and all(file.written.bytes < 250_000 for file in files)
    assert offsets(tmp_path / "lake") == [(topic, 0, at) for at in range(1000)]


def test_json_values_become_columns_and_the_others_dead_letters(load, topics, tmp_path):
    topic, dead = topics.new(), topics.new()
    good = [{"carrier": "UA", "delay": at if at % 2 else at + 0.5, "hour": at % 24} for at in range(100)]
    topics.fill(topic, 0, [Record(0, NEW_YEAR, b"k", json.dumps(each).encode()) for each in good])
    topics.fill(topic, 0, [Record(0, NEW_YEAR, b"bad", b"{nonsense"), Record(0, NEW_YEAR, None, b'{"carrier":7}')])
    assert topics.read(dead) == []
    with pytest.raises(lake.LakeRefused, match=rf"{topic}-0 at offset 100: not JSON.*`dead_letter=TOPIC`"):
        load(topic, json=True)
    assert not list((tmp_path / "lake").glob("topic=*/**/*.parquet"))
    loaded = load(topic, json=True, dead_letter=dead)
    (count,) = totals(loaded.counts).values()
    assert (count.records, count.rows, count.dead) == (102, 100, 2)
    found = rows(tmp_path / "lake")
    assert [(row["carrier"], row["delay"], row["value_hour"]) for row in found] == [
        (each["carrier"], float(each["delay"]), each["hour"]) for each in good
    ]
    assert "value" not in found[0]
    letters = topics.read(dead)
    assert [letter.value for letter in letters] == [b"{nonsense", b'{"carrier":7}']
    headers = dict(letters[0].headers)
    assert headers["ottla.reason"].startswith(b"not JSON")
    assert (headers["ottla.topic"], headers["ottla.partition"], headers["ottla.offset"]) == (
        topic.encode(),
        b"0",
        b"100",
    )


def test_fields_that_come_later_become_columns_too(load, topics, tmp_path):
    topic = topics.new()
    early = [Record(0, NEW_YEAR, None, b'{"a":1}') for _ in range(3000)]
    topics.fill(topic, 0, early)
    topics.fill(topic, 0, [Record(0, NEW_YEAR, None, b'{"a":2,"late":"x"}')])
    load(topic, json=True)
    assert [row["late"] for row in rows(tmp_path / "lake")][-2:] == [None, "x"]
    topics.fill(topic, 0, [Record(0, NEW_YEAR, None, b'{"a":3,"later":true}')])
    assert load(topic, json=True).rows == 1


def test_a_pattern_loads_all_topics_that_match(load, topics, tmp_path):
    one, two = topics.new(), topics.new()
    for topic in (one, two):
        topics.count(topic, 0, 3)
    load(pattern=f"{one}|{two}")
    assert {topic for topic, _, _ in offsets(tmp_path / "lake")} == {one, two}


def test_a_topic_created_again_does_not_mix_into_the_old_files(load, topics, eventually):
    topic = topics.new()
    topics.count(topic, 0, 3)
    load(topic)
    topics.admin.delete_topics([topic])
    eventually(lambda: topic not in topics.cluster.topics())
    topics.admin.create_topic(topic, 1)
    topics.cluster.refresh([topic])
    topics.count(topic, 0, 5)
    with pytest.raises(lake.LakeRefused, match="deleted and created again"):
        load(topic)


def test_a_repeating_loader_takes_in_what_comes_until_it_is_stopped(load, topics, tmp_path, eventually):
    topic = topics.new()
    topics.count(topic, 0, 3)
    stop = threading.Event()
    loader = threading.Thread(target=lambda: load(topic, every="50ms", stop=stop))
    loader.start()
    try:
        eventually(lambda: len(list((tmp_path / "lake").glob("topic=*/**/*.parquet"))) == 1)
        topics.count(topic, 0, 4)
        eventually(lambda: len(list((tmp_path / "lake").glob("topic=*/**/*.parquet"))) == 2)
    finally:
        stop.set()
        loader.join(60)
    assert offsets(tmp_path / "lake") == [(topic, 0, at) for at in range(7)]


def test_a_backfill_of_many_days_makes_one_file_a_day(load, topics, tmp_path):
    topic = topics.new(3)
    shuffled = random.Random(7).sample(range(6000), 6000)
    for partition in range(3):
        days = [Record(0, NEW_YEAR + at % 100 * 24 * HOUR, None, b"%d" % at) for at in shuffled]
        topics.fill(topic, partition, days)
    loaded = load(topic)
    assert len(loaded.files) == 100
    assert offsets(tmp_path / "lake") == [(topic, partition, at) for partition in range(3) for at in range(6000)]


def test_rows_put_aside_by_many_tasks_are_joined(load, topics, tmp_path, monkeypatch):
    monkeypatch.setattr("ottla.lake.notes.plans.WORTH_A_TASK", 500)
    topic = topics.new(4)
    for partition in range(4):
        topics.fill(topic, partition, [Record(0, NEW_YEAR + at % 10 * HOUR, None, b"x") for at in range(2000)])
    loaded = load(topic, partition_by="hour")
    assert len(loaded.files) == 10
    assert {held.partition for file in loaded.files for held in file.written.held} == {0, 1, 2, 3}
    assert offsets(tmp_path / "lake") == [(topic, partition, at) for partition in range(4) for at in range(2000)]


def test_fields_divide_the_lake(load, topics, tmp_path):
    topic = topics.new()
    values = [{"carrier": "UA", "n": 1}, {"carrier": None, "n": 2}, {"carrier": "B 6", "n": 3}]
    topics.fill(topic, 0, [Record(0, NEW_YEAR, None, json.dumps(each).encode()) for each in values])
    load(topic, json=True, partition_by="month,carrier")
    names = {path.parent.name for path in (tmp_path / "lake").glob("topic=*/month=2013-01/*/*.parquet")}
    assert names == {"carrier=UA", "carrier=__HIVE_DEFAULT_PARTITION__", "carrier=B 6"}
    hive = ds.dataset(tmp_path / "lake", format="parquet", partitioning="hive").to_table()
    assert sorted(zip(*hive.select(["n", "carrier"]).to_pydict().values(), strict=True)) == [
        (1, "UA"),
        (2, None),
        (3, "B 6"),
    ]


def test_the_event_time_decides_the_folder_and_one_that_cannot_be_read_is_a_dead_letter(load, topics, tmp_path):
    topic, dead = topics.new(), topics.new()
    texts = [b'{"at":"2020-02-01T23:30:00-05:00"}', b'{"at":1580600000000}', b'{"at":"soon"}', None, b'{"x":1}']
    for at, value in enumerate(texts):
        topics.fill(topic, 0, [Record(0, NEW_YEAR + at, None, value)])
    loaded = load(topic, json=True, event_time="at", numbers_as_text=True, dead_letter=dead)
    days = sorted(file.written.values for file in loaded.files)
    assert days == [("2013-01-01",), ("2020-02-02",)]
    reasons = [dict(letter.headers)["ottla.reason"] for letter in topics.read(dead)]
    assert reasons == [b"field at: no time that can be read"] * 3


def test_a_lake_keeps_its_layout(load, topics):
    topic = topics.new()
    topics.fill(topic, 0, [Record(0, NEW_YEAR, None, b'{"a":1}')])
    load(topic, json=True)
    with pytest.raises(lake.LakeRefused, match="with `values` json; this load comes with `values` binary"):
        load(topic, values="binary")
    with pytest.raises(lake.LakeRefused, match="with `partition_by` day; this load comes with `partition_by` hour"):
        load(topic, json=True, partition_by="hour")


@pytest.mark.parametrize("to", ["s3n://bucket/x", "ftp://host/x", "file:relative", "file://elsewhere/x"])
def test_places_that_are_no_lakes_are_refused(load, topics, to):
    with pytest.raises(lake.LakeRefused):
        load(topics.new(), to=to)


def test_a_file_url_is_the_directory_that_it_names(load, topics, tmp_path):
    topic = topics.new()
    topics.count(topic, 0, 3)
    load(topic, to=(tmp_path / "a lake").as_uri())
    assert offsets(tmp_path / "a lake") == [(topic, 0, at) for at in range(3)]


def test_nothing_is_behind_where_retention_removed_what_was_before(load, topics):
    topic = topics.new()
    topics.count(topic, 0, 150)
    topics.admin.delete_records({TopicPartition(topic, 0): 100})
    load(topic)
    assert "50 records" in load.told[-1] and "nothing is left" in load.told[-1]


@pytest.mark.parametrize("text", ["x" * 254, "日" * 85, "/" * 85], ids=["long", "of three bytes", "escaped"])
@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_a_value_that_no_folder_can_be_named_by_is_a_dead_letter(load, topics, text, format):
    topic, dead = topics.new(), topics.new()
    for value in (text, text[:-1], "short"):
        topics.fill(topic, 0, [Record(0, NEW_YEAR, None, json.dumps({"c": value}).encode())])
    loaded = load(topic, json=True, partition_by="c", dead_letter=dead, format=format)
    assert (loaded.rows, len(loaded.files)) == (2, 2)
    (letter,) = topics.read(dead)
    assert b"too long for the name of a folder" in dict(letter.headers)["ottla.reason"]
