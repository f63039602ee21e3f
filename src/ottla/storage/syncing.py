"""The part of a log that is not on disk yet, and its sync (rule B1). The syncer does the waiting."""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from ottla.config.topic import TopicConfig
from ottla.kernel.seams import OpenFile, SyncWork
from ottla.storage.bounds import LogBounds
from ottla.storage.producers.aborted_note import write_note
from ottla.storage.producers.producers import Producers
from ottla.storage.producers.snapshot import snapshot_offsets, snapshot_path, write_snapshot
from ottla.storage.segment.chain import SegmentChain
from ottla.storage.segment.segment import Segment
from ottla.storage.write_gate import WriteGate

CHECKPOINT_BYTES = 8 << 20
"""The bytes since the last such sync after which a sync covers the indexes too, and so moves the recovery point."""
SNAPSHOT_BYTES = 64 << 20
"""The bytes after which a producer snapshot is written inside a segment, so that recovery need not replay all of it."""
_NOTHING = -1


def _nobody_to_tell(error: OSError) -> None:
    """Do nothing: a log outside a broker refuses by itself."""


class _UnderWay:
    """The offsets that one sync will have put on disk when it ends; a truncation meanwhile lowers them."""

    __slots__ = ("base", "candidate", "end", "work")

    def __init__(self, end: int, base: int) -> None:
        self.end = end
        self.base = base
        """The active segment's base: all before is on disk already or part of this work."""
        self.candidate = base
        """The recovery point that this sync allows."""
        self.work: SyncWork | None = None


class Syncing:
    """The dirty state of one log. Syncs end in the order they began; the next may begin before the last has ended."""

    __slots__ = (
        "_bounds",
        "_chain",
        "_checkpoint_at",
        "_closed",
        "_dirty",
        "_dirty_data",
        "_dirty_directory",
        "_flushed_ms",
        "_gate",
        "_new_indexes",
        "_on_failed",
        "_on_synced",
        "_producers",
        "_snapshot_at",
        "_under_way",
        "sealed_to",
    )

    def __init__(
        self,
        bounds: LogBounds,
        chain: SegmentChain,
        producers: Producers,
        gate: WriteGate,
        on_synced: Callable[[int], None],
    ) -> None:
        self._bounds = bounds
        self._chain = chain
        self._producers = producers
        self._gate = gate
        self._on_synced = on_synced
        self._on_failed: Callable[[OSError], None] = _nobody_to_tell
        self.sealed_to = 0
        """Segments that end here are on disk with their indexes and the producer snapshot behind them."""
        self._dirty: list[OpenFile] = []
        """Files, besides the active segment's, that the next sync must cover; held."""
        self._dirty_data = False
        """True if the active segment was cut: it is dirty then even if its end was synced before."""
        self._dirty_directory = False
        self._under_way: deque[_UnderWay] = deque()
        self._checkpoint_at = 0
        self._new_indexes = True
        """True if the files of the active segment's indexes may not be there yet: then their names need a sync too."""
        self._snapshot_at = 0
        self._flushed_ms = -1
        self._closed = False

    def listen(
        self, *, on_synced: Callable[[int], None] | None = None, on_failed: Callable[[OSError], None] | None = None
    ) -> None:
        """Set the callbacks: `on_synced(offset)` when more is on disk, `on_failed` of a sync that failed."""
        self._on_synced = on_synced or self._on_synced
        self._on_failed = on_failed or self._on_failed

    def opened(self) -> None:
        """Begin with the log as recovery left it, all of it on disk."""
        self.sealed_to = self._chain.active.base_offset
        self._checkpoint_at = self._snapshot_at = self._chain.active.size
        self._new_indexes = self._chain.active.size == 0

    def rolled(self, old: Segment, sealed_files: list[OpenFile], made: list[OpenFile]) -> None:
        """`made`: other files that belong to the end of the old segment, held."""
        for file in sealed_files:
            file.hold()
        self._dirty += [*sealed_files, *made]
        self._dirty_directory = True
        old.index.close()
        old.times.close()
        self._checkpoint_at = self._snapshot_at = 0
        self._new_indexes = True

    def cut(self, end_offset: int, base_offset: int) -> None:
        """Note a cut in the segment from `base_offset` on: a sync under way covers bytes that are gone."""
        self.sealed_to = min(self.sealed_to, base_offset)
        for under_way in self._under_way:
            under_way.end = min(under_way.end, end_offset)
            under_way.base = min(under_way.base, base_offset)
            under_way.candidate = min(under_way.candidate, end_offset)
        self._dirty_data = self._dirty_directory = True
        self._checkpoint_at = self._snapshot_at = 0
        self._new_indexes = True

    def restarted(self, offset: int) -> None:
        """Note that the log was emptied and starts at `offset`."""
        for file in self._dirty:
            file.release()
        self._dirty = []
        self.cut(offset, offset)
        for under_way in self._under_way:
            under_way.end = under_way.base = under_way.candidate = _NOTHING

    def take_indexes_along(self, *, write_caching: bool) -> bool:
        """Let the next sync move the recovery point; return True if there is anything to move it over.

        With write.caching only bytes that happen to be on disk count.
        """
        bounds = self._bounds
        end = bounds.on_disk if write_caching else bounds.end
        if bounds.recovery_point >= end or (write_caching and bounds.on_disk < bounds.end):
            return False
        self._checkpoint_at = -CHECKPOINT_BYTES
        self._dirty_data = True
        return True

    # -- the three of kernel.seams.Syncable ---

    def begin(self) -> SyncWork | None:
        """Begin a sync. Raises OSError if the indexes cannot be written; then no sync is under way."""
        end = self._bounds.end
        if (
            self._gate.closed
            or self._closed
            or (self._bounds.on_disk == end and not (self._dirty or self._dirty_data or self._dirty_directory))
        ):
            return None
        active = self._chain.active
        under_way = _UnderWay(end, active.base_offset)
        if active.size - self._checkpoint_at >= CHECKPOINT_BYTES:
            self._dirty += self._checkpoint(under_way)
        files = self._dirty
        self._dirty = []
        active.file.hold()
        files.append(active.file)
        directories = (self._chain.folder.path,) if self._dirty_directory else ()
        self._dirty_directory = self._dirty_data = False
        under_way.work = SyncWork(end, tuple(files), directories)
        self._under_way.append(under_way)
        return under_way.work

    def _checkpoint(self, under_way: _UnderWay) -> list[OpenFile]:
        """Write the indexes, and now and then a producer snapshot; a full disk only puts this off."""
        active = self._chain.active
        files: list[OpenFile] = []
        try:
            if active.size - self._snapshot_at >= SNAPSHOT_BYTES:
                files.append(self._write_snapshot())
                self._snapshot_at = active.size
                self._dirty_directory = True
            if self._new_indexes or active.aborted.makes_file:
                self._dirty_directory = True
            for file in active.write_indexes():
                file.hold()
                files.append(file)
            if self._snapshot_at == active.size:
                files += self._write_note()
        except OSError as fault:
            self._gate.refuse(fault)
            return files
        self._checkpoint_at = active.size
        self._new_indexes = False
        under_way.candidate = self._bounds.end
        return files

    def _write_snapshot(self) -> OpenFile:
        folder = self._chain.folder
        return write_snapshot(folder.disk, folder.path, self._bounds.end, self._producers)

    def _write_note(self) -> list[OpenFile]:
        return write_note(self._chain.folder, self._chain.segments, self._bounds.end)

    def end(self, work: SyncWork, error: OSError | None) -> None:
        for file in work.files:
            file.release()
        under_way = self._under_way.popleft()
        if error is not None:
            self._gate.close()
            self._on_failed(error)
            return
        if self._closed or self._gate.closed:
            return  # deleted meanwhile, or another sync failed: then it is unknown which bytes this one has put on disk
        if under_way.base != self.sealed_to:
            self.sealed_to = max(self.sealed_to, under_way.base)
        bounds = self._bounds
        rose = bounds.disk_holds(under_way.end)
        if under_way.candidate > bounds.recovery_point:
            bounds.recovery_point_raised(under_way.candidate)
            with suppress(OSError):  # a full disk does not matter here: the old snapshots go after a later sync
                self._drop_snapshots()
        if rose:
            self._on_synced(under_way.end)

    def _drop_snapshots(self) -> None:
        """Remove snapshots inside of segments: those at their beginnings are enough, and inside the active one the
        newest below the recovery point.

        Compaction makes one segment of many, of which each had begun with a snapshot.
        """
        folder, base, bases = self._chain.folder, self._chain.active.base_offset, set(self._chain.bases)
        there = snapshot_offsets(folder.disk, folder.path)
        inside = [offset for offset in there if base < offset <= self._bounds.recovery_point]
        before = [offset for offset in there if offset < base and offset not in bases] if base in there else []
        for offset in [*before, *inside[:-1]]:
            folder.disk.remove(snapshot_path(folder.path, offset))

    def failed(self, error: OSError) -> None:
        """Report a sync that could not even begin."""
        self._on_failed(error)

    # -- the rest ---

    def flush_due(self, config: TopicConfig, wall_ms: int) -> bool:
        if self._dirty:
            return True  # a segment was sealed
        if self._bounds.on_disk >= self._bounds.end:
            self._flushed_ms = -1
            return False
        if self._bounds.end - self._bounds.on_disk >= config.flush_messages:
            return True
        if self._flushed_ms < 0 or self._flushed_ms > wall_ms:
            self._flushed_ms = wall_ms
        return wall_ms - self._flushed_ms >= config.flush_ms

    def sync_now(self) -> None:
        """Sync at once, also the files of syncs that are under way."""
        self._checkpoint_at = -CHECKPOINT_BYTES
        earlier = [under_way.work for under_way in self._under_way if under_way.work is not None]
        work = self.begin()
        try:
            for each in [*earlier, work] if work is not None else earlier:
                for file in each.files:
                    file.sync()
                for directory in each.directories:
                    self._chain.folder.disk.sync_directory(directory)
        except OSError as fault:
            if work is not None:
                self._end_last(work, fault)
            raise
        if work is not None:
            self._end_last(work, None)

    def _end_last(self, work: SyncWork, error: OSError | None) -> None:
        """End the sync that began last, before the earlier ones."""
        self._under_way.rotate(1)
        self.end(work, error)

    def close(self, *, clean: bool) -> None:
        try:
            if clean and not self._gate.closed:
                self._dirty.append(self._write_snapshot())
                self._dirty += self._write_note()
                self._dirty_directory = True
                self.sync_now()
                if self._bounds.recovery_point < self._bounds.end:
                    path = self._chain.folder.path
                    raise OSError(errno.ENOSPC, "no room for the indexes of a clean close", path)
        finally:
            self._closed = True
            for file in self._dirty:
                file.release()
            self._dirty = []
            for segment in self._chain.segments:
                segment.close()
            for doomed in self._chain.doomed:
                doomed.segment.close()
