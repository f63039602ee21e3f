"""The session of Spark that the tests of this room share."""

from tests.spark_rig import spark, spark_session

__all__ = ["spark", "spark_session"]
