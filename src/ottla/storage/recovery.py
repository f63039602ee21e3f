"""Opening a log: after a clean close by looking at its last batches, after a crash by checking the unchecked tail.

opening.py tells sound segments from damage; here swaps are finished before that, and producers, epochs
and ends are taken from the sound batches after it. In the end all that counts as on disk is on disk.
"""

from __future__ import annotations

import posixpath
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ottla.kernel.errors import InvariantBroken
from ottla.kernel.ids import TopicPartition
from ottla.kernel.seams import Disk, FailedSync
from ottla.storage.bounds import LogBounds
from ottla.storage.checkpoint import (
    COPY,
    LEADER_EPOCHS,
    LOG_START,
    PARTITION_METADATA,
    SYNC_FAILED,
    TEMPORARY,
    BadCheckpoint,
    mark_failed_sync,
    write_partition_metadata,
)
from ottla.storage.folder import LogFolder
from ottla.storage.leader_epochs import LeaderEpochs
from ottla.storage.leftovers import set_unopenable_aside
from ottla.storage.opened_segments import OpenedSegments
from ottla.storage.opening import LogOpening
from ottla.storage.producers.aborted_note import put_note
from ottla.storage.producers.producers import Producers
from ottla.storage.producers.replay import replay_producers
from ottla.storage.producers.snapshot import BadSnapshot, put_snapshot, snapshot_offsets, snapshot_path
from ottla.storage.segment.chain import SegmentChain
from ottla.storage.segment.damage import Damage, headers_around
from ottla.storage.segment.names import (
    ABORTED_INDEX,
    CLEANED,
    FETCHED,
    LOG,
    SUFFIXES,
    SWAP,
    base_offset_of,
    segment_path,
)
from ottla.storage.segment.scan import scan_headers
from ottla.storage.segment.segment import Segment
from ottla.storage.values import FULL_DISK, Cost, Known, Recovered

_AGAIN_BYTES = 1 << 20
CANNOT_OPEN = (
    OSError, ValueError, LookupError, ArithmeticError, AssertionError, InvariantBroken, struct.error, BadCheckpoint,
    BadSnapshot,
)  # fmt: skip
"""The errors of opening a log whose files are damaged: no content of a disk may stop the broker."""


def sentence(error: Exception) -> str:
    """One of `CANNOT_OPEN` in words."""
    if isinstance(error, OSError | BadCheckpoint | BadSnapshot):
        return str(error)
    return f"its files cannot be read ({type(error).__name__}: {error})"


def create_files(disk: Disk, directory: str, topic_id: bytes, place: TopicPartition, start_offset: int) -> None:
    """A directory with an empty first segment; durable when this returns."""
    disk.make_directory(directory)
    disk.open(segment_path(directory, start_offset, LOG), create=True).release()
    write_partition_metadata(disk, directory, topic_id, place)  # syncs the directory too
    disk.sync_directory(posixpath.dirname(directory))


@contextmanager
def whole_or_gone(disk: Disk, directory: str) -> Iterator[None]:
    """Remove a log that could not be made whole, as far as the disk allows: a start would take it for the replica."""
    try:
        yield
    except OSError:
        with suppress(OSError):
            if never_held(disk, directory):
                disk.remove_tree(directory)
        raise


def never_held(disk: Disk, directory: str) -> bool:
    """True if the folder holds no more than a new log: an empty segment from offset 0 on."""
    for name in disk.list(directory):
        if name.removesuffix(TEMPORARY).removesuffix(COPY) in (PARTITION_METADATA, LEADER_EPOCHS):
            continue
        base, suffix = name[:20], name[20:]
        if base != "0" * 20 or (suffix.startswith(LOG) and disk.file_size(posixpath.join(directory, name))):
            return False
    return True


class Recovery:
    """Brings one log to a state in which all that it says is on disk is on disk."""

    def __init__(
        self,
        bounds: LogBounds,
        chain: SegmentChain,
        epochs: LeaderEpochs,
        damage: Damage,
        producers: Producers,
        known: Known,
        *,
        wall_ms: int,
    ) -> None:
        self._bounds = bounds
        self._chain = chain
        self._folder: LogFolder = chain.folder
        self._epochs = epochs
        self._damage = damage
        self._producers = producers
        self._known = known
        self._wall_ms = wall_ms
        self._cost = Cost()

    def run(self) -> Recovered:
        """Recover the log.

        Unreadable files that the log can do without are set aside, one after the other (leftovers.py).
        """
        folder = self._folder
        while True:
            try:
                return self._recover()
            except OSError as error:
                self._chain.still_doomed(())
                if isinstance(error, FailedSync):
                    raise
                if set_unopenable_aside(folder.disk, folder.path, error, wall_ms=self._wall_ms) is None:
                    raise

    def _recover(self) -> Recovered:
        finish_swaps(self._folder.disk, self._folder.path)
        epochs_fault = self._epochs.load()
        self._damage.load()
        opening = LogOpening(
            self._chain, self._epochs, self._damage, self._known, wall_ms=self._wall_ms, cost=self._cost
        )
        try:
            opening.run()
            self._chain.set(opening.opened.segments)
            return self._take(opening, epochs_fault)
        except BaseException:
            opening.opened.close()
            raise

    def _take(self, opening: LogOpening, epochs_fault: str) -> Recovered:
        """Take ends, epochs and producers from the segments."""
        known, chain, opened = self._known, self._chain, opening.opened
        self._note_damage(opened)
        end_offset = chain.active.next_offset
        start = self._start(end_offset)
        self._bounds.opened(start, end_offset)
        if opening.epochs_are_older and not epochs_fault:
            epochs_fault = f"{LEADER_EPOCHS} is older than the log"
        if epochs_fault:
            self._take_epochs_from_batches(epochs_fault)
        else:
            self._say_what_came_back(start, end_offset)
        self._epochs.cut_end(end_offset, at_once=not known.clean or opened.changed)
        at_most = end_offset if known.clean else min(end_offset, max(known.recovery_point, chain.bases[0]))
        replayed_from = self._take_producers(at_most, end_offset, changed=opened.changed)
        try:
            self._take_aborted(opening, replayed_from)
            return self._settle(opening, clean=known.clean and not opened.changed)
        except OSError as error:
            if error.errno not in FULL_DISK or isinstance(error, FailedSync):
                mark_failed_sync(self._folder.disk, posixpath.dirname(self._folder.path))
            raise

    def _note_damage(self, opened: OpenedSegments) -> None:
        """On a full disk it is known all the same, until the next start, which finds it again."""
        fault = self._damage.fault
        if not (self._damage or opened.damage or fault):
            return
        if fault:
            what = f"{fault}: damage was looked for in its closed segments, and the file is written anew"
            self._cost.say(self._chain.bases[0], self._chain.active.next_offset, self._chain.size_bytes, what)
        try:
            self._damage.keep(self._chain.bases[:-1])
            for base, extents in sorted(opened.damage.items()):
                self._damage.note(base, extents)
            self._damage.renew()
        except OSError as fault:
            if fault.errno not in FULL_DISK:
                raise

    def _start(self, end_offset: int) -> int:
        """The checkpointed log start, if it does not lie beyond the log's end.

        If it does: the end, when a power loss may have taken records (all that is left was already deleted); otherwise
        the first segment's base.
        """
        noted, first = self._known.log_start, self._chain.bases[0]
        if noted <= end_offset:
            return max(noted, first)
        if not self._known.lasting:
            self._cost.say(end_offset, noted, 0, f"a loss of power took what was before its start {noted}")
            return end_offset
        self._cost.say(first, end_offset, self._chain.size_bytes,
                       f"its start is not {noted}, as the checkpoint says: it ends before")  # fmt: skip
        return first

    def _say_what_came_back(self, start: int, end_offset: int) -> None:
        """Leader epochs are cut where a start rises: if they begin later, its checkpoint may be from before a deletion.

        The start stays: if the epochs are the wrong ones, a raised start would delete records on every replica.
        Reappeared records can be deleted again.
        """
        entries = self._epochs.entries
        if not entries or not start < (begin := entries[0][1]) <= end_offset:
            return
        segment = self._chain.segments[self._chain.at(start)]
        found = segment.find(start)
        if found is None or found.base_offset >= begin:
            return
        header = next(scan_headers(segment.file, found.position, segment.size), None)
        if header is not None and 0 <= header.leader_epoch <= entries[0][0]:
            self._cost.say(start, begin, 0,
                           f"the log starts at {start} by {LOG_START}, and its leader epochs begin at {begin}: records "
                           "that were deleted before may be back, and are to be deleted again")  # fmt: skip

    # --- epochs and producers ---

    def _take_epochs_from_batches(self, fault: str) -> None:
        """Replace the epochs by those of the batches, and remark on it unless the log has none yet, as a new one."""
        self._epochs.replace(self._epochs_in_batches())
        if self._epochs.entries:
            what = f"{fault}: the leader epochs are taken from the log's batches"
            self._cost.say(self._chain.bases[0], self._bounds.end, self._chain.size_bytes, what)

    def _epochs_in_batches(self) -> list[tuple[int, int]]:
        """An epoch from which the next batch falls back is a flipped bit."""
        found: list[tuple[int, int]] = []
        risen = False
        for segment in self._chain.segments:
            for header in headers_around(segment, self._damage.of(segment.base_offset), 0):
                if risen and header.leader_epoch < found[-1][0]:
                    found.pop()
                risen = not found or header.leader_epoch > found[-1][0]
                if risen:
                    found.append((header.leader_epoch, header.base_offset))
        return found

    def _take_producers(self, at_most: int, end_offset: int, *, changed: bool) -> int:
        """The offset from which on batches were read."""
        folder = self._folder
        snapshots = snapshot_offsets(folder.disk, folder.path)
        for offset in snapshots:
            if offset > at_most:  # a snapshot of a lost tail, or of one that was cut and written anew
                folder.disk.remove(snapshot_path(folder.path, offset))
        replayed = replay_producers(
            self._producers,
            self._chain,
            self._damage,
            end_offset=end_offset,
            at_most=at_most,
            snapshots=snapshots,
            put_snapshots=True,
        )
        self._cost.replayed_batches += replayed.batches
        if not changed:
            newest = max((offset for offset in snapshots if offset <= at_most), default=-1)
            self._say_lost_snapshot(replayed.start, newest)
        return replayed.start

    def _say_lost_snapshot(self, replayed_from: int, newest: int) -> None:
        """Remark on a missing snapshot: a clean close leaves one at the end; later segments begin with one.

        `newest`: the offset of the newest file, which should have been read.
        """
        bases, end_offset = self._chain.bases, self._bounds.end
        base, due = bases[-1], newest
        if self._known.clean:
            due = end_offset
        elif bases[0] < base <= self._known.recovery_point:
            due = max(base, newest)
        if replayed_from < due:
            what = f"the producer snapshot at {due} was missing or damaged: producers are known from the batches"
            self._cost.say(replayed_from, end_offset, 0, what)

    def _take_aborted(self, opening: LogOpening, replayed_from: int) -> None:
        """Transaction indexes that nothing vouches for are built anew. One line for a log, if they were damaged."""
        known, chain, end_offset = self._known, self._chain, self._bounds.end
        opening.aborted.build(chain, self._damage, replayed_from=replayed_from)
        wrong = opening.aborted.wrong(
            [one for one in chain.segments if not self._damage.of(one.base_offset)],
            whole_to=end_offset if known.clean else min(end_offset, known.recovery_point),
            is_whole=known.is_whole and not opening.opened.changed,
            closed_at=end_offset if known.clean else None,
            sparse=known.compacted,
        )
        if wrong:
            others = f" and those of {len(wrong) - 1} more segments" if len(wrong) > 1 else ""
            what = f"{wrong[0].path(ABORTED_INDEX)}{others} was missing or wrong, and was built anew"
            self._cost.say(wrong[0].base_offset, wrong[-1].next_offset, sum(one.size for one in wrong), what)

    # --- the disk ---

    def _settle(self, opening: LogOpening, *, clean: bool) -> Recovered:
        """After a crash: sync the kept and truncated files, so that the end counts as synced (rule A7)."""
        folder, cost = self._folder, self._cost
        recovered = self._recovered(opening.opened)
        if not clean:
            self._sync_all()
        elif cost.rebuilt_indexes:
            for segment in self._chain.segments[:-1]:
                if segment.index.keys is not None:
                    segment.write_indexes()
                    segment.seal()
        self._bounds.settled()
        if cost.replayed_batches:
            put_snapshot(folder.disk, folder.path, self._bounds.end, self._producers)
            folder.sync()
        if opening.aborted.built_anew or not clean:
            put_note(folder, self._chain.segments, self._bounds.end)
        return recovered

    def _recovered(self, opened: OpenedSegments) -> Recovered:
        cost = self._cost
        return Recovered(
            len(self._chain.segments),
            cost.scanned_bytes,
            cost.truncated_bytes,
            cost.rebuilt_indexes,
            cost.replayed_batches,
            tuple(cost.remarks),
            opened.lacks_end,
        )

    def _sync_all(self) -> None:
        folder, segments = self._folder, self._chain.segments
        again = folder.disk.exists(posixpath.join(posixpath.dirname(folder.path), SYNC_FAILED))
        for segment in segments:
            if segment.index.keys is not None:
                if again:
                    _write_again(segment)
                for file in [segment.file, *segment.write_indexes()]:
                    file.sync()
        folder.sync()
        for segment in segments[:-1]:
            if segment.index.keys is not None:
                segment.seal()


def _write_again(segment: Segment) -> None:
    """Write bytes again that may be in the page cache alone, as a sync skips pages that a failed one has dropped."""
    for position in range(0, segment.size, _AGAIN_BYTES):
        piece = segment.file.read_at(position, min(_AGAIN_BYTES, segment.size - position))
        segment.file.write_at(position, [piece])


def finish_swaps(disk: Disk, directory: str) -> None:
    """Complete or undo the compactions that a crash broke off (`compaction.py`).

    A `.log.swap` is whole and synced, and its offsets cover all the segments that it replaces; they are removed first.
    All other files with a temporary suffix are removed, except those that retention is about to delete.
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
    """Put a `.log.swap` in the place of the segments whose offsets it covers; every step may be repeated."""
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
