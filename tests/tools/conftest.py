"""Fixtures for tests of the tree's own text."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(scope="module", autouse=True)
def nothing_left_over() -> None:
    """Free what earlier tests of this worker left.

    Python 3.11 raises SystemError if it ends a coroutine while `ast` builds a tree (CPython's issue 106905).
    """
    gc.collect()
