"""Durations counted into buckets that double in width; a duration costs a few integer operations (rule E9)."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.metrics.metric import Metric, Sample

_FIRST_US, _FIRST_BITS = 64, 6
_BUCKETS = 20
"""With an upper bound: the last is 64 us times 2 to the power of 19, which is 33.6 seconds."""
BOUNDS_S = tuple((_FIRST_US << number) / 1_000_000 for number in range(_BUCKETS))


class Histogram:
    """Counts durations, each rounded up to whole microseconds.

    A bucket holds what is at most its bound and above the bound before; the last one has no bound.
    """

    __slots__ = ("_counts", "_total_us")

    def __init__(self) -> None:
        self._counts = [0] * (_BUCKETS + 1)
        self._total_us = 0

    def add_ns(self, took_ns: int) -> None:
        """Count one duration; what is below nothing (a clock was set back) counts as nothing."""
        whole_us = took_ns // 1000 if took_ns > 0 else 0
        self._total_us += whole_us + 1
        bucket = (whole_us >> _FIRST_BITS).bit_length()
        self._counts[bucket if bucket < _BUCKETS else _BUCKETS] += 1

    @property
    def count(self) -> int:
        return sum(self._counts)

    def samples(self, metric: Metric, labels: tuple[str, ...]) -> Iterator[Sample]:
        """Samples for Prometheus: the cumulative count at each bound, then the sum of all durations and their count."""
        so_far = 0
        for bound_s, count in zip((*map(repr, BOUNDS_S), "+Inf"), self._counts, strict=True):
            so_far += count
            yield Sample(metric, (*labels, bound_s), so_far, "_bucket")
        yield Sample(metric, labels, self._total_us / 1_000_000, "_sum")
        yield Sample(metric, labels, so_far, "_count")
