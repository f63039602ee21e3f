"""Checks the indexes of the segment that a start scans against the scan and against each other.

With each offset entry goes a time entry, as far as timestamps rise, in ottla's files as in Apache Kafka's. So a time
entry behind the last offset entry, but for the one of the segment's end, says that the offset index has lost its end.
"""

from __future__ import annotations

from bisect import bisect_right

from ottla.storage.segment.scan import ScannedHeader, counted_timestamp
from ottla.storage.segment.segment import Segment


class IndexWitness:
    """The indexes of one segment as they were loaded, beside what is then found below `known_end`.

    Everything below that offset was synced with its indexes; above they need not be in their files.
    """

    __slots__ = ("_begins", "_is_whole", "_known_end", "_last_key", "_last_time", "_newest", "_newest_before",
                 "_paired", "_segment")  # fmt: skip

    def __init__(self, segment: Segment, known_end: int, *, is_whole: bool) -> None:
        """`is_whole`: nothing that was written can be missing, so that every entry has its batch."""
        self._segment = segment
        self._is_whole = is_whole
        self._known_end = known_end
        self._last_key = segment.index.keys[-1] if segment.index.keys else -1
        times = segment.times.entries()
        self._newest_before = max((timestamp for timestamp, _ in times), default=-1)
        self._paired = times[-2][1] if len(times) > 1 else -1
        """The relative offset of the last time entry that came with an offset entry."""
        self._newest = -1
        self._begins = -1
        """The relative offset where the scan begins."""
        self._last_time = times[-1] if times else None
        """The last time entry, until the scan meets its batch."""

    def saw(self, header: ScannedHeader) -> None:
        """Note a batch that the scan has met."""
        last = header.last_offset - self._segment.base_offset
        if self._begins < 0:
            self._begins = header.base_offset - self._segment.base_offset
        if self._last_time == (counted_timestamp(header), last):
            self._last_time = None
        if header.next_offset <= self._known_end:
            self._newest = max(self._newest, counted_timestamp(header))

    def lacks(self) -> bool:
        """True if the scan added an entry that should have been there, or no batch has the last time entry."""
        if self._newest > self._newest_before or (self._is_whole and self._time_of_no_batch()):
            return True
        keys = self._segment.index.keys or ()
        at = bisect_right(keys, self._last_key)
        return at < len(keys) and keys[at] <= self._paired and keys[at] < self._known_end - self._segment.base_offset

    def _time_of_no_batch(self) -> bool:
        """True if the scan should have met the last time entry's batch and did not; none lies before the segment."""
        if self._last_time is None or self._begins < 0:
            return False
        return self._last_time[1] < 0 or self._begins <= self._last_time[1]
