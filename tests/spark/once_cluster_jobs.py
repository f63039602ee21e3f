"""Runs a query on separate executors whose tasks die or are overtaken at chosen places; prints one line of JSON.

python tests/spark/once_cluster_jobs.py MASTER BOOTSTRAP SOURCE TARGET FOLDER
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext

from ottla.spark import session

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "500ms",
}
OVERTAKEN, WORKER_KILLED, EXECUTOR_KILLED = 0, 1, 2
"""Fates of the first attempt at task 0 of each micro-batch, in the middle of its rows."""


def main(master: str, bootstrap: str, source: str, target: str, folder: str) -> int:
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    settings = {"spark.executor.memory": "1g", "spark.task.maxFailures": "6", **SPECULATION}
    settings["spark.executor.extraJavaOptions"] = os.environ.get("SPARK_SUBMIT_OPTS", "")
    spark = session("once", master, **{name.replace(".", "__"): text for name, text in settings.items()})

    def troubled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        batch_id, index, attempt = (
            int(context.getLocalProperty("streaming.sql.batchId")), context.partitionId(), context.attemptNumber(),
        )  # fmt: skip
        Path(folder, f"attempt-{batch_id}-{index}-{attempt}").touch()
        for batch in batches:
            yield batch.slice(0, 10)
            if index == 0 and attempt == 0:
                trouble(batch_id, folder)
            yield batch.slice(10)
        Path(folder, f"ended-{batch_id}-{index}-{attempt}").touch()

    rows = (
        spark.readStream.format("ottla")
        .options(**{"kafka.bootstrap.servers": bootstrap, "subscribe": source, "startingOffsets": "earliest"})
        .options(**{"maxOffsetsPerTrigger": "200", "minPartitions": "2"})
        .load()
        .select("key", "value")
    )
    writer = rows.mapInArrow(troubled, rows.schema).writeStream.format("ottla")
    writer = writer.options(**{"kafka.bootstrap.servers": bootstrap, "topic": target, "delivery": "exactly-once"})
    query = writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()
    attempts = sorted(each.name for each in Path(folder).glob("attempt-*"))
    print(json.dumps({"attempts": attempts, "query": query.id}), file=answer, flush=True)
    spark.stop()
    return 0


def trouble(batch_id: int, folder: str) -> None:
    """Make the fault in a worker, between the rows that the sink has sent and the rest."""
    if batch_id == OVERTAKEN:
        deadline = time.monotonic() + 120
        while not list(Path(folder).glob("ended-0-0-[1-9]")) and time.monotonic() < deadline:
            time.sleep(0.05)
    elif batch_id == WORKER_KILLED:
        os.kill(os.getpid(), signal.SIGKILL)
    elif batch_id == EXECUTOR_KILLED:
        daemon = os.getppid()
        executor = int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(executor, signal.SIGKILL)
        time.sleep(60)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
