import logging

import pytest

from ottla.kernel.ids import TopicPartition
from ottla.rows.plan import Edge, SpecificOffsets, Timestamps
from ottla.spark.options import duration_ms, sink_options, source_columns, source_options

A = {"kafka.bootstrap.servers": "here:9092", "subscribe": "a"}
A0 = TopicPartition("a", 0)


def refusal(streaming=False, **changes):
    options = {**A, **{name.replace("__", "."): value for name, value in changes.items()}}
    with pytest.raises(ValueError) as caught:
        source_options({name: value for name, value in options.items() if value is not None}, streaming=streaming)
    return str(caught.value)


def test_defaults_are_those_of_sparks_connector():
    batch, stream = source_options(A, streaming=False), source_options(A, streaming=True)
    assert (batch.starting, batch.ending) == (Edge.EARLIEST, Edge.LATEST)
    assert stream.starting == Edge.LATEST
    assert batch.fail_on_data_loss and not batch.kafka.read_committed
    assert (batch.poll_timeout_ms, batch.offset_retries, batch.offset_retry_interval_ms) == (120_000, 3, 10)
    assert batch.max_trigger_delay_ms == 900_000
    assert batch.columns == ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")


def test_names_are_known_in_any_case():
    options = source_options({**A, "STARTINGOFFSETS": "Earliest", "failondataloss": "FALSE"}, streaming=True)
    assert options.starting == Edge.EARLIEST and not options.fail_on_data_loss


def test_exactly_one_way_to_choose_topics():
    assert "One of the following options must be specified" in refusal(subscribe=None)
    assert "Only one of the following options can be specified" in refusal(assign='{"a":[0]}')
    assert "No topics to subscribe to" in refusal(subscribe=" , ")
    assert "Pattern to subscribe is empty" in refusal(subscribe=None, subscribePattern=" ")
    assert "not a regular expression" in refusal(subscribe=None, subscribePattern="a(")
    assert "No topicpartitions to assign" in refusal(subscribe=None, assign="a")
    assert "Expected e.g." in refusal(subscribe=None, assign='{"a":0}')
    assert "Expected e.g." in refusal(subscribe=None, assign='{"a":"10"}')
    assert "Expected e.g." in refusal(subscribe=None, assign='{"a":[0.5]}')
    assert "No topicpartitions to assign" in refusal(subscribe=None, assign="{}")
    assert "No topicpartitions to assign" in refusal(subscribe=None, assign='{"a":[]}')


def test_topics_and_partitions_are_read():
    selection = source_options({**A, "subscribe": "b, a,,b"}, streaming=False).selection
    assert selection.topics == ("a", "b") and selection.chosen("a", internal=False)
    assign = {"kafka.bootstrap.servers": "x:1", "assign": '{"a":[1,0]}'}
    assert source_options(assign, streaming=False).selection.partitions == (A0, TopicPartition("a", 1))
    pattern = {"kafka.bootstrap.servers": "x:1", "subscribePattern": "a.*|__.*"}
    selection = source_options(pattern, streaming=False).selection
    assert selection.chosen("abc", internal=False) and not selection.chosen("xabc", internal=False)
    assert not selection.chosen("__consumer_offsets", internal=True)


def test_the_bootstrap_servers_are_required():
    assert "Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer" in refusal(
        kafka__bootstrap__servers=None
    )
    with pytest.raises(ValueError, match="for configuring Kafka producer"):
        sink_options({"topic": "a"})


def test_offsets_come_as_json():
    options = source_options(
        {**A, "startingOffsets": '{"a":{"0":23}}', "endingOffsets": '{"a":{"0":-1}}'}, streaming=False
    )
    assert options.starting == SpecificOffsets({A0: 23}) and options.ending == SpecificOffsets({A0: -1})
    assert "expected e.g." in refusal(startingOffsets="nonsense")
    assert "Expected e.g." in refusal(startingOffsets="[1]")
    assert "whole number" in refusal(startingOffsets='{"a":{"0":"1"}}')


def test_a_time_for_all_goes_before_times_per_partition_before_offsets():
    most = {**A, "startingTimestamp": "5", "startingOffsetsByTimestamp": '{"a":{"0":6}}', "startingOffsets": "latest"}
    assert source_options(most, streaming=False).starting == Timestamps(5)
    del most["startingTimestamp"]
    assert source_options(most, streaming=False).starting == Timestamps({A0: 6})
    with_strategy = {**most, "startingOffsetsByTimestampStrategy": "LATEST"}
    assert source_options(with_strategy, streaming=False).starting == Timestamps({A0: 6}, latest_where_none=True)
    assert "Expected a single long value, got soon" in refusal(startingTimestamp="soon")
    assert "must be error or latest" in refusal(startingOffsetsByTimestampStrategy="guess")


def test_numbers_that_are_no_offsets_and_no_times_are_refused():
    for streaming in (False, True):
        less = refusal(streaming=streaming, startingOffsets='{"a":{"0":-3}}')
        assert less == "Option 'startingOffsets': -3 for a-0 is not an offset; -2 is earliest, -1 latest"
        whole = refusal(streaming=streaming, startingTimestamp="-2")
        assert whole == "Option 'startingTimestamp': the time -2 is negative; write milliseconds since 1970"
        each = refusal(streaming=streaming, startingOffsetsByTimestamp='{"a":{"0":-1}}')
        assert each == "Option 'startingOffsetsByTimestamp': the time -1 is negative; write milliseconds since 1970"
    far = refusal(startingTimestamp=str(1 << 63))
    assert far == f"Option 'startingTimestamp': the time {1 << 63} is too large; write milliseconds since 1970"
    assert "'endingOffsets': -4 for a-0 is not an offset" in refusal(endingOffsets='{"a":{"0":-4}}')
    assert refusal(startingOffsets='{"a":{"first":0}}') == "Expected the number of a partition of a, got 'first'"


def test_a_batch_does_not_start_at_the_end_nor_end_at_the_start():
    assert refusal(startingOffsets="latest") == "starting offset can't be latest for batch queries on Kafka"
    assert refusal(endingOffsets="earliest") == "ending offset can't be earliest for batch queries on Kafka"
    assert "startingOffsets for a-0 can't be latest" in refusal(startingOffsets='{"a":{"0":-1}}')
    assert "ending offset for a-0 can't be earliest" in refusal(endingOffsets='{"a":{"0":-2}}')


def test_a_stream_has_no_ending():
    assert refusal(streaming=True, endingOffsets="latest") == "ending offset not valid in streaming queries"
    assert "ending timestamp not valid" in refusal(streaming=True, endingOffsetsByTimestamp='{"a":{"0":1}}')
    assert "ending timestamp not valid" in refusal(streaming=True, endingTimestamp="1")


def test_numbers_must_be_positive_and_in_order():
    assert refusal(minPartitions="0") == "minPartitions must be positive"
    assert refusal(maxRecordsPerPartition="-1") == "maxRecordsPerPartition must be positive"
    assert refusal(fetchOffset__numRetries="-1") == "Option 'fetchOffset.numRetries' must not be negative, got -1"
    assert "must not be negative, got -5" in refusal(fetchOffset__retryIntervalMs="-5")
    assert "is higher than the maxOffsetsPerTrigger(5)" in refusal(minOffsetsPerTrigger="6", maxOffsetsPerTrigger="5")
    assert "must be true or false" in refusal(failOnDataLoss="maybe")


@pytest.mark.parametrize(
    "name",
    [
        "auto.offset.reset",
        "key.deserializer",
        "value.deserializer",
        "enable.auto.commit",
        "interceptor.classes",
        "sasl.login.callback.handler.class",
        "ssl.truststore.lokation",
    ],
)
def test_settings_that_cannot_be_honoured_are_refused_by_name(name):
    assert name in refusal(**{f"kafka.{name}": "x"})


def test_security_is_taken_by_kafkas_names_and_refused_where_it_will_not_do():
    assert "must be one of PLAINTEXT" in refusal(kafka__security__protocol="TLS")
    assert "user and a password" in refusal(kafka__security__protocol="SASL_SSL", kafka__sasl__mechanism="PLAIN")
    source_options({**A, "kafka.security.protocol": "plaintext"}, streaming=False)
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="hunter2";'
    secured = {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN", "kafka.sasl.jaas.config": jaas}
    found = source_options({**A, **secured}, streaming=False)
    assert (found.kafka.security.protocol, found.kafka.security.user) == ("SASL_SSL", "a")
    assert "hunter2" not in repr(found)


def test_settings_without_effect_pass_silently_and_those_of_the_other_side_are_warned_about(caplog):
    with caplog.at_level(logging.WARNING, "ottla.spark"):
        source_options({**A, "kafka.session.timeout.ms": "9"}, streaming=False)
        assert caplog.messages == []
        source_options({**A, "kafka.acks": "all", "kafka.value.serializer": "x"}, streaming=False)
    assert caplog.messages == [f"Kafka option '{name}' has no effect here" for name in ("acks", "value.serializer")]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("startingOfsets", "did you mean startingOffsets?"),
        ("kafka.sesion.timeout.ms", "did you mean kafka.session.timeout.ms?"),
        ("kafka.isolation.levl", "did you mean kafka.isolation.level?"),
        ("xyzzy", "Option 'xyzzy' is not known"),
    ],
)
def test_an_option_that_nobody_knows_is_refused_with_the_nearest_known_one(name, hint):
    with pytest.raises(ValueError, match="is not known") as refused:
        source_options({**A, name: "x"}, streaming=False)
    assert hint in str(refused.value)


@pytest.mark.parametrize("name", ["path", "checkpointLocation", "queryName", "asyncProgressTrackingEnabled"])
def test_options_of_sparks_own_pass(name):
    source_options({**A, name: "x"}, streaming=True)


def test_trigger_limits_are_ignored_aloud_in_a_batch(caplog):
    with caplog.at_level(logging.WARNING, "ottla.spark"):
        source_options({**A, "maxOffsetsPerTrigger": "9"}, streaming=False)
    assert "maxOffsetsPerTrigger option ignored in batch queries" in caplog.text


def test_headers_and_columns_make_the_schema():
    assert source_columns({"includeHeaders": "true"})[-1] == "headers"
    assert source_columns({"columns": "offset, value"}) == ("value", "offset")
    with pytest.raises(ValueError, match="names headers"):
        source_columns({"columns": "headers"})


def test_the_sink_understands_its_settings():
    sink = sink_options({"kafka.bootstrap.servers": "x:1", "topic": " t ", "kafka.compression.type": "zstd"})
    assert sink.topic == "t" and sink.kafka.compression == "zstd"
    for name in ("key.serializer", "value.serializer", "transactional.id", "partitioner.class"):
        with pytest.raises(ValueError, match=name):
            sink_options({"kafka.bootstrap.servers": "x:1", f"kafka.{name}": "y"})


@pytest.mark.parametrize(
    ("text", "ms"),
    [("100", 100), ("50ms", 50), ("10s", 10_000), ("15m", 900_000), ("2min", 120_000), ("1h", 3_600_000)],
)
def test_lengths_of_time_are_sparks(text, ms):
    assert duration_ms(text) == ms


def test_a_length_of_time_without_sense_is_refused():
    with pytest.raises(ValueError, match="not a length of time: '1 fortnight'"):
        duration_ms("1 fortnight")


@pytest.mark.parametrize(
    ("given", "batch_size"),
    [
        ({}, 1 << 20),
        ({"kafka.max.request.size": "1000"}, 1000),
        ({"kafka.max.request.size": "9000000"}, 1 << 20),
        ({"kafka.max.request.size": "9000000", "kafka.batch.size": "2000000"}, 2_000_000),
    ],
)
def test_a_batch_of_the_sink_is_no_larger_than_a_request_may_be(given: dict[str, str], batch_size: int) -> None:
    assert sink_options({"kafka.bootstrap.servers": "b:1", **given}).kafka.batch_size == batch_size


@pytest.mark.parametrize("number", ["-1", "2147483648"])
@pytest.mark.parametrize("name", ["transaction.timeout.ms", "batch.size", "delivery.timeout.ms"])
def test_numbers_that_kafka_has_no_room_for_are_refused(name, number):
    options = {"kafka.bootstrap.servers": "b:1", "topic": "a", f"kafka.{name}": number}
    with pytest.raises(ValueError, match=f"'{name}' must be between 0 and 2147483647, got {number}"):
        sink_options(options)
