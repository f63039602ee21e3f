"""`python -m ottla.demo.query`: one streaming query, the pipeline's program `delays`.

Departures are joined with weather and airlines, their delays summed as they come. Comes from produce.py; the
answer goes to delays.py.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pandas as pd

from ottla.config.profiles import bootstrap_servers
from ottla.demo.delays import RAIN, UNKNOWN, VISIBILITY, WIND
from ottla.demo.flights import SCHEMAS
from ottla.demo.measured import ANSWER, DELAYS, DemoSpeed
from ottla.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

RECORDS_PER_BATCH = 85_000
NAME = "delays"
CHECKPOINT = "checkpoint"

Progress = Callable[[int, float], None]
"""Told after each micro-batch: its rows, and rows a second."""


def main() -> int:
    """Run the query over what the topics hold; keep its answer and its speed."""
    shutil.rmtree(CHECKPOINT, ignore_errors=True)  # a run sums the whole year
    spark = open_session()
    begin, seen = time.monotonic(), 0

    def progress(rows: int, rows_per_second: float) -> None:
        nonlocal seen
        seen += rows
        print(f"{seen:,} flights joined, {rows_per_second:,.0f} a second", flush=True)

    answer = run(spark, bootstrap_servers(os.environ).address, CHECKPOINT, progress)
    DemoSpeed(seen, time.monotonic() - begin).keep(DELAYS)
    answer.to_parquet(ANSWER)
    return 0


def open_session() -> SparkSession:
    """Spark with four tasks at once or more. Its own output goes to a file."""
    tasks = max(4, os.cpu_count() or 1)
    terminal = os.dup(sys.stderr.fileno())
    with open("spark.log", "wb") as log:
        os.dup2(log.fileno(), sys.stderr.fileno())
    try:
        return session("ottla demo", f"local[{tasks}]", spark__sql__shuffle__partitions="2")
    finally:
        os.dup2(terminal, sys.stderr.fileno())
        os.close(terminal)


def run(spark: SparkSession, address: str, checkpoint: str, progress: Callable[[int, float], None]) -> pd.DataFrame:
    """Read all flights in micro-batches, telling `progress` of each."""
    query = (
        summed(spark, address)
        .writeStream.outputMode("complete")
        .format("memory")
        .queryName(NAME)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    told = -1
    while True:
        ended = query.awaitTermination(1)
        for batch in query.recentProgress:
            if batch["batchId"] > told:
                told = batch["batchId"]
                progress(batch["numInputRows"], batch["processedRowsPerSecond"])
        if ended:
            break
    return spark.table(NAME).toPandas()


def summed(spark: SparkSession, address: str) -> DataFrame:
    """Airline, hour and kind of weather with how many flights there were, how many departed, and their minutes.

    Left joins: an hour without weather or a code without a name loses no flight. A flight that never departed counts,
    but has no minutes. Inputs that do not stream are cached, or every micro-batch would read them again.
    """
    from pyspark.sql import functions as f

    stream = source(spark.readStream, address, "flights").option("maxOffsetsPerTrigger", RECORDS_PER_BATCH).load()
    weather = values(source(spark.read, address, "weather").load(), SCHEMAS["weather"]).cache()
    airlines = values(source(spark.read, address, "airlines").load(), SCHEMAS["airlines"]).cache()
    flights = values(stream, SCHEMAS["flights"])
    joined = flights.join(f.broadcast(weather), ["origin", "time_hour"], "left")
    named = joined.join(f.broadcast(airlines), "carrier", "left")
    return named.groupBy(
        f.coalesce("name", "carrier").alias("airline"),
        "hour",
        band(f.col("wind_speed"), WIND, (10, 20, 30)).alias("wind"),
        band(-f.col("visib"), VISIBILITY, (-9.99, -4.99, -1.99)).alias("visibility"),
        band(f.col("precip"), RAIN, (0.0001, 0.05, 0.1)).alias("rain"),
    ).agg(
        f.count("*").alias("flights"),
        f.count("dep_delay").alias("departed"),
        f.coalesce(f.sum("dep_delay"), f.lit(0)).alias("minutes"),
    )


def source(reader: Any, address: str, topic: str) -> Any:
    """The topic from its beginning, through `format("ottla")`."""
    options = {"kafka.bootstrap.servers": address, "subscribe": topic, "startingOffsets": "earliest"}
    return reader.format("ottla").options(**options)


def values(records: DataFrame, schema: str) -> DataFrame:
    """The JSON values as columns."""
    from pyspark.sql import functions as f

    return records.select(f.from_json(f.col("value").cast("string"), schema).alias("row")).select("row.*")


def band(column: Column, names: tuple[str, ...], limits: tuple[float, ...]) -> Column:
    """The band that a figure falls in: each ends below its limit, the last has none."""
    from pyspark.sql import functions as f

    chosen = f.when(column.isNull(), UNKNOWN)
    for name, limit in zip(names, limits, strict=False):
        chosen = chosen.when(column < limit, name)
    return chosen.otherwise(names[-1])


if __name__ == "__main__":
    sys.exit(main())
