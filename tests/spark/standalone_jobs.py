"""Jobs on a standalone cluster: requests are lines of JSON on standard input, answers are lines of JSON.

python tests/spark/standalone_jobs.py [OPTIONS OF SPARK]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
from pathlib import Path
from typing import IO, Any

from ottla import lake
from ottla.rows.kafka_settings import KafkaSettings
from ottla.spark.launch import SparkRefused
from ottla.spark.probe import probe
from ottla.spark.submit import add_spark_arguments, open_session, spark_settings


class Jobs:
    """The jobs of one session."""

    def __init__(self, spark: Any, answers: IO[str]) -> None:
        self.spark = spark
        self.answers = answers
        self._killed = threading.Event()

    def probe(self, bootstrap: str, python: str | None = None, writable: str | None = None) -> object:
        """The number of executors, or the error's sentence."""
        usual = self.spark.sparkContext.pythonExec
        self.spark.sparkContext.pythonExec = python or usual
        check = None if writable is None else lambda: None if os.access(writable, os.W_OK) else f"{writable} is closed"
        try:
            return probe(self.spark, KafkaSettings(bootstrap), check)
        except SparkRefused as fault:
            return str(fault)
        finally:
            self.spark.sparkContext.pythonExec = usual

    def where(self) -> object:
        """The folders of ottla on the executors, and on the driver."""

        def folder(_: int) -> str:
            import ottla

            return str(Path(ottla.__file__).parent)

        context = self.spark.sparkContext
        return sorted({folder(0), *context.parallelize(range(8), 8).map(folder).collect()})

    def write(self, bootstrap: str, topic: str, rows: int) -> object:
        frame = self.spark.range(0, rows, 1, 4).selectExpr("cast(id as string) key", "concat('value-', id) value")
        options = {"kafka.bootstrap.servers": bootstrap, "topic": topic}
        frame.write.format("ottla").options(**options).mode("append").save()
        return self.read(bootstrap, topic)

    def read(self, bootstrap: str, topic: str) -> object:
        """The number of rows, and of distinct values."""
        rows = self._options(self.spark.read, bootstrap, topic).load()
        return rows.selectExpr("count(*)", "count(distinct value)").collect()[0]

    def stream(self, bootstrap: str, topic: str, folder: str) -> object:
        """Copy a topic by micro-batches; return their number, and the copy's content."""
        stream = self._options(self.spark.readStream, bootstrap, topic, startingOffsets="earliest").load()
        writer = stream.select("key", "value").writeStream.format("ottla").option("kafka.bootstrap.servers", bootstrap)
        writer = writer.option("topic", f"{topic}-copy").option("checkpointLocation", folder)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination(200)
        batches = [each for each in query.recentProgress if each["numInputRows"]]
        return [len(batches), *self.read(bootstrap, f"{topic}-copy")]

    def load(self, bootstrap: str, topic: str, folder: str, rounds_of: int) -> object:
        """Load a lake; after the first round report it, and wait for a line before going on."""

        def tell(_: str) -> None:
            if not self._killed.is_set():
                self.answer("a round is done")
                sys.stdin.readline()
                self._killed.set()

        loaded = lake.load([topic], to=folder, bootstrap=bootstrap, spark=self.spark, tell=tell, max_offsets=rounds_of)
        return [loaded.rounds, loaded.rows, loaded.adds_up]

    def answer(self, what: object) -> None:
        print(json.dumps(what), file=self.answers, flush=True)

    def _options(self, reader: Any, bootstrap: str, topic: str, **more: str) -> Any:
        options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "maxOffsetsPerTrigger": "1500", **more}
        return reader.format("ottla").options(**options)


def main() -> int:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    parser = argparse.ArgumentParser()
    add_spark_arguments(parser)
    jobs = Jobs(open_session(spark_settings(parser.parse_args())).spark, answers)
    jobs.answer("ready")
    for line in iter(sys.stdin.readline, ""):
        request = json.loads(line)
        jobs.answer(getattr(jobs, request.pop("job"))(**request))
    jobs.spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
