"""Imports the fixtures of the pipeline from tests/spark_rig.py."""

from tests.spark_rig import bootstrap, eventually, spark, spark_session, topics

__all__ = ["bootstrap", "eventually", "spark", "spark_session", "topics"]
