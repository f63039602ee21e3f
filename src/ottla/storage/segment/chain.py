"""The segments of one log in the order of their offsets. The last is the active one; only it is written."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

from ottla.config.topic import TopicConfig
from ottla.storage.folder import LogFolder
from ottla.storage.segment.segment import Doomed, Segment


class SegmentChain:
    """Others read `segments`, `bases` and `active`; which segments there are changes here.

    The lists are replaced, never changed in place, so a reader that has one goes on with it.
    """

    __slots__ = (
        "_index_interval", "_max_entries", "active", "bases", "doomed", "folder", "segments", "sparse",
    )  # fmt: skip

    def __init__(self, folder: LogFolder) -> None:
        self.folder: Final = folder
        self.segments: list[Segment] = []
        self.bases: list[int] = []
        self.active: Segment
        self.doomed: list[Doomed] = []
        """Segments taken out of the log whose files are still there."""
        self.sparse = False
        """Compaction may have left holes between batches: here, or in the log that this one copies."""
        self._index_interval = 4096
        self._max_entries = 1

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self.segments)

    def at(self, offset: int) -> int:
        """Index of the segment that would hold `offset`; -1 below the first."""
        return bisect_right(self.bases, offset) - 1

    def from_offset(self, offset: int) -> list[Segment]:
        """The segments from the one that would hold `offset` on."""
        return self.segments[max(0, self.at(offset)) :]

    # --- making segments ---

    def configure(self, config: TopicConfig) -> None:
        """Apply a configuration to the active segment and to segments made from now on."""
        self.sparse = self.sparse or config.compacted
        self._index_interval = config.index_interval_bytes
        self._max_entries = max(1, config.segment_index_bytes // 12)
        if self.segments:
            self.limit(self.active)

    def limit(self, segment: Segment) -> None:
        """Set the density and the largest size of a segment's indexes."""
        segment.index_interval = self._index_interval
        segment.max_entries = self._max_entries

    def made(self, base_offset: int, wall_ms: int) -> Segment:
        """Make a segment, which is not in the chain yet."""
        segment = Segment(self.folder.disk, self.folder.path, base_offset, created_ms=wall_ms)
        self.limit(segment)
        return segment

    # --- which there are ---

    def set(self, segments: list[Segment]) -> None:
        """Replace the segments by these; at least one."""
        self.segments = segments
        self.bases = [segment.base_offset for segment in segments]
        self.active = segments[-1]

    def begin(self, segment: Segment) -> None:
        """Add a new active segment; the one before is sealed."""
        self.set([*self.segments, segment])

    def replace(self, first: int, count: int, segment: Segment) -> list[Segment]:
        """Replace `count` sealed segments, from the index `first` on, by one; return the old ones."""
        old = self.segments[first : first + count]
        self.set([*self.segments[:first], segment, *self.segments[first + count :]])
        return old

    def met_hole(self) -> None:
        """Note that offsets are missing between two batches though nothing is lost."""
        self.sparse = True

    def renamed(self) -> None:
        """Take the folder's new name."""
        for segment in self.segments:
            segment.relocate(self.folder.path)

    # --- segments on their way out ---

    def take_out(self, count: int, wall_ms: int) -> None:
        """Take the first `count` segments out of the log; their files go later."""
        gone = self.segments[:count]
        self.set(self.segments[count:])
        self.doomed = [*self.doomed, *(Doomed(segment, wall_ms, renamed=False) for segment in gone)]

    def doom(self, segment: Segment, wall_ms: int, *, renamed: bool) -> None:
        """Add a segment below the log's start, found at a start, to those whose files are to go."""
        self.doomed = [*self.doomed, Doomed(segment, wall_ms, renamed)]

    def still_doomed(self, doomed: Iterable[Doomed]) -> None:
        """Forget the segments whose files are gone: all but `doomed`."""
        self.doomed = list(doomed)
