"""Imports the fixtures of the pipeline from tests/pipeline.py."""

from tests.pipeline import bootstrap, topics

__all__ = ["bootstrap", "topics"]
