"""How a log's start moves up: retention by time and size, DeleteRecords, and the files of segments that are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.kernel.errors import ErrorCode
from ottla.storage import rolling
from ottla.storage.producers.snapshot import snapshot_offsets, snapshot_path
from ottla.storage.segment.segment import DELETED, LOG, SUFFIXES, Doomed, Segment

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
    log.bounds.start_raised(offset)
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
