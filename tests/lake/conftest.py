"""What tests of the pipeline share stands in tests/pipeline.py; here what loads a lake in this process."""

from __future__ import annotations

import pytest
from tests.pipeline import bootstrap, eventually, spark, topics

from ottla import lake

__all__ = ["bootstrap", "eventually", "load", "spark", "topics"]


@pytest.fixture
def load(spark, bootstrap, tmp_path):  # type: ignore[no-untyped-def]
    """`load("topic", json=True)` into tmp_path / "lake"; `load.told` is what it said."""
    told: list[str] = []

    def run(*names, to=tmp_path / "lake", **options):  # type: ignore[no-untyped-def]
        loaded = lake.load(names, to=to, bootstrap=bootstrap, spark=spark, tell=told.append, **options)
        assert loaded.adds_up
        return loaded

    run.told = told  # type: ignore[attr-defined]
    return run
