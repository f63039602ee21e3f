"""The exact map of one partition's offsets: source to mirror, and MirrorMaker 2's rule when to tell of a pair. Pure.

Between two breaks the difference of both offsets is constant. A break stands where records were left out at the source
(markers, aborted or compacted records), or where others write into the mirror too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple


class Break(NamedTuple):
    """From `upstream` on, up to the next break, the record at `upstream + n` is the one at `downstream + n`."""

    upstream: int
    downstream: int


class OffsetMap:
    """Grows at its end as batches are copied. Translates any offset of a group, never ahead of what it has read."""

    def __init__(self, breaks: Iterable[Break] = (), *, upstream_end: int = -1, downstream_end: int = -1) -> None:
        """The ends are the offsets after the last record that was copied, at both sides."""
        self.breaks = list(breaks)
        self.upstream_end, self.downstream_end = upstream_end, downstream_end

    def add(self, upstream: int, downstream: int, count: int) -> bool:
        """Records at consecutive offsets were copied to consecutive offsets; True if that begins with a break."""
        assert upstream >= self.upstream_end, f"{upstream} comes behind {self.upstream_end}"
        is_break = upstream != self.upstream_end or downstream != self.downstream_end or not self.breaks
        if is_break:
            self.breaks.append(Break(upstream, downstream))
        self.upstream_end, self.downstream_end = upstream + count, downstream + count
        return is_break

    def translate(self, upstream: int) -> int | None:
        """The mirror's offset for a group whose next record is `upstream`; None below the first record copied.

        A group inside records that were left out goes on at the next one that was copied. A group ahead of the mirror
        goes on at its end.
        """
        at = bisect_right(self.breaks, upstream, key=lambda each: each.upstream) - 1
        if at < 0:
            return None
        run = self.breaks[at]
        bound = self.breaks[at + 1].downstream if at + 1 < len(self.breaks) else self.downstream_end
        return min(run.downstream + upstream - run.upstream, bound)


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
