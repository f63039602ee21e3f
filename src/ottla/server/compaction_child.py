"""Runs compactions in a child process (child_process.py)."""

from __future__ import annotations

import asyncio
import logging

from ottla.kernel.story import Slot
from ottla.server.child_process import ChildEnded, ChildProcess
from ottla.storage.maintenance.compact_child import DAMAGED_STATUS, command
from ottla.storage.maintenance.compaction import CompactionPlan, CompactionResult

log = logging.getLogger("ottla.compaction")


class CompactionChild:
    """`broker.compactor.CompactionWork` by a process for each run."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._child = ChildProcess(loop)

    def run(self, plan: CompactionPlan, *, max_bytes_per_second: float) -> Slot[CompactionResult | None]:
        slot: Slot[CompactionResult | None] = Slot()
        ended = self._child.run(command(max_bytes_per_second), plan.encoded())
        ended.when_full(lambda: _take(ended, plan, slot))
        return slot

    def stop(self) -> None:
        self._child.stop()


def _take(ended: Slot[ChildEnded], plan: CompactionPlan, slot: Slot[CompactionResult | None]) -> None:
    try:
        status, output, why = ended.result()
    except OSError as error:
        slot.fail(error)
        return
    if status == 0:
        try:
            result = CompactionResult.decoded(output)
        except Exception as fault:  # else the slot would stay empty for ever
            slot.fail(OSError(f"the compaction process printed an unexpected answer: {fault!r}"))
        else:
            slot.fill(result)
    elif status == DAMAGED_STATUS:
        log.error("%s is not compacted: %s", plan.directory, why)
        slot.fill(None)
    else:
        slot.fail(OSError(f"the compaction process ended with {status}: {why[-500:]}"))
