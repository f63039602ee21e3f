"""Opening a log: after a clean close by looking at its last batches, after a crash by checking the unchecked tail.

Comes from log.py. opening.py tells sound segments from damage; here swaps are finished before, and producers, epochs
and ends follow from what is sound. In the end all that counts as on disk is on disk.
"""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from ottla.kernel.seams import Disk, FailedSync
from ottla.storage.directory.checkpoint import (
    COPY,
    LEADER_EPOCHS,
    PARTITION_METADATA,
    SYNC_FAILED,
    TEMPORARY,
    mark_failed_sync,
    write_partition_metadata,
)
from ottla.storage.directory.leftovers import set_unopenable_aside
from ottla.storage.opening import Cost, Known, Opening
from ottla.storage.producers.sequencing import note_header
from ottla.storage.producers.snapshot import load_newest, snapshot_offsets, snapshot_path, write_snapshot
from ottla.storage.segment.damage import find_around, headers_around
from ottla.storage.segment.scan import Header, scan_headers
from ottla.storage.segment.segment import (
    CLEANED,
    FETCHED,
    LOG,
    SUFFIXES,
    SWAP,
    Segment,
    base_offset_of,
    segment_path,
)
from ottla.storage.values import Recovered, Remark

if TYPE_CHECKING:
    from ottla.storage.log import Log

_AGAIN_BYTES = 1 << 20


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


def recover(log: Log, known: Known, *, wall_ms: int) -> None:
    """Bring the log to a state in which all that it says is on disk is on disk.

    Files that cannot be opened, and need not be, are set aside, one after the other (leftovers.py).
    """
    cost = Cost()
    while True:
        try:
            _recover(log, known, cost, wall_ms)
            return
        except OSError as error:
            log.doomed.clear()
            if isinstance(error, FailedSync):
                raise
            if set_unopenable_aside(log.disk, log.directory, error, clean=known.clean, wall_ms=wall_ms) is None:
                raise


def _recover(log: Log, known: Known, cost: Cost, wall_ms: int) -> None:
    finish_swaps(log.disk, log.directory)
    epochs_fault = log.epochs.load()
    log.damage.load()
    opening = Opening(log, known, wall_ms, cost)
    try:
        opening.run()
        log.set_segments(opening.segments)
        _take(log, known, opening, epochs_fault)
    except BaseException:
        opening.close()
        raise


def _take(log: Log, known: Known, opening: Opening, epochs_fault: str) -> None:
    """Ends, epochs and producers follow from the segments."""
    cost = opening.cost
    _note_damage(log, opening)
    end_offset = log.active.next_offset
    log.bounds.opened(_start(log, known.log_start, end_offset, cost), end_offset)
    if opening.epochs_are_older and not epochs_fault:
        epochs_fault = f"{LEADER_EPOCHS} is older than the log"
    if epochs_fault:
        _take_epochs_from_batches(log, epochs_fault, cost)
    log.epochs.cut_end(log.end_offset)
    at_most = log.end_offset if known.clean else min(log.end_offset, max(known.recovery_point, log.bases[0]))
    snapshots = snapshot_offsets(log.disk, log.directory)
    for offset in snapshots:
        if offset > at_most:  # of a tail that was lost, or that was cut before another came in its place
            log.disk.remove(snapshot_path(log.directory, offset))
    replayed_from = load_producers(log, at_most=at_most, cost=cost, snapshots=snapshots)
    if not opening.changed:
        newest = max((offset for offset in snapshots if offset <= at_most), default=-1)
        _say_lost_snapshot(log, known, replayed_from, newest, cost)
    try:
        _settle(log, cost, opening, clean=known.clean and not opening.changed)
    except OSError:
        mark_failed_sync(log.disk, posixpath.dirname(log.directory))
        raise


def _note_damage(log: Log, opening: Opening) -> None:
    """On a full disk it is known all the same, until the next start, which finds it again."""
    if not (log.damage or opening.damage):
        return
    try:
        log.damage.keep(log.bases[:-1])
        for base, extents in sorted(opening.damage.items()):
            log.damage.note(base, extents)
    except OSError as fault:
        if fault.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise


def _start(log: Log, noted: int, end_offset: int, cost: Cost) -> int:
    """Where the log starts: as its checkpoint says, unless that lies behind all that there is."""
    if noted <= end_offset:
        return max(noted, log.bases[0])
    cost.remarks.append(
        Remark(
            log.bases[0],
            end_offset,
            log.size_bytes,
            f"its start is not {noted}, as the checkpoint says: it ends before",
        )
    )
    return log.bases[0]


def _settle(log: Log, cost: Cost, opening: Opening, *, clean: bool) -> None:
    """After a crash: sync what was kept and cut, so that the end may be called synced (rule A7)."""
    log.recovered = Recovered(
        len(log.segments),
        cost.scanned_bytes,
        cost.truncated_bytes,
        cost.rebuilt_indexes,
        cost.replayed_batches,
        tuple(cost.remarks),
        opening.lacks_end,
    )
    if not clean:
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
    log.bounds.settled()
    log.syncing.opened(log)
    if cost.replayed_batches:
        _put_snapshot(log, log.end_offset)
        log.disk.sync_directory(log.directory)


def _write_again(segment: Segment) -> None:
    """What is read here may stand in the page cache alone: a failed sync has dropped it, another passes it over."""
    for position in range(0, segment.size, _AGAIN_BYTES):
        piece = segment.file.read_at(position, min(_AGAIN_BYTES, segment.size - position))
        segment.file.write_at(position, [piece])


def _epochs_in(log: Log) -> list[tuple[int, int]]:
    """The leader epochs as the batches themselves tell them, where the checkpoint was lost."""
    found: list[tuple[int, int]] = []
    for segment in log.segments:
        for header in headers_around(segment, log.damage.of(segment.base_offset), 0):
            if not found or header.leader_epoch > found[-1][0]:
                found.append((header.leader_epoch, header.base_offset))
    return found


def _take_epochs_from_batches(log: Log, fault: str, cost: Cost) -> None:
    """Said where the log has any: a new one has no epochs yet."""
    log.epochs.replace(_epochs_in(log))
    if log.epochs.entries:
        what = f"{fault}: the leader epochs are taken from the log's batches"
        cost.remarks.append(Remark(log.bases[0], log.end_offset, log.size_bytes, what))


def _say_lost_snapshot(log: Log, known: Known, replayed_from: int, newest: int, cost: Cost) -> None:
    """A clean close leaves a producer snapshot at the end, and each segment but the first begins with one.

    `newest`: the offset of the newest file, which should have been read.
    """
    base, due = log.active.base_offset, newest
    if known.clean:
        due = log.end_offset
    elif log.bases[0] < base <= known.recovery_point:
        due = max(base, newest)
    if replayed_from < due:
        what = f"the producer snapshot at {due} was missing or damaged: producers are known from the batches"
        cost.remarks.append(Remark(replayed_from, log.end_offset, 0, what))


def load_producers(log: Log, *, at_most: int, cost: Cost | None = None, snapshots: list[int] | None = None) -> int:
    """Producer state as of the log's end: the newest snapshot not above `at_most`, then the batches behind it.

    The offset from which on batches were read.
    """
    loaded = load_newest(log.disk, log.directory, at_most, there=snapshots)
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
        for header in _headers_from(log, segment, start):
            if cost is not None:
                cost.replayed_batches += 1
            if header.producer_id >= 0 and header.last_offset >= start and header.next_offset <= log.end_offset:
                view = memoryview(segment.file.read_at(header.position, header.size) if header.is_control else b"")
                note_header(log, header, view)
        if segment.index.keys is None and (rewritten := segment.aborted.write_out()) is not None:
            rewritten.sync()  # no sync of a closed segment's indexes is to come
            segment.aborted.close()
    return start


def _put_snapshot(log: Log, offset: int) -> None:
    """Each segment begins with one: retention and truncation count on it. Durable once the directory is synced."""
    file = write_snapshot(log.disk, log.directory, offset, log.producers)
    file.sync()
    file.release()


def _headers_from(log: Log, segment: Segment, offset: int) -> Iterator[Header]:
    extents = log.damage.of(segment.base_offset)
    if extents:
        sound = find_around(segment, extents, offset)
        return headers_around(segment, extents, sound.position if sound is not None else segment.size)
    found = segment.find(offset)
    return scan_headers(segment.file, found.position if found is not None else segment.size, segment.size)


def finish_swaps(disk: Disk, directory: str) -> None:
    """Bring what a crash left of compactions to its end, either way (`compaction.py`).

    A `.log.swap` is whole and synced, and its offsets cover all the segments that it replaces: those go first.
    Whatever else has a temporary suffix goes, but for what retention is about to delete.
    """
    names = disk.list(directory)
    if not any(name.endswith((CLEANED, FETCHED, TEMPORARY, SWAP)) for name in names):
        return
    for name in names:
        if name.endswith((CLEANED, FETCHED, TEMPORARY)):
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
            for suffix in SUFFIXES:
                disk.remove(segment_path(directory, old, suffix))
    for suffix in SUFFIXES[1:]:
        path = segment_path(directory, base, suffix)
        disk.remove(path)
        if disk.exists(path + SWAP):
            disk.rename(path + SWAP, path)
    disk.sync_directory(directory)
    disk.rename(swap, segment_path(directory, base, LOG))
    disk.sync_directory(directory)
