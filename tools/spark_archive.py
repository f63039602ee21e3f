"""Writes an archive of the classes that Spark loads, which Java maps in place of parsing jars: `spark_archive.py FILE`.

A Java process for Spark takes half of its processor time with it (-XX:SharedArchiveFile), so tests use it. One session
writes, reads and streams, and archives what it has loaded when it ends.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from ottla.spark import session
from ottla.testing import TestBroker

PATIENCE_S = 300


def main(file: Path) -> None:
    """Run the session, and wait until its Java process has written the file."""
    made = file.with_suffix(".part")
    made.unlink(missing_ok=True)
    os.environ["SPARK_SUBMIT_OPTS"] = (
        f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit={made} -Xlog:disable"
    )
    spark = session("archive", "local[1]")
    java = spark.sparkContext._gateway.proc
    with TestBroker() as broker, tempfile.TemporaryDirectory() as folder:
        kafka = {"kafka.bootstrap.servers": broker.bootstrap_servers}
        rows = spark.range(100).selectExpr("cast(id as string) key", "cast(id % 7 as string) value")
        rows.write.format("ottla").options(**kafka, topic="t").mode("append").save()
        read = spark.read.format("ottla").options(**kafka, subscribe="t").load()
        read.groupBy("value").count().orderBy("count").collect()
        read.mapInArrow(lambda batches: batches, read.schema).write.parquet(f"{folder}/rows")
        stream = spark.readStream.format("ottla").options(**kafka, subscribe="t", startingOffsets="earliest").load()
        writer = stream.writeStream.format("ottla").options(**kafka, topic="copy", checkpointLocation=f"{folder}/c")
        writer.trigger(availableNow=True).start().awaitTermination(PATIENCE_S)
        spark.stop()
    java.stdin.close()
    java.wait(PATIENCE_S)
    made.rename(file)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
