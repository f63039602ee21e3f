"""Walks through the batches of one segment, and tells sound ones from stretches that cannot be trusted.

A batch's base offset, length and leader epoch lie outside its CRC. Their witnesses are the batches around it, the
bounds of the segment and the leader epochs of the log. Recovery and the scrub walk; damaged bytes are left as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ottla.kernel.seams import OpenFile
from ottla.records.checksum import crc32c
from ottla.records.header import CRC_START, HEADER_SIZE, MAGIC
from ottla.storage.segment.scan import ScannedHeader, parse_header, scan_batches

LARGEST_HOLE = 2**31 - 1
"""A log may roll across a larger hole, and then no batch stands between the two segments."""
_SEARCH_BYTES = 1 << 20


class Extent(NamedTuple):
    """A stretch of a segment in which no batch can be trusted: offsets, and where it lies in the file."""

    first_offset: int
    next_offset: int
    position: int
    end: int


class KnownEpochs:
    """The leader epochs of a log by their start offsets, as its checkpoint tells them."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._entries = tuple(entries)

    def at(self, offset: int) -> int:
        """The epoch in which a record was written; -1 where that is not known."""
        found = -1
        for epoch, start in self._entries:
            if start > offset:
                break
            found = epoch
        return found

    def contradict(self, header: ScannedHeader) -> bool:
        """True if another epoch is known to have written these offsets; an epoch that is newer than all is unknown."""
        known = self.at(header.base_offset)
        return known >= 0 and header.leader_epoch != known and header.leader_epoch <= self._entries[-1][0]

    def confirm(self, header: ScannedHeader) -> bool:
        return 0 <= self.at(header.base_offset) == header.leader_epoch

    def are_older(self, header: ScannedHeader) -> bool:
        """True if the batch has a newer epoch than all that are known; False where none is."""
        return bool(self._entries) and header.leader_epoch > self._entries[-1][0]


def _nothing() -> ScannedHeader | None:
    return None


class Bounds(NamedTuple):
    """The limits that the batches of one segment keep to."""

    end_offset: int
    """No batch reaches beyond this offset."""
    closed: bool
    """True if the last batch ends at `end_offset`, where the next segment begins."""
    epochs: KnownEpochs
    sparse: bool = False
    """True if compaction may have left a hole in front of the last batch; elsewhere the batch behind proves a hole."""
    start: int = 0
    """The start of the log: batches that are missing below were deleted, and a copy of the log never had them."""
    following: Callable[[], ScannedHeader | None] = _nothing
    """Reads the header of the next segment's first batch, a witness of the last epoch here; None if there is none."""


class Walk:
    """Headers of sound batches and extents of damage, in the order of the file.

    After an OSError `steps` may be called again, and goes on where the read failed.
    """

    def __init__(
        self,
        file: OpenFile,
        bounds: Bounds,
        *,
        size: int,
        expected: int,
        position: int = 0,
        epoch: int = -1,
        indexed: Callable[[], Iterable[int]] = tuple,
        is_whole: bool = False,
    ) -> None:
        """`expected`: no batch at or behind `position` begins below. `indexed`: positions that the index knows.

        `is_whole`: the file is known to have this size.
        """
        self._file = file
        self._bounds = bounds
        self._size = size if is_whole else min(size, file.size())
        self._told_size = size
        self._indexed = indexed
        self.position = position
        self.expected = expected
        self.epoch = epoch
        self.met_hole = False
        """True once the batch behind a hole proved it: this log, or the one that it copies, was compacted."""

    def steps(self) -> Iterator[ScannedHeader | Extent]:
        while self.position < self._size:
            yield from self._sound()
            if self.position < self._size:
                yield self._damaged()
        if self.position < self._told_size or self._lacks_end():
            yield self.all_the_rest()

    def _lacks_end(self) -> bool:
        """True if the file ends in front of the next segment, at a gap too small for a log to roll across."""
        return self._bounds.closed and 0 < self._bounds.end_offset - self.expected <= LARGEST_HOLE

    def _sound(self) -> Iterator[ScannedHeader]:
        """Go on over batches as they should be."""
        for header, view in scan_batches(self._file, self.position, self._size):
            if not self._fits(header) or crc32c(view[CRC_START:]) != header.crc or not self._is_proved(header):
                return
            self._step_over(header)
            yield header

    def _step_over(self, header: ScannedHeader) -> None:
        self.met_hole = self.met_hole or header.base_offset > self.expected
        self.position = header.position + header.size
        self.expected, self.epoch = header.next_offset, header.leader_epoch

    def _fits(self, header: ScannedHeader) -> bool:
        return (
            header.base_offset >= self.expected
            and header.last_offset_delta >= 0
            and header.next_offset <= self._bounds.end_offset
            and header.leader_epoch >= self.epoch
            and not self._bounds.epochs.contradict(header)
        )

    def _is_proved(self, header: ScannedHeader) -> bool:
        """A hole in front of a batch, or another epoch, is believed where the batch behind agrees with it."""
        epochs = self._bounds.epochs
        has_hole = header.base_offset > max(self.expected, self._bounds.start)
        is_newer = header.leader_epoch > self.epoch and epochs.are_older(header)
        has_risen = self.epoch < header.leader_epoch and not epochs.confirm(header)
        if not (has_hole or is_newer or has_risen):
            return True
        end = header.position + header.size
        behind = self._header_at(end)
        if behind is not None:
            follows = behind.base_offset >= header.next_offset or not has_hole
            return follows and (not (is_newer or has_risen) or self._has_epoch_of(header, behind))
        if (is_newer and not self._next_segment_agrees(header, end)) or (has_hole and end < self._size):
            return False
        if has_risen and self._next_segment_falls_back(header, end):
            return False
        return not has_hole or self._bounds.sparse or header.next_offset == self._bounds.end_offset

    def _next_segment_agrees(self, header: ScannedHeader, end: int) -> bool:
        """True if this is the last batch, and the one that begins the next segment has come as far in epochs."""
        following = self._bounds.following() if end == self._size else None
        return following is not None and following.leader_epoch >= header.leader_epoch

    def _next_segment_falls_back(self, header: ScannedHeader, end: int) -> bool:
        """True if this is the last batch, and the one that begins the next segment has an older epoch."""
        following = self._bounds.following() if end == self._size else None
        return following is not None and following.leader_epoch < header.leader_epoch

    def _has_epoch_of(self, header: ScannedHeader, behind: ScannedHeader) -> bool:
        """True if one of the two batches behind agrees that the epoch has come so far."""
        if behind.leader_epoch >= header.leader_epoch:
            return True
        third = self._header_at(behind.position + behind.size)
        return third is not None and third.leader_epoch >= header.leader_epoch

    def _damaged(self) -> Extent:
        """Note that the bytes at the position are not the batch that should be there; go on behind them."""
        for position, is_right in self._candidates():
            found = self._whole_batch(position)
            if found is not None and is_right(found) and self._may_follow(found):
                extent = Extent(self.expected, found.base_offset, self.position, found.position)
                self.position, self.expected = found.position, found.base_offset
                return extent
        return self.all_the_rest()

    def _may_follow(self, found: ScannedHeader) -> bool:
        """True, behind damage, if a batch keeps to the bounds and the next one does not contradict its place."""
        if not self._fits(found):
            return False
        behind = self._header_at(found.position + found.size)
        return behind is None or behind.base_offset >= found.next_offset

    def all_the_rest(self) -> Extent:
        """The extent up to the file's end. In a segment that is written, offsets end with the whole batches there."""
        first, position, end = self.expected, self.position, self._bounds.end_offset
        if not self._bounds.closed:
            end = first + self._whole_span(position)
        self.position, self.expected = self._told_size, end
        return Extent(first, end, position, self._told_size)

    def _whole_span(self, position: int) -> int:
        """The number of offsets in the batches from `position` on whose CRC holds though their offsets do not fit here.

        A torn write cannot leave such batches.
        """
        span = 0
        while (header := self._whole_batch(position)) is not None and header.last_offset_delta >= 0:
            span += header.last_offset_delta + 1
            position += header.size
        return span

    def _candidates(self) -> Iterator[tuple[int, Callable[[ScannedHeader], bool]]]:
        """The positions at which the next sound batch may begin, and further conditions on it.

        First the position behind the bad batch, if its length is sound; then those of the index; then any that may be a
        header. A record may hold a copy of a batch, so a position found without the index must be the very next batch.
        """
        start = self.position
        here = self._parsed(start)
        following, inside = self.expected, start
        if here is not None and here.size >= HEADER_SIZE and start + here.size <= self._size:
            span = here.last_offset_delta + 1 if self._whole_batch(start) is not None else 1
            yield start + here.size, lambda found: found.base_offset >= self.expected + span
        if here is not None and self._looks_right(here):
            following, inside = here.next_offset, start + here.size

        def is_right(found: ScannedHeader) -> bool:
            return found.base_offset == following if found.position < inside else found.base_offset >= following

        for position in self._indexed():
            if start < position < self._size:
                yield position, is_right
        for position in self._search(start + 1):
            yield position, is_right

    def _looks_right(self, header: ScannedHeader) -> bool:
        plain = header.base_offset == self.expected and header.magic == MAGIC and header.size >= HEADER_SIZE
        return plain and header.last_offset_delta >= 0 and self._fits(header)

    def _search(self, start: int) -> Iterator[int]:
        """Positions that look like a header whose offset is near the expected one."""
        highs = {value >> 32 for value in (self.expected, min(self.expected + LARGEST_HOLE, 2**63 - 1))}
        offsets = b"|".join(re.escape(high.to_bytes(4)) for high in sorted(highs))
        pattern = re.compile(b"(?s)(?=(?:" + offsets + b").{4}[\\x00-\\x7f].{3}[\\x00-\\x7f].{3}\\x02)")
        while start + HEADER_SIZE <= self._size:
            chunk = self._file.read_at(start, min(_SEARCH_BYTES, self._size - start))
            for match in pattern.finditer(chunk):
                yield start + match.start()
            if start + len(chunk) >= self._size or len(chunk) <= HEADER_SIZE:
                return
            start += len(chunk) - HEADER_SIZE

    def _parsed(self, position: int) -> ScannedHeader | None:
        if position + HEADER_SIZE > self._size:
            return None
        head = self._file.read_at(position, HEADER_SIZE)
        return parse_header(head, 0, position) if len(head) == HEADER_SIZE else None

    def _header_at(self, position: int) -> ScannedHeader | None:
        """The header of a batch that fits into the file."""
        header = self._parsed(position)
        if header is None or header.size < HEADER_SIZE or header.magic != MAGIC:
            return None
        return header if position + header.size <= self._size else None

    def _whole_batch(self, position: int) -> ScannedHeader | None:
        """The batch at a position, if there is one and its CRC holds."""
        header = self._header_at(position)
        if header is None:
            return None
        body = memoryview(self._file.read_at(position, header.size))
        return header if len(body) == header.size and crc32c(body[CRC_START:]) == header.crc else None
