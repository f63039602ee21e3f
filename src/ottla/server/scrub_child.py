"""Checks closed segments in a child process (child_process.py)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ottla.kernel.story import Slot
from ottla.server.child_process import ChildEnded, ChildProcess
from ottla.storage.maintenance.scrub import ScrubFinding, decode_findings, encode_segments
from ottla.storage.maintenance.scrub_child import command
from ottla.storage.segment.closed import ClosedSegment


class ScrubChild:
    """`broker.scrubber.ScrubWork` by a process for each run."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._child = ChildProcess(loop)

    def run(self, segments: Sequence[ClosedSegment], *, max_bytes_per_second: float) -> Slot[list[ScrubFinding]]:
        slot: Slot[list[ScrubFinding]] = Slot()
        ended = self._child.run(command(max_bytes_per_second), encode_segments(segments))
        ended.when_full(lambda: _take(ended, slot))
        return slot

    def stop(self) -> None:
        self._child.stop()


def _take(ended: Slot[ChildEnded], slot: Slot[list[ScrubFinding]]) -> None:
    try:
        status, output, why = ended.result()
    except OSError as error:
        slot.fail(error)
        return
    if status != 0:
        slot.fail(OSError(f"the scrub's process ended with {status}: {why[-500:]}"))
        return
    try:
        findings = decode_findings(output)
    except Exception as fault:  # else the slot would stay empty for ever
        slot.fail(OSError(f"the scrub's process printed an unexpected answer: {fault!r}"))
    else:
        slot.fill(findings)
