"""Imports the fixtures of the pipeline from tests/spark_rig.py."""

from tests.spark_rig import bootstrap, topics

__all__ = ["bootstrap", "topics"]
