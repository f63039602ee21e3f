"""Raises a log's start: retention by time and size, DeleteRecords, and the files of segments that are gone."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.config.topic import TopicConfig
from ottla.kernel.errors import ErrorCode
from ottla.kernel.seams import FailedSync
from ottla.kernel.trusted_time import TimeFor
from ottla.records.header import HEADER_SIZE
from ottla.storage.bounds import LogBounds
from ottla.storage.checkpoint import TEMPORARY, replace_file
from ottla.storage.folder import LogFolder
from ottla.storage.leader_epochs import LeaderEpochs
from ottla.storage.producers.snapshot import snapshot_offsets, snapshot_path
from ottla.storage.rolling import Rolling
from ottla.storage.segment.chain import SegmentChain
from ottla.storage.segment.names import DELETED, LOG, SUFFIXES
from ottla.storage.segment.segment import Doomed, Segment
from ottla.storage.syncing import Syncing
from ottla.storage.values import FULL_DISK
from ottla.storage.write_gate import WriteGate


class Retention:
    """One log's."""

    __slots__ = ("_bounds", "_chain", "_epochs", "_gate", "_rolling", "_syncing")

    def __init__(
        self,
        bounds: LogBounds,
        chain: SegmentChain,
        epochs: LeaderEpochs,
        gate: WriteGate,
        rolling: Rolling,
        syncing: Syncing,
    ) -> None:
        self._bounds = bounds
        self._chain = chain
        self._epochs = epochs
        self._gate = gate
        self._rolling = rolling
        self._syncing = syncing

    # --- the start ---

    def raise_start(self, offset: int) -> None:
        """Raise the log start to `offset`, which may be in the middle of a batch."""
        self._bounds.start_raised(offset)
        try:
            self._epochs.cut_start(offset)
        except OSError as fault:
            self._gate.refuse(fault)  # epochs below the start may stay in their checkpoint, which does no harm

    def delete_records_before(self, offset: int) -> int | ErrorCode:
        bounds = self._bounds
        if offset == -1:
            offset = bounds.high_watermark
        if offset < 0 or offset > bounds.high_watermark:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        if offset > bounds.start:
            self.raise_start(offset)
        return bounds.start

    # --- which segments go ---

    def apply(self, config: TopicConfig, wall_ms: int, time_for: TimeFor, *, leads: bool) -> int:
        chain = self._chain
        count = self._below_start()
        if config.deleted and leads:
            if config.retention_ms >= 0:
                count = max(count, self._too_old(time_for(config.retention_ms) - config.retention_ms))
            if config.retention_bytes >= 0:
                count = max(count, self._too_much(config.retention_bytes))
        if count == len(chain.segments):
            self._roll_expired(wall_ms)
        count = min(count, self._recoverable())
        if count == 0:
            return 0
        self.raise_start(max(self._bounds.start, chain.bases[count]))
        chain.take_out(count, wall_ms)
        return count

    def _recoverable(self) -> int:
        """Sealed segments behind which a producer snapshot is on disk: no state is lost with them."""
        return self._ending_by(self._syncing.sealed_to)

    def _below_start(self) -> int:
        return self._ending_by(self._bounds.start)

    def _ending_by(self, offset: int) -> int:
        """The number of leading segments, the last excepted, that hold nothing from `offset` on."""
        bases = self._chain.bases
        count = 0
        while count + 1 < len(bases) and bases[count + 1] <= offset:
            count += 1
        return count

    def _roll_expired(self, wall_ms: int) -> None:
        """Seal a last segment whose records may all go, so that the next round finds it synced and takes it out."""
        if self._chain.active.size:
            try:
                self._rolling.roll(self._bounds.end, wall_ms)
            except OSError as fault:
                self._gate.refuse(fault)

    def _too_old(self, before_ms: int) -> int:
        """The number of leading segments that are committed and whose newest record is older; it may be all."""
        count = 0
        for segment in self._chain.segments:
            newest = segment.max_timestamp if segment.max_timestamp >= 0 else segment.modified_ms()
            if segment is self._chain.active and segment.size == 0:
                break
            if newest >= before_ms or segment.next_offset > self._bounds.high_watermark:
                break
            count += 1
        return count

    def _too_much(self, retention_bytes: int) -> int:
        """The number of leading segments without which the log still holds `retention_bytes`; all if that is 0."""
        over = self._chain.size_bytes - retention_bytes
        count = 0
        for segment in self._chain.segments:
            if over <= 0 or over < segment.size or segment.next_offset > self._bounds.high_watermark:
                break
            over -= segment.size
            count += 1
        return count

    # --- their files ---

    def purge(self, wall_ms: int, delay_ms: int, *, one_by_one: bool) -> None:
        """Files of segments taken out are renamed to `.deleted`, and deleted once `file.delete.delay.ms` has passed.

        `one_by_one`: the new start could not be checkpointed. Until it is, a stub of the last segment that goes stays
        (deleted_segments.py): it shows the next start that the segments below were deleted, and are not missing.
        """
        chain, folder = self._chain, self._chain.folder
        if not chain.doomed:
            return
        due = [doomed for doomed in chain.doomed if not 0 <= wall_ms - doomed.since_ms < delay_ms]
        kept = max(due, key=lambda doomed: doomed.segment.base_offset) if one_by_one and due else None
        if kept is not None:
            kept.segment.rename_files("", DELETED)
            folder.sync()
            _leave_stub(folder, kept.segment)
        waiting: list[Doomed] = []
        for doomed in chain.doomed:
            if doomed in due and doomed is not kept:
                remove_files(folder, [doomed.segment])
            else:
                if not doomed.renamed and doomed is not kept:
                    doomed.segment.rename_files("", DELETED)
                waiting.append(doomed._replace(renamed=True))
            if one_by_one:
                folder.sync()
        chain.still_doomed(waiting)
        offsets = snapshot_offsets(folder.disk, folder.path)
        for offset in offsets[:-1]:
            if offset < chain.bases[0]:
                folder.disk.remove(snapshot_path(folder.path, offset))
        folder.sync()


def _leave_stub(folder: LogFolder, segment: Segment) -> None:
    """Put the header of its first batch in the place of the renamed file, on disk before any other file goes.

    Connections and sockets that still send the file or its pages need them as they were (decision 0028). So the file is
    replaced. It is cut only if there is no room for a stub, not even where the indexes were.
    """
    disk, path = folder.disk, segment.path(LOG) + DELETED
    segment.close()
    for suffix in SUFFIXES[1:]:
        disk.remove(segment.path(suffix) + DELETED)
    if disk.file_size(path) <= HEADER_SIZE:
        return
    folder.sync()  # before that, a file system may not let the room of the indexes be used
    file = disk.open(path)
    try:
        try:
            replace_file(disk, path, file.read_at(0, HEADER_SIZE))
        except OSError as fault:
            if fault.errno not in FULL_DISK or isinstance(fault, FailedSync):
                raise
            disk.remove(path + TEMPORARY)
            file.truncate(HEADER_SIZE)
            file.sync()
    finally:
        file.release()


def remove_files(folder: LogFolder, segments: Iterable[Segment]) -> None:
    """Delete a segment's files for good; the system keeps them while slices of them are being sent."""
    for segment in segments:
        segment.close()
        for suffix in SUFFIXES:
            folder.disk.remove(segment.path(suffix))
            folder.disk.remove(segment.path(suffix) + DELETED)
