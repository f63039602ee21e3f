"""Commands of this broker on their way into the metadata log, in the order in which they are decided (rule A4)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain
from typing import NamedTuple

from ottla.broker.waiting import Deadlines
from ottla.cluster.command_order import goes_first, sharing
from ottla.cluster.commands import Command
from ottla.cluster.footprints import Footprint
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.story import Slot
from ottla.metadata.entries import Body

APPEND_COMMANDS = 200
"""The most commands in one append: deciding a thousand topics in one turn would stall the loop."""
_APPEND_BYTES = 512 * 1024


class Applied(NamedTuple):
    """A command is done and its entries are applied here, from `first_version` on; None if nothing had to change."""

    first_version: int
    entries: tuple[Body, ...]


Outcome = Applied | ApiError


class Pending:
    """A command on its way into the log."""

    __slots__ = ("bodies", "command", "data", "deadline", "slot")

    def __init__(self, command: Command, deadlines: Deadlines, timeout_ms: int) -> None:
        self.command = command
        self.slot: Slot[Outcome] = Slot()
        self.bodies: list[Body] = []
        self.data: list[bytes] = []
        self.deadline = deadlines.after(timeout_ms, self._time_out)

    def _time_out(self) -> None:
        """End the wait for a command that is on its way into the log: it may still happen."""
        self.slot.fill(ApiError(ErrorCode.REQUEST_TIMED_OUT))


class CommandQueue:
    """Commands in two queues: those that others wait for go first; each queue keeps the order of arrival."""

    def __init__(self) -> None:
        self._urgent: deque[Pending] = deque()
        self._others: deque[Pending] = deque()

    def __bool__(self) -> bool:
        return bool(self._urgent or self._others)

    def __iter__(self) -> Iterator[Pending]:
        return chain(self._urgent, self._others)

    def put(self, pending: Pending) -> None:
        self._lane(pending).append(pending)

    def remove(self, pending: Pending) -> None:
        self._lane(pending).remove(pending)

    def take_all(self) -> Iterator[Pending]:
        for lane in (self._urgent, self._others):
            while lane:
                yield lane.popleft()

    def first_decided(
        self, decide: Callable[[Command], list[Body] | ApiError], encode: Callable[[Body], bytes]
    ) -> list[Pending]:
        """The first commands that may share one append, with their entries, encoded; none where the first of all needs
        no entry."""
        batch: list[Pending] = []
        footprints: set[Footprint] = set()
        shared = size = 0
        for pending in self:
            if pending.slot.full:
                break
            kind, footprint = sharing(pending.command), pending.command.footprint
            full = size >= _APPEND_BYTES or len(batch) >= APPEND_COMMANDS
            if batch and (full or kind != shared or not kind or footprint in footprints):
                break
            decided = decide(pending.command)
            if isinstance(decided, ApiError) or not decided:
                break
            data = [encode(body) for body in decided]
            size += sum(map(len, data))
            if batch and size > _APPEND_BYTES:
                break
            pending.bodies, pending.data = decided, data
            shared = kind
            footprints.add(footprint)
            batch.append(pending)
        return batch

    def _lane(self, pending: Pending) -> deque[Pending]:
        return self._urgent if goes_first(pending.command) else self._others
