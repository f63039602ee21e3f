"""The pytest plugin, found through its entry point: `ottla_broker`, one broker for the session, and `ottla_topic`;
`kafka` and `kafka_topic` are shorter names of both.

Every pytest run of the environment loads this file, so it imports the broker only where a test asks for one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ottla.testing.broker import TestBroker

_LONGEST_NAME = 200
_broker: pytest.StashKey[TestBroker] = pytest.StashKey()


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Keep pytest from rewriting the broker's asserts, as it does for whatever a package with a plugin holds.

    Tests would meet another broker than the one that runs, and wait for it: its first start takes twice as long.
    """
    hook = getattr(early_config.pluginmanager, "rewrite_hook", None)
    for name in ("_must_rewrite", "_marked_for_rewrite_cache"):
        marked: set[str] | dict[str, bool] | None = getattr(hook, name, None)
        if isinstance(marked, set):
            marked.discard("ottla")
        elif marked is not None:
            marked.clear()


@pytest.fixture(scope="session")
def ottla_broker(request: pytest.FixtureRequest) -> Iterator[TestBroker]:
    """A broker in memory for all tests of the session; `ottla_broker.bootstrap_servers` is its address.

    Faults that a test asked for and did not use up end with that test.

        from ottla.client import Producer


        def test_an_order_is_written(ottla_broker):
            with Producer(ottla_broker.bootstrap_servers) as producer:
                producer.produce("orders", "one book")
            assert ottla_broker.records("orders")[-1].value == b"one book"
    """
    from ottla.testing.broker import TestBroker

    with TestBroker() as broker:
        request.config.stash[_broker] = broker
        yield broker
        del request.config.stash[_broker]


@pytest.fixture
def ottla_topic(ottla_broker: TestBroker, request: pytest.FixtureRequest) -> str:
    """A name that no other test uses. The topic comes into being when a client first asks for it.

    It begins with the test's own name, as far as that may be a topic's.

        def test_a_topic_begins_empty(ottla_broker, ottla_topic):
            with Producer(ottla_broker.bootstrap_servers) as producer:
                assert producer.produce(ottla_topic, "one book").result(timeout=10).offset == 0
    """
    name = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in request.node.name)
    return ottla_broker.new_topic_name(name[:_LONGEST_NAME])


@pytest.fixture(scope="session")
def kafka(ottla_broker: TestBroker) -> TestBroker:
    """The same as `ottla_broker`, for tests that do not `import kafka`.

    A parameter of that name would hide the module.

        def test_an_order_is_written_here_too(kafka):
            with Producer(kafka.bootstrap_servers) as producer:
                assert producer.produce("orders", "one book").result(timeout=10).offset >= 0
    """
    return ottla_broker


@pytest.fixture
def kafka_topic(ottla_topic: str) -> str:
    """The same as `ottla_topic`.

    It goes with `kafka`.

        def test_a_topic_begins_empty_here_too(kafka, kafka_topic):
            assert kafka.records(kafka_topic) == []
    """
    return ottla_topic


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """After the test's own fixtures: no fault goes on into the next test."""
    broker = item.config.stash.get(_broker, None)
    if broker is not None:
        broker.heal()
