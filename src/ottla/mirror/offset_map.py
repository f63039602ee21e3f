"""The exact map of one partition's offsets: source to mirror, and MirrorMaker 2's rule when to tell of a pair. Pure.

Between two breaks the difference of both offsets is constant. A break stands where records were left out at the source
(markers, aborted or compacted records), or where others write into the mirror too.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from struct import Struct
from typing import Final

_PAIR: Final = Struct(">qq")
CHUNK: Final = 256
"""Breaks that are kept and forgotten together."""


class OffsetMap:
    """Grows at its end as batches are copied. Translates any offset of a group, never ahead of what it has read.

    A topic of small transactions has a break for each. Breaks of records that the source has deleted are dropped.
    """

    def __init__(self, *, upstream_end: int = -1, downstream_end: int = -1, dropped: int = 0) -> None:
        """The ends are the offsets after the last record that was copied, at both sides.

        `dropped`: the number of breaks that were there before, and are no more.
        """
        self.upstream_end, self.downstream_end = upstream_end, downstream_end
        self.dropped = dropped
        self._upstream, self._downstream = array("q"), array("q")

    def __len__(self) -> int:
        """The breaks that there ever were."""
        return self.dropped + len(self._upstream)

    def add(self, upstream: int, downstream: int, count: int) -> bool:
        """Records at consecutive offsets were copied to consecutive offsets; True if that begins with a break."""
        assert upstream >= self.upstream_end, f"{upstream} comes behind {self.upstream_end}"
        is_break = upstream != self.upstream_end or downstream != self.downstream_end or not self._upstream
        if is_break:
            self._upstream.append(upstream)
            self._downstream.append(downstream)
        self.upstream_end, self.downstream_end = upstream + count, downstream + count
        return is_break

    def translate(self, upstream: int) -> int | None:
        """The mirror's offset for a group whose next record is `upstream`; None below the first record in the map.

        A group inside records that were left out goes on at the next one that was copied. A group ahead of the mirror
        goes on at its end.
        """
        at = bisect_right(self._upstream, upstream) - 1
        if at < 0:
            return None
        bound = self._downstream[at + 1] if at + 1 < len(self._downstream) else self.downstream_end
        return min(self._downstream[at] + upstream - self._upstream[at], bound)

    def forget_below(self, upstream: int) -> None:
        """Drop chunks that are only about records below an offset: the source has deleted them."""
        before = bisect_right(self._upstream, upstream) - 1
        whole = (self.dropped + max(before, 0)) // CHUNK * CHUNK - self.dropped
        if whole > 0:
            self.dropped += whole
            del self._upstream[:whole], self._downstream[:whole]

    def chunk(self, number: int) -> bytes:
        """The breaks of one chunk, as they are kept."""
        begin = number * CHUNK - self.dropped
        pairs = zip(self._upstream[begin : begin + CHUNK], self._downstream[begin : begin + CHUNK], strict=True)
        return b"".join(_PAIR.pack(*pair) for pair in pairs)

    def take_chunk(self, kept: bytes, most: int) -> None:
        """Take breaks back, as `chunk` gave them, until there are `most`."""
        for upstream, downstream in _PAIR.iter_unpack(kept):
            if len(self) < most:
                self._upstream.append(upstream)
                self._downstream.append(downstream)

    def copy(self) -> OffsetMap:
        """The map as it is now."""
        made = OffsetMap(upstream_end=self.upstream_end, downstream_end=self.downstream_end, dropped=self.dropped)
        made._upstream, made._downstream = self._upstream[:], self._downstream[:]
        return made


class SyncRule:
    """MirrorMaker 2's choice of the pairs that it tells of: OffsetSyncWriter and PartitionState of Kafka 4.3."""

    def __init__(self, most_lag: int) -> None:
        """`most_lag` is `offset.lag.max`."""
        self._most_lag = most_lag
        self._told = -1
        self._before: tuple[int, int] | None = None

    def copied(self, upstream: int, downstream: int, count: int) -> list[tuple[int, int]]:
        """The pairs to tell of, once a run of records was copied: its first one, its last one, both or none."""
        pairs: list[tuple[int, int]] = []
        before, last = self._before, count - 1
        first_is_due = (
            before is None or upstream - before[0] != 1 or downstream < before[1] or self._is_stale(downstream)
        )
        if first_is_due:
            pairs.append((upstream, downstream))
            self._told = downstream
        if last and self._is_stale(downstream + last):
            pairs.append((upstream + last, downstream + last))
            self._told = downstream + last
        self._before = upstream + last, downstream + last
        return pairs

    def _is_stale(self, downstream: int) -> bool:
        return downstream - (self._told + 1) >= self._most_lag
