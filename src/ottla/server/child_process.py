"""A child process for work on files, started by exec so that it shares no lock with the broker (rule C7).

compaction_child.py and scrub_child.py come here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from ottla.kernel.story import Slot


class ChildEnded(NamedTuple):
    """The end of a child process: its status and its output."""

    status: int
    output: bytes
    errors: str


class ChildProcess:
    """Runs one child process at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None

    def run(self, command: Sequence[str], told: bytes) -> Slot[ChildEnded]:
        """Start a command with `told` on its standard input; OSError if that fails."""
        slot: Slot[ChildEnded] = Slot()
        self._task = self._loop.create_task(self._run(command, told, slot))
        return slot

    def stop(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
        if self._task is not None:
            self._task.cancel()

    async def _run(self, command: Sequence[str], told: bytes, slot: Slot[ChildEnded]) -> None:
        pipe = asyncio.subprocess.PIPE
        try:
            process = self._process = await asyncio.create_subprocess_exec(
                *command, stdin=pipe, stdout=pipe, stderr=pipe, close_fds=True
            )
            output, errors = await process.communicate(told)
        except Exception as error:  # else the slot would stay empty for ever
            slot.fail(error if isinstance(error, OSError) else OSError(f"a child process: {error!r}"))
            return
        assert process.returncode is not None
        slot.fill(ChildEnded(process.returncode, output, errors.decode("utf-8", "replace").strip()))
