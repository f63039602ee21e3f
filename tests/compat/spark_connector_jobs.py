"""Jobs for Spark's own Kafka connector; runs under pyspark 4.2 and prints the results as one line of JSON.

.venv-spark42/bin/python tests/compat/spark_connector_jobs.py BOOTSTRAP JARS PREFIX FOLDER
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import reaching
from pyspark.sql import DataFrame, SparkSession

from ottla.spark import session

ROWS = 12_000
CODECS = ("gzip", "snappy", "lz4", "zstd")


class Connector:
    """The connector against one broker, topics named by a prefix."""

    def __init__(self, spark: SparkSession, bootstrap: str, prefix: str, folder: Path) -> None:
        self.spark = spark
        options = {"bootstrap.servers": bootstrap, **reaching.java()}
        self.cluster = {f"kafka.{name}": value for name, value in options.items()}
        self.prefix = prefix
        self.folder = folder

    def run(self) -> dict[str, object]:
        first, copy = f"{self.prefix}-first", f"{self.prefix}-copy"
        self.write(self.rows(ROWS), first)
        everything = self.read(subscribe=first, includeHeaders="true")
        seen: dict[str, object] = {
            "batch": everything.selectExpr("count(*) rows", "count(distinct key) keys").first().asDict(),
            "headers": everything.where("headers[0].value = encode(cast(key as string), 'utf-8')").count(),
            "pattern": self.read(subscribePattern=f"{first}.*", minPartitions="6").count(),
            "since": self.read(subscribe=first, startingTimestamp="1000").count(),
            "range": self.read(
                subscribe=first,
                startingOffsets=json.dumps({first: {"0": 10}}),
                endingOffsets=json.dumps({first: {"0": 110}}),
            ).count(),
        }
        for codec in CODECS:
            topic = f"{self.prefix}-{codec}"
            self.write(self.rows(2000), topic, **{"kafka.compression.type": codec})
            seen[codec] = self.read(subscribe=topic).count()
        seen["stream"] = [self.stream(first, copy), self.stream(first, copy)]
        seen["copied"] = (
            self.read(subscribe=copy).selectExpr("count(*) rows", "count(distinct key) keys").first().asDict()
        )
        ours = self.read("ottla", subscribe=first, includeHeaders="true")
        seen["schema"] = ours.schema == everything.schema
        seen["different"] = ours.exceptAll(everything).count() + everything.exceptAll(ours).count()
        self.write(self.rows(500), f"{self.prefix}-ours", "ottla")
        seen["ours"] = self.read(subscribe=f"{self.prefix}-ours", includeHeaders="true").count()
        return seen

    def rows(self, count: int) -> DataFrame:
        header = "array(named_struct('key', 'h', 'value', encode(cast(id as string), 'utf-8'))) headers"
        return self.spark.range(count).selectExpr("cast(id as string) key", "concat('value-', id) value", header)

    def write(self, rows: DataFrame, topic: str, connector: str = "kafka", **options: str) -> None:
        writer = rows.write.format(connector).options(**self.cluster).option("topic", topic)
        writer.options(**options).mode("append").save()

    def read(self, connector: str = "kafka", **options: str) -> DataFrame:
        reader: Any = self.spark.read.format(connector).options(**self.cluster)
        return reader.options(**options).load()

    def stream(self, source: str, target: str) -> int:
        """Copy new rows in several micro-batches; return how many were read."""
        stream = self.spark.readStream.format("kafka").options(**self.cluster)
        frame = stream.options(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="5000").load()
        writer = frame.select("key", "value").writeStream.format("kafka").option("topic", target)
        writer = writer.options(**self.cluster).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(self.folder / "checkpoint")).start()
        query.awaitTermination(120)
        return sum(progress["numInputRows"] for progress in query.recentProgress)


def main(bootstrap: str, jars: str, prefix: str, folder: str) -> int:
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    libraries = ",".join(str(path) for path in sorted(Path(jars).glob("*.jar")))
    spark = session("compat", "local[2]", spark__jars=libraries)
    print(json.dumps(Connector(spark, bootstrap, prefix, Path(folder)).run()), file=answer, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
