"""Whether a closed segment still holds what was written: every batch by its CRC, and by what no CRC covers.

Comes from scrub_child.py, `ottla log check`, or turns of the broker's loop (broker/scrubber.py). A batch's base offset,
length and leader epoch lie outside of its CRC: offsets and epochs must rise from batch to batch, and stay inside of the
segment. What is damaged ends at the next batch that can be trusted.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ottla.kernel.seams import Disk, OpenFile
from ottla.records.checksum import crc32c
from ottla.storage.damage import Extent
from ottla.storage.index import OFFSET_ENTRY
from ottla.storage.scan import CRC_START, HEADER_BYTES, MAGIC, Header, parse_header, scan_batches, scan_headers
from ottla.storage.segment import INDEX, LOG

_UNREADABLE = (errno.EIO, errno.EUCLEAN, errno.EBADMSG)
"""What a disk or a file system says of a sector that it cannot read back."""


class ClosedSegment(NamedTuple):
    """A segment to check, as its log knows it."""

    path: str
    """Of its `.log` file."""
    base_offset: int
    end_offset: int
    """Base of the segment behind it."""
    size: int


class Finding(NamedTuple):
    """A damaged segment, by its number among those that were to be checked."""

    number: int
    extents: tuple[Extent, ...]


class Progress(NamedTuple):
    """Bytes read since the last one: what a throttle goes by."""

    bytes: int


def check_all(disk: Disk, segments: Sequence[ClosedSegment]) -> Iterator[Progress | Finding]:
    """Check one after the other; a segment that is gone meanwhile is passed over."""
    for number, segment in enumerate(segments):
        extents: list[Extent] = []
        try:
            for step in check(disk, segment):
                if isinstance(step, Extent):
                    extents.append(step)
                else:
                    yield step
        except FileNotFoundError:
            continue
        if extents:
            yield Finding(number, tuple(extents))


def check(disk: Disk, segment: ClosedSegment) -> Iterator[Progress | Extent]:
    """Every damaged extent, in the order of the file."""
    file = disk.open(segment.path)
    try:
        yield from _Check(disk, file, segment).steps()
    finally:
        file.release()


class _Before(NamedTuple):
    """Where the walk stood before a batch, and how many offsets that batch spans."""

    position: int
    expected: int
    epoch: int
    span: int


class _Check:
    """One walk through a segment."""

    def __init__(self, disk: Disk, file: OpenFile, segment: ClosedSegment) -> None:
        self._disk = disk
        self._file = file
        self._segment = segment
        self._size = min(segment.size, file.size())
        self._position = 0
        self._expected = segment.base_offset
        """No batch from here on may begin below."""
        self._epoch = -1
        self._failed_at = -1
        """Where a read has failed: it is tried again once, as a cable or a controller may have been at fault."""
        self._before: _Before | None = None
        """The last batch: it may be the one whose place is wrong."""

    def steps(self) -> Iterator[Progress | Extent]:
        while self._position < self._size:
            try:
                yield from self._sound()
                if self._position < self._size:
                    yield self._damaged()
            except OSError as fault:
                if fault.errno not in _UNREADABLE:
                    raise
                if self._failed_at == self._position:
                    yield self._all_the_rest()
                self._failed_at = self._position
        if self._position < self._segment.size:
            yield self._all_the_rest()

    def _sound(self) -> Iterator[Progress]:
        """Go on over batches as they should be."""
        for header, view in scan_batches(self._file, self._position, self._size):
            if not self._fits(header, self._expected, self._epoch) or crc32c(view[CRC_START:]) != header.crc:
                return
            self._before = _Before(self._position, self._expected, self._epoch, header.last_offset_delta + 1)
            self._position += header.size
            self._expected, self._epoch = header.next_offset, header.leader_epoch
            yield Progress(header.size)

    def _fits(self, header: Header, expected: int, epoch: int) -> bool:
        return (
            header.base_offset >= expected
            and header.last_offset_delta >= 0
            and header.next_offset <= self._segment.end_offset
            and header.leader_epoch >= epoch
        )

    def _damaged(self) -> Extent:
        """What stands at the position is not what should be there; go on behind it."""
        here = self._whole_batch(self._position)
        before, self._before = self._before, None
        suspect = self._position
        if here is not None and before is not None and self._fits(here, before.expected, before.epoch):
            # It follows on to all but the last one: one of the two has a wrong offset, or a wrong epoch.
            is_it = before.expected + before.span == here.base_offset and here.leader_epoch >= self._epoch
            self._position, self._expected, self._epoch = before.position, before.expected, before.epoch
            if is_it:
                return self._skip_to(here)
        for position in self._candidates(suspect):
            found = self._whole_batch(position)
            if found is not None and found.base_offset > self._expected and self._fits(found, 0, self._epoch):
                return self._skip_to(found)
        return self._all_the_rest()

    def _all_the_rest(self) -> Extent:
        extent = self._extent(self._segment.end_offset, self._segment.size)
        self._position = self._segment.size
        return extent

    def _skip_to(self, sound: Header) -> Extent:
        extent = self._extent(sound.base_offset, sound.position)
        self._position, self._expected = sound.position, sound.base_offset
        return extent

    def _extent(self, next_offset: int, end: int) -> Extent:
        return Extent(self._expected, next_offset, self._position, end)

    def _candidates(self, start: int) -> Iterator[int]:
        """Where the batch behind `start` may begin: behind its length, if that is sound, else where the index says."""
        behind = start
        if start + HEADER_BYTES <= self._size:
            behind = start + parse_header(self._file.read_at(start, HEADER_BYTES), 0, 0).size
            if behind > start:
                yield behind
        path = self._segment.path.removesuffix(LOG) + INDEX
        body = self._disk.read(path) if self._disk.exists(path) else b""
        for _, position in OFFSET_ENTRY.iter_unpack(body[: len(body) - len(body) % OFFSET_ENTRY.size]):
            if position > start and position != behind:
                yield position

    def _whole_batch(self, position: int) -> Header | None:
        """The batch at a position, if there is one and its CRC holds."""
        if position + HEADER_BYTES > self._size:
            return None
        header = parse_header(self._file.read_at(position, HEADER_BYTES), 0, position)
        if header.size < HEADER_BYTES or header.magic != MAGIC or position + header.size > self._size:
            return None
        body = memoryview(self._file.read_at(position, header.size))
        return header if crc32c(body[CRC_START:]) == header.crc else None


def check_index(disk: Disk, segment: ClosedSegment) -> str | None:
    """What is wrong with the offset index of a segment without damage, in a few words; None where nothing is."""
    path = segment.path.removesuffix(LOG) + INDEX
    if not disk.exists(path):
        return "it is missing"
    body = disk.read(path)
    if len(body) % OFFSET_ENTRY.size:
        return "its last entry is torn"
    file = disk.open(segment.path)
    try:
        ends = {header.position: header.last_offset for header in scan_headers(file, 0, segment.size)}
    finally:
        file.release()
    for number, (relative, position) in enumerate(OFFSET_ENTRY.iter_unpack(body)):
        if ends.get(position) != segment.base_offset + relative:
            return f"its entry {number} points at no batch that ends at offset {segment.base_offset + relative}"
    return None


def encode_segments(segments: Sequence[ClosedSegment]) -> bytes:
    """For the child process."""
    return json.dumps(list(segments)).encode()


def decode_segments(body: bytes) -> list[ClosedSegment]:
    return [ClosedSegment(*fields) for fields in json.loads(body)]


def encode_findings(findings: Sequence[Finding]) -> bytes:
    """For the broker."""
    return json.dumps(list(findings)).encode()


def decode_findings(body: bytes) -> list[Finding]:
    return [Finding(number, tuple(Extent(*one) for one in extents)) for number, extents in json.loads(body)]
