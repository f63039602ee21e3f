"""The time of a request is counted step by step, and told once."""

from __future__ import annotations

from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.requests.thread_time import in_thread_time
from ottla.kernel.story import Slot

METADATA = 3


class Clock:
    """Quotas whose clock stands unless a story lets it go on; `counted` is the time by client."""

    def __init__(self) -> None:
        self.ns = 0
        self.running: Any = None
        self.counted: dict[str, int] = {}

    def now_ns(self) -> int:
        return self.ns

    def time(self, connection: str) -> str:
        return connection

    def spent(self, meter: str, spent_ns: int) -> None:
        self.counted[meter] = self.counted.get(meter, 0) + spent_ns

    def over_time(self, connection: str, meter: str) -> int:
        return self.counted[meter]


def begun(clock: Clock, client: str, story: Coroutine[Any, Any, Any]) -> Any:
    call = SimpleNamespace(api_key=METADATA, connection=client)
    return in_thread_time(clock, call, None, story)  # type: ignore[arg-type]


def test_waits_do_not_count_and_each_step_does() -> None:
    clock, slot = Clock(), Slot[None]()

    async def story() -> list[bytes]:
        clock.ns += 5
        await slot
        clock.ns += 7
        assert clock.running.wait_ms() == 12
        clock.ns += 1
        return []

    one = begun(clock, "a", story())
    one.send(None)
    clock.ns += 1000
    slot.fill(None)
    with pytest.raises(StopIteration):
        one.send(None)
    assert clock.counted == {"a": 13}


def test_a_story_that_another_steps_leaves_that_one_running() -> None:
    clock = Clock()

    async def inner() -> list[bytes]:
        clock.ns += 1
        return []

    async def outer() -> list[bytes]:
        mine = clock.running
        with pytest.raises(StopIteration):
            begun(clock, "b", inner()).send(None)
        assert clock.running is mine
        return []

    with pytest.raises(StopIteration):
        begun(clock, "a", outer()).send(None)
    assert clock.running is None
    assert clock.counted["b"] == 1


def test_the_time_of_a_handler_that_fails_counts() -> None:
    clock = Clock()

    async def story() -> list[bytes]:
        clock.ns += 9
        raise OSError

    with pytest.raises(OSError):
        begun(clock, "a", story()).send(None)
    assert clock.counted == {"a": 9}
