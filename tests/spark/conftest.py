"""What tests of the pipeline share stands in tests/pipeline.py."""

from tests.pipeline import bootstrap, eventually, spark, spark_session, topics

__all__ = ["bootstrap", "eventually", "spark", "spark_session", "topics"]
