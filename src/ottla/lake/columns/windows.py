"""Records counted by ten-minute window of event time, for the audit. Pure; works on whole Arrow tables.

A window is numbered by its place since 1970. Counts are additive: those of tasks make a round's, those of rounds the
lake's. Late records count in their own window.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

from ottla.client.produce.audit_trail import WINDOW_MS
from ottla.lake.columns.json_columns import EVENT_TIME
from ottla.lake.columns.layout import Layout
from ottla.rows.arrow import all_numbers, null_mask, numbers
from ottla.stores.base import LakeRefused

WINDOW_US = WINDOW_MS * 1000
MOST_WINDOWS = 100_000
"""The most windows of one topic that are kept apart: two years without a gap."""
OLDER = -(1 << 52)
"""The number under which older windows than those are counted together."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_JOINED_AT = 64


@dataclass(frozen=True, slots=True)
class Tally:
    """Records of one topic by window. The first four fields go together by position, windows ascending."""

    windows: tuple[int, ...] = ()
    rows: tuple[int, ...] = ()
    dead: tuple[int, ...] = ()
    bytes: tuple[int, ...] = ()
    """Size of keys and values, rows and dead letters together."""
    latest: Mapping[int, int] = field(default_factory=dict)
    """Kafka partition -> its greatest event time in microseconds."""
    filtered: tuple[int, ...] = ()
    """Records that `--where` or a step leaves out; empty for none in all windows."""

    @property
    def records(self) -> tuple[int, ...]:
        """All records of each window: rows, dead letters and the rest."""
        filtered = self.filtered or (0,) * len(self.windows)
        return tuple(map(sum, zip(self.rows, self.dead, filtered, strict=True)))

    def to_json(self) -> list[object]:
        """Windows as differences, which are short. Filtered records stand last, and only where there are some."""
        steps = [after - before for before, after in itertools.pairwise((0, *self.windows))]
        latest = [[partition, self.latest[partition]] for partition in sorted(self.latest)]
        filtered = [list(self.filtered)] if any(self.filtered) else []
        return [steps, list(self.rows), list(self.dead), list(self.bytes), latest, *filtered]

    @classmethod
    def from_json(cls, stored: object) -> Tally:
        try:
            counts, pairs, left_out = _columns(stored)
            steps, rows, dead, sizes, filtered = ([int(each) for each in column] for column in (*counts, left_out))
            latest = {int(partition): int(time) for partition, time in pairs}
        except (TypeError, ValueError) as fault:
            raise LakeRefused(f"the lake's state is damaged: no counts by window: {fault}") from fault
        windows = tuple(itertools.accumulate(steps))
        return cls(windows, tuple(rows), tuple(dead), tuple(sizes), latest, tuple(filtered))

    def since(self, window: int) -> Tally:
        """The counts from a window on."""
        return self._kept(np.array(self.windows, dtype=np.int64) >= window)

    def before(self, window: int) -> Tally:
        """The counts of the windows below one."""
        return self._kept(np.array(self.windows, dtype=np.int64) < window)

    def _kept(self, mask: np.ndarray) -> Tally:
        columns = (self.windows, self.rows, self.dead, self.bytes, self.filtered)
        windows, rows, dead, sizes, filtered = (tuple(itertools.compress(column, mask.tolist())) for column in columns)
        return Tally(windows, rows, dead, sizes, self.latest, filtered)


Tallies = Mapping[str, Tally]
"""The counts by topic."""


def added(tallies: Iterable[Tally]) -> Tally:
    """Counts of the same topic, added up."""
    given = list(tallies)
    if len(given) == 1 and len(given[0].windows) <= MOST_WINDOWS:
        return given[0]
    latest: dict[int, int] = {}
    for each in given:
        for partition, time in each.latest.items():
            latest[partition] = max(time, latest.get(partition, time))
    windows, rows, dead, sizes = (
        np.array([number for each in given for number in getattr(each, name)], dtype=np.int64)
        for name in ("windows", "rows", "dead", "bytes")
    )
    filtered = [number for each in given for number in (each.filtered or (0,) * len(each.windows))]
    return _tally(windows, (rows, dead, np.array(filtered, dtype=np.int64)), sizes, latest)


def added_by_topic(tallies: Iterable[Tallies]) -> dict[str, Tally]:
    """Counts of several topics, added up."""
    gathered: dict[str, list[Tally]] = {}
    for each in tallies:
        for topic, tally in each.items():
            gathered.setdefault(topic, []).append(tally)
    return {topic: added(gathered[topic]) for topic in sorted(gathered)}


def tallies_from_json(stored: object) -> dict[str, Tally]:
    """Counts by topic as they were written down; none where a round from before they were kept has none."""
    if stored is None:
        return {}
    if not isinstance(stored, dict):
        raise LakeRefused("the lake's state is damaged: no counts by window")
    return {str(topic): Tally.from_json(tally) for topic, tally in stored.items()}


def window_of(microseconds: int) -> int:
    """The window of a time."""
    return microseconds // WINDOW_US


def window_start(window: int) -> datetime:
    """The begin of a window, in UTC; the ends of the calendar for one beyond it."""
    try:
        return _EPOCH + timedelta(microseconds=window * WINDOW_US)
    except OverflowError:
        return (datetime.min if window < 0 else datetime.max).replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The rows of a batch that a filter leaves out, and their event times in microseconds."""

    places: np.ndarray
    times: np.ndarray

    def and_also(self, other: LeftOut) -> LeftOut:
        """The rows of both."""
        return LeftOut(np.concatenate([self.places, other.places]), np.concatenate([self.times, other.times]))


class WindowCounter:
    """Counts the records of one topic in one task."""

    def __init__(self, layout: Layout) -> None:
        self._by_event_time = bool(layout.event_time)
        self._waiting: list[Tally] = []

    def add(self, batch: pa.RecordBatch, rows: pa.Table, left_out: LeftOut | None = None) -> None:
        """Take records of one partition in, and which of them became rows, or were left out by the filter; the
        others are dead letters.

        A dead letter has no event time of its own: it counts in the window of the record's timestamp.
        """
        if not batch.num_rows:
            return
        times = numbers(batch.column("timestamp"))
        living, filtered = np.ones(batch.num_rows, dtype=np.bool_), np.zeros(batch.num_rows, dtype=np.bool_)
        if rows.num_rows < batch.num_rows:
            living[:] = False
            living[np.searchsorted(numbers(batch.column("offset")), all_numbers(rows.column("offset")))] = True
        if left_out is not None:
            filtered[left_out.places] = True
        if self._by_event_time and EVENT_TIME in rows.column_names:
            times = times.copy()
            times[living] = all_numbers(rows.column(EVENT_TIME))
            if left_out is not None:
                times[left_out.places] = left_out.times
        sizes = _lengths(batch.column("key")) + _lengths(batch.column("value"))
        timed = times[living | filtered] if self._by_event_time else times
        partition = int(numbers(batch.column("partition"), np.int32)[0])
        latest = {partition: int(timed.max())} if len(timed) else {}
        self._waiting.append(_tally(times // WINDOW_US, (living, ~living & ~filtered, filtered), sizes, latest))
        if len(self._waiting) >= _JOINED_AT:
            self._waiting = [added(self._waiting)]

    def tally(self) -> Tally:
        """All that was counted."""
        return added(self._waiting)


def _tally(
    windows: np.ndarray,
    fates: tuple[np.ndarray, np.ndarray, np.ndarray],
    sizes: np.ndarray,
    latest: Mapping[int, int],
) -> Tally:
    """Counts by window; `fates` are rows, dead letters and filtered records."""
    present, places = _numbered(windows)
    if len(present) > MOST_WINDOWS:
        least = present[-(MOST_WINDOWS - 1)]
        present, places = np.unique(np.where(windows < least, OLDER, windows), return_inverse=True)
    rows, dead, filtered, bytes_ = (tuple(_summed(each, places, len(present))) for each in (*fates, sizes))
    return Tally(tuple(present.tolist()), rows, dead, bytes_, latest, filtered if any(filtered) else ())


def _summed(column: np.ndarray, places: np.ndarray, count: int) -> list[int]:
    """The sum of a column at each place; of a mask, how often it holds."""
    if column.dtype == np.bool_:
        chosen = places if column.all() else places[column]
        held: list[int] = np.bincount(chosen, minlength=count).tolist()
        return held
    total = np.zeros(count, dtype=np.int64)
    np.add.at(total, places, column)
    sums: list[int] = total.tolist()
    return sums


def _numbered(windows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct windows, ascending, and the place of each given one among them.

    Records of one batch are mostly of a few windows near each other: counting those takes a quarter of sorting them.
    """
    if not len(windows):
        return windows, windows
    least, most = int(windows.min()), int(windows.max())
    if most - least > len(windows):
        present, places = np.unique(windows, return_inverse=True)
        return present, places
    nearby = windows - least
    held = np.bincount(nearby) > 0
    return np.flatnonzero(held) + least, (np.cumsum(held) - 1)[nearby]


def _columns(stored: object) -> tuple[list[list[int]], list[tuple[int, int]], list[int]]:
    if not isinstance(stored, list) or len(stored) not in (5, 6):
        raise TypeError(f"expected five or six lists, got {stored!r}")
    return stored[:4], stored[4], stored[5] if len(stored) > 5 else []


def _lengths(column: pa.Array) -> np.ndarray:
    if not len(column):
        return np.empty(0, dtype=np.int64)
    offsets = np.frombuffer(column.buffers()[1], dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    return np.where(null_mask(column), 0, np.diff(offsets)).astype(np.int64)
