"""Appends a leader's batches on a follower: they are checked, then written as they are (rules A11, E10)."""

from __future__ import annotations

from ottla.kernel.errors import ErrorCode
from ottla.kernel.seams import Buffer
from ottla.records.checksum import crc32c
from ottla.records.header import CRC_START, HEADER_SIZE, MAGIC
from ottla.storage.bounds import LogBounds
from ottla.storage.leader_epochs import LeaderEpochs
from ottla.storage.producers.producers import Producers
from ottla.storage.producers.sequencing import note_header
from ottla.storage.retention import Retention
from ottla.storage.rolling import Rolling
from ottla.storage.segment.chain import SegmentChain
from ottla.storage.segment.index import MAX_RELATIVE_OFFSET
from ottla.storage.segment.scan import ScannedHeader, parse_header
from ottla.storage.truncation import Truncation
from ottla.storage.values import Appended
from ottla.storage.write_gate import WriteGate

_LAST_OFFSET = 2**63 - 1
ANY_EPOCH = 2**31 - 1


class ReplicaAppend:
    """One log's."""

    __slots__ = (
        "_bounds", "_chain", "_epochs", "_gate", "_producers", "_retention", "_rolling", "_truncation",
    )  # fmt: skip

    def __init__(
        self,
        bounds: LogBounds,
        chain: SegmentChain,
        epochs: LeaderEpochs,
        producers: Producers,
        *,
        gate: WriteGate,
        retention: Retention,
        rolling: Rolling,
        truncation: Truncation,
    ) -> None:
        self._bounds = bounds
        self._chain = chain
        self._epochs = epochs
        self._producers = producers
        self._gate = gate
        self._retention = retention
        self._rolling = rolling
        self._truncation = truncation

    def append(self, run: Buffer, *, wall_ms: int, newest_epoch: int = ANY_EPOCH) -> Appended | ErrorCode:
        """Check all batches before any is written. None has an epoch above `newest_epoch`, the leader's."""
        bounds = self._bounds
        if self._gate.closed:
            return ErrorCode.KAFKA_STORAGE_ERROR
        whole = memoryview(run)
        headers = self._check(whole, newest_epoch)
        if isinstance(headers, ErrorCode):
            return headers
        if not headers:
            return Appended(bounds.end, bounds.end, bounds.start)
        first = headers[0].base_offset
        start = bounds.start
        at = 0
        try:
            if first < bounds.end:
                self._truncation.restart_at(first, wall_ms)
            while at < len(headers):
                at = self._append_group(whole, headers, at, wall_ms)
            if first < start:
                self._retention.raise_start(start)
        except OSError as fault:
            if self._gate.closed:  # the failure, a full disk perhaps, came in the middle of emptying the log
                raise
            self._put_back_start(start, wall_ms)
            return self._gate.refuse(fault)
        return Appended(first, bounds.end, bounds.start)

    def _put_back_start(self, start: int, wall_ms: int) -> None:
        """Restore the log start after a failed append: it may lie inside the first batch, which was not appended."""
        try:
            if self._bounds.end < start:
                self._truncation.restart_at(start, wall_ms)
            elif self._bounds.start < start:
                self._retention.raise_start(start)
        except OSError:
            self._gate.close()
            raise

    def _check(self, whole: memoryview, newest_epoch: int) -> list[ScannedHeader] | ErrorCode:
        """The headers of the whole batches in a run, or what is wrong with it. A peer's bytes never reach an assert.

        Base offset and epoch are in no CRC. A hole in front of a batch is believed where the batch behind goes on from
        there, else only in a log that was compacted; a batch that cannot be believed yet comes again with the next run.
        """
        headers: list[ScannedHeader] = []
        position, expected, epoch = 0, self._bounds.end, self._epochs.latest
        while position + HEADER_SIZE <= len(whole):
            header = parse_header(whole, position, position)
            if header.size < HEADER_SIZE or header.magic != MAGIC or header.last_offset_delta < 0:
                return ErrorCode.CORRUPT_MESSAGE
            if header.next_offset > _LAST_OFFSET:  # the base offset is not in the CRC
                return ErrorCode.CORRUPT_MESSAGE
            if position + header.size > len(whole):
                break
            if header.base_offset < expected and (headers or not self._starts_inside(header)):
                return ErrorCode.OFFSET_OUT_OF_RANGE
            if header.leader_epoch < epoch:
                return ErrorCode.FENCED_LEADER_EPOCH
            if header.leader_epoch > newest_epoch:
                return ErrorCode.CORRUPT_MESSAGE
            if header.base_offset > expected and not self._is_hole(header, whole):
                return headers or ErrorCode.CORRUPT_MESSAGE
            if crc32c(whole[position + CRC_START : position + header.size]) != header.crc:
                return ErrorCode.CORRUPT_MESSAGE
            headers.append(header)
            epoch, expected = header.leader_epoch, header.next_offset
            position += header.size
        return headers

    def _is_hole(self, header: ScannedHeader, whole: memoryview) -> bool:
        """True if nothing is left in front of a batch, as by compaction, and not a bit has flipped in its offset."""
        end = header.position + header.size
        if end + HEADER_SIZE > len(whole):
            return self._chain.sparse
        if parse_header(whole, end, end).base_offset < header.next_offset:
            return False
        self._chain.met_hole()
        return True

    def _starts_inside(self, header: ScannedHeader) -> bool:
        """True if an empty log starts in the middle of this batch, as DeleteRecords may have let its leader's start."""
        end = self._bounds.end
        empty = end == self._bounds.start  # the records that its files still hold are deleted
        return empty and header.base_offset < end < header.next_offset

    def _append_group(self, whole: memoryview, headers: list[ScannedHeader], at: int, wall_ms: int) -> int:
        """Append, by one write, the batches up to the next roll or the next new epoch; return where the rest begins."""
        head = headers[at]
        rolling = self._rolling
        rolling.roll_if_due(head.size, head.base_offset, head.next_offset, head.max_timestamp, wall_ms)
        if self._epochs.owed:
            self._epochs.cut_end(self._bounds.end)
        if head.leader_epoch > self._epochs.latest:
            self._epochs.assign(head.leader_epoch, head.base_offset)
        active = self._chain.active
        stop, size = at + 1, head.size
        while stop < len(headers):
            header = headers[stop]
            if (
                header.leader_epoch != head.leader_epoch
                or active.size + size + header.size > rolling.segment_bytes
                or (rolling.roll_timestamp >= 0 and header.max_timestamp > rolling.roll_timestamp)
                or active.index.count + (stop - at) >= active.max_entries
                or header.next_offset - active.base_offset > MAX_RELATIVE_OFFSET
            ):
                break
            size += header.size
            stop += 1
        group = headers[at:stop]
        active.append_run([whole[head.position : head.position + size]], group)
        self._bounds.appended(active.next_offset)
        for header in group:
            if header.producer_id >= 0:
                view = whole[header.position : header.position + header.size]
                note_header(self._producers, active.aborted, header, view)
        return stop
