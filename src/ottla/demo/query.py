"""One streaming query: departures joined with weather and airlines, their delays summed as they come.

Comes from produce.py; what it answers goes to delays.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pandas as pd

from ottla.demo.delays import RAIN, UNKNOWN, VISIBILITY, WIND
from ottla.demo.flights import Events

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

RECORDS_PER_BATCH = 85_000
NAME = "delays"

Progress = Callable[[int, float], None]
"""Told after each micro-batch: its rows, and rows a second."""


def run(
    spark: SparkSession,
    address: str,
    topics: dict[str, Events],
    checkpoint: str,
    progress: Callable[[int, float], None],
) -> pd.DataFrame:
    """Read all flights in micro-batches, telling `progress` of each."""
    query = (
        summed(spark, address, topics)
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


def summed(spark: SparkSession, address: str, topics: dict[str, Events]) -> DataFrame:
    """Airline, hour and kind of weather with how many flights there were, how many departed, and their minutes.

    Left joins: an hour without weather or a code without a name loses no flight. A flight that never departed counts,
    but has no minutes. Inputs that do not stream are cached, or every micro-batch would read them again.
    """
    from pyspark.sql import functions as f

    stream = source(spark.readStream, address, "flights").option("maxOffsetsPerTrigger", RECORDS_PER_BATCH).load()
    weather = values(source(spark.read, address, "weather").load(), topics["weather"]).cache()
    airlines = values(source(spark.read, address, "airlines").load(), topics["airlines"]).cache()
    flights = values(stream, topics["flights"])
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


def values(records: DataFrame, events: Events) -> DataFrame:
    """The JSON values as columns."""
    from pyspark.sql import functions as f

    return records.select(f.from_json(f.col("value").cast("string"), events.schema).alias("row")).select("row.*")


def band(column: Column, names: tuple[str, ...], limits: tuple[float, ...]) -> Column:
    """The band that a figure falls in: each ends below its limit, the last has none."""
    from pyspark.sql import functions as f

    chosen = f.when(column.isNull(), UNKNOWN)
    for name, limit in zip(names, limits, strict=False):
        chosen = chosen.when(column < limit, name)
    return chosen.otherwise(names[-1])
