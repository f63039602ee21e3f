"""Runs source and sink in a session without any of our settings; prints the results as one line of JSON.

python tests/spark/untuned_jobs.py BOOTSTRAP TOPIC FOLDER
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession

from ottla import lake
from ottla.client.blocking.cluster import Cluster
from ottla.records.builder import build_batch
from ottla.records.reader import Record
from ottla.spark.session import SETTINGS
from ottla.spark.source import OttlaDataSource

ROWS = 3000


class Jobs:
    """The jobs of one session."""

    def __init__(self, spark: SparkSession, bootstrap: str, topic: str, folder: Path) -> None:
        self.spark = spark
        self.topic = topic
        self.folder = folder
        self.servers = {"kafka.bootstrap.servers": bootstrap}

    def write(self) -> None:
        """Write rows: every seventh value is null, every second row has a header."""
        header = "array(named_struct('key', 'h', 'value', cast(cast(id as string) as binary)))"
        rows = self.spark.range(0, ROWS, 1, 3).selectExpr(
            "cast(id as string) key",
            "if(id % 7 = 0, null, concat('value-', id)) value",
            f"if(id % 2 = 0, {header}, null) headers",
        )
        rows.write.format("ottla").options(**self.servers, topic=self.topic).mode("append").save()

    def read(self, topic: str) -> DataFrame:
        return self.spark.read.format("ottla").options(**self.servers, subscribe=topic, includeHeaders="true").load()

    def stream(self) -> list[int]:
        """Copy the rows since the last call; return the number of rows of each micro-batch."""
        stream = self.spark.readStream.format("ottla").options(**self.servers, subscribe=self.topic)
        rows = stream.options(startingOffsets="earliest", maxOffsetsPerTrigger="2000").load()
        writer = (
            rows.select("key", "value").writeStream.format("ottla").options(**self.servers, topic=f"{self.topic}-copy")
        )
        query = writer.option("checkpointLocation", str(self.folder / "checkpoint")).trigger(availableNow=True).start()
        query.awaitTermination(200)
        return [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]]


def text(given: bytes | None) -> str:
    return "" if given is None else given.decode()


def headers(row: Row) -> list[list[str]]:
    return [[each.key, text(each.value)] for each in row.headers or ()]


def main(bootstrap: str, topic: str, folder: str) -> int:
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    spark = SparkSession.builder.master("local[2]").getOrCreate()
    jobs = Jobs(spark, bootstrap, topic, Path(folder))
    ours = {pair for pair in spark.sparkContext.getConf().getAll() if SETTINGS.get(pair[0]) == pair[1]}
    jobs.write()
    batches = [jobs.stream()]
    Cluster(bootstrap).produce(topic, 0, build_batch([Record(0, 0, b"7000", b"late")] * 5))
    batches.append(jobs.stream())
    loaded = lake.load([topic], to=jobs.folder / "lake", bootstrap=bootstrap, spark=spark, tell=lambda _: None)
    rows = jobs.read(topic).collect()
    again = spark.newSession()
    again.dataSource.register(OttlaDataSource)
    registered = Jobs(again, bootstrap, f"{topic}-registered", jobs.folder)
    registered.write()
    seen = {
        "our settings": sorted(ours),
        "schema": jobs.read(topic).schema.simpleString(),
        "rows": sorted([row.partition, row.offset, *map(text, (row.key, row.value)), headers(row)] for row in rows),
        "batches": batches,
        "lake": [loaded.rows, loaded.adds_up],
        "registered": registered.read(registered.topic).count(),
    }
    print(json.dumps(seen), file=answer, flush=True)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
