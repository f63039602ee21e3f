"""Builds a closed segment anew from the leader's batches of its offsets, to replace the damaged one.

Comes from broker/replicas/repairs.py, which fetches. The new files stand beside the old ones until all is there and
synced; then they are swapped in as a compaction's are (compaction.py), so that a crash leaves one or the other.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ottla.kernel.errors import InvariantBroken
from ottla.kernel.seams import Buffer, OpenFile, SyncWork
from ottla.kernel.story import Slot
from ottla.records.builder import BatchBuilder
from ottla.records.checksum import crc32c
from ottla.records.header import CRC_START, HEADER_SIZE, MAGIC
from ottla.storage.maintenance.compaction import swap_in
from ottla.storage.producers.aborted_witness import producers_at
from ottla.storage.producers.sequencing import note_header
from ottla.storage.segment.index import MAX_RELATIVE_OFFSET
from ottla.storage.segment.names import FETCHED, LOG, SUFFIXES
from ottla.storage.segment.scan import ScannedHeader, parse_header
from ottla.storage.segment.segment import Segment

if TYPE_CHECKING:
    from ottla.storage.log import Log


class Contradiction(Exception):
    """The leader's bytes are damaged themselves, or contradict the log here."""


class Refetched:
    """The segment that is being built. `wanted` is the offset to fetch next; None once the segment is complete."""

    def __init__(self, log: Log, old: Segment, *, sparse: bool) -> None:
        """Creates its file; OSError where the disk has no room. `sparse`: compaction may have left holes."""
        self._log = log
        self._old = old
        self._sparse = sparse
        self._least = old.base_offset
        """The lowest base offset that the next batch may have."""
        self._size = old.size
        self.base_offset = old.base_offset
        self.end_offset = old.next_offset
        self.wanted: int | None = old.base_offset
        self._epoch = -1
        self._new = Segment(log.disk, log.directory, old.base_offset, created_ms=0, last_suffix=FETCHED)
        log.chain.limit(self._new)
        self._new.create_file().truncate(0)
        self._new.aborted.begin_empty()
        self._producers = producers_at(log.chain, log.damage, old.base_offset)
        """The producers as of `wanted`: they tell which transactions end in this segment."""
        self._synced: Slot[None] = Slot()

    def take(self, records: Buffer) -> int:
        """Append the whole batches of an answer as they are; return their bytes. Contradiction if they do not fit."""
        if self.wanted is None:
            raise InvariantBroken(f"the segment at {self.base_offset} is whole, and gets more batches")
        view = memoryview(records)
        headers: list[ScannedHeader] = []
        position, wanted = 0, self.wanted
        while wanted < self.end_offset and position + HEADER_SIZE <= len(view):
            header = parse_header(view, position, position)
            if position + header.size > len(view) and headers:
                break
            if self._sparse and header.base_offset >= self.end_offset:
                wanted = self.end_offset  # compaction has left the leader no more batches of the segment
                break
            self._check(header, view, wanted)
            headers.append(header)
            wanted = self._least = header.next_offset
            self._epoch = header.leader_epoch
            position += header.size
        if wanted == self.wanted:
            raise Contradiction(f"nothing that can be used from offset {wanted} on")
        if self._new.size + position > MAX_RELATIVE_OFFSET:
            raise Contradiction("what is missing is too large for one segment")
        if headers:
            self._new.append_run([view[:position]], headers)
            for header in headers:
                if header.producer_id >= 0:
                    batch = view[header.position : header.position + header.size] if header.is_control else view[:0]
                    note_header(self._producers, self._new.aborted, header, batch)
        self.wanted = wanted
        if wanted >= self.end_offset:
            self._fill_up()
        return position

    def skip_to(self, offset: int) -> None:
        """Skip records below `offset`: the leader has deleted them, and this log starts there too, or above."""
        assert self.wanted is not None
        self.wanted = max(self.wanted, min(offset, self.end_offset))
        if self.wanted == self.end_offset:
            self._fill_up()

    def _check(self, header: ScannedHeader, view: memoryview, wanted: int) -> None:
        end = header.position + header.size
        if header.size < HEADER_SIZE or header.magic != MAGIC or end > len(view) or header.last_offset_delta < 0:
            raise Contradiction(f"no batch at offset {wanted}")
        if crc32c(view[header.position + CRC_START : end]) != header.crc:
            raise Contradiction(f"the batch at offset {header.base_offset} fails its CRC there too")
        begins = self._least <= header.base_offset and (self._sparse or header.base_offset <= wanted)
        ends = wanted < header.next_offset <= self.end_offset
        if not begins or not ends or header.leader_epoch < self._epoch:
            raise Contradiction(f"the batch at offset {header.base_offset} cannot have stood here")

    def _fill_up(self) -> None:
        """Let the segment cover all offsets up to the next one: else recovery would take its end for lost."""
        self.wanted = None
        first = max(self._new.next_offset, self.base_offset)
        if first < self.end_offset:
            epoch = max(self._epoch, self._log.epochs.epoch_at(self.end_offset - 1))
            empty = BatchBuilder(base_offset=first, base_timestamp=0)
            body = empty.build(leader_epoch=epoch, last_offset_delta=self.end_offset - 1 - first)
            self._new.append([body], len(body), first, self.end_offset, -1)

    # -- on disk: kernel.seams.Syncable ---

    @property
    def directory(self) -> str:
        return self._log.directory

    def synced(self) -> Slot[None]:
        """Submit this to a syncer; filled, or failed with OSError, when the files are on disk."""
        return self._synced

    def begin_sync(self) -> SyncWork | None:
        files: list[OpenFile] = [self._new.file]
        try:
            self._keep_compacted_entries()
            files += self._new.write_indexes()
        except OSError as fault:
            self._synced.fail(fault)
            return None
        for file in files:
            file.hold()
        return SyncWork(self.end_offset, tuple(files), (self._log.directory,))

    def _keep_compacted_entries(self) -> None:
        """Keep entries of transactions of which compaction has left no records: the batches do not tell them."""
        if self._sparse:
            kept = {(entry.producer_id, entry.last_offset): entry for entry in self._old.aborted.entries}
            kept.update({(entry.producer_id, entry.last_offset): entry for entry in self._new.aborted.entries})
            self._new.aborted.begin_empty()
            for entry in sorted(kept.values(), key=lambda one: one.last_offset):
                self._new.aborted.add(entry)

    def end_sync(self, work: SyncWork, error: OSError | None) -> None:
        for file in work.files:
            file.release()
        if error is not None:
            self._synced.fail(error)
        else:
            self._synced.fill(None)

    # -- its end ---

    @property
    def fits(self) -> bool:
        """True if the log still has the segment that this one is to replace."""
        log = self._log
        return self._old in log.segments[:-1] and self._old.size == self._size and not log.refusing

    def install(self) -> None:
        """Replace the old segment; call it only if this one `fits` and is synced."""
        log = self._log
        self._new.close()
        with suppress(FileNotFoundError):  # the file of the old segment may be missing: that was its damage
            log.disk.set_modified_ms(self._new.path(LOG), self._old.modified_ms())
        try:
            swap_in(log, [self.base_offset], self.end_offset, FETCHED)
        except OSError:
            log.stop_writing()
            raise

    def discard(self) -> None:
        """Remove the files of a segment that was not installed; installed files have other names by now."""
        self._new.close()
        for suffix in SUFFIXES:
            self._log.disk.remove(self._new.path(suffix))
