"""A broker for all tests here, and a registry of its own topic for each."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from ottla.registry.server import RegistryThread
from ottla.testing import TestBroker

_names = itertools.count()


@pytest.fixture(scope="session")
def registry_broker() -> Iterator[TestBroker]:
    with TestBroker() as broker:
        yield broker


@pytest.fixture
def topic() -> str:
    """The name of a registry's topic that no other test uses."""
    return f"_schemas-{next(_names)}"


@pytest.fixture
def registry(registry_broker: TestBroker, topic: str) -> Iterator[RegistryThread]:
    with RegistryThread(registry_broker.bootstrap_servers, port=0, topic=topic) as running:
        yield running
