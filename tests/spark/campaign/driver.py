"""The pipeline of the campaign: source, transform, topic, exactly once; ends when all that there was has been written.

python tests/spark/campaign/driver.py MASTER BOOTSTRAP SOURCE TARGET CHECKPOINT MAX_OFFSETS PLAN
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator

import pyarrow as pa
from pyspark import TaskContext

from ottla.spark import session

PLANS = ("straight", "by-key")
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.multiplier": "1.2",
    "spark.speculation.minTaskRuntime": "1s",
}
STANDS_STILL = 0.04
"""How many of the first attempts do, so that Spark starts a second beside them."""


def stumbling(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    context = TaskContext.get()
    assert context is not None
    for batch in batches:
        yield batch
        if context.attemptNumber() == 0 and random.random() < STANDS_STILL:
            time.sleep(4)


def main(master: str, bootstrap: str, source: str, target: str, checkpoint: str, most: str, plan: str) -> int:
    settings = {"spark.task.maxFailures": "10", "spark.executor.memory": "1g", "spark.cores.max": "2", **SPECULATION}
    spark = session("campaign", master, **{name.replace(".", "__"): text for name, text in settings.items()})
    rows = (
        spark.readStream.format("ottla")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", most)
        .option("minPartitions", "2")
        .load()
        .selectExpr("key", "concat('seen ', cast(value as string)) value")
    )
    if plan == "by-key":
        rows = rows.repartition(3, "key")
    query = (
        rows.mapInArrow(stumbling, rows.schema)
        .writeStream.format("ottla")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("delivery", "exactly-once")
        .option("kafka.transaction.timeout.ms", "60000")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
