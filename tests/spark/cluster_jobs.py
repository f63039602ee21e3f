"""Runs a pipeline on a cluster of executors: write, read, stream and lake; prints the results as one line of JSON.

python tests/spark/cluster_jobs.py MASTER BOOTSTRAP TOPIC FOLDER
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from ottla import lake
from ottla.spark import session

ROWS = 4000


def main(master: str, bootstrap: str, topic: str, folder: str) -> int:
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    quick = {"spark__executor__extraJavaOptions": os.environ.get("SPARK_SUBMIT_OPTS", "")}
    spark = session("cluster", master, spark__cores__max="2", spark__executor__memory="1g", **quick)

    def read(name: str) -> int:
        return (
            spark.read.format("ottla")
            .options(**{"kafka.bootstrap.servers": bootstrap, "subscribe": name})
            .load()
            .count()
        )

    rows = spark.range(0, ROWS, 1, 4).selectExpr("cast(id as string) key", "concat('value-', id) value")
    to_topic = {"kafka.bootstrap.servers": bootstrap, "topic": topic}
    rows.write.format("ottla").options(**to_topic).mode("append").save()
    source = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    stream = spark.readStream.format("ottla").options(**source, maxOffsetsPerTrigger="1500", minPartitions="4").load()
    writer = stream.select("key", "value").writeStream.format("ottla").options(**{**to_topic, "topic": f"{topic}-copy"})
    query = writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination(200)
    loaded = lake.load([topic], to=Path(folder) / "lake", bootstrap=bootstrap, spark=spark, tell=lambda _: None)
    hosts = spark.sparkContext.parallelize(range(8), 8).map(
        lambda _: os.environ.get("SPARK_EXECUTOR_DIRS", str(os.getppid()))
    )
    seen = {
        "rows": read(topic),
        "copied": read(f"{topic}-copy"),
        "batches": len([each for each in query.recentProgress if each["numInputRows"]]),
        "lake": loaded.rows,
        "adds up": loaded.adds_up,
        "executors": len(set(hosts.collect())),
    }
    print(json.dumps(seen), file=answer, flush=True)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
