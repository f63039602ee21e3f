"""Ranges are planned and decoded from a real broker as tasks do it, without Spark."""

import pyarrow as pa
import pytest

from ottla.client.blocking.cluster import Cluster
from ottla.client.errors import RequestTimedOut
from ottla.kernel.ids import TopicId
from ottla.records.compression import Codec
from ottla.records.reader import Record
from ottla.rows.plan import DataLoss, OffsetRange, split
from ottla.rows.read import read_decoded
from ottla.rows.survey import Survey
from ottla.spark.batch import plan_batch
from ottla.spark.options import source_options
from ottla.spark.reader import read_ranges

TIME = 1_700_000_000_000


def options(bootstrap, topic, streaming=False, **more):
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    return source_options(
        {**given, **{name.replace("__", "."): text for name, text in more.items()}}, streaming=streaming
    )


def planned(chosen, filters=()):
    return plan_batch(chosen.survey(), chosen, list(filters))


def rows(chosen, ranges=None):
    found = []
    for span in planned(chosen) if ranges is None else ranges:
        for batch in read_ranges([span], chosen):
            batch.validate(full=True)
            found += batch.to_pylist()
    return found


def test_a_record_arrives_as_sparks_row(bootstrap, topics):
    topic = topics.new()
    topics.fill(topic, 0, [Record(0, TIME, b"k", b"v", (("h", b"1"), ("h", None))), Record(0, TIME + 1, None, None)])
    first, second = rows(options(bootstrap, topic, includeHeaders="true"))
    assert int(first.pop("timestamp").timestamp() * 1000) == TIME
    assert first == {
        "key": b"k",
        "value": b"v",
        "topic": topic,
        "partition": 0,
        "offset": 0,
        "timestampType": 0,
        "headers": [{"key": "h", "value": b"1"}, {"key": "h", "value": None}],
    }
    assert (second["key"], second["value"], second["offset"], second["headers"]) == (None, None, 1, None)


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_is_read(bootstrap, topics, codec):
    topic = topics.new()
    topics.fill(topic, 0, [Record(0, TIME, b"%d" % at, b"x" * 500) for at in range(200)], codec)
    found = rows(options(bootstrap, topic))
    assert [row["key"] for row in found] == [b"%d" % at for at in range(200)]
    assert {row["value"] for row in found} == {b"x" * 500}


def test_the_schema_is_exactly_what_spark_maps_its_own_to(bootstrap, topics):
    topic = topics.new()
    topics.count(topic, 0, 3)
    chosen = options(bootstrap, topic, includeHeaders="true")
    (batch,) = read_ranges(planned(chosen), chosen)
    assert batch.schema.field("value").type == pa.binary()
    assert batch.schema.field("timestamp").type == pa.timestamp("us", tz="UTC")
    assert batch.schema.field("partition").type == pa.int32()
    chosen = options(bootstrap, topic, columns="offset")
    (batch,) = read_ranges(planned(chosen), chosen)
    assert batch.schema.names == ["offset"]


def test_a_range_that_starts_and_ends_inside_a_batch_gives_just_its_rows(bootstrap, topics):
    topic = topics.new()
    topics.count(topic, 0, 100)
    chosen = options(
        bootstrap, topic, startingOffsets=f'{{"{topic}":{{"0":30}}}}', endingOffsets=f'{{"{topic}":{{"0":60}}}}'
    )
    assert [row["offset"] for row in rows(chosen)] == list(range(30, 60))


def test_split_ranges_give_every_row_once(bootstrap, topics):
    topic = topics.new(2)
    for partition in (0, 1):
        for batch in range(5):
            topics.count(topic, partition, 37, start=37 * batch)
    chosen = options(bootstrap, topic)
    ranges = split(planned(chosen), min_partitions=7, max_records=20)
    found = rows(chosen, ranges)
    assert len(ranges) >= 7
    assert sorted((row["partition"], row["offset"]) for row in found) == [(p, o) for p in (0, 1) for o in range(185)]


def test_times_choose_offsets(bootstrap, topics):
    topic = topics.new()
    for batch in range(4):
        topics.count(topic, 0, 10, start=10 * batch, time_ms=TIME)
    chosen = options(bootstrap, topic, startingTimestamp=str(TIME + 13), endingTimestamp=str(TIME + 31))
    assert [row["offset"] for row in rows(chosen)] == list(range(13, 31))
    late = {"startingTimestamp": str(TIME + 1000)}
    with pytest.raises(ValueError, match="No offset matched"):
        planned(options(bootstrap, topic, **late))
    assert rows(options(bootstrap, topic, startingOffsetsByTimestampStrategy="latest", **late)) == []


def test_the_batches_headers_and_the_decoded_rows_agree(bootstrap, topics):
    topic = topics.new()
    for batch in range(3):
        topics.count(topic, 0, 10, start=10 * batch)
    chosen = options(bootstrap, topic)
    (whole,) = planned(chosen)
    pieces = list(read_decoded(OffsetRange(topic, 0, 5, 27, whole.topic_id), chosen.kafka))
    assert sum(piece.records for piece in pieces) == sum(piece.batch.num_rows for piece in pieces) == 22


def test_an_unknown_topic_is_an_error(bootstrap):
    with pytest.raises(Exception, match="no-such-topic"):
        planned(options(bootstrap, "no-such-topic"))


def test_a_pattern_finds_topics_by_their_whole_name(bootstrap, topics):
    topic = topics.new()
    topics.count(topic, 0, 2)
    chosen = source_options(
        {"kafka.bootstrap.servers": bootstrap, "subscribePattern": f"{topic[:-1]}[{topic[-1]}]"}, streaming=False
    )
    assert {row["topic"] for row in rows(chosen)} == {topic}


def test_assigned_partitions_are_read_and_no_others(bootstrap, topics):
    topic = topics.new(3)
    for partition in range(3):
        topics.count(topic, partition, 2)
    chosen = source_options({"kafka.bootstrap.servers": bootstrap, "assign": f'{{"{topic}":[0,2]}}'}, streaming=False)
    assert {row["partition"] for row in rows(chosen)} == {0, 2}


def test_records_that_retention_took_fail_the_read_or_are_left_out_on_demand(bootstrap, topics):
    topic = topics.new()
    for batch in range(3):
        topics.count(topic, 0, 10, start=10 * batch)
    starting = f'{{"{topic}":{{"0":5}}}}'
    ranges = planned(options(bootstrap, topic, startingOffsets=starting))
    topics.admin.delete_records({ranges[0].topic_partition: 20})
    with pytest.raises(DataLoss, match="failOnDataLoss"):
        rows(options(bootstrap, topic, startingOffsets=starting), ranges)
    found = rows(options(bootstrap, topic, startingOffsets=starting, failOnDataLoss="false"), ranges)
    assert [row["offset"] for row in found] == list(range(20, 30))


def test_deleted_records_of_a_batch_that_is_still_there_are_not_given(bootstrap, topics):
    topic = topics.new()
    topics.count(topic, 0, 100)
    topics.count(topic, 0, 100, start=100)
    starting = f'{{"{topic}":{{"0":100}}}}'
    ranges = planned(options(bootstrap, topic, startingOffsets=starting))
    topics.admin.delete_records({ranges[0].topic_partition: 150})
    tolerant = options(bootstrap, topic, startingOffsets=starting, failOnDataLoss="false")
    assert [row["offset"] for row in rows(tolerant, ranges)] == list(range(150, 200))


def test_records_are_counted_from_where_the_log_starts_now(bootstrap, topics):
    topic = topics.new()
    topics.count(topic, 0, 100)
    topics.count(topic, 0, 100, start=100)
    chosen = options(bootstrap, topic)
    (span,) = planned(chosen)
    topics.admin.delete_records({span.topic_partition: 150})
    pieces = list(read_decoded(span, chosen.kafka, fail_on_data_loss=False))
    assert sum(piece.records for piece in pieces) == sum(piece.batch.num_rows for piece in pieces) == 50


def test_an_ending_beyond_the_end_fails_or_is_cut_on_demand(bootstrap, topics):
    topic = topics.new()
    topics.count(topic, 0, 10)
    ending = f'{{"{topic}":{{"0":15}}}}'
    with pytest.raises(DataLoss, match="ends at 10, before the ending offset 15"):
        planned(options(bootstrap, topic, endingOffsets=ending))
    assert len(rows(options(bootstrap, topic, endingOffsets=ending, failOnDataLoss="false"))) == 10


def test_a_batch_of_a_topic_that_grows_meanwhile_is_planned_all_the_same(bootstrap, topics, monkeypatch):
    topic = topics.new()
    topics.count(topic, 0, 5)
    chosen = options(bootstrap, topic)

    asked_of = Survey._offsets

    def growing(survey, asked):
        topics.count(topic, 0, 1)
        return asked_of(survey, asked)

    monkeypatch.setattr(Survey, "_offsets", growing)
    (span,) = plan_batch(chosen.survey(), chosen, [])
    assert span.start == 0 and span.end > 5
    assert len(rows(chosen, [span])) == span.end


def test_a_start_behind_the_end_is_refused(bootstrap, topics):
    topic = topics.new()
    topics.count(topic, 0, 10)
    with pytest.raises(ValueError, match="resolved start offset 8 is greater than the resolved end offset 4"):
        planned(
            options(
                bootstrap,
                topic,
                startingOffsets=f'{{"{topic}":{{"0":8}}}}',
                endingOffsetsByTimestamp=f'{{"{topic}":{{"0":{TIME + 4}}}}}',
            )
        )


def test_a_range_of_a_topic_that_was_created_again_is_refused(bootstrap, topics):
    topic = topics.new()
    topics.count(topic, 0, 5)
    chosen = options(bootstrap, topic)
    (span,) = planned(chosen)
    other = OffsetRange(topic, 0, span.start, span.end, TopicId(bytes(range(16))), span.leader_epoch)
    with pytest.raises(DataLoss, match="deleted and created again"):
        rows(chosen, [other])


def test_a_task_that_waits_in_vain_says_for_what(bootstrap, topics):
    topic = topics.new()
    topics.count(topic, 0, 5)
    chosen = options(bootstrap, topic, kafkaConsumer__pollTimeoutMs="300")
    (span,) = planned(chosen)
    beyond = OffsetRange(topic, 0, 0, 9, span.topic_id, span.leader_epoch)
    with pytest.raises(TimeoutError, match="Cannot fetch record for offset 5 in 300 milliseconds"):
        rows(chosen, [beyond])


def test_records_that_do_not_come_in_time_are_not_taken_for_lost(bootstrap, topics, monkeypatch):
    topic = topics.new()
    topics.count(topic, 0, 5)
    tolerant = options(bootstrap, topic, failOnDataLoss="false", kafkaConsumer__pollTimeoutMs="300")
    (span,) = planned(tolerant)
    beyond = OffsetRange(topic, 0, 0, 9, span.topic_id, span.leader_epoch)
    assert len(rows(tolerant, [beyond])) == 5, "the log was truncated: the rest is gone"

    def late(*_, **__):
        raise RequestTimedOut("no answer")

    monkeypatch.setattr(Cluster, "fetch_range", late)
    with pytest.raises(TimeoutError, match="Cannot fetch record for offset 0 in 300 milliseconds"):
        rows(tolerant, [span])
