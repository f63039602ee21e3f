"""The log to compact next, and the swap when it is done: one at a time, by how dirty they are.

Called by rounds.py. The work itself happens behind `CompactionWork`: in a child process (server/compaction_child.py),
or in turns of the loop if the disk is memory or simulated.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from ottla.kernel.seams import Clock, Disk
from ottla.kernel.story import Slot, run_story
from ottla.storage.log import FULL_DISK
from ottla.storage.maintenance.cleaning import CleanedBytes, Damaged, clean
from ottla.storage.maintenance.compaction import CompactionPlan, CompactionResult, discard, install, plan_compaction

if TYPE_CHECKING:
    from ottla.broker.environment import Environment
    from ottla.broker.replicas.partition import Partition
    from ottla.broker.replicas.reconcile import Replicas

log = logging.getLogger("ottla.compaction")
_TURN_BYTES = 256 << 10
PUT_OFF_MS = 600_000
"""The time for which a log is not compacted again after a failure other than damage in the log."""


class CompactionWork(Protocol):
    """Does a plan's work somewhere; returns None if the log is damaged, raises OSError if the disk failed."""

    def run(self, plan: CompactionPlan, *, max_bytes_per_second: float) -> Slot[CompactionResult | None]: ...

    def stop(self) -> None:
        """End a running compaction; its files are removed when the log is next opened."""


class InTurns:
    """Compacts on the broker's own loop, some bytes a turn."""

    def __init__(self, disk: Disk, clock: Clock) -> None:
        self._disk = disk
        self._clock = clock
        self._stopped = False

    def run(self, plan: CompactionPlan, *, max_bytes_per_second: float) -> Slot[CompactionResult | None]:
        slot: Slot[CompactionResult | None] = Slot()
        self._turn(clean(self._disk, plan), slot)
        return slot

    def stop(self) -> None:
        self._stopped = True

    def _turn(self, steps: Iterator[CleanedBytes | CompactionResult], slot: Slot[CompactionResult | None]) -> None:
        left = _TURN_BYTES
        try:
            for step in steps:
                if isinstance(step, CompactionResult):
                    slot.fill(step)
                    return
                left -= step.bytes
                if left <= 0:
                    break
        except Damaged:
            slot.fill(None)
        except OSError as error:
            slot.fail(error)
        else:
            if not self._stopped:
                self._clock.call_soon(lambda: self._turn(steps, slot))


class Compactor:
    """Looks for the dirtiest log from time to time, and goes on without a pause while there is one."""

    def __init__(
        self,
        around: Environment,
        replicas: Replicas,
        work: CompactionWork,
        suspect: Callable[[Partition, int | None], None],
    ) -> None:
        """`suspect` is called with a log in which compaction found a bad batch."""
        self._around = around
        self._replicas = replicas
        self._suspect = suspect
        self._work = work
        self._busy = False
        self._stopped = False
        self._working_on: Partition | None = None
        self._damaged: dict[tuple[bytes, int], int] = {}
        self._put_off: dict[tuple[bytes, int], int] = {}
        self.compacted_bytes = 0
        self.runs = 0

    def round(self) -> None:
        """Begin a compaction if one is due and none is under way."""
        if self._busy or self._stopped or not self._around.config.log_cleaner_enable:
            return
        chosen = self._choose()
        if chosen is None:
            return
        self._busy = True
        self._working_on = chosen[0]
        story = run_story(self._compact(*chosen))
        story.when_full(lambda: self._ended(story))

    def stop(self) -> None:
        self._stopped = True
        self._work.stop()

    def _choose(self) -> tuple[Partition, CompactionPlan] | None:
        """The log that must be compacted by its lag, else the dirtiest."""
        directories, around = self._replicas.directories, self._around
        wall_ms = around.clock.wall_ms()
        best: tuple[Partition, CompactionPlan] | None = None
        for key, partition in self._replicas.by_id.items():
            if "compact" not in partition.config.cleanup_policy:
                continue
            if self._is_left_alone(key, partition) or self._replicas.moves.holds(partition):
                continue
            cleaned_to = directories.cleaned_to(partition)
            plan = plan_compaction(partition.log, cleaned_to=cleaned_to, now_ms=wall_ms, time_for=around.time.aged)
            if plan is not None and (
                best is None or (plan.must, plan.dirty_ratio) > (best[1].must, best[1].dirty_ratio)
            ):
                best = (partition, plan)
        return best

    def _is_left_alone(self, key: tuple[bytes, int], partition: Partition) -> bool:
        """True for a log that must wait: after a bad batch, until the batch is repaired or the log's start has moved;
        after another failure, for a while."""
        if self._around.clock.mono_ms() < self._put_off.get(key, 0):
            return True
        return self._damaged.get(key) == partition.log.log_start_offset

    async def _compact(self, partition: Partition, plan: CompactionPlan) -> None:
        rate = self._around.config.log_cleaner_io_max_bytes_per_second
        failed = False
        try:
            result = await self._work.run(plan, max_bytes_per_second=rate)
        except OSError as error:
            log.warning("compaction of %s-%d failed: %s", partition.topic, partition.index, error)
            result, failed = None, True
        replicas = self._replicas
        if self._stopped or replicas.by_id.get((partition.topic_id, partition.index)) is not partition:
            return  # deleted meanwhile, with its files
        if result is None or result.groups == 0:
            key = (partition.topic_id, partition.index)
            if failed:
                self._put_off[key] = self._around.clock.mono_ms() + PUT_OFF_MS
            else:
                self._damaged[key] = partition.log.log_start_offset
                self._suspect(partition, None)
            discard(partition.log, plan)
            return
        if install(partition.log, plan, result):
            log.info("compacted %s-%d up to offset %d", partition.topic, partition.index, result.cleaned_to)
            try:
                replicas.directories.set_cleaned_to(partition, result.cleaned_to)
            except OSError as error:
                if error.errno not in FULL_DISK:
                    raise
                log.warning("no room to note how far %s-%d is compacted", partition.topic, partition.index)
            self.runs += 1
            self.compacted_bytes += result.bytes_before - result.bytes_after

    def repaired(self, partition: Partition) -> None:
        """Take the log up again: the damage in it is repaired."""
        self._damaged.pop((partition.topic_id, partition.index), None)

    def works_on(self, partition: Partition) -> bool:
        return self._working_on is partition

    def _ended(self, story: Slot[None]) -> None:
        self._busy = False
        self._working_on = None
        try:
            story.result()
        except OSError as error:
            self._around.disk_failed(error)
            return
        self._around.clock.call_soon(self.round)
