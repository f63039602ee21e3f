"""The known damage of a log: never served, and remembered until it is repaired or deleted.

broker/replicas/scrubber.py notes what a scrub has found; reading.py and lookup.py read around it; refetch.py replaces
it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator, Sequence

from ottla.kernel.seams import Disk
from ottla.records.checksum import crc32c
from ottla.records.header import CRC_START, HEADER_SIZE
from ottla.storage.checkpoint import DAMAGE, BadCheckpoint, clear_the_way, parse_numbers, read_small, write_numbers
from ottla.storage.leader_epochs import LeaderEpochs
from ottla.storage.segment.scan import LOOK_BYTES, FoundBatch, ScannedHeader, parse_header, scan_headers
from ottla.storage.segment.search import entry_below
from ottla.storage.segment.segment import Segment
from ottla.storage.segment.walk import Extent


class Damage:
    """The damage of one log, by the base offsets of its closed segments; kept in a file beside them (rule B2)."""

    __slots__ = ("_by_base", "_disk", "_path", "fault")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = posixpath.join(directory, DAMAGE)
        self._by_base: dict[int, tuple[Extent, ...]] = {}
        self.fault = ""
        """The reason why the file says nothing that can be believed, until it is written anew."""

    def relocate(self, directory: str) -> None:
        self._path = posixpath.join(directory, DAMAGE)

    def __bool__(self) -> bool:
        return bool(self._by_base)

    def load(self) -> None:
        """Read the damage that was known before; where the file cannot be read, opening.py looks for it again."""
        found: dict[int, list[Extent]] = {}
        self.fault = ""
        try:
            body = read_small(self._disk, self._path)
            rows = [] if body is None else parse_numbers(self._path, body, 5)[0]
            for base, first, following, position, end in rows:
                found.setdefault(base, []).append(Extent(first, following, position, end))
        except BadCheckpoint as bad:
            self.fault = str(bad)
        self._by_base = {base: tuple(extents) for base, extents in found.items()}

    @property
    def bases(self) -> list[int]:
        """The base offsets of the damaged segments."""
        return sorted(self._by_base)

    def of(self, base_offset: int) -> tuple[Extent, ...]:
        """The damaged extents of the segment from `base_offset` on, in the order of the file."""
        return self._by_base.get(base_offset, ())

    def covers(self, offset: int) -> bool:
        return self.at(offset) is not None

    def at(self, offset: int) -> tuple[int, Extent] | None:
        """The damaged extent that holds an offset, and the base offset of its segment."""
        for base, extents in self._by_base.items():
            for one in extents:
                if one.first_offset <= offset < one.next_offset:
                    return base, one
        return None

    def note(self, base_offset: int, extents: Sequence[Extent]) -> None:
        """Note the damage of a segment. It counts even if this raises, when a full disk has no room for the file."""
        self._by_base[base_offset] = tuple(extents)
        self._write()

    def keep(self, bases: Collection[int]) -> None:
        """Keep only the damage of these segments: the others were repaired, or are gone."""
        kept = {base: extents for base, extents in self._by_base.items() if base in bases}
        if len(kept) != len(self._by_base):
            self._by_base = kept
            self._write()

    def renew(self) -> None:
        """Write the file anew if it could not be read."""
        if self.fault:
            self._write()

    def _write(self) -> None:
        rows = [(base, *extent) for base in self.bases for extent in self._by_base[base]]
        if self.fault:
            clear_the_way(self._disk, self._path)
        write_numbers(self._disk, self._path, rows)
        self.fault = ""


def headers_around(segment: Segment, extents: Sequence[Extent], position: int) -> Iterator[ScannedHeader]:
    """The headers from the boundary `position` on, without those inside of the extents."""
    for extent in extents:
        if extent.end > position:
            yield from scan_headers(segment.file, position, extent.position)
            position = extent.end
    yield from scan_headers(segment.file, position, segment.size)


def find_around(segment: Segment, extents: Sequence[Extent], offset: int) -> FoundBatch | None:
    """Like `Segment.find`: the first sound batch whose last offset is at or above `offset`."""
    position = max((extent.end for extent in extents if extent.next_offset <= offset), default=0)
    entry = entry_below(segment, offset)
    if entry is not None and entry[1] > position and not any(one.position <= entry[1] < one.end for one in extents):
        position = entry[1]
    for header in headers_around(segment, extents, position):
        if header.next_offset > offset:
            return FoundBatch(header.position, header.size, header.base_offset, header.next_offset)
    return None


def is_sound_gap(segment: Segment, offset: int, found: FoundBatch | None) -> bool:
    """True if a segment lacks `offset`, up to `found` or to its end, because nothing is left there, as by compaction.

    If a bit has flipped instead, the CRC of the batch before the gap fails, the headers do not lead across the gap, or
    their offsets do not rise up to it.
    """
    entry = entry_below(segment, offset)
    position, expected = (entry[1], entry[0]) if entry is not None else (0, segment.base_offset)
    stop = segment.size if found is None else found.position
    before = None
    for before in scan_headers(segment.file, position, stop):
        if before.base_offset < expected and (entry is None or before.position != entry[1]):
            return False
        position, expected = before.position + before.size, before.next_offset
    if found is not None and found.base_offset < expected:
        return False
    if position != stop or before is None:
        return position == stop
    return crc32c(segment.file.read_at(before.position, before.size)[CRC_START:]) == before.crc


def is_in_place(segment: Segment, found: FoundBatch, epochs: LeaderEpochs) -> bool:
    """True if a batch has the offsets and the epoch that belong there, as far as its neighbours and the epochs tell."""
    body = segment.file.read_at(found.position, HEADER_SIZE)
    if len(body) < HEADER_SIZE:
        return False
    here = parse_header(body, 0, found.position)
    known = epochs.epoch_at(found.base_offset)
    if 0 <= known != here.leader_epoch:
        return False
    following = segment.next_offset
    for behind in scan_headers(segment.file, found.position + found.size, segment.size, chunk_bytes=HEADER_SIZE):
        following = behind.base_offset
        break
    if following != found.next_offset:
        return following > found.next_offset and is_sound_gap(segment, found.base_offset, found)
    return True


def leads_to(segment: Segment, offset: int) -> bool:
    """True if batch follows on batch, from the last index entry below `offset` on, up to one that ends there."""
    entry = entry_below(segment, offset - 1)
    position = entry[1] if entry is not None else 0
    expected = segment.base_offset
    for header in scan_headers(segment.file, position, segment.size, chunk_bytes=LOOK_BYTES):
        if expected >= offset:
            break
        if header.position == position and entry is not None:
            if header.last_offset != entry[0]:
                return False
        elif header.base_offset != expected:
            return False
        expected = header.next_offset
    return expected == offset


def limit_around(segment: Segment, extents: Sequence[Extent], start: int, limit_offset: int) -> int:
    """Like `Segment.limit_position`, for a read from `start` on that ends where damage begins."""
    stop = min((extent.position for extent in extents if extent.position >= start), default=segment.size)
    if limit_offset >= segment.next_offset:
        return stop
    for header in headers_around(segment, extents, start):
        if header.next_offset > limit_offset:
            return min(stop, header.position)
    return stop
