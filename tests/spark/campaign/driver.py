"""The pipeline of the campaign: source, transform, sink, exactly once; ends when everything has been written.

python tests/spark/campaign/driver.py MASTER BOOTSTRAP SOURCE TARGET CHECKPOINT MAX_OFFSETS PLAN
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator

import pyarrow as pa

from ottla.spark import session

PLANS = ("straight", "by-key")
STANDS_STILL = 0.3
"""The share of tasks that stand still in the middle of their rows, so that kills meet open transactions."""


def halting(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    stands_still = random.random() < STANDS_STILL
    for batch in batches:
        yield batch.slice(0, batch.num_rows // 2)
        if stands_still:
            time.sleep(random.uniform(0, 1.5))
            stands_still = False
        yield batch.slice(batch.num_rows // 2)


def main(master: str, bootstrap: str, source: str, target: str, checkpoint: str, most: str, plan: str) -> int:
    settings = {
        "spark.task.maxFailures": "10", "spark.executor.memory": "1g", "spark.cores.max": "2",
        # Otherwise the sink would get all rows of a task at once, after the halt.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
    }  # fmt: skip
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
        rows.mapInArrow(halting, rows.schema)
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
