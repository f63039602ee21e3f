"""Looks for damage in closed segments: a slow pass over all of them at intervals, and suspected segments first.

Called by rounds.py at intervals, and by `suspect` after a read failed here or at a peer. The check runs behind
`ScrubWork`: in a child process (server/scrub_child.py), or in turns of the loop if the disk is memory or simulated.
Findings are noted at the log (storage/segment/damage.py) and passed to repairs.py.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ottla.kernel.seams import Clock, Disk
from ottla.kernel.story import Slot, run_story
from ottla.storage.log import FULL_DISK, Log
from ottla.storage.maintenance.index_scrub import RebuiltIndexes
from ottla.storage.maintenance.scrub import ScrubFinding, check_all
from ottla.storage.segment.aborted import seal_of
from ottla.storage.segment.closed import CheckedBytes, ClosedSegment
from ottla.storage.segment.names import LOG
from ottla.storage.segment.segment import Segment

if TYPE_CHECKING:
    from ottla.broker.environment import Environment
    from ottla.broker.replicas.compactor import Compactor
    from ottla.broker.replicas.partition import Partition
    from ottla.broker.replicas.reconcile import Replicas
    from ottla.broker.replicas.repairs import Repairs

log = logging.getLogger("ottla.scrub")
HOUR_MS = 3_600_000
_LOOK_EVERY_MS = 300_000
_RUN_BYTES = 256 << 20
_RUN_SEGMENTS = 1000
_TURN_BYTES = 256 << 10
_SUSPICIOUS = 3
"""The number of reads of one offset in a row after which a peer has refused the answers."""
_SUSPECT_AGAIN_MS = 600_000
_MOST_SENT = 10_000


class ScrubWork(Protocol):
    """Checks segments somewhere; raises OSError if that fails."""

    def run(self, segments: Sequence[ClosedSegment], *, max_bytes_per_second: float) -> Slot[list[ScrubFinding]]: ...

    def stop(self) -> None:
        """End a running check; it loses nothing."""


class ScrubInTurns:
    """Checks on the broker's own loop, some bytes a turn."""

    def __init__(self, disk: Disk, clock: Clock) -> None:
        self._disk = disk
        self._clock = clock
        self._stopped = False

    def run(self, segments: Sequence[ClosedSegment], *, max_bytes_per_second: float) -> Slot[list[ScrubFinding]]:
        slot: Slot[list[ScrubFinding]] = Slot()
        self._turn(check_all(self._disk, segments), [], slot)
        return slot

    def stop(self) -> None:
        self._stopped = True

    def _turn(
        self, steps: Iterator[CheckedBytes | ScrubFinding], found: list[ScrubFinding], slot: Slot[list[ScrubFinding]]
    ) -> None:
        left = _TURN_BYTES
        try:
            for step in steps:
                if isinstance(step, ScrubFinding):
                    found.append(step)
                    continue
                left -= step.bytes
                if left <= 0:
                    break
            else:
                slot.fill(found)
                return
        except OSError as error:
            slot.fail(error)
            return
        if not self._stopped:
            self._clock.call_soon(lambda: self._turn(steps, found, slot))


class _Chosen(NamedTuple):
    partition: Partition
    segment: Segment
    size: int
    end: int | None = None
    """The offset at which to end the check of a last segment."""

    @property
    def there(self) -> bool:
        """True if the log still has the segment unchanged."""
        return self.segment in self.partition.log.segments[:-1] and self.segment.size == self.size

    def as_told(self) -> ClosedSegment:
        segment = self.segment
        end = segment.next_offset if self.end is None else self.end
        epochs = self.partition.log.epochs.between(segment.base_offset, end)
        aborted = seal_of(segment.aborted.entries) if self.end is None else None
        return ClosedSegment(
            segment.path(LOG), segment.base_offset, end, self.size, epochs, segment.index_interval, aborted
        )


class Scrubber:
    """Runs one check at a time: suspected segments first, then the pass."""

    def __init__(
        self, around: Environment, replicas: Replicas, compactor: Compactor, repairs: Repairs, work: ScrubWork
    ) -> None:
        self._around = around
        self._replicas = replicas
        self._compactor = compactor
        self._repairs = repairs
        self._work = work
        self._busy = self._stopped = False
        self._suspects: dict[_Chosen, None] = {}
        self._suspected_ms: dict[tuple[bytes, int, int], int] = {}
        self._sent: dict[tuple[bytes, int, int], tuple[int, int]] = {}
        self._actives: list[Partition] | None = None
        """Partitions whose last segment is still to be checked, after the pass over all closed ones."""
        self.passes = 0
        self.checked_bytes = 0
        self.damaged_segments = 0
        """The number of damaged segments found so far."""

    def stop(self) -> None:
        self._stopped = True
        self._work.stop()

    def every_ms(self) -> int:
        """The interval at which to look whether a pass is due."""
        return min(_LOOK_EVERY_MS, max(1, self._interval_ms() or _LOOK_EVERY_MS))

    def _interval_ms(self) -> int:
        return int(self._around.config.scrub_interval_hours * HOUR_MS)

    # --- suspicions ---

    def suspect(self, partition: Partition, offset: int | None) -> None:
        """Check the segment that holds an offset, or all of a log (None), before anything else."""
        held, now_ms = partition.log, self._around.clock.mono_ms()
        if offset is not None and offset >= held.active.base_offset and held.active.size and not held.refusing:
            self._close_active(held)
        at = 0 if offset is None else max(0, held.chain.at(offset))
        for segment in held.segments[at : None if offset is None else at + 1]:
            key = (partition.topic_id, partition.index, segment.base_offset)
            if segment is held.active or now_ms - self._suspected_ms.get(key, -_SUSPECT_AGAIN_MS) < _SUSPECT_AGAIN_MS:
                continue
            log.warning("%s is suspected of damage: checking it", segment.path(LOG))
            self._suspected_ms[key] = now_ms
            self._suspects[_Chosen(partition, segment, segment.size)] = None
        if len(self._suspected_ms) > _MOST_SENT:
            self._suspected_ms.clear()
        self._around.clock.call_soon(self.round)

    def _close_active(self, held: Log) -> None:
        """Close the active segment: only closed ones can be checked and replaced."""
        try:
            held.roll(held.end_offset, self._around.clock.wall_ms())
        except OSError as error:  # the suspicion came from a read, which must not fail
            if error.errno not in FULL_DISK:
                self._around.disk_failed(error)
            return
        self._around.syncer.submit(held)

    def served(self, partition: Partition, peer: int, offset: int) -> None:
        """Note that a broker was sent a closed segment's records from `offset` on, perhaps repeatedly."""
        key = (partition.topic_id, partition.index, peer)
        before, times = self._sent.pop(key, (-1, 0))
        times = times + 1 if before == offset else 1
        self._sent[key] = (offset, times)
        if len(self._sent) > _MOST_SENT:
            del self._sent[next(iter(self._sent))]
        if times == _SUSPICIOUS:
            log.warning("broker %d asks for %s-%d from offset %d again and again",
                        peer, partition.topic, partition.index, offset)  # fmt: skip
            self.suspect(partition, offset)
            del self._sent[key]

    # --- runs ---

    def round(self) -> None:
        """Begin a run if there is something to check and none is under way."""
        if self._busy or self._stopped:
            return
        chosen = [one for one in self._suspects if one.there]
        self._suspects.clear()
        covered: dict[Partition, int] = {}
        if not chosen:
            if not self._is_due():
                return
            chosen, covered = self._next_of_pass()
        self._busy = True
        story = run_story(self._check(chosen, covered))
        story.when_full(lambda: self._ended(story))

    def _is_due(self) -> bool:
        directories, interval_ms = self._replicas.directories, self._interval_ms()
        if not directories.online or interval_ms <= 0:
            return False
        now_ms = self._around.clock.wall_ms()
        try:
            ended_ms = directories.scrub_ended_ms()
        except OSError as error:
            self._around.disk_failed(error)
            return False
        return ended_ms is None or not ended_ms <= now_ms < ended_ms + interval_ms

    def _next_of_pass(self) -> tuple[list[_Chosen], dict[Partition, int]]:
        """The next segments of the pass, by topic, partition and offset, and the position after them."""
        directories = self._replicas.directories
        chosen: list[_Chosen] = []
        covered: dict[Partition, int] = {}
        size = 0
        for partition in self._replicas.all():
            held = partition.log
            if held.damaged_at is not None:
                continue
            for segment in held.segments[bisect_left(held.bases, directories.scrubbed_to(partition)) : -1]:
                if size >= _RUN_BYTES or len(chosen) >= _RUN_SEGMENTS:
                    return chosen, covered
                chosen.append(_Chosen(partition, segment, segment.size))
                size += segment.size
                covered[partition] = segment.next_offset
        return chosen or self._next_actives(), covered

    def _next_actives(self) -> list[_Chosen]:
        """Last segments up to their synced end: with few writes they would never be closed and checked."""
        if self._actives is None:
            self._actives = list(self._replicas.all())
        chosen: list[_Chosen] = []
        size = 0
        while self._actives and size < _RUN_BYTES and len(chosen) < _RUN_SEGMENTS:
            partition = self._actives.pop()
            held = partition.log
            end = min(held.synced_offset, held.end_offset)
            if held.damaged_at is None and end > held.active.base_offset:
                chosen.append(_Chosen(partition, held.active, held.active.limit_position(end), end))
                size += chosen[-1].size
        return chosen

    async def _check(self, chosen: list[_Chosen], covered: dict[Partition, int]) -> None:
        rate = self._around.config.scrub_max_bytes_per_second
        if chosen:
            try:
                findings = await self._work.run([one.as_told() for one in chosen], max_bytes_per_second=rate)
            except OSError as error:
                log.warning("a scrub failed, and is tried again later: %s", error)
                return
            if self._stopped:
                return
            self.checked_bytes += sum(one.size for one in chosen)
            for finding in findings:
                one = chosen[finding.number]
                if one.end is not None:
                    self._take_active(one, finding)
                elif finding.extents:
                    self._take(one, finding)
                else:
                    await self._rebuild_indexes(one, finding.index_fault)
            found = {finding.number for finding in findings if finding.extents}
            for number, one in enumerate(chosen):
                if number not in found and one.end is None:
                    self._take_for_sound(one)
        directories = self._replicas.directories
        if covered:
            directories.note_scrubbed(covered)
        elif not chosen:
            directories.each(lambda directory: directory.offsets.end_scrub())
            self._actives = None
            self.passes += 1
            return
        self._around.clock.call_soon(self.round)

    def _take(self, chosen: _Chosen, finding: ScrubFinding) -> None:
        """A segment is damaged: refuse reads of it from now on, and repair it."""
        partition, segment = chosen.partition, chosen.segment
        replicas = self._replicas
        if replicas.by_id.get((partition.topic_id, partition.index)) is not partition or not chosen.there:
            return  # deleted, compacted or cut meanwhile
        if partition.log.damage.of(segment.base_offset) == finding.extents:
            return  # known already
        where = ", ".join(f"{one.first_offset} to {one.next_offset - 1}" for one in finding.extents)
        log.error("%s is damaged: offsets %s are refused from now on", segment.path(LOG), where)
        self.damaged_segments += 1
        try:
            partition.log.damage.note(segment.base_offset, finding.extents)
        except OSError as error:
            if error.errno not in FULL_DISK:
                raise
            log.warning("no room to note the damage of %s-%d", partition.topic, partition.index)
        segment.forget_recent()
        partition.mark()
        self._repairs.look(partition)

    def _take_active(self, chosen: _Chosen, finding: ScrubFinding) -> None:
        """Close a damaged last segment and check again: a cut meanwhile is no damage. Its indexes are no files yet."""
        partition = chosen.partition
        here = self._replicas.by_id.get((partition.topic_id, partition.index)) is partition
        if here and finding.extents and chosen.segment in partition.log.segments:
            self.suspect(partition, finding.extents[0].first_offset)

    async def _rebuild_indexes(self, chosen: _Chosen, fault: str) -> None:
        """Rebuild both indexes of a sound segment from its batches, as one of them is damaged."""
        segment, held = chosen.segment, chosen.partition.log
        rebuilt = RebuiltIndexes(held.disk, segment)
        if not chosen.there or held.refusing:
            return
        for _ in rebuilt.pieces():
            turn: Slot[None] = Slot()
            self._around.clock.call_soon(partial(turn.fill, None))
            await turn
            if not chosen.there or held.refusing or self._stopped:
                return
        log.warning("%s-%d, offsets %d to %d, %d bytes: an index of %s is wrong, and was built anew: %s", held.topic,
                    held.partition, segment.base_offset, segment.next_offset - 1, segment.size, segment.path(LOG),
                    fault)  # fmt: skip
        rebuilt.install()

    def _take_for_sound(self, chosen: _Chosen) -> None:
        """Drop the note of damage if the segment can be read now, after a passing fault of a cable or controller."""
        partition, base = chosen.partition, chosen.segment.base_offset
        damage, by_id = partition.log.damage, self._replicas.by_id
        here = by_id.get((partition.topic_id, partition.index)) is partition
        if not here or not chosen.there or not damage.of(base):
            return
        log.warning("%s was damaged and is sound now", chosen.segment.path(LOG))
        self._compactor.repaired(partition)
        try:
            damage.keep([other for other in damage.bases if other != base])
        except OSError as error:
            if error.errno not in FULL_DISK:
                raise
        self._repairs.look(partition)

    def _ended(self, story: Slot[None]) -> None:
        self._busy = False
        try:
            story.result()
        except OSError as error:
            if error.errno in FULL_DISK:
                log.warning("no room to note how far the scrub has come: %s", error)
            else:
                self._around.disk_failed(error)
