"""Spark's executors as workers of a job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ottla.rows.workers import THIS_MACHINE, Given, Made

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Executors:
    """Runs each task as one of Spark's."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        local = str(self._context.master).startswith("local")
        self.host: str = THIS_MACHINE if local else self._context.getConf().get("spark.driver.host") or THIS_MACHINE

    @property
    def count(self) -> int:
        return int(self._context.defaultParallelism)

    def map(self, work: Callable[[Given], Made], given: Sequence[Given]) -> list[Made]:
        return list(self._context.parallelize(given, len(given)).map(work).collect())
