"""A caller of the seam that acts like a broker: it asks again, and settles unknown outcomes by reading."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TypeVar

from ottla.kernel.ids import BrokerId
from ottla.kernel.seams import Conflict, Coordination, LogEntry, StoredSnapshot, Unknown, Written
from ottla.kernel.story import Slot, run_story

T = TypeVar("T")
_MARK = struct.Struct(">QQ")


class Careful:
    """Puts a mark in front of its entries, by which it finds them again (rule C1); readers do not see it."""

    def __init__(self, way: Coordination, number: int) -> None:
        self.way = way
        self.name = way.name
        self._number = number
        self._sequence = 0

    def append(self, entries: Sequence[bytes], expected_version: int) -> Slot[Written | Conflict | Unknown]:
        self._sequence += 1
        mark = _MARK.pack(self._number, self._sequence)
        return run_story(self._append([mark + entry for entry in entries], expected_version))

    async def _append(self, marked: list[bytes], expected: int) -> Written | Conflict:
        while True:
            outcome: Written | Conflict | Unknown = Unknown("nothing was sent")
            try:
                outcome = await self.way.append(marked, expected)
            except OSError:
                continue
            if isinstance(outcome, Written):
                return outcome
            after = await self._again(lambda: self.way.read(expected))
            if after and after[0].body == marked[0]:
                return Written(expected + len(marked))
            if isinstance(outcome, Conflict):
                return outcome
            if after:
                return Conflict(after[-1].version)

    def read(self, after_version: int, limit: int = 1000) -> Slot[list[LogEntry]]:
        return run_story(self._read(after_version, limit))

    async def _read(self, after_version: int, limit: int) -> list[LogEntry]:
        entries = await self._again(lambda: self.way.read(after_version, limit))
        return [LogEntry(version, body[_MARK.size :]) for version, body in entries]

    def head(self) -> Slot[int]:
        return run_story(self._again(self.way.head))

    def raise_age(self, name: str, age: int) -> Slot[int]:
        return run_story(self._again(lambda: self.way.raise_age(name, age)))

    def load_snapshot(self) -> Slot[StoredSnapshot | None]:
        return run_story(self._again(self.way.load_snapshot))

    def save_snapshot(self, snapshot: StoredSnapshot) -> Slot[None]:
        return run_story(self._again(lambda: self.way.save_snapshot(snapshot)))

    async def _again(self, ask: Callable[[], Slot[T]]) -> T:
        while True:
            try:
                return await ask()
            except OSError:
                continue

    def on_change(self, listener: Callable[[], None]) -> None:
        self.way.on_change(listener)

    def live(self) -> frozenset[BrokerId]:
        return self.way.live()

    def close(self) -> None:
        self.way.close()
