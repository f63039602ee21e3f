"""Runs compactions in a child process, started by exec so that it shares no lock with the broker (rule C7)."""

from __future__ import annotations

import asyncio
import logging

from ottla.kernel.story import Slot
from ottla.storage.compact_child import DAMAGED_STATUS, command
from ottla.storage.compaction import CompactionPlan, CompactionResult

log = logging.getLogger("ottla.compaction")


class CompactionChild:
    """`broker.compactor.CompactionWork` by a process for each run."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None

    def run(self, plan: CompactionPlan, *, max_bytes_per_second: float) -> Slot[CompactionResult | None]:
        slot: Slot[CompactionResult | None] = Slot()
        self._task = self._loop.create_task(self._run(plan, max_bytes_per_second, slot))
        return slot

    def stop(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
        if self._task is not None:
            self._task.cancel()

    async def _run(self, plan: CompactionPlan, rate: float, slot: Slot[CompactionResult | None]) -> None:
        pipe = asyncio.subprocess.PIPE
        try:
            process = self._process = await asyncio.create_subprocess_exec(
                *command(rate), stdin=pipe, stdout=pipe, stderr=pipe, close_fds=True
            )
            output, errors = await process.communicate(plan.encoded())
        except Exception as error:  # whoever waits must hear of it, or nothing is compacted any more
            slot.fail(error if isinstance(error, OSError) else OSError(f"the compaction process: {error!r}"))
            return
        why = errors.decode("utf-8", "replace").strip()
        if process.returncode == 0:
            try:
                result = CompactionResult.decoded(output)
            except Exception as fault:  # whoever waits must hear of it
                slot.fail(OSError(f"the compaction process said what it should not: {fault!r}"))
            else:
                slot.fill(result)
        elif process.returncode == DAMAGED_STATUS:
            log.error("%s is not compacted: %s", plan.directory, why)
            slot.fill(None)
        else:
            slot.fail(OSError(f"the compaction process ended with {process.returncode}: {why[-500:]}"))
