"""The folder of a task's state: a delta for every step, now and then a snapshot; old files go.

Files are written under their names at once or not at all, and are durable when `write` returns.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from ottla.streams.state.files import Changes, StateDamaged, StateFile, Step, pack, snapshot, told, unpack
from ottla.streams.stores import Store

KEPT_BATCHES = 100
"""Spark keeps so many batches by default, and so does the state; going on needs the last one alone."""
LEAST_ENTRIES = 1_000
"""Deltas of fewer entries than this are never worth a snapshot."""
_log = logging.getLogger("ottla.streams")


class Found(Protocol):
    """One file in a listing."""

    @property
    def name(self) -> str: ...
    @property
    def bytes(self) -> int: ...


class Files(Protocol):
    """The calls of a store that state needs (`ottla.stores`)."""

    def create(self, name: str, body: bytes) -> bool: ...
    def replace(self, name: str, body: bytes) -> None: ...
    def read(self, name: str) -> bytes | None: ...
    def entries(self, prefix: str) -> list[Any]: ...
    def remove(self, names: Iterable[str]) -> None: ...


class Kept(NamedTuple):
    """The state of a task after a step. `unsaved`: entries in deltas since the snapshot, which decide on the next."""

    step: Step | None
    told: dict[str, Any]
    unsaved: int


NOTHING = Kept(None, {}, 0)


class StateFolder:
    """One task's files."""

    def __init__(self, files: Files, prefix: str) -> None:
        self._files, self._prefix = files, prefix.rstrip("/") + "/"

    def restore(
        self, step: Step, stores: Mapping[str, Store], take: Callable[[Changes], None], *, held: Kept, first: bool
    ) -> Kept:
        """Hand the entries before a step to `take`, after those that are `held` already; returns what is held then.

        `first`: the step is the task's first one in its batch. StateDamaged where a file is missing.
        """
        names = _steps(entry.name for entry in self._files.entries(self._prefix))
        known = sorted({name for name in names if name < step} | ({held.step} if held.step else set()), reverse=True)
        chain, at = [], held
        for each in known:
            if each == held.step:
                break
            name, whole = names[each]
            if whole and held.step is not None:
                # The rows that are held may be deleted since, and a snapshot has no entries for those.
                name, whole = name.removesuffix("snap") + "delta", False
            chain.append(name)
            if whole:
                break
        for name in reversed(chain):
            file, parts = unpack(self._bytes(name), stores, name)
            if file.before is not None and file.before != at.step:
                raise StateDamaged(f"{name} follows step {file.before}, and step {at.step} was found before it")
            count = 0
            for changes in parts:
                take(changes)
                count += sum(map(len, changes.values()))
            at = Kept(file.step, dict(file.told), 0 if file.before is None else at.unsaved + count)
        expected = step.batch - 1 if first else step.batch
        if at.step is None and not stores:
            return at  # a task without stores may be one that needed no times before
        if step.batch + (not first) > 0 and (at.step is None or at.step.batch != expected):
            raise StateDamaged(
                f"batch {step.batch} needs the state of batch {expected}, and the last one in {self._prefix} is "
                f"{'missing' if at.step is None else f'of batch {at.step.batch}'}: checkpoint and state belong "
                "together; copy both, or reset the application"
            )
        return at

    def write(
        self, step: Step, held: Kept, changes: Changes, stores: Mapping[str, Store], told: Mapping[str, Any], times: Any
    ) -> Kept:
        """Make a step durable; a snapshot goes with it where the deltas outweigh the state."""
        count = sum(map(len, changes.values()))
        unsaved, live = held.unsaved + count, sum(map(len, stores.values()))
        self._put(step, pack(StateFile(step, held.step, changes, told), stores))
        if unsaved > max(live, LEAST_ENTRIES):
            seen: Changes = {"": {(name,): time for name, time in times.items()}}
            self._files.replace(f"{self._prefix}{step}.snap", snapshot(StateFile(step, None, seen, told), stores))
            self._clean(step)
            unsaved = 0
        return Kept(step, dict(told), unsaved)

    def newest(self, stores: Mapping[str, Store], take: Callable[[Changes], None]) -> Kept:
        """Hand the newest entries to `take`, those of a batch at work too; for whoever only reads."""
        names = _steps(entry.name for entry in self._files.entries(self._prefix))
        if not names:
            return NOTHING
        last = max(names)
        return self.restore(Step(last.batch, last.level + 1), stores, take, held=NOTHING, first=False)

    def told(self) -> tuple[Step, dict[str, Any], int] | None:
        """The last step with its counters, and the bytes of all files; None for a task that has not run."""
        entries = self._files.entries(self._prefix)
        names = _steps(entry.name for entry in entries)
        if not names:
            return None
        last = max(names)
        name, _ = names[last]
        return last, told(self._bytes(name), name), sum(entry.bytes for entry in entries)

    def _bytes(self, name: str) -> bytes:
        data = self._files.read(name)
        if data is None:
            raise StateDamaged(f"{name} is gone: another run of the application may have removed it")
        return data

    def _put(self, step: Step, body: bytes) -> None:
        """Write a delta. A repeated step replaces one that differs, as after a function was mended."""
        name = f"{self._prefix}{step}"
        if not self._files.create(name + ".delta", body):
            _log.warning("%s.delta is replaced: the step was done before with another result", name)
            self._files.remove([name + ".snap"])
            self._files.replace(name + ".delta", body)

    def _clean(self, step: Step) -> None:
        """Remove what only batches need that are older than those kept."""
        entries = [entry.name for entry in self._files.entries(self._prefix)]
        snapshots = [found for name in entries if (found := _step_of(name)) and name.endswith(".snap")]
        base = max((found for found in snapshots if found.batch <= step.batch - KEPT_BATCHES), default=None)
        if base is not None:
            old = [name for name in entries if (found := _step_of(name)) and found < base]
            self._files.remove([*old, f"{self._prefix}{base}.delta"])


def _step_of(name: str) -> Step | None:
    number, _, kind = name.rpartition("/")[2].rpartition(".")
    batch, _, level = number.partition(".")
    if kind not in ("delta", "snap") or not batch.isdecimal() or not level.isdecimal():
        return None
    return Step(int(batch), int(level))


def _steps(names: Iterable[str]) -> dict[Step, tuple[str, bool]]:
    """The file of each step that there is; a snapshot goes before a delta."""
    found: dict[Step, tuple[str, bool]] = {}
    for name in names:
        step = _step_of(name)
        if step is not None and (step not in found or name.endswith(".snap")):
            found[step] = name, name.endswith(".snap")
    return found
