"""Spark imports every `pyspark_*` module on its path and registers the `DefaultSource` in it: `format("ottla")`."""

from ottla.spark.source import OttlaDataSource as DefaultSource

__all__ = ["DefaultSource"]
