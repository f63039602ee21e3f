"""Spark reads and writes Kafka topics here without a jar: `format("ottla")`, `session()`, `write_batch()`."""

from ottla.spark.each_batch import write_batch
from ottla.spark.session import session

__all__ = ["session", "write_batch"]
