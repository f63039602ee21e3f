"""The segments of a log as its opening leaves them: damage is noted and kept, a torn end is cut.

opening.py judges what is damage and what is torn, and says it here. Offsets that are missing get a segment without
batches; segments behind a torn end are set aside; behind damage, a new segment begins.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.storage.checkpoint import ASIDE
from ottla.storage.leftovers import aside_name
from ottla.storage.segment.chain import SegmentChain
from ottla.storage.segment.names import LOG, SUFFIXES, segment_path
from ottla.storage.segment.scan import scan_headers
from ottla.storage.segment.segment import Segment
from ottla.storage.segment.walk import Extent
from ottla.storage.values import Cost, Known


class OpenedSegments:
    """The segments that are open so far, and the damage in them."""

    def __init__(self, chain: SegmentChain, known: Known, *, wall_ms: int, cost: Cost) -> None:
        self._chain = chain
        self._folder = chain.folder
        self._known = known
        self._wall_ms = wall_ms
        self._cost = cost
        self.segments: list[Segment] = []
        self.damage: dict[int, list[Extent]] = {}
        """The damage found now, by the bases of the segments."""
        self.changed = False
        """True if files were made, cut or removed, or damage was found."""
        self.lacks_end = False
        """True if the end may not be where it was: something acknowledged may be missing behind it."""

    def open(self, base: int) -> Segment:
        segment = self._chain.made(base, self._wall_ms)
        self.segments.append(segment)
        return segment

    def close(self) -> None:
        """Let go of the files of a log that could not be opened."""
        for segment in self.segments:
            segment.close()

    def put_back(self, base: int) -> None:
        """Make the file of a missing first segment, without batches; it is opened later."""
        self._folder.disk.open(segment_path(self._folder.path, base, LOG), create=True).release()
        self.changed = True

    # --- damage ---

    def note(self, segment: Segment, extents: list[Extent], following: int) -> None:
        """Note damage. Offsets missing behind the last batch get an empty segment, which is repaired alone."""
        if extents and extents[-1].position >= segment.size > 0:
            missing = extents.pop()
            segment.next_offset = missing.first_offset
            place = self._create(missing.first_offset)
            place.next_offset = following
            place.write_indexes()
            self._keep(place, [missing._replace(position=0, end=0)])
        if extents:
            self._keep(segment, extents)

    def note_near_end(self, segment: Segment, extents: list[Extent]) -> None:
        """Note damage behind the recovery point, where acknowledged batches may be missing too."""
        self.lacks_end = True
        segment.forget_recent()
        self.note(segment, extents, segment.next_offset)

    def _create(self, base: int) -> Segment:
        """A segment without batches: at a new end, or in the place of a missing segment."""
        segment = self.open(base)
        segment.create_file()
        segment.index.reset()
        segment.times.reset()
        segment.aborted.begin_empty()
        self.changed = True
        return segment

    def _keep(self, segment: Segment, extents: list[Extent]) -> None:
        self.changed = True
        self.damage[segment.base_offset] = extents
        for one in extents:
            why = "is missing" if one.position == one.end else "is damaged"
            self._cost.say(one.first_offset, one.next_offset, one.end - one.position,
                           f"{segment.path(LOG)} {why} there: kept as it is, and refused")  # fmt: skip

    # --- the end ---

    def truncate(self, segment: Segment, torn: Extent) -> None:
        """Truncate a segment where its torn end begins."""
        segment.file.truncate(torn.position)
        segment.size, segment.next_offset = torn.position, torn.first_offset
        segment.aborted.cut_end(segment.next_offset, base_offset=segment.base_offset)
        self.changed = True
        self.lacks_end = self.lacks_end or self._known.cache_kept

    def cut_behind(self, segment: Segment, torn: Extent, behind: Sequence[int]) -> None:
        """Set the segments `behind` a torn end aside whole (rule H4), and say all that goes from there on.

        They were written after the lost bytes, and never synced.
        """
        folder, cut, end = self._folder, torn.end - torn.position, torn.next_offset
        for base in reversed(behind):
            path = segment_path(folder.path, base, LOG)
            cut += folder.disk.file_size(path)
            end = max(end, base, self._end_of(base))
            folder.disk.rename(path, aside_name(path, self._wall_ms))
            for suffix in SUFFIXES[1:]:
                folder.disk.remove(segment_path(folder.path, base, suffix))
            folder.sync()
        self._cost.truncated_bytes += cut
        what = f"{segment.path(LOG)} is torn there, and holds nothing behind that is known: cut off"
        if behind:
            what += f", and {len(behind)} more segments are kept as {ASIDE} files"
        self._cost.say(torn.first_offset, end, cut, what)

    def _end_of(self, base: int) -> int:
        """The offset after the whole batches of a segment that is not opened; -1 where it has none."""
        file = self._folder.disk.open(segment_path(self._folder.path, base, LOG))
        try:
            return max((header.next_offset for header in scan_headers(file, 0, file.size())), default=-1)
        finally:
            file.release()

    def begin_behind_damage(self) -> None:
        """Begin a new segment behind damage, at the proven end: nothing is written into the damaged file."""
        last, durable = self.segments[-1], self._known.durable_end
        if last.next_offset < durable:
            self.lacks_end = True
            missing = Extent(last.next_offset, durable, last.size, last.size)
            if last.size:
                self.note(last, [missing], durable)
            else:
                last.next_offset = durable
                self._keep(last, [missing])
        last = self.segments[-1]
        if last.base_offset in self.damage:
            self._create(max(last.next_offset, durable))
