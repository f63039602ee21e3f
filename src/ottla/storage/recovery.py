"""Opening a log: after a clean close by looking at its last batches, after a crash by checking the unchecked tail.

Comes from log.py. Nothing below the recovery point is read (its indexes are on disk too); above it the first bad
batch is the torn end and is cut, with everything behind it. A bad batch below is damage: kept, marked, not served.
"""

from __future__ import annotations

import posixpath
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import TYPE_CHECKING

from ottla.kernel.seams import Disk
from ottla.records.checksum import crc32c
from ottla.storage.checkpoint import (
    COPY,
    LEADER_EPOCHS,
    PARTITION_METADATA,
    SYNC_FAILED,
    TEMPORARY,
    mark_failed_sync,
    write_partition_metadata,
)
from ottla.storage.epochs import LeaderEpochs
from ottla.storage.run import note_producer
from ottla.storage.scan import CRC_START, Header, scan_batches, scan_headers
from ottla.storage.segment import (
    CLEANED,
    DELETED,
    FETCHED,
    LOG,
    SUFFIXES,
    SWAP,
    Segment,
    base_offset_of,
    segment_path,
)
from ottla.storage.snapshot import load_newest, snapshot_offsets, snapshot_path, write_snapshot
from ottla.storage.values import Recovered

if TYPE_CHECKING:
    from ottla.storage.log import Log

_NEVER = 2**63 - 1
_AGAIN_BYTES = 1 << 20


class _Cost:
    def __init__(self) -> None:
        self.scanned_bytes = self.truncated_bytes = self.rebuilt_indexes = self.replayed_batches = 0


def create_files(disk: Disk, directory: str, topic_id: bytes, start_offset: int) -> None:
    """A directory with an empty first segment; durable when this returns."""
    disk.make_directory(directory)
    disk.open(segment_path(directory, start_offset, LOG), create=True).release()
    write_partition_metadata(disk, directory, topic_id)  # syncs the directory too
    disk.sync_directory(posixpath.dirname(directory))


@contextmanager
def whole_or_gone(disk: Disk, directory: str) -> Iterator[None]:
    """What could not be made whole is removed, as far as the disk lets us: it would be found as the replica."""
    try:
        yield
    except OSError:
        with suppress(OSError):
            if never_held(disk, directory):
                disk.remove_tree(directory)
        raise


def never_held(disk: Disk, directory: str) -> bool:
    """Whether what lies there is no more than is made with a new log: an empty segment from offset 0 on."""
    for name in disk.list(directory):
        if name.removesuffix(TEMPORARY).removesuffix(COPY) in (PARTITION_METADATA, LEADER_EPOCHS):
            continue
        base, suffix = name[:20], name[20:]
        if base != "0" * 20 or (suffix.startswith(LOG) and disk.file_size(posixpath.join(directory, name))):
            return False
    return True


def recover(log: Log, *, clean: bool, recovery_point: int, log_start_offset: int, wall_ms: int) -> None:
    """Bring the log to a state in which all that it says is on disk is on disk."""
    cost = _Cost()
    finish_swaps(log.disk, log.directory)
    epochs_known = log.epochs.load()
    bases = _segment_bases(log, log_start_offset)
    if not bases:
        bases = [max(log_start_offset, 0)]
        log.disk.open(segment_path(log.directory, bases[0], LOG), create=True).release()
        clean = False
    # Nothing above the recovery point is ever deleted at the start: a full disk may have kept it from its checkpoint.
    recovery_point = _NEVER if clean else max(recovery_point, bases[0])
    segments = _open_below(log, bases, recovery_point, wall_ms, cost)
    segments += _open_above(log, bases[len(segments) :], recovery_point, wall_ms, cost, clean=clean)
    log.set_segments(segments)
    log.damage.load()
    log.damage.keep(log.bases[:-1])
    log.log_start_offset = max(log_start_offset, log.bases[0])
    log.end_offset = log.high_watermark = log.active.next_offset
    log.log_start_offset = min(log.log_start_offset, log.end_offset)
    if not epochs_known:
        log.epochs.replace(_epochs_in(log))
    log.epochs.cut_end(log.end_offset)
    log.high_watermark = log.log_start_offset
    at_most = min(log.end_offset, recovery_point)
    for offset in snapshot_offsets(log.disk, log.directory):
        if offset > at_most:  # of a tail that was lost, or that was cut before another came in its place
            log.disk.remove(snapshot_path(log.directory, offset))
    load_producers(log, at_most=at_most, cost=cost)
    try:
        _settle(log, cost, clean=clean)
    except OSError:
        mark_failed_sync(log.disk, posixpath.dirname(log.directory))
        raise


def _settle(log: Log, cost: _Cost, *, clean: bool) -> None:
    """After a crash: sync what was kept and cut, so that the end may be called synced (rule A7)."""
    log.recovered = Recovered(
        len(log.segments), cost.scanned_bytes, cost.truncated_bytes, cost.rebuilt_indexes, cost.replayed_batches
    )
    if log.damaged_at is not None:
        log.refusing = True
        log.end_offset = log.damaged_at
    elif not clean:
        again = log.disk.exists(posixpath.join(posixpath.dirname(log.directory), SYNC_FAILED))
        for segment in log.segments:
            if segment.index.keys is not None:
                if again:
                    _write_again(segment)
                for file in [segment.file, *segment.write_indexes()]:
                    file.sync()
        log.disk.sync_directory(log.directory)
        for segment in log.segments[:-1]:
            if segment.index.keys is not None:
                segment.seal()
    elif cost.rebuilt_indexes:
        for segment in log.segments[:-1]:
            if segment.index.keys is not None:
                segment.write_indexes()
                segment.seal()
    log.synced_offset = log.recovery_point = log.end_offset
    log.syncing.opened(log, synced_to=log.end_offset)
    if cost.replayed_batches and log.damaged_at is None:
        _put_snapshot(log, log.end_offset)
        log.disk.sync_directory(log.directory)


def _write_again(segment: Segment) -> None:
    """What is read here may stand in the page cache alone: a failed sync has dropped it, another passes it over."""
    for position in range(0, segment.size, _AGAIN_BYTES):
        piece = segment.file.read_at(position, min(_AGAIN_BYTES, segment.size - position))
        segment.file.write_at(position, [piece])


def _segment_bases(log: Log, log_start_offset: int) -> list[int]:
    """Bases of the segments; those wholly below the log's start are deleted, and what is left of others."""
    names = log.disk.list(log.directory)
    bases = sorted(base for name in names if (base := base_offset_of(name)) is not None)
    _remove_orphans(log, names, bases)
    while len(bases) > 1 and bases[1] <= log_start_offset:
        _remove_segment(log.disk, log.directory, bases.pop(0))
    return bases


def _remove_orphans(log: Log, names: list[str], bases: list[int]) -> None:
    """Indexes of segments that are gone: a crash may keep them, and a new segment of that name would go on in them."""
    known = set(bases)
    for name in names:
        for suffix in SUFFIXES[1:]:
            base = base_offset_of(name, suffix)
            if base is not None and base not in known:
                log.disk.remove(posixpath.join(log.directory, name))


def _remove_segment(disk: Disk, directory: str, base: int) -> None:
    for suffix in SUFFIXES:
        disk.remove(segment_path(directory, base, suffix))


def _open_below(log: Log, bases: list[int], recovery_point: int, wall_ms: int, cost: _Cost) -> list[Segment]:
    """Sealed segments that end below the recovery point: taken as they are.

    One that ends right at it may have been cut there, and a crash may have undone that.
    """
    segments: list[Segment] = []
    for base, following in pairwise(bases):
        if following >= recovery_point:
            break
        segment = Segment(log.disk, log.directory, base, created_ms=wall_ms)
        log.configure_segment(segment)
        segments.append(segment)
        if segment.open_sealed(following):
            continue
        cost.rebuilt_indexes += 1
        size = segment.size
        _rebuild(segment, cost)
        if segment.size != size or segment.next_offset > following:
            _mark_damage(log, min(segment.next_offset, following))
        segment.next_offset = following
        segment.forget_recent()
    return segments


def _rebuild(segment: Segment, cost: _Cost) -> None:
    """Build the indexes of a segment again from its batches' headers."""
    segment.index.reset()
    segment.times.reset()
    size, segment.size = segment.size, 0
    segment.max_timestamp = -1
    for header in scan_headers(segment.file, 0, size):
        segment.note_header(header)
    cost.scanned_bytes += segment.size
    segment.write_indexes()


def _mark_damage(log: Log, offset: int) -> None:
    if log.damaged_at is None or offset < log.damaged_at:
        log.damaged_at = offset


def _open_above(
    log: Log, bases: list[int], recovery_point: int, wall_ms: int, cost: _Cost, *, clean: bool
) -> list[Segment]:
    """The segments that reach above the recovery point: scanned from there, cut at the first bad batch."""
    segments: list[Segment] = []
    expected = -1
    epoch = -1
    for number, base in enumerate(bases):
        if number and base != expected:  # the segment before lost its tail, and with it this one its place
            _drop_segments(log, bases[number:], cost)
            break
        segment = Segment(log.disk, log.directory, base, created_ms=wall_ms)
        log.configure_segment(segment)
        segments.append(segment)
        following = bases[number + 1] if number + 1 < len(bases) else _NEVER
        whole, epoch = _scan_tail(log, segment, (recovery_point, following), epoch, cost, check=not clean)
        expected = segment.next_offset
        if not whole and segment.next_offset < recovery_point and not clean:
            _mark_damage(log, segment.next_offset)
            break
        segment.aborted.cut_end(segment.next_offset)  # it may be on disk, and the end of the segment not
        if not whole:
            cost.truncated_bytes += segment.file.size() - segment.size
            segment.file.truncate(segment.size)
            if expected != following:
                _drop_segments(log, bases[number + 1 :], cost)
                break
        if base != bases[-1]:
            segment.forget_recent()
    if not clean and log.damaged_at is None and segments[-1].next_offset < recovery_point:
        _mark_damage(log, segments[-1].next_offset)
    return segments


def _scan_tail(
    log: Log, segment: Segment, bounds: tuple[int, int], epoch: int, cost: _Cost, *, check: bool
) -> tuple[bool, int]:
    """Note the batches from the last index entry that can be trusted; whether they fill the file, and their epoch."""
    recovery_point, following = bounds
    size = segment.file.size()
    start = _trusted_start(segment, recovery_point, size)
    if not start and segment.index.count == 0:
        segment.index.reset()
        segment.times.reset()
    scanned: Iterator[tuple[Header, memoryview | None]]
    if check:
        scanned = iter(scan_batches(segment.file, start, size))
    else:
        scanned = ((header, None) for header in scan_headers(segment.file, start, size))
    for header, view in scanned:
        if header.base_offset < segment.next_offset or header.last_offset_delta < 0 or header.leader_epoch < epoch:
            break  # an older batch where a later write was lost: it does not follow on
        if header.next_offset > following:
            break
        if check and _was_cut(log.epochs, header):
            break
        if view is not None and crc32c(view[CRC_START:]) != header.crc:
            break
        segment.note_header(header)
        epoch = header.leader_epoch
        cost.scanned_bytes += header.size
        if header.leader_epoch > log.epochs.latest:
            log.epochs.assign(header.leader_epoch, header.base_offset)
    return segment.size == size, epoch


def _was_cut(epochs: LeaderEpochs, header: Header) -> bool:
    """Whether a crash has brought this batch back: it was cut, and the epochs, which are synced first, have gone on.

    They may say that a later one had begun here by then. Or that an older one went on here, in what came in its place,
    and a later one behind that.
    """
    known = epochs.epoch_at(header.base_offset)
    return header.leader_epoch < known or 0 <= known < header.leader_epoch <= epochs.latest


def _trusted_start(segment: Segment, recovery_point: int, size: int) -> int:
    """Where to begin: the last index entry below the recovery point that points at its batch, else the beginning."""
    if not segment.has_indexes():
        return 0
    segment.index.load()
    segment.times.load()
    assert segment.index.keys is not None
    keys, positions = segment.index.keys, segment.index.values
    rising = next(
        (at for at in range(1, len(keys)) if keys[at] <= keys[at - 1] or positions[at] <= positions[at - 1]), len(keys)
    )
    count = bisect_left(keys, recovery_point - segment.base_offset, 0, rising)
    while count:
        key, position = keys[count - 1], positions[count - 1]
        for header in scan_headers(segment.file, position, size, chunk_bytes=64):
            if header.last_offset == key + segment.base_offset:
                return segment.restart_from(count)
            break
        count //= 2
    return segment.restart_from(0)


def _drop_segments(log: Log, bases: list[int], cost: _Cost) -> None:
    for base in reversed(bases):
        cost.truncated_bytes += log.disk.file_size(segment_path(log.directory, base, LOG))
        _remove_segment(log.disk, log.directory, base)
        log.disk.sync_directory(log.directory)


def _epochs_in(log: Log) -> list[tuple[int, int]]:
    """The leader epochs as the batches themselves tell them, where the checkpoint was lost."""
    found: list[tuple[int, int]] = []
    for segment in log.segments:
        for header in scan_headers(segment.file, 0, segment.size):
            if not found or header.leader_epoch > found[-1][0]:
                found.append((header.leader_epoch, header.base_offset))
    return found


def load_producers(log: Log, *, at_most: int, cost: _Cost | None = None) -> None:
    """Producer state as of the log's end: the newest snapshot not above `at_most`, then the batches behind it."""
    loaded = load_newest(log.disk, log.directory, at_most)
    log.producers.clear()
    start = log.bases[0]
    if loaded is not None:
        start, log.producers = max(loaded[0], start), loaded[1]
    for segment in log.segments:
        if cost is not None and segment.base_offset > start:
            _put_snapshot(log, segment.base_offset)
        if segment.next_offset <= start or segment.size == 0:
            continue
        if segment.aborted.entries:
            segment.aborted.cut_end(start)
        for header in _headers_from(segment, start):
            if cost is not None:
                cost.replayed_batches += 1
            if header.producer_id >= 0 and header.last_offset >= start and header.next_offset <= log.end_offset:
                view = memoryview(segment.file.read_at(header.position, header.size) if header.is_control else b"")
                note_producer(log, header, view)
        if segment.index.keys is None and (rewritten := segment.aborted.write_out()) is not None:
            rewritten.sync()  # no sync of a closed segment's indexes is to come
            segment.aborted.close()


def _put_snapshot(log: Log, offset: int) -> None:
    """Each segment begins with one: retention and truncation count on it. Durable once the directory is synced."""
    file = write_snapshot(log.disk, log.directory, offset, log.producers)
    file.sync()
    file.release()


def _headers_from(segment: Segment, offset: int) -> Iterator[Header]:
    found = segment.find(offset)
    return scan_headers(segment.file, found.position if found is not None else segment.size, segment.size)


def finish_swaps(disk: Disk, directory: str) -> None:
    """Bring what a crash left of deletions and compactions to its end, either way (`compaction.py`).

    A `.log.swap` is whole and synced, and its offsets cover all the segments that it replaces: those go first.
    Whatever else has a temporary suffix goes.
    """
    names = disk.list(directory)
    for name in names:
        if name.endswith((DELETED, CLEANED, FETCHED, TEMPORARY)):
            disk.remove(posixpath.join(directory, name))
    swapped = [base for name in names if (base := base_offset_of(name, LOG + SWAP)) is not None]
    for base in sorted(swapped):
        complete_swap(disk, directory, base)
    for name in disk.list(directory):
        if name.endswith(SWAP):
            disk.remove(posixpath.join(directory, name))
    if len(disk.list(directory)) != len(names):
        disk.sync_directory(directory)


def complete_swap(disk: Disk, directory: str, base: int) -> None:
    """`.log.swap` takes the place of the segments whose offsets it covers; every step may be repeated."""
    swap = segment_path(directory, base, LOG + SWAP)
    file = disk.open(swap)
    try:
        last_offset = base
        for header in scan_headers(file, 0, file.size()):
            last_offset = header.last_offset
    finally:
        file.release()
    for name in disk.list(directory):
        old = base_offset_of(name)
        if old is not None and base < old <= last_offset:
            _remove_segment(disk, directory, old)
    for suffix in SUFFIXES[1:]:
        path = segment_path(directory, base, suffix)
        disk.remove(path)
        if disk.exists(path + SWAP):
            disk.rename(path + SWAP, path)
    disk.sync_directory(directory)
    disk.rename(swap, segment_path(directory, base, LOG))
    disk.sync_directory(directory)
