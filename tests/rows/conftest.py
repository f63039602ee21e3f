"""Imports the fixtures of the pipeline from tests/pipeline.py."""

from tests.spark_rig import bootstrap, topics

__all__ = ["bootstrap", "topics"]
