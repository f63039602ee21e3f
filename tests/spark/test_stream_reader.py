"""Micro-batches are planned as Spark asks for them, without Spark."""

import json

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from ottla.kernel.ids import TopicPartition
from ottla.rows.plan import DataLoss
from ottla.rows.survey import Survey
from ottla.spark.options import source_options
from ottla.spark.stream import OttlaStreamReader

ALL = ReadAllAvailable()


def stream(bootstrap, topic, **more):
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    chosen = {**given, **{name.replace("__", "."): text for name, text in more.items()}}
    return OttlaStreamReader(source_options(chosen, streaming=True))


def plain(offset):
    return {topic: at for topic, at in offset.items() if not topic.startswith("/")}


def read(reader, start, end):
    return [
        (row["partition"], row["offset"])
        for partition in reader.partitions(start, end)
        for batch in reader.read(partition)
        for row in batch.to_pylist()
    ]


def test_a_stream_starts_where_it_is_told_and_goes_on_from_there(bootstrap, topics):
    topic = topics.new(2)
    topics.count(topic, 0, 5)
    reader = stream(bootstrap, topic)
    start = reader.initialOffset()
    assert plain(start) == {topic: {"0": 0, "1": 0}}
    end = reader.latestOffset(start, ALL)
    assert plain(end) == {topic: {"0": 5, "1": 0}}
    assert read(reader, start, end) == [(0, offset) for offset in range(5)]
    topics.count(topic, 1, 3)
    after = reader.latestOffset(end, ALL)
    assert read(reader, end, after) == [(1, offset) for offset in range(3)]


def test_a_stream_from_latest_sees_only_what_comes(bootstrap, topics):
    topic = topics.new()
    topics.count(topic, 0, 5)
    reader = stream(bootstrap, topic, startingOffsets="latest")
    start = reader.initialOffset()
    topics.count(topic, 0, 2)
    assert read(reader, start, reader.latestOffset(start, ALL)) == [(0, 5), (0, 6)]


def test_an_offset_that_has_not_moved_is_the_same_text(bootstrap, topics):
    topic = topics.new(2)
    topics.count(topic, 0, 5)
    reader = stream(bootstrap, topic)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    stored = json.loads(json.dumps(end))
    assert json.dumps(reader.latestOffset(stored, ALL)) == json.dumps(end)
    assert json.dumps(stream(bootstrap, topic).latestOffset(stored, ALL)) == json.dumps(end)


def test_a_repeated_batch_has_the_same_tasks_whatever_the_options_say_by_then(bootstrap, topics):
    topic = topics.new(3)
    for partition in range(3):
        topics.count(topic, partition, 10)
    reader = stream(bootstrap, topic)
    start = reader.initialOffset()
    end = json.loads(json.dumps(reader.latestOffset(start, ALL)))
    planned = [partition.spans for partition in reader.partitions(start, end)]
    assert [len(spans) for spans in planned] == [3]
    other = stream(bootstrap, topic, minPartitions="6", maxRecordsPerPartition="4")
    assert [partition.spans for partition in other.partitions(start, end)] == planned
    assert len(other.partitions(start, other.latestOffset(start, ALL))) == 9


@pytest.mark.parametrize("waiting", [0, 2])
def test_the_first_batch_keeps_its_start_though_spark_asks_for_it_again(bootstrap, topics, waiting):
    """Spark asks to learn the end, to plan the batch, and once more where a driver died and the batch is repeated."""
    topic = topics.new()
    topics.count(topic, 0, 5)
    reader = stream(bootstrap, topic, startingOffsets="latest")
    start = reader.initialOffset()
    if waiting:
        topics.count(topic, 0, waiting)
    end = json.loads(json.dumps(reader.latestOffset(start, ALL)))
    first = [(0, 5 + at) for at in range(waiting)]
    assert read(reader, reader.initialOffset(), end) == first
    topics.count(topic, 0, 3)
    topics.admin.create_partitions({topic: 2})
    topics.cluster.refresh([topic])
    topics.count(topic, 1, 1)
    restarted = stream(bootstrap, topic, startingOffsets="latest")
    for again in (reader, restarted):
        assert read(again, again.initialOffset(), end) == first
    second = json.loads(json.dumps(restarted.latestOffset(end, ALL)))
    rest = [*((0, 5 + waiting + at) for at in range(3)), (1, 0)]
    assert read(restarted, end, second) == rest
    third = restarted.latestOffset(second, ALL)
    assert third == second and read(restarted, second, third) == []


def test_a_repeated_first_batch_without_topics_reads_none_that_came_since(bootstrap, topics):
    name = topics.new()
    given = {"kafka.bootstrap.servers": bootstrap, "subscribePattern": f"{name}x"}
    reader = OttlaStreamReader(source_options(given, streaming=True))
    end = json.loads(json.dumps(reader.latestOffset(reader.initialOffset(), ALL)))
    topics.admin.create_topic(f"{name}x", 1)
    topics.cluster.refresh([f"{name}x"])
    topics.count(f"{name}x", 0, 2)
    assert read(reader, reader.initialOffset(), end) == []
    assert read(reader, end, reader.latestOffset(end, ALL)) == [(0, 0), (0, 1)]


def test_a_repeated_batch_begins_new_partitions_where_they_began(bootstrap, topics):
    one, two = topics.new(), topics.new()
    topics.count(one, 0, 5)
    topics.count(two, 0, 5)
    reader = stream(bootstrap, f"{one},{two}", failOnDataLoss="false")
    both = reader.initialOffset()
    start = {key: value for key, value in both.items() if key != two}
    end = json.loads(json.dumps(reader.latestOffset(start, ALL)))
    planned = [partition.spans for partition in reader.partitions(start, end)]
    topics.admin.delete_records({TopicPartition(two, 0): 3})
    assert [partition.spans for partition in reader.partitions(start, end)] == planned
    fresh = reader.partitions(start, reader.latestOffset(start, ALL))
    assert [sorted(span.start for span in partition.spans) for partition in fresh] == [[0, 3]]


def test_a_limit_is_shared_and_all_available_goes_over_it(bootstrap, topics):
    topic = topics.new(2)
    topics.count(topic, 0, 90)
    topics.count(topic, 1, 10)
    reader = stream(bootstrap, topic, maxOffsetsPerTrigger="50")
    assert reader.getDefaultReadLimit() == ReadMaxRows(50)
    start = reader.initialOffset()
    assert plain(reader.latestOffset(start, reader.getDefaultReadLimit())) == {topic: {"0": 45, "1": 5}}
    assert plain(reader.latestOffset(start, ALL)) == {topic: {"0": 90, "1": 10}}
    assert plain(reader.reportLatestOffset()) == {topic: {"0": 90, "1": 10}}


def test_a_trigger_waits_for_the_least_number_of_offsets_until_its_time_is_up(bootstrap, topics):
    topic = topics.new()
    topics.count(topic, 0, 5)
    reader = stream(bootstrap, topic, minOffsetsPerTrigger="10", maxTriggerDelay="1h")
    limit = reader.getDefaultReadLimit()
    start = reader.initialOffset()
    first = reader.latestOffset(start, limit)
    assert plain(first) == {topic: {"0": 5}}, "the first trigger does not wait"
    topics.count(topic, 0, 9)
    assert reader.latestOffset(first, limit) == first
    topics.count(topic, 0, 1)
    assert plain(reader.latestOffset(first, limit)) == {topic: {"0": 15}}
    reader.options = stream(bootstrap, topic, minOffsetsPerTrigger="10", maxTriggerDelay="0ms").options
    topics.count(topic, 0, 1)
    assert plain(reader.latestOffset(first, limit)) == {topic: {"0": 16}}


def test_available_now_ends_at_what_there_was_and_ignores_the_minimum(bootstrap, topics):
    topic = topics.new()
    topics.count(topic, 0, 30)
    reader = stream(bootstrap, topic, maxOffsetsPerTrigger="20", minOffsetsPerTrigger="15")
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    topics.count(topic, 0, 7)
    limit = reader.getDefaultReadLimit()
    first = reader.latestOffset(start, limit)
    second = reader.latestOffset(first, limit)
    assert [plain(each)[topic]["0"] for each in (first, second)] == [20, 30]
    assert reader.latestOffset(second, limit) == second


def test_available_now_goes_on_without_a_deleted_topic_on_demand(bootstrap, topics, eventually):
    topic, other = topics.new(), topics.new()
    topics.count(topic, 0, 3)
    both = f"{topic},{other}"
    start = stream(bootstrap, both).initialOffset()
    topics.admin.delete_topics([topic])
    eventually(lambda: topic not in topics.cluster.topics())
    topics.count(other, 0, 2)
    strict = stream(bootstrap, both)
    strict.prepareForTriggerAvailableNow()
    end = strict.latestOffset(start, ALL)
    with pytest.raises(DataLoss, match=rf"Partitions \[{topic}-0\] have been deleted"):
        strict.partitions(start, end)
    tolerant = stream(bootstrap, both, failOnDataLoss="false")
    tolerant.prepareForTriggerAvailableNow()
    assert read(tolerant, start, tolerant.latestOffset(start, ALL)) == [(0, 0), (0, 1)]


@pytest.fixture
def truncated_at_3(monkeypatch):
    """As if the leader had changed since, and the log had lost its records from offset 3 on."""
    offsets = Survey._offsets

    def in_a_later_epoch(self, asked):
        return {each: (offset, epoch + 1) for each, (offset, epoch) in offsets(self, asked).items()}

    def lose():
        monkeypatch.setattr(Survey, "_offsets", in_a_later_epoch)
        monkeypatch.setattr(Survey, "_end_of_epoch", lambda *_: 3)

    return lose


@pytest.mark.parametrize("since", [1, 7])
def test_a_truncated_log_is_noticed_also_by_available_now(bootstrap, topics, truncated_at_3, since):
    topic = topics.new()
    topics.count(topic, 0, 5)
    reader = stream(bootstrap, topic)
    start = reader.latestOffset(reader.initialOffset(), ALL)
    topics.count(topic, 0, since)
    truncated_at_3()
    with pytest.raises(DataLoss, match=f"Partition {topic}-0 was truncated to offset 3"):
        reader.latestOffset(start, ALL)
    again = stream(bootstrap, topic)
    again.prepareForTriggerAvailableNow()
    with pytest.raises(DataLoss, match=f"Partition {topic}-0 was truncated to offset 3"):
        again.latestOffset(start, ALL)


def test_available_now_notices_a_log_that_ends_before_its_checkpoint(bootstrap, topics):
    topic = topics.new()
    topics.count(topic, 0, 5)
    reader = stream(bootstrap, topic)
    start = reader.initialOffset()
    start[topic]["0"] = 9
    reader.prepareForTriggerAvailableNow()
    end = reader.latestOffset(start, ALL)
    with pytest.raises(DataLoss, match=f"Partition {topic}-0 offset was changed from 9 to 5"):
        reader.partitions(start, end)


def test_partitions_added_later_are_read_from_their_beginning(bootstrap, topics):
    topic = topics.new()
    topics.count(topic, 0, 3)
    reader = stream(bootstrap, topic, startingOffsets="latest")
    start = reader.initialOffset()
    topics.admin.create_partitions({topic: 2})
    topics.cluster.refresh([topic])
    topics.count(topic, 1, 4)
    end = reader.latestOffset(start, ALL)
    assert read(reader, start, end) == [(1, offset) for offset in range(4)]


def test_a_deleted_topic_fails_the_query_or_is_left_out_on_demand(bootstrap, topics, eventually):
    topic, other = topics.new(), topics.new()
    topics.count(topic, 0, 3)
    both = f"{topic},{other}"
    reader = stream(bootstrap, both)
    start = reader.latestOffset(reader.initialOffset(), ALL)
    topics.admin.delete_topics([topic])
    eventually(lambda: topic not in topics.cluster.topics())
    topics.count(other, 0, 2)
    end = reader.latestOffset(start, ALL)
    with pytest.raises(DataLoss, match=rf"Partitions \[{topic}-0\] have been deleted"):
        reader.partitions(start, end)
    assert read(stream(bootstrap, both, failOnDataLoss="false"), start, end) == [(0, 0), (0, 1)]


def test_a_topic_created_again_is_noticed_after_a_restart_too(bootstrap, topics, eventually):
    topic = topics.new()
    topics.count(topic, 0, 3)
    reader = stream(bootstrap, topic)
    start = json.loads(json.dumps(reader.latestOffset(reader.initialOffset(), ALL)))
    topics.admin.delete_topics([topic])
    eventually(lambda: topic not in topics.cluster.topics())
    topics.admin.create_topic(topic, 1)
    topics.cluster.refresh([topic])
    topics.count(topic, 0, 5)
    restarted = stream(bootstrap, topic)
    end = restarted.latestOffset(start, ALL)
    with pytest.raises(DataLoss, match=f"Topic {topic} has been deleted and created again"):
        restarted.partitions(start, end)
    tolerant = stream(bootstrap, topic, failOnDataLoss="false")
    assert read(tolerant, start, end) == [(0, offset) for offset in range(5)]


def test_a_topic_created_again_with_as_many_records_is_noticed(bootstrap, topics, eventually):
    topic = topics.new()
    topics.count(topic, 0, 5)
    reader = stream(bootstrap, topic)
    start = json.loads(json.dumps(reader.latestOffset(reader.initialOffset(), ALL)))
    start["/ottla"]["epochs"][topic]["0"] = 3
    topics.admin.delete_topics([topic])
    eventually(lambda: topic not in topics.cluster.topics())
    topics.admin.create_topic(topic, 1)
    topics.cluster.refresh([topic])
    topics.count(topic, 0, 5)
    end = reader.latestOffset(start, ALL)
    with pytest.raises(DataLoss, match=f"Topic {topic} has been deleted and created again"):
        reader.partitions(start, end)
    tolerant = stream(bootstrap, topic, failOnDataLoss="false", kafkaConsumer__pollTimeoutMs="300")
    assert read(tolerant, start, end) == [(0, offset) for offset in range(5)]
    assert tolerant.latestOffset(json.loads(json.dumps(end)), ALL) == end


def test_a_stream_that_may_lose_data_goes_on_where_the_log_starts_now(bootstrap, topics):
    topic = topics.new()
    topics.count(topic, 0, 100)
    topics.count(topic, 0, 100, start=100)
    reader = stream(bootstrap, topic, failOnDataLoss="false")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    topics.admin.delete_records({TopicPartition(topic, 0): 150})
    assert read(reader, start, end) == [(0, offset) for offset in range(150, 200)]


def test_what_was_processed_shows_as_a_consumer_groups_offsets(bootstrap, topics, eventually):
    topic = topics.new()
    topics.count(topic, 0, 5)
    reader = stream(bootstrap, topic, kafka__group__id=f"group-of-{topic}")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert reader.latestOffset(end, ALL) == end
    partition = TopicPartition(topic, 0)
    committed = topics.cluster.committed_offsets(f"group-of-{topic}", [partition])
    assert committed[partition].offset == 5, "with nothing left to read it is published before the call returns"
    named = stream(bootstrap, topic, groupIdPrefix="mine")
    named.commit(end)
    query = end["/ottla"]["query"]
    eventually(lambda: bool(topics.cluster.committed_offsets(f"mine-{query}", [partition])))


def test_a_group_that_cannot_be_written_does_not_fail_the_query(bootstrap, topics):
    topic = topics.new()
    topics.count(topic, 0, 5)
    reader = stream(bootstrap, topic, kafka__group__id="")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert reader.latestOffset(end, ALL) == end


def test_a_long_range_is_split_among_tasks(bootstrap, topics):
    topic = topics.new()
    topics.count(topic, 0, 100)
    reader = stream(bootstrap, topic, minPartitions="4")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert len(reader.partitions(start, end)) == 4
    assert len(read(reader, start, end)) == 100
