"""Ends worlds within their own test, so that suspended stories are not finalized during a later one."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def worlds_end_here() -> Iterator[None]:
    """Python 3.11 fails to parse source while a collection runs the `finally` of a suspended story."""
    gc.freeze()  # so that the collection looks at what this test has made, not at all that the suite holds
    yield
    gc.collect()
    gc.unfreeze()
