"""A callback of the loop that raises: a broken invariant stops the broker, any other fault is logged."""

from __future__ import annotations

import pytest

from ottla.kernel.errors import InvariantBroken
from ottla.testing import TestBroker


@pytest.mark.parametrize(
    ("fault", "stops"), [(InvariantBroken("two segments overlap"), True), (AssertionError("a bug"), False)]
)
def test_of_what_a_callback_raises_only_a_broken_invariant_stops_the_broker(fault: Exception, stops: bool) -> None:
    with TestBroker() as broker:
        server = broker._running()
        broker.call(lambda: server.callback_failed(server._loop, {"message": "a callback", "exception": fault}))
        fatal = broker.call(lambda: server.fatal)
    assert fatal is None if not stops else "InvariantBroken: two segments overlap" in (fatal or "")
