"""Spark reads and writes Kafka topics here without a jar: `format("ottla")`, `session()`, `write_batch()`.

The import sets PYSPARK_PYTHON to this Python where nobody has set it.
"""

from ottla.spark.each_batch import write_batch
from ottla.spark.session import session

__all__ = ["session", "write_batch"]
