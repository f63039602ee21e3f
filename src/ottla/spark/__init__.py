"""Spark reads and writes Kafka topics here without a jar: `format("ottla")`, and `session()`."""

from ottla.spark.session import session

__all__ = ["session"]
