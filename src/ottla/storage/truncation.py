"""How a log is cut at its end, or emptied: batches, indexes, epochs, damage and producers go back together."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from ottla.storage import reading, recovery, rolling
from ottla.storage.maintenance.scrub import ClosedSegment, check
from ottla.storage.producers.snapshot import snapshot_offsets, snapshot_path
from ottla.storage.retention import remove_files
from ottla.storage.segment.damage import leads_to
from ottla.storage.segment.segment import LOG
from ottla.storage.segment.walk import Extent

if TYPE_CHECKING:
    from ottla.storage.log import Log


def truncate_to(log: Log, offset: int) -> None:
    """Segments go from the last to the first, so that a crash half-way leaves a log without a hole.

    Nothing is written behind damage, and damage is never taken for the place to cut at, which would drop what is
    committed: such a log stops as it is (`damaged_at`), and is fetched anew as a whole (broker/replicas/repairs.py).
    """
    if offset >= log.end_offset:
        log.epochs.cut_end(offset)  # an epoch of ours that holds nothing may be in the way of the leader's
        return
    if offset < log.bases[0]:
        truncate_fully_to(log, offset, wall_ms=log.active.created_ms)
        return
    try:
        if _is_damaged_below(log, offset):
            log.damaged_at, log.refusing = offset, True
            return
        found = reading.locate(log, offset)
    except OSError:
        log.refusing = True
        raise
    end = offset if found is None else min(offset, found[1].base_offset)
    _lower_recovery_point(log, end)
    _cut_epochs(log, end)
    try:
        keep = max(1, bisect_left(log.bases, offset))
        gone, kept = log.segments[keep:], log.segments[:keep]
        for segment in reversed(gone):
            remove_files(log, [segment])
            log.disk.sync_directory(log.directory)
        kept[-1].truncate(offset)
        end_offset = kept[-1].next_offset if kept[-1].size else kept[-1].base_offset
        log.configure_segment(kept[-1])
        log.set_segments(kept)
        _after_cut(log, end_offset)
    except OSError:
        log.refusing = True
        raise


def _is_damaged_below(log: Log, offset: int) -> bool:
    """Whether the segment that a cut would leave as the last one is damaged below `offset`, as is known or seen now."""
    segment = log.segments[max(0, bisect_left(log.bases, offset) - 1)]
    if any(one.first_offset < offset for one in log.damage.of(segment.base_offset)):
        return True
    if leads_to(segment, offset):
        return False  # else it leads to the middle of a batch, or compaction left a hole, or it is damaged
    epochs = log.epochs.between(segment.base_offset, segment.next_offset)
    told = ClosedSegment(segment.path(LOG), segment.base_offset, segment.next_offset, segment.size, epochs)
    found = tuple(step for step in check(log.disk, told) if isinstance(step, Extent))
    if found and segment is not log.active:
        try:
            log.damage.note(segment.base_offset, found)
        except OSError as fault:
            log.refuse(fault)  # on a full disk it is known all the same, until the next start
    return any(one.first_offset < offset for one in found)


def _lower_recovery_point(log: Log, offset: int) -> None:
    """Before anything is cut: where a full disk raises here, the log is as it was, and may be cut later."""
    before = log.bounds.recovery_point
    log.bounds.recovery_point_lowered(offset)
    try:
        log.before_cut(offset)
    except OSError as fault:
        log.bounds.recovery_point_raised(before)
        log.refuse(fault)
        raise


def _cut_epochs(log: Log, offset: int) -> None:
    """First, and as with the recovery point: a full disk that has no room for them leaves the log as it was.

    A crash behind it leaves batches whose epochs are not known, which recovery finds in them.
    """
    try:
        log.epochs.cut_end(offset)
    except OSError as fault:
        log.refuse(fault)
        raise


def _after_cut(log: Log, end_offset: int) -> None:
    for snapshot in snapshot_offsets(log.disk, log.directory):
        if snapshot > end_offset:
            log.disk.remove(snapshot_path(log.directory, snapshot))
    log.damage.keep(log.bases[:-1])
    log.epochs.cut_end(end_offset)
    log.bounds.truncated(end_offset)
    log.syncing.cut(end_offset, log.active.base_offset)
    recovery.load_producers(log, at_most=end_offset)


def truncate_fully_to(log: Log, offset: int, wall_ms: int) -> None:
    """On a full disk it raises with nothing changed, or in the middle: then the log is `refusing`."""
    _lower_recovery_point(log, 0)
    _cut_epochs(log, -1)
    try:
        remove_files(log, [doomed.segment for doomed in log.doomed])  # a new segment may get the name of one
        log.doomed = []
        for segment in reversed(log.segments):
            remove_files(log, [segment])
        log.disk.sync_directory(log.directory)
        segment = rolling.new_segment(log, offset, wall_ms)
        segment.create_file()
        log.disk.sync_directory(log.directory)  # nothing else is synced before it counts as the log's place
        segment.index.reset()
        segment.times.reset()
        log.damaged_at = None
        log.damage.keep(())
        log.set_segments([segment])
        log.bounds.restarted(offset)
        for snapshot in snapshot_offsets(log.disk, log.directory):
            log.disk.remove(snapshot_path(log.directory, snapshot))
        log.syncing.restarted(offset)
        log.producers.clear()
    except OSError:
        log.refusing = True
        raise
