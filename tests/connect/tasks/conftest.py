"""A broker in this process for the tests of this room that need one."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest

from ottla.testing import TestBroker

_names = itertools.count()


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    with TestBroker() as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def name() -> str:
    """A name for a topic or a connector that no other test uses."""
    return f"t{os.getpid()}-{next(_names)}"
