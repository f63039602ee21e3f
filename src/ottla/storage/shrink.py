"""How a log gets shorter: retention and DeleteRecords at its start, truncation at its end. Comes from log.py."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from ottla.kernel.errors import ErrorCode
from ottla.records.batch import Batch
from ottla.storage import reading, recovery, rolling
from ottla.storage.maintenance.scrub import ClosedSegment, check
from ottla.storage.producers.snapshot import snapshot_offsets, snapshot_path
from ottla.storage.segment.damage import leads_to
from ottla.storage.segment.segment import DELETED, LOG, SUFFIXES, Doomed, Segment
from ottla.storage.segment.walk import Extent

if TYPE_CHECKING:
    from ottla.storage.log import Log


def delete_records_before(log: Log, offset: int) -> int | ErrorCode:
    if offset == -1:
        offset = log.high_watermark
    if offset < 0 or offset > log.high_watermark:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    if offset > log.log_start_offset:
        raise_start(log, offset)
    return log.log_start_offset


def apply_retention(log: Log, wall_ms: int, mono_ms: int) -> int:
    allowed = log.pause.allows(wall_ms, mono_ms, max(log.config.retention_ms, 0))
    count = _below_start(log)
    if log.config.deleted:
        if log.config.retention_ms >= 0 and allowed:
            count = max(count, _too_old(log, wall_ms - log.config.retention_ms))
        if log.config.retention_bytes >= 0:
            count = max(count, _too_much(log, log.config.retention_bytes))
    if count == len(log.segments):
        _roll_expired(log, wall_ms)
    count = min(count, _recoverable(log))
    if count == 0:
        return 0
    gone = log.segments[:count]
    log.set_segments(log.segments[count:])
    raise_start(log, max(log.log_start_offset, log.bases[0]))
    log.doomed += [Doomed(segment, wall_ms, renamed=False) for segment in gone]
    return count


def _recoverable(log: Log) -> int:
    """Sealed segments behind which a producer snapshot is on disk: no state is lost with them."""
    count = 0
    while count + 1 < len(log.segments) and log.bases[count + 1] <= log.syncing.sealed_to:
        count += 1
    return count


def _roll_expired(log: Log, wall_ms: int) -> None:
    """All that the last segment holds may go: seal it, so that the next round finds it synced and takes it out."""
    if log.active.size:
        try:
            rolling.roll(log, log.end_offset, wall_ms)
        except OSError as fault:
            log.refuse(fault)


def _below_start(log: Log) -> int:
    count = 0
    while count + 1 < len(log.segments) and log.bases[count + 1] <= log.log_start_offset:
        count += 1
    return count


def _too_old(log: Log, before_ms: int) -> int:
    """Leading segments whose newest record is older, all of them committed. The last one may be among them."""
    count = 0
    for segment in log.segments:
        newest = segment.max_timestamp if segment.max_timestamp >= 0 else segment.modified_ms()
        if segment is log.active and segment.size == 0:
            break
        if newest >= before_ms or segment.next_offset > log.high_watermark:
            break
        count += 1
    return count


def _too_much(log: Log, retention_bytes: int) -> int:
    """Leading segments without which the log still holds `retention_bytes`."""
    over = log.size_bytes - retention_bytes
    count = 0
    for segment in log.segments[:-1]:
        if over <= 0 or over < segment.size or segment.next_offset > log.high_watermark:
            break
        over -= segment.size
        count += 1
    return count


def raise_start(log: Log, offset: int) -> None:
    """The log starts at `offset` from now on, be it in the middle of a batch."""
    log.log_start_offset = offset
    log.high_watermark = max(log.high_watermark, offset)
    try:
        log.epochs.cut_start(offset)
    except OSError as fault:
        log.refuse(fault)  # a full disk: the epochs' checkpoint keeps entries below the start, which harms nobody


def purge(log: Log, wall_ms: int, *, one_by_one: bool = False) -> None:
    """Files of segments taken out are renamed to `.deleted`, and deleted once `file.delete.delay.ms` has passed.

    `one_by_one`: the new start could not be checkpointed. Until it is, the name of the last segment stays, without its
    bytes: it tells the next start that what lies below was deleted, and is not missing.
    """
    if not log.doomed:
        return
    witness = log.doomed[-1] if one_by_one else None
    if witness is not None:
        witness.segment.rename_files("", DELETED)
        log.disk.sync_directory(log.directory)
    waiting: list[Doomed] = []
    for doomed in log.doomed:
        if not 0 <= wall_ms - doomed.since_ms < log.config.file_delete_delay_ms:
            if doomed is witness:
                _empty_files(log, doomed.segment)
                waiting.append(doomed._replace(renamed=True))
                continue
            remove_files(log, [doomed.segment])
        else:
            if not doomed.renamed:
                doomed.segment.rename_files("", DELETED)
            waiting.append(doomed._replace(renamed=True))
        if one_by_one:
            log.disk.sync_directory(log.directory)
    log.doomed = waiting
    offsets = snapshot_offsets(log.disk, log.directory)
    for offset in offsets[:-1]:
        if offset < log.bases[0]:
            log.disk.remove(snapshot_path(log.directory, offset))
    log.disk.sync_directory(log.directory)


def _empty_files(log: Log, segment: Segment) -> None:
    segment.close()
    for suffix in SUFFIXES[1:]:
        log.disk.remove(segment.path(suffix) + DELETED)
    file = log.disk.open(segment.path(LOG) + DELETED)
    file.truncate(0)
    file.release()


def remove_files(log: Log, segments: list[Segment]) -> None:
    """For good. Slices that are still being sent hold their files, which the system keeps until then."""
    for segment in segments:
        segment.close()
        for suffix in SUFFIXES:
            log.disk.remove(segment.path(suffix))
            log.disk.remove(segment.path(suffix) + DELETED)


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
    if leads_to(segment, offset) or _leads_into_sound_batch(segment, offset):
        return False  # else compaction left a hole, or it is damaged
    epochs = log.epochs.between(segment.base_offset, segment.next_offset)
    told = ClosedSegment(segment.path(LOG), segment.base_offset, segment.next_offset, segment.size, epochs)
    found = tuple(step for step in check(log.disk, told) if isinstance(step, Extent))
    if found and segment is not log.active:
        try:
            log.damage.note(segment.base_offset, found)
        except OSError as fault:
            log.refuse(fault)  # on a full disk it is known all the same, until the next start
    return any(one.first_offset < offset for one in found)


def _leads_into_sound_batch(segment: Segment, offset: int) -> bool:
    """Whether `offset` is in the middle of a batch whose checksum holds, and batch follows on batch up to it."""
    found = segment.find(offset)
    if found is None or not found.base_offset < offset < found.next_offset or not leads_to(segment, found.base_offset):
        return False
    return Batch(segment.file.read_at(found.position, found.size)).crc_holds()


def _lower_recovery_point(log: Log, offset: int) -> None:
    """Before anything is cut: where a full disk raises here, the log is as it was, and may be cut later."""
    before = log.recovery_point
    log.recovery_point = min(before, offset)
    try:
        log.before_cut(offset)
    except OSError as fault:
        log.recovery_point = before
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
    log.log_start_offset = min(log.log_start_offset, end_offset)
    log.set_ends(end_offset)
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
        log.log_start_offset = offset
        log.end_offset = offset
        for snapshot in snapshot_offsets(log.disk, log.directory):
            log.disk.remove(snapshot_path(log.directory, snapshot))
        log.high_watermark = offset
        log.recovery_point = offset
        log.syncing.restarted(offset)
        log.synced_offset = offset
        log.producers.clear()
    except OSError:
        log.refusing = True
        raise
