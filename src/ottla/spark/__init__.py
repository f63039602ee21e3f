"""Spark reads and writes Kafka topics here without a jar: `format("ottla")`, `session()`, and `ottla.spark.lake`."""

from ottla.spark.session import session

__all__ = ["session"]
