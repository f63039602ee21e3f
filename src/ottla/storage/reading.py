"""Reads of a log: the hot tail from memory, older parts by their indexes."""

from __future__ import annotations

from bisect import bisect_right

from ottla.kernel.errors import ErrorCode
from ottla.kernel.seams import FileSlice
from ottla.storage.bounds import LogBounds
from ottla.storage.leader_epochs import LeaderEpochs
from ottla.storage.segment.chain import SegmentChain
from ottla.storage.segment.damage import Damage, find_around, is_in_place, is_sound_gap, limit_around
from ottla.storage.segment.scan import FoundBatch
from ottla.storage.segment.segment import Segment
from ottla.storage.values import AbortedTransaction, LogRead
from ottla.storage.write_gate import WriteGate


class Reading:
    """Finds batches in the segments of one log."""

    __slots__ = ("_bounds", "_chain", "_damage", "_epochs", "_gate")

    def __init__(
        self, bounds: LogBounds, chain: SegmentChain, epochs: LeaderEpochs, damage: Damage, gate: WriteGate
    ) -> None:
        self._bounds = bounds
        self._chain = chain
        self._epochs = epochs
        self._damage = damage
        self._gate = gate

    def read(
        self, offset: int, max_bytes: int, limit_offset: int, at_least_one: bool, with_aborted: bool
    ) -> LogRead | ErrorCode:
        """Do `Log.read`; batches that the active segment remembers are found without a look at the disk."""
        bounds = self._bounds
        end = bounds.end
        limit_offset = min(limit_offset, end)
        if offset >= limit_offset or offset < bounds.start:
            return self._nothing(offset)
        active = self._chain.active
        ends = active.ends
        if not ends or offset < active.bases[0]:
            return self._read_cold(offset, max_bytes, limit_offset, at_least_one, with_aborted)
        at = bisect_right(ends, offset)
        stop = len(ends) if limit_offset == end else bisect_right(ends, limit_offset)
        if at >= stop:
            return LogRead([], -1, 0, [] if with_aborted else None)
        positions = active.positions
        position = positions[at]
        length = (positions[stop] if stop < len(ends) else active.size) - position
        if length > max_bytes:
            cut = bisect_right(positions, position + max_bytes, at, stop) - 1
            if cut == at:
                if not at_least_one and active.size - position > max_bytes:
                    first_end = positions[at + 1] if at + 1 < len(ends) else active.size
                    if first_end - position > max_bytes:
                        return LogRead([], -1, 0, [] if with_aborted else None)
                cut = at + 1
            length = (positions[cut] if cut < len(ends) else active.size) - position
        aborted = self._aborted_between(active, offset, limit_offset) if with_aborted else None
        return LogRead([FileSlice(active.file, position, length)], active.bases[at], length, aborted)

    def _nothing(self, offset: int) -> LogRead | ErrorCode:
        """Answer a read that finds nothing below the limit at `offset`, or starts outside of the log."""
        damaged_at = self._gate.damaged_at
        if damaged_at is not None and offset >= damaged_at:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if offset > self._bounds.end or offset < self._bounds.start:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        return LogRead([], -1, 0, None)

    def _read_cold(
        self, offset: int, max_bytes: int, limit_offset: int, at_least_one: bool, with_aborted: bool
    ) -> LogRead | ErrorCode:
        """Read from any segment, through the sparse index. A batch that is not the first may be cut by `max_bytes`.

        Known damage is refused; a read that starts in front of it ends there. A read that meets damage, or a missing
        file, is refused too.
        """
        if self._damage and self._damage.covers(offset):
            return ErrorCode.KAFKA_STORAGE_ERROR
        try:
            return self._read_sound(offset, max_bytes, limit_offset, at_least_one, with_aborted)
        except FileNotFoundError:
            return ErrorCode.KAFKA_STORAGE_ERROR

    def _read_sound(
        self, offset: int, max_bytes: int, limit_offset: int, at_least_one: bool, with_aborted: bool
    ) -> LogRead | ErrorCode:
        located = self.locate(offset)
        if (located is None or located[1].base_offset > offset) and not self._is_sound_gap(offset, located):
            return ErrorCode.KAFKA_STORAGE_ERROR
        if located is not None and located[1].next_offset > located[0].next_offset:
            return ErrorCode.KAFKA_STORAGE_ERROR  # no batch reaches beyond its segment
        if located is None or located[1].next_offset > limit_offset:
            return LogRead([], -1, 0, [] if with_aborted else None)
        segment, found = located
        extents = self._damage.of(segment.base_offset)
        if not extents and not is_in_place(segment, found, self._epochs):
            return ErrorCode.KAFKA_STORAGE_ERROR
        if extents:
            stop = limit_around(segment, extents, found.position, limit_offset)
        else:
            stop = segment.limit_position(limit_offset)
        length = min(stop - found.position, max_bytes)
        if length < found.size:
            if not at_least_one:
                return LogRead([], -1, 0, [] if with_aborted else None)
            length = found.size
        upper_offset = min(limit_offset, segment.next_offset)  # no batch of a later segment is returned
        aborted = self._aborted_between(segment, offset, upper_offset) if with_aborted else None
        return LogRead([FileSlice(segment.file, found.position, length)], found.base_offset, length, aborted)

    def locate(self, offset: int) -> tuple[Segment, FoundBatch] | None:
        """The first batch whose last offset is at or above `offset`, and its segment."""
        for segment in self._chain.from_offset(offset):
            extents = self._damage.of(segment.base_offset)
            found = find_around(segment, extents, offset) if extents else segment.find(offset)
            if found is not None:
                return segment, found
        return None

    def _is_sound_gap(self, offset: int, located: tuple[Segment, FoundBatch] | None) -> bool:
        """True if no batch is at `offset` because none is left there; a read must not pass over damage."""
        for segment in self._chain.from_offset(offset):
            found = located[1] if located is not None and located[0] is segment else None
            if not self._damage.of(segment.base_offset) and not is_sound_gap(segment, offset, found):
                return False
            if found is not None:
                break
        return True

    def _aborted_between(self, first: Segment, offset: int, upper_offset: int) -> list[AbortedTransaction]:
        """Aborted transactions with a record in [offset, upper_offset): their markers may lie in later segments."""
        found: list[AbortedTransaction] = []
        chain = self._chain
        for segment in (first,) if first is chain.active else chain.segments[chain.segments.index(first) :]:
            for entry in segment.aborted.entries:
                if entry.last_offset >= offset and entry.first_offset < upper_offset:
                    found.append(AbortedTransaction(entry.producer_id, entry.first_offset))
                if entry.last_stable_offset >= upper_offset:
                    return found
        return found
