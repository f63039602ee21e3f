"""The example of a topic as a dict in several processes."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from ottla.testing import TestBroker


def test_every_cache_ends_with_what_was_written(broker: TestBroker, example: Callable[[str], ModuleType]) -> None:
    prices = example("cache_sync/prices.py")
    prices.prepare(broker.bootstrap_servers)
    with prices.table(broker.bootstrap_servers) as one, prices.table(broker.bootstrap_servers) as other:
        written = prices.write(broker.bootstrap_servers, 300, a_second=100_000)
        for cache in (one, other):
            cache.wait_until_caught_up(60)
            assert cache.snapshot() == written
    assert "<polyline" in prices.svg([1.0, 2.0, 3.0])
