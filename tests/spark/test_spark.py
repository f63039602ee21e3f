"""The source and the sink inside Spark itself: found without registration, batch and stream."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from ottla.spark.session import register_source

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def source(spark, bootstrap):
    def load(topic, streaming=False, **options):
        reader = spark.readStream if streaming else spark.read
        return (
            reader.format("ottla")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", topic)
            .options(**options)
            .load()
        )

    return load


def test_a_thread_writes_once_it_has_registered_the_source(spark, source, bootstrap, topics):
    topic = topics.new()
    writer = spark.range(3).selectExpr("cast(id as string) value").write.format("ottla").mode("append")

    def write() -> None:
        register_source(spark)
        writer.option("kafka.bootstrap.servers", bootstrap).option("topic", topic).save()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(write).result(timeout=120)
    assert sorted(bytes(row.value) for row in source(topic).collect()) == [b"0", b"1", b"2"]


def test_what_is_written_is_read(spark, source, bootstrap, topics):
    topic = topics.new(3)
    frame = spark.range(5000).selectExpr(
        "cast(id as string) key",
        "if(id % 7 = 0, null, concat('value-', id)) value",
        "if(id % 2 = 0, array(named_struct('key', 'h', 'value', cast(cast(id as string) as binary))), null) headers",
    )
    frame.write.format("ottla").option("kafka.bootstrap.servers", bootstrap).option("topic", topic).mode(
        "append"
    ).save()
    found = source(topic, includeHeaders="true", minPartitions="5")
    assert found.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    rows = found.selectExpr("cast(key as string) key", "cast(value as string) value", "headers").collect()
    assert sorted(int(row.key) for row in rows) == list(range(5000))
    assert all(row.value == (None if int(row.key) % 7 == 0 else f"value-{row.key}") for row in rows)
    assert all((row.headers is None) == (int(row.key) % 2 == 1) for row in rows)


def test_rows_of_arrows_large_types_are_written_whole(spark, bootstrap, source, topics):
    topic = topics.new()
    rows = spark.createDataFrame([("anna", "one book"), (None, None)], "key string, value string").coalesce(1)
    spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
    try:
        kafka = {"kafka.bootstrap.servers": bootstrap, "topic": topic}
        rows.write.format("ottla").options(**kafka).mode("append").save()
        found = source(topic).collect()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")
    assert [(row.key, row.value) for row in found] == [(b"anna", b"one book"), (None, None)]


def test_columns_and_filters_narrow_what_is_read(spark, source, topics):
    topic = topics.new(2)
    for partition in (0, 1):
        topics.count(topic, partition, 100)
    assert source(topic, columns="offset").columns == ["offset"]
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        narrowed = source(topic, pushdown="true").where("partition = 1 and offset >= 40 and offset < 45")
        assert sorted(row.offset for row in narrowed.collect()) == [40, 41, 42, 43, 44]
        assert narrowed.rdd.getNumPartitions() == 1
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_an_empty_topic_is_an_empty_frame(source, topics):
    assert source(topics.new()).count() == 0


def test_wrong_options_say_what_is_wrong(spark, bootstrap):
    with pytest.raises(Exception, match="One of the following options must be specified for Kafka source"):
        spark.read.format("ottla").option("kafka.bootstrap.servers", bootstrap).load()
    with pytest.raises(Exception, match="Required attribute 'value' not found"):
        frame = spark.range(1).write.format("ottla").option("kafka.bootstrap.servers", bootstrap)
        frame.option("topic", "x").mode("append").save()


def first_line(caught):
    return str(caught.value).splitlines()[0]


def test_a_write_without_a_mode_or_with_overwrite_says_in_its_first_line_to_append(spark, bootstrap):
    frame = spark.range(1).selectExpr("cast(id as string) value").write.format("ottla")
    frame = frame.option("kafka.bootstrap.servers", bootstrap).option("topic", "never-written")
    with pytest.raises(Exception) as caught:
        frame.save()
    assert 'Please use either the "Append"' in first_line(caught)
    with pytest.raises(Exception) as caught:
        frame.mode("overwrite").save()
    assert 'which only appends: write .mode("append")' in first_line(caught)


def ended(frame, checkpoint):
    query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination(120)


def test_an_end_of_a_stream_is_refused_in_the_first_line(source, topics, tmp_path):
    with pytest.raises(Exception) as caught:
        ended(source(topics.new(), streaming=True, endingOffsets="latest"), str(tmp_path))
    assert "ValueError: ending offset not valid in streaming queries" in first_line(caught)


def test_lost_data_is_the_first_line_of_what_a_stream_fails_with(source, topics, tmp_path):
    topic = topics.new()
    topics.count(topic, 0, 10)
    ended(source(topic, streaming=True, startingOffsets="earliest"), str(tmp_path))
    topics.admin.delete_topics([topic])
    topics.admin.create_topic(topic, 1)
    with pytest.raises(Exception) as caught:
        ended(source(topic, streaming=True, startingOffsets="earliest"), str(tmp_path))
    assert "DataLoss: Some data may have been lost" in first_line(caught)
    assert f"Topic {topic} has been deleted and created again" in first_line(caught)


def test_a_batch_that_reaches_no_broker_says_so_in_its_first_line(source, spark):
    with pytest.raises(Exception) as caught:
        source("t", **{"kafka.bootstrap.servers": "127.0.0.1:1"}).count()
    assert "no broker answers at 127.0.0.1:1" in first_line(caught)


def test_a_stream_is_exactly_once_over_restarts_and_reports_its_lag(source, bootstrap, topics, tmp_path):
    topic, copy = topics.new(2), topics.new(1)
    for partition in (0, 1):
        topics.count(topic, partition, 500)

    def run():
        query = (
            source(topic, streaming=True, startingOffsets="earliest", maxOffsetsPerTrigger="300")
            .select("key", "value")
            .writeStream.format("ottla")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("topic", copy)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(180)
        return query

    progress = run().recentProgress
    import json

    first = progress[0].sources[0]
    ends, latest = json.loads(first.endOffset), json.loads(first.latestOffset)
    assert set(ends[topic].values()) == {150} and latest == {topic: {"0": 500, "1": 500}}
    assert sum(each.numInputRows for each in progress) == 1000
    topics.count(topic, 0, 5)
    assert sum(each.numInputRows for each in run().recentProgress) == 5
    assert len(topics.read(copy)) == 1005
    group = f"spark-kafka-source-{ends['/ottla']['query']}"
    committed = topics.cluster.committed_offsets(group)
    assert {partition.partition: offset.offset for partition, offset in committed.items()} == {0: 505, 1: 500}


def test_a_micro_batch_query_keeps_up_with_what_comes(spark, source, topics, tmp_path, eventually):
    topic = topics.new()
    query = (
        source(topic, streaming=True, startingOffsets="earliest")
        .selectExpr("cast(value as string) value")
        .writeStream.format("memory")
        .queryName("seen")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        for start in (0, 10, 20):
            topics.count(topic, 0, 10, start=start)
            eventually(lambda wanted=start + 10: spark.table("seen").count() == wanted)
    finally:
        query.stop()
    assert sorted(int(row.value) for row in spark.table("seen").collect()) == list(range(30))
