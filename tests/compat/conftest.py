"""The broker of a client test: one in this process, an `ottla start`, or the one at a given address.

Tests marked `compat` run only when the mark is asked for (`-m compat`); `tools/compat.py` does, against ottla and
against Apache Kafka, whose address it puts into OTTLA_COMPAT_BOOTSTRAP.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest
from ottla_process import TemporaryBroker

from ottla.testing import TestBroker

GIVEN = "OTTLA_COMPAT_BOOTSTRAP"
_names = itertools.count()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests that only `make compat` runs."""
    if "compat" in config.getoption("markexpr", ""):
        return
    later = [item for item in items if "compat" in item.keywords and item.get_closest_marker("compat")]
    if later:
        config.hook.pytest_deselected(items=later)
        items[:] = [item for item in items if item not in set(later)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test against the given broker, else against one in this process and one `ottla start`."""
    if "bootstrap" in metafunc.fixturenames:
        marked = metafunc.definition.get_closest_marker("compat") is not None
        places = ["given"] if GIVEN in os.environ else ["process"] if marked else ["in-process", "process"]
        metafunc.parametrize("bootstrap", places, indirect=True, scope="session")


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    """The value for a client's `bootstrap.servers`."""
    if request.param == "given":
        yield os.environ[GIVEN]
    elif request.param == "process":
        with TemporaryBroker() as process:
            yield process.bootstrap
    else:
        with TestBroker() as broker:
            yield broker.bootstrap_servers


@pytest.fixture
def name() -> str:
    """A name for a topic or a group that no other test uses, nor an earlier run against the same broker."""
    return f"t{os.getpid()}-{next(_names)}"
