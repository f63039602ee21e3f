"""Compaction, turn by turn: picks the dirtiest log, has a child compact it, swaps the result in.

`turn` is for the broker's rounds and never waits: one child runs at a time, and a later turn finds that it has ended.
"""

from __future__ import annotations

import logging
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from typing import IO, Protocol

from ottla.kernel.ids import TopicPartition
from ottla.kernel.seams import Disk
from ottla.storage import cleaning, compact_child
from ottla.storage.compaction import CompactionPlan, CompactionResult, discard, install, plan_compaction
from ottla.storage.directory import LogDirectory

log = logging.getLogger("ottla.cleaner")


class ChildFailed(Exception):
    """The compaction came to nothing; `damaged`: the log itself is at fault, and trying again is of no use."""

    def __init__(self, why: str, *, damaged: bool = False) -> None:
        super().__init__(why)
        self.damaged = damaged


class Child(Protocol):
    """One compaction under way."""

    def result(self) -> CompactionResult | None:
        """None while it runs; raises ChildFailed."""

    def stop(self) -> None: ...


class ChildProcess:
    """`compact_child.py` in a process of its own, with no descriptor of ours but its input and output."""

    def __init__(self, plan: CompactionPlan, max_bytes_per_second: float) -> None:
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the child runs
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the child runs
        with tempfile.TemporaryFile() as body:
            body.write(plan.encoded())
            body.seek(0)
            self._process = subprocess.Popen(
                compact_child.command(max_bytes_per_second),
                stdin=body,
                stdout=self._output,
                stderr=self._errors,
                close_fds=True,
            )

    def result(self) -> CompactionResult | None:
        status = self._process.poll()
        if status is None:
            return None
        output, errors = self._read(self._output), self._read(self._errors)
        if status != 0:
            raise ChildFailed(errors.decode("utf-8", "replace").strip(), damaged=status == compact_child.DAMAGED_STATUS)
        return CompactionResult.decoded(output)

    @staticmethod
    def _read(file: IO[bytes]) -> bytes:
        with file:
            file.seek(0)
            return file.read()

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._output.close()
        self._errors.close()


class InProcess:
    """The same work in slices of this process: for logs in memory, which a child could not see."""

    def __init__(self, disk: Disk, plan: CompactionPlan, slice_bytes: int = 1 << 20) -> None:
        self._steps: Iterator[cleaning.Progress | CompactionResult] = cleaning.clean(disk, plan)
        self._slice_bytes = slice_bytes

    def result(self) -> CompactionResult | None:
        done = 0
        try:
            for step in self._steps:
                if isinstance(step, CompactionResult):
                    return step
                done += step.bytes
                if done >= self._slice_bytes:
                    return None
        except cleaning.Damaged as fault:
            raise ChildFailed(str(fault), damaged=True) from fault
        raise ChildFailed("it ended without a result")

    def stop(self) -> None:
        """It has no life of its own."""


class Cleaner:
    """Compaction of one log directory."""

    def __init__(self, directory: LogDirectory, start: Callable[[CompactionPlan], Child]) -> None:
        self._directory = directory
        self._start = start
        self._place: TopicPartition | None = None
        self._plan: CompactionPlan | None = None
        self._child: Child | None = None
        self._damaged: set[TopicPartition] = set()

    @property
    def busy(self) -> bool:
        return self._child is not None

    def turn(self, now_ms: int) -> bool:
        """Take in what has ended, begin what is due; whether the next turn should come soon.

        OSError where the disk fails during a swap: the directory is to be failed.
        """
        if self._child is not None and not self._finish():
            return True
        if self._directory.failed is None:
            self._begin(now_ms)
        return self.busy

    def _begin(self, now_ms: int) -> None:
        """The log with the largest dirty share first; one past its max.compaction.lag.ms before all."""
        plans = [
            (place, plan)
            for place, opened in sorted(self._directory.logs.items())
            if place not in self._damaged
            and opened.config.compacted
            and (plan := plan_compaction(opened, cleaned_to=self._directory.cleaned_to(*place), now_ms=now_ms))
        ]
        if not plans:
            return
        self._place, self._plan = max(plans, key=lambda entry: (entry[1].must, entry[1].dirty_ratio))
        self._child = self._start(self._plan)

    def _finish(self) -> bool:
        assert self._child is not None and self._plan is not None and self._place is not None
        opened = self._directory.logs.get(self._place)
        if opened is None or opened.directory != self._plan.directory:
            self._child.stop()  # the topic was deleted
        else:
            try:
                result = self._child.result()
            except ChildFailed as fault:
                log.warning("compaction of %s failed: %s", self._place, fault)
                discard(opened, self._plan)
                if fault.damaged:
                    self._damaged.add(self._place)
            else:
                if result is None:
                    return False
                if install(opened, self._plan, result):
                    self._directory.set_cleaned_to(*self._place, result.cleaned_to)
        self._child = self._plan = self._place = None
        return True

    def stop(self) -> None:
        """Before the directory is closed; what the child left is removed at the next opening."""
        if self._child is not None:
            self._child.stop()
            self._child = None
