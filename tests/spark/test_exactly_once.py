"""Exactly-once delivery inside Spark itself: micro-batches that are repeated, update mode, batch jobs, refusals."""

from pathlib import Path

import pytest
from committed import committed_rows, settled

from ottla.kernel.ids import TopicPartition
from ottla.spark import write_batch
from ottla.spark.delivery import ADAPTIVE, STATELESS_ADAPTIVE
from ottla.spark.marker import BatchMarker, SparkTask

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def marked(frame):
    return frame.selectExpr("key", "concat('x', cast(value as string)) value")


class Pipeline:
    """A query from one topic to another, which may be stopped and started."""

    def __init__(self, spark, bootstrap, topics, eventually, folder, *, transform=None, **options):
        self.spark, self.bootstrap, self.topics, self.eventually = spark, bootstrap, topics, eventually
        self.source, self.target = topics.new(2), topics.new(2)
        self.checkpoint = Path(folder) / self.target
        self.transform = transform or (
            lambda frame: frame.selectExpr("key", "concat('x', cast(value as string)) value")
        )
        self.starting = "earliest"
        self.options = {
            "kafka.bootstrap.servers": bootstrap,
            "topic": self.target,
            "delivery": "exactly-once",
            **{name.replace("__", "."): text for name, text in options.items()},
        }

    def rows(self):
        given = {"kafka.bootstrap.servers": self.bootstrap, "subscribe": self.source, "startingOffsets": self.starting}
        given |= {"kafka.isolation.level": "read_committed", "maxOffsetsPerTrigger": "60"}
        return self.transform(self.spark.readStream.format("ottla").options(**given).load())

    def run(self, writer=None):
        writer = writer or self.rows().writeStream.format("ottla").options(**self.options)
        writer = writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True)
        query = writer.start()
        assert query.awaitTermination(200)
        return query

    def forget_last_commit(self):
        """Remove the last commit, as if the driver was killed between a micro-batch's tasks and its commit."""
        commits = self.checkpoint / "commits"
        last = max(int(each.name) for each in commits.iterdir() if each.name.isdecimal())
        for name in (str(last), f".{last}.crc"):
            (commits / name).unlink(missing_ok=True)
        return last

    def found(self):
        settled(self.topics.cluster, self.target, self.eventually)
        return sorted(value for _, _, value in committed_rows(self.topics.cluster, self.bootstrap, self.target))

    def marker(self, query, index=0):
        group, place = SparkTask(query, 0, index).name, TopicPartition(self.target, 0)
        found = self.topics.cluster.committed_offsets(group, [place], require_stable=True)
        return BatchMarker.of(found[place], group) if place in found else None


@pytest.fixture
def pipeline(spark, bootstrap, topics, eventually, tmp_path):
    def made(**more):
        return Pipeline(spark, bootstrap, topics, eventually, tmp_path, **more)

    return made


def numbers(*spans):
    return sorted(b"x%d" % number for span in spans for number in span)


def test_a_repeated_micro_batch_is_written_once(pipeline):
    mine = pipeline()
    for partition in (0, 1):
        mine.topics.count(mine.source, partition, 100, start=100 * partition)
    query = mine.run()
    assert mine.found() == numbers(range(200))
    assert len(query.recentProgress) >= 3
    repeated = mine.forget_last_commit()
    again = mine.run()
    assert [each.batchId for each in again.recentProgress][:1] == [repeated]
    assert mine.found() == numbers(range(200))
    assert mine.marker(query.id).batch == repeated
    mine.topics.count(mine.source, 0, 10, start=200)
    mine.run()
    assert mine.found() == numbers(range(210))


def test_a_repeated_first_micro_batch_begins_where_it_began(pipeline):
    mine = pipeline()
    mine.starting = "latest"
    mine.run()
    assert mine.forget_last_commit() == 0
    mine.topics.count(mine.source, 0, 10)
    mine.run()
    assert mine.found() == numbers(range(10))


def test_a_repeated_micro_batch_with_a_shuffle_by_key_is_written_once(pipeline):
    mine = pipeline(
        transform=lambda frame: frame.selectExpr("key", "concat('x', cast(value as string)) value").repartition(
            3, "key"
        )
    )
    for partition in (0, 1):
        mine.topics.count(mine.source, partition, 60, start=60 * partition)
    query = mine.run()
    mine.forget_last_commit()
    mine.run()
    assert mine.found() == numbers(range(120))
    assert all(mine.marker(query.id, index) is not None for index in range(3))


def test_at_least_once_writes_a_repeated_micro_batch_again(pipeline):
    """The default mode, which shows that the test before can fail."""
    mine = pipeline(delivery="at-least-once")
    mine.topics.count(mine.source, 0, 20)
    mine.run()
    mine.forget_last_commit()
    mine.run()
    assert mine.found() == numbers(range(20), range(20))


def test_a_plan_that_is_not_repeatable_is_found_out(pipeline):
    mine = pipeline(transform=lambda frame: frame.selectExpr("key", "concat('x', rand()) value"))
    mine.topics.count(mine.source, 0, 20)
    mine.run()
    mine.forget_last_commit()
    with pytest.raises(Exception, match="was committed before with 20 rows") as raised:
        mine.run()
    assert "NotWritten: task 0 of batch 0" in str(raised.value).splitlines()[0]
    assert len(mine.found()) == 20


def test_adaptive_execution_is_refused_with_a_sentence(pipeline, spark):
    mine = pipeline()
    mine.topics.count(mine.source, 0, 5)
    spark.conf.set(STATELESS_ADAPTIVE, "true")
    try:
        with pytest.raises(Exception, match="needs adaptive execution off"):
            mine.run()
    finally:
        spark.conf.set(STATELESS_ADAPTIVE, "false")
    assert mine.found() == []
    mine.run()
    assert mine.found() == numbers(range(5))


def test_a_query_that_wrote_at_least_once_is_told_how_to_change_over(pipeline):
    mine = pipeline(delivery="at-least-once")
    mine.topics.count(mine.source, 0, 5)
    mine.run()
    mine.topics.count(mine.source, 0, 5, start=5)
    mine.options["delivery"] = "exactly-once"
    with pytest.raises(Exception, match=r"delivery\.missing\.marker"):
        mine.run()
    mine.options["delivery.missing.marker"] = "write"
    mine.run()
    assert mine.found() == numbers(range(10))


def test_update_mode_writes_each_change_once_by_foreach_batch(pipeline, spark):
    mine = pipeline(
        transform=lambda frame: (
            frame.selectExpr("cast(cast(value as string) as int) % 3 part")
            .groupBy("part")
            .count()
            .selectExpr("cast(part as string) key", "concat(part, '=', count) value")
        )
    )
    options = {name: text for name, text in mine.options.items() if name != "delivery"}
    seen = []

    def write(frame, batch_id):
        write_batch(frame, batch_id, options)
        seen.append((batch_id, frame.sparkSession.conf.get(ADAPTIVE)))

    def run():
        return mine.run(mine.rows().writeStream.outputMode("update").foreachBatch(write))

    mine.topics.count(mine.source, 0, 90)
    query = run()
    mine.forget_last_commit()
    run()
    assert [batch for batch, _ in seen] == [0, 1, 1]
    assert mine.found() == sorted([b"0=20", b"1=20", b"2=20", b"0=30", b"1=30", b"2=30"])
    assert mine.marker(query.id).batch == 1


def test_write_batch_outside_a_query_needs_a_name(pipeline, spark):
    mine = pipeline()
    options = {name: text for name, text in mine.options.items() if name != "delivery"}
    frame = spark.range(5).selectExpr("concat('x', id) value")
    with pytest.raises(ValueError, match="outside foreachBatch"):
        write_batch(frame, 0, options)
    before = spark.conf.get(ADAPTIVE)
    for _ in range(2):
        write_batch(frame, 0, options, name=mine.target)
    assert mine.found() == numbers(range(5))
    assert spark.conf.get(ADAPTIVE) == before


def test_a_batch_job_writes_in_transactions_and_again_each_time_it_is_run(pipeline, spark):
    mine = pipeline()
    frame = spark.range(40).repartition(4).selectExpr("concat('x', id) value")
    for _ in range(2):
        frame.write.format("ottla").options(**mine.options).mode("append").save()
    assert mine.found() == numbers(range(40), range(40))
