"""Stepping through the batches of a segment by their headers, without opening them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ottla.kernel.seams import Disk, OpenFile
from ottla.records.batch import Batch
from ottla.records.header import CONTROL_BIT, HEADER, HEADER_SIZE, MAGIC, SIZE_OVERHEAD, TRANSACTIONAL_BIT

CHUNK_BYTES = 64 * 1024
LOOK_BYTES = 8192
"""A chunk of a scan that is likely to end soon."""


class ScannedHeader(NamedTuple):
    """A batch's header as it stands in a file, and where."""

    position: int
    size: int
    """Bytes on disk, overhead included."""
    base_offset: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)


class FoundBatch(NamedTuple):
    """A batch in a segment."""

    position: int
    size: int
    base_offset: int
    next_offset: int


def counted_timestamp(batch: ScannedHeader | Batch) -> int:
    """The timestamp of a batch for the time index; none (-1) if compaction has left the batch empty."""
    return batch.max_timestamp if batch.records_count else -1


def parse_header(view: bytes | memoryview, at: int, position: int) -> ScannedHeader:
    """The header at `at` of a buffer; `position` is where that lies in the file."""
    base, length, *rest = HEADER.unpack_from(view, at)
    return ScannedHeader(position, length + SIZE_OVERHEAD, base, *rest)


def scan_headers(file: OpenFile, position: int, end: int, *, chunk_bytes: int = CHUNK_BYTES) -> Iterator[ScannedHeader]:
    """Headers of whole batches from the boundary `position` up to `end`; stops at the first that is not whole."""
    chunk = b""
    start = position
    while position + HEADER_SIZE <= end:
        at = position - start
        if at + HEADER_SIZE > len(chunk):
            start, at = position, 0
            chunk = file.read_at(position, min(chunk_bytes, end - position))
            if len(chunk) < HEADER_SIZE:
                return
        header = parse_header(chunk, at, position)
        if header.size < HEADER_SIZE or header.magic != MAGIC or position + header.size > end:
            return
        yield header
        position += header.size


def scan_batches(
    file: OpenFile, position: int, end: int, *, chunk_bytes: int = 16 * CHUNK_BYTES
) -> Iterator[tuple[ScannedHeader, memoryview]]:
    """Headers and bytes of whole batches from `position`, up to the first that is not whole. CRCs are not checked."""
    chunk = memoryview(b"")
    start = position
    while position + HEADER_SIZE <= end:
        at = position - start
        if at + HEADER_SIZE > len(chunk):
            start, at = position, 0
            chunk = memoryview(file.read_at(position, min(chunk_bytes, end - position)))
            if len(chunk) < HEADER_SIZE:
                return
        header = parse_header(chunk, at, position)
        if header.size < HEADER_SIZE or header.magic != MAGIC or position + header.size > end:
            return
        if at + header.size > len(chunk):
            start, at = position, 0
            chunk = memoryview(file.read_at(position, min(max(chunk_bytes, header.size), end - position)))
            if len(chunk) < header.size:
                return
        yield header, chunk[at : at + header.size]
        position += header.size


def first_header(disk: Disk, path: str) -> ScannedHeader | None:
    """The header of a segment's first batch; None where there is none that can be read."""
    try:
        file = disk.open(path)
    except OSError:
        return None
    try:
        return next(scan_headers(file, 0, file.size(), chunk_bytes=64), None)
    except OSError:
        return None
    finally:
        file.release()
