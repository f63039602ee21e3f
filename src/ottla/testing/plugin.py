"""The pytest plugin, found through its entry point: `kafka`, one broker for the session, and `kafka_topic`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.testing.broker import TestBroker


@pytest.fixture(scope="session")
def kafka() -> Iterator[TestBroker]:
    """A broker in memory for all tests of the session; `kafka.bootstrap_servers` is its address."""
    with TestBroker() as broker:
        yield broker


@pytest.fixture
def kafka_topic(kafka: TestBroker, request: pytest.FixtureRequest) -> str:
    """A name no other test uses. The topic comes into being when a client first asks for it."""
    name = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in request.node.name)
    return kafka.new_topic_name(name[:200])
