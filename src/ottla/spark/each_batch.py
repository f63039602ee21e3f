"""Writing a micro-batch exactly once from inside `foreachBatch`: for update mode, or several topics of one query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ottla.spark.delivery import ADAPTIVE, EXACTLY_ONCE, QUERY_ID, check_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def write_batch(frame: DataFrame, batch_id: int, options: Mapping[str, str], *, name: str | None = None) -> None:
    """Write the rows of `frame` once, however often Spark repeats the micro-batch; `options` are those of the sink.

    `frame` and `batch_id` are those that Spark gives to the function in `foreachBatch`; the call returns once the rows
    are committed. Rows that name their topics in a column need the option `delivery.marker.topic`.

    `name` stands for the query in transactional ids and markers: Spark's id of the query unless it is given. Of several
    writes of a micro-batch to one topic each needs a name of its own, the same in every micro-batch. No other query may
    have that name, nor this one after its checkpoint was deleted. Adaptive execution is off while the rows are written;
    a frame that is persisted must have been so with it off.

    Raises ValueError outside `foreachBatch` without a `name`, and for settings under which a repeated micro-batch could
    have its rows in other tasks; Spark's own error where an option is refused or a task fails.

        from tempfile import mkdtemp

        from ottla.spark import session, write_batch

        kafka = {"kafka.bootstrap.servers": "localhost:9092"}


        def write(frame, batch_id):
            write_batch(frame, batch_id, {**kafka, "topic": "counts-of-books"})


        books = session().readStream.format("ottla").options(**kafka, subscribe="books", startingOffsets="earliest")
        counts = books.load().groupBy("key").count().selectExpr("key", "CAST(count AS STRING) AS value")
        stream = counts.writeStream.outputMode("update").foreachBatch(write)
        query = stream.option("checkpointLocation", mkdtemp()).trigger(availableNow=True).start()
        query.awaitTermination()
        print(query.lastProgress.numInputRows, "rows")
    """
    from ottla.spark.session import register_source

    spark = frame.sparkSession
    running = running_query(spark)
    if running:
        check_stream(lambda setting: spark.conf.get(setting, None))
    elif not name:
        raise ValueError(
            "write_batch was called outside foreachBatch, or where Spark does not say which query runs: give it a name"
        )
    register_source(spark)
    query = name or running or ""
    given = {**options, "delivery": EXACTLY_ONCE, "delivery.query": query, "delivery.batch": str(batch_id)}
    with setting(spark, ADAPTIVE, "false"):
        frame.write.format("ottla").options(**given).mode("append").save()


def running_query(spark: SparkSession) -> str | None:
    """The query whose micro-batch this thread works on; its id is in the checkpoint, so that a restart keeps it."""
    return spark.sparkContext.getLocalProperty(QUERY_ID)


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """Change a setting of the session for a while."""
    before = spark.conf.get(name, None)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, before)
