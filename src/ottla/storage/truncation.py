"""Cuts a log at its end, or empties it: batches, indexes, epochs, damage and producers go back together."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from ottla.records.batch import Batch
from ottla.storage.bounds import LogBounds
from ottla.storage.leader_epochs import LeaderEpochs
from ottla.storage.producers.aborted_note import put_note
from ottla.storage.producers.producers import Producers
from ottla.storage.producers.replay import replay_producers
from ottla.storage.producers.snapshot import snapshot_offsets, snapshot_path
from ottla.storage.reading import Reading
from ottla.storage.retention import remove_files
from ottla.storage.rolling import Rolling
from ottla.storage.segment.chain import SegmentChain
from ottla.storage.segment.closed import ClosedSegment, check
from ottla.storage.segment.damage import Damage, leads_to
from ottla.storage.segment.names import LOG
from ottla.storage.segment.scan import FoundBatch
from ottla.storage.segment.segment import Segment
from ottla.storage.segment.walk import Extent
from ottla.storage.syncing import Syncing
from ottla.storage.write_gate import WriteGate


def _no_checkpoint(offset: int) -> None:
    """Do nothing: a log outside a log directory has no checkpoint."""


class Truncation:
    """One log's cuts. A cut needs nearly all parts of the log, as all of them go back."""

    __slots__ = (
        "_before_cut", "_bounds", "_chain", "_damage", "_epochs", "_gate", "_producers", "_reading", "_rolling",
        "_syncing",
    )  # fmt: skip

    def __init__(
        self,
        bounds: LogBounds,
        chain: SegmentChain,
        epochs: LeaderEpochs,
        damage: Damage,
        producers: Producers,
        *,
        gate: WriteGate,
        reading: Reading,
        rolling: Rolling,
        syncing: Syncing,
    ) -> None:
        self._bounds = bounds
        self._chain = chain
        self._epochs = epochs
        self._damage = damage
        self._producers = producers
        self._gate = gate
        self._reading = reading
        self._rolling = rolling
        self._syncing = syncing
        self._before_cut: Callable[[int], None] = _no_checkpoint

    def listen(self, before_cut: Callable[[int], None]) -> None:
        """`before_cut(offset)` lowers the checkpoints before a cut: else a crash would look like damage."""
        self._before_cut = before_cut

    # --- back to an offset ---

    def cut_to(self, offset: int) -> None:
        """Segments go from the last to the first, so that a crash half-way leaves a log without a hole.

        A log is never truncated at damage, which would drop committed records, and nothing is written behind damage:
        such a log takes no more writes, and is fetched anew as a whole (broker/replicas/repairs.py).
        """
        chain = self._chain
        if offset >= self._bounds.end:
            self._epochs.cut_end(offset)  # an empty epoch of ours may conflict with the leader's
            return
        if offset < chain.bases[0]:
            self.restart_at(offset, wall_ms=chain.active.created_ms)
            return
        try:
            if self._is_damaged_below(offset):
                self._gate.close_at_damage(offset)
                return
            found = self._reading.locate(offset)
        except OSError:
            self._gate.close()
            raise
        if found is not None and self._leaves_nothing(*found):
            # The end of what is left lies below the start, and the log would begin there again.
            self.restart_at(min(offset, self._bounds.start), wall_ms=chain.active.created_ms)
            return
        end = offset if found is None else min(offset, found[1].base_offset)
        self._lower_recovery_point(end)
        self._cut_epochs(end)
        try:
            self._cut_files(offset)
        except OSError:
            self._gate.close()
            raise

    def _leaves_nothing(self, segment: Segment, found: FoundBatch) -> bool:
        """True if no batch at or above the log start would remain: the first segment may begin below it."""
        start = self._bounds.start
        return self._chain.bases[0] < start and self._reading.locate(start - 1) == (segment, found)

    def _cut_files(self, offset: int) -> None:
        chain = self._chain
        keep = max(1, bisect_left(chain.bases, offset))
        gone, kept = chain.segments[keep:], chain.segments[:keep]
        for segment in reversed(gone):
            remove_files(chain.folder, [segment])
            chain.folder.sync()
        last = kept[-1]
        last.truncate(offset)
        end_offset = last.next_offset if last.size else last.base_offset
        chain.limit(last)
        chain.set(kept)
        self._rolling.schedule()
        self._after_cut(end_offset)

    def _after_cut(self, end_offset: int) -> None:
        chain = self._chain
        folder = chain.folder
        for snapshot in snapshot_offsets(folder.disk, folder.path):
            if snapshot > end_offset:
                folder.disk.remove(snapshot_path(folder.path, snapshot))
        self._damage.keep(chain.bases[:-1])
        self._epochs.cut_end(end_offset)
        self._bounds.truncated(end_offset)
        self._syncing.cut(end_offset, chain.active.base_offset)
        replay_producers(self._producers, chain, self._damage, end_offset=end_offset, at_most=end_offset)
        put_note(folder, chain.segments[:-1], chain.active.base_offset)

    def _is_damaged_below(self, offset: int) -> bool:
        """True if the segment that a cut would leave as the last has damage below `offset`, known or found now."""
        chain = self._chain
        segment = chain.segments[max(0, bisect_left(chain.bases, offset) - 1)]
        if any(one.first_offset < offset for one in self._damage.of(segment.base_offset)):
            return True
        if leads_to(segment, offset) or _leads_into_sound_batch(segment, offset):
            return False  # else compaction left a hole, or the segment is damaged
        epochs = self._epochs.between(segment.base_offset, segment.next_offset)
        told = ClosedSegment(segment.path(LOG), segment.base_offset, segment.next_offset, segment.size, epochs)
        found = tuple(step for step in check(chain.folder.disk, told) if isinstance(step, Extent))
        if found and segment is not chain.active:
            try:
                self._damage.note(segment.base_offset, found)
            except OSError as fault:
                self._gate.refuse(fault)  # on a full disk the damage is known until the next start only
        return any(one.first_offset < offset for one in found)

    # --- before a cut ---

    def _lower_recovery_point(self, offset: int) -> None:
        """Lower the recovery point before a cut.

        If a full disk raises here, the log is as it was, and may be cut later.
        """
        before = self._bounds.recovery_point
        self._bounds.recovery_point_lowered(offset)
        try:
            self._before_cut(offset)
        except OSError as fault:
            self._bounds.recovery_point_raised(before)
            self._gate.refuse(fault)
            raise

    def _cut_epochs(self, offset: int) -> None:
        """Cut the epochs before the batches: a full disk that has no room for them leaves the log as it was.

        A crash after this leaves batches whose epochs are not in the checkpoint; recovery takes them from the batches.
        """
        try:
            self._epochs.cut_end(offset)
        except OSError as fault:
            self._gate.refuse(fault)
            raise

    # --- all of it ---

    def restart_at(self, offset: int, wall_ms: int) -> None:
        """Empty the log. On a full disk this raises with nothing changed, or half-way with the gate closed."""
        self._lower_recovery_point(0)
        self._cut_epochs(-1)
        try:
            self._begin_anew(offset, wall_ms)
        except OSError:
            self._gate.close()
            raise

    def _begin_anew(self, offset: int, wall_ms: int) -> None:
        chain, folder = self._chain, self._chain.folder
        remove_files(folder, [doomed.segment for doomed in chain.doomed])  # a new segment may get the name of one
        chain.still_doomed(())
        for segment in reversed(chain.segments):
            remove_files(folder, [segment])
        folder.sync()
        segment = chain.made(offset, wall_ms)
        segment.aborted.begin_empty()
        segment.create_file()
        folder.sync()  # the empty segment is on disk before anything else is
        segment.index.reset()
        segment.times.reset()
        self._gate.emptied()
        self._damage.keep(())
        chain.set([segment])
        self._rolling.schedule()
        self._bounds.restarted(offset)
        for snapshot in snapshot_offsets(folder.disk, folder.path):
            folder.disk.remove(snapshot_path(folder.path, snapshot))
        self._syncing.restarted(offset)
        self._producers.clear()
        put_note(folder, (), offset)


def _leads_into_sound_batch(segment: Segment, offset: int) -> bool:
    """True if `offset` is in the middle of a batch whose checksum holds, and batch follows on batch up to it."""
    found = segment.find(offset)
    if found is None or not found.base_offset < offset < found.next_offset or not leads_to(segment, found.base_offset):
        return False
    return Batch(segment.file.read_at(found.position, found.size)).crc_holds()
