"""Requests that reach a shard while it still loads. They wait for it, as most loads end within some milliseconds.

A client that is told COORDINATOR_LOAD_IN_PROGRESS sleeps before it asks again: Java's for a tenth of a second, and
longer each time. Used by shard_runner.py.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Generic, NamedTuple, TypeVar

from ottla.broker.waiting import Deadline, Deadlines
from ottla.kernel.errors import ErrorCode
from ottla.kernel.story import Slot

PATIENCE_MS = 1000
"""The longest time, from the beginning of a leadership on, for which requests wait: a load that takes longer may wait
for other brokers or for a repair."""

D = TypeVar("D")


class EarlyAsk(NamedTuple, Generic[D]):
    """A request, and the slot for its answer."""

    decide: D
    slot: Slot[Any]


class EarlyAsks(Generic[D]):
    """The requests of one shard that wait until it serves, in the order in which they came."""

    def __init__(self, deadlines: Deadlines) -> None:
        self._waiting: deque[EarlyAsk[D]] = deque()
        self._patience: Deadline | None = deadlines.after(PATIENCE_MS, self._refuse)

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, decide: D) -> Slot[Any]:
        """The slot for the answer to a request; filled with COORDINATOR_LOAD_IN_PROGRESS once patience has ended."""
        slot: Slot[Any] = Slot()
        self._waiting.append(EarlyAsk(decide, slot))
        if self._patience is None:
            self._refuse()
        return slot

    def serve(self) -> None:
        """The shard serves: requests that wait are not refused any more."""
        if self._patience is not None:
            self._patience.cancel()

    def take(self) -> EarlyAsk[D] | None:
        """The request that has waited longest; None if none waits."""
        return self._waiting.popleft() if self._waiting else None

    def _refuse(self) -> None:
        self._patience = None
        while self._waiting:
            self._waiting.popleft().slot.fill(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
