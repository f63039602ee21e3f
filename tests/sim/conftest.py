"""Worlds end within their own test: what they leave suspended is not finalized in the middle of something else."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def worlds_end_here() -> Iterator[None]:
    """Python 3.11 fails to parse source while a collection runs the `finally` of a suspended story."""
    yield
    gc.collect()
