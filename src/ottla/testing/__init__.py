"""A real broker inside the test process: the pytest plugin (`ottla_broker`, `ottla_topic`) and the class behind it.

    from ottla.testing import TestBroker

    with TestBroker() as broker:
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})

Next door, `broker.py` starts the broker and `plugin.py` has the fixtures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.testing.broker import TestBroker

__all__ = ["TestBroker"]


def __getattr__(name: str) -> type[TestBroker]:
    """Imports the broker where it is first asked for: every pytest run loads this package with the plugin."""
    if name != "TestBroker":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ottla.testing.broker import TestBroker

    return TestBroker
