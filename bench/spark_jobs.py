"""The Spark side of the race: one session of pyspark 4.2 with Spark's own connector beside ours, jobs as JSON lines.

Runs under .venv-spark42; bench/spark_worker.py writes one request a line and reads one answer a line. Both sides have
the same session, the same data, the same codec; a job's answer is the seconds it took, without those of its session.

python -m bench.spark_jobs BOOTSTRAP SESSION JARS..., SESSION being one of `SESSIONS`
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bench.jvm_ways import FASTAVRO_ROWS, by_fastavro, delta_settings
from ottla import lake
from ottla.spark import session

ROWS = "key, value, topic, partition, offset, timestamp"
MASTER = f"local[{os.cpu_count() or 2}]"


class Jobs:
    """The jobs of one session."""

    def __init__(self, spark: SparkSession, bootstrap: str) -> None:
        self.spark = spark
        self.bootstrap = bootstrap

    def source(self, connector: str, topic: str) -> float:
        """Read a topic and throw the rows away."""
        return timed(lambda: self._read(connector, topic).write.format("noop").mode("overwrite").save())

    def lake(self, connector: str, topic: str) -> float:
        """Read a topic into Parquet files: the loader's whole round against the connector's data frame."""
        folder = Path(tempfile.mkdtemp(prefix="race-lake-"))
        try:
            if connector == "ottla":
                return timed(lambda: self._load(topic, folder))
            frame = self._read(connector, topic).selectExpr(*ROWS.split(", "))
            return timed(lambda: frame.write.option("compression", "zstd").mode("overwrite").parquet(str(folder)))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def write(self, connector: str, topic: str, rows: int) -> float:
        """Write a data frame to a topic."""
        frame = self._frame(rows)
        writer = frame.write.format(connector).option("kafka.bootstrap.servers", self.bootstrap)
        return timed(lambda: writer.option("topic", topic).mode("append").save())

    def stream(self, connector: str, topic: str, each: int, triggers: int) -> float:
        """Stream small micro-batches into Parquet; return the median seconds of a trigger, the first left out."""
        folder = Path(tempfile.mkdtemp(prefix="race-stream-"))
        stream = (
            self._options(self.spark.readStream.format(connector), topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", each)
            .load()
        )
        writer = stream.selectExpr(*ROWS.split(", ")).writeStream.format("parquet")
        query = (
            writer.option("path", str(folder / "out")).option("checkpointLocation", str(folder / "checkpoint")).start()
        )
        try:
            while query.lastProgress is None or query.lastProgress["batchId"] < triggers:
                if query.exception() is not None:
                    raise RuntimeError(str(query.exception()))
                time.sleep(0.05)
            times = [
                progress["durationMs"]["triggerExecution"]
                for progress in query.recentProgress
                if progress["numInputRows"] and progress["batchId"] > triggers // 3
            ]
        finally:
            query.stop()
            shutil.rmtree(folder, ignore_errors=True)
        return statistics.median(times) / 1000

    def delta(self, connector: str, topic: str, place: str) -> float:
        """Read a topic into a new Delta table on S3."""
        if connector == "ottla":
            return timed(lambda: self._load(topic, f"s3://{place}", format="delta"))
        writer = self._read(connector, topic).selectExpr(*ROWS.split(", ")).write.format("delta")
        return timed(lambda: writer.option("compression", "zstd").mode("append").save(f"s3a://{place}/{topic}"))

    def avro(self, connector: str, topic: str, schema: str) -> float:
        """Read a topic of Avro values into Parquet files with a column for each field."""
        folder = Path(tempfile.mkdtemp(prefix="race-avro-"))
        try:
            if connector == "ottla":
                return timed(lambda: self._load(topic, folder, values="avro", schema=schema))
            frame = self._read(connector, topic).select("key", "value", "partition", "offset", "timestamp")
            rows = frame.mapInArrow(partial(by_fastavro, schema=schema), FASTAVRO_ROWS)
            return timed(lambda: rows.write.option("compression", "zstd").mode("overwrite").parquet(str(folder)))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _read(self, connector: str, topic: str) -> DataFrame:
        return self._options(self.spark.read.format(connector), topic).load()

    def _options(self, reader: Any, topic: str) -> Any:
        return reader.option("kafka.bootstrap.servers", self.bootstrap).option("subscribe", topic)

    def _load(self, topic: str, place: str | Path, **options: Any) -> None:
        loaded = lake.load(
            [topic], to=place, bootstrap=self.bootstrap, spark=self.spark, tell=lambda _: None, **options
        )
        if not loaded.adds_up or not loaded.rows:
            raise RuntimeError(f"the lake of {topic} does not add up")

    def _frame(self, rows: int) -> DataFrame:
        """Rows of some 214 bytes, generated while they are written, at almost no cost."""
        value = f"concat(lpad(cast(id as string), 20, '0'), '{'x' * 180}') value"
        return self.spark.range(0, rows, 1, 2).selectExpr(
            "concat('key-', lpad(cast(id as string), 10, '0')) key", value
        )


def timed(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def tuned(jars: str) -> SparkSession:
    """The session that ottla makes."""
    return session("race", MASTER, spark__jars=jars)


def untuned(jars: str) -> SparkSession:
    """A session with no setting but the connector's jars; Spark discovers `format("ottla")`."""
    return SparkSession.builder.master(MASTER).config("spark.jars", jars).getOrCreate()


def with_delta(jars: str) -> SparkSession:
    """Our session with the settings for Delta and S3A; the environment names the S3 endpoint."""
    return session("race", MASTER, spark__jars=jars, **delta_settings())


SESSIONS = {"tuned": tuned, "untuned": untuned, "with-delta": with_delta}


def main(bootstrap: str, kind: str, *jars: str) -> int:
    """Answer requests until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # output of Java must not come between the answers
    libraries = ",".join(str(path) for folder in jars for path in sorted(Path(folder).glob("*.jar")))
    jobs = Jobs(SESSIONS[kind](libraries), bootstrap)
    answers.write(json.dumps({"ready": jobs.spark.version}) + "\n")
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer: dict[str, object] = {"seconds": getattr(jobs, request.pop("job"))(**request)}
        except Exception as fault:
            answer = {"fault": f"{type(fault).__name__}: {fault}"[:2000]}
        answers.write(json.dumps(answer) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
