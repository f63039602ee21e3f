"""Examples as modules, and one broker for all of them."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from ottla.testing import TestBroker

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="session")
def example() -> Callable[[str], ModuleType]:
    """A file of an example, imported under a name of its own."""

    def imported(path: str) -> ModuleType:
        name = "example_" + path.removesuffix(".py").replace("/", "_")
        if name not in sys.modules:
            spec = importlib.util.spec_from_file_location(name, EXAMPLES / path)
            assert spec is not None
            assert spec.loader is not None
            sys.modules[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(sys.modules[name])
        return sys.modules[name]

    return imported


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    options = {"group.min.session.timeout.ms": 100, "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100}
    with TestBroker(options) as made:
        yield made
