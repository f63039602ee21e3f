"""The months, days or hours of a lake, and the windows of each. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from ottla.lake.columns.layout import Layout, partition_path
from ottla.lake.columns.windows import OLDER, Tally, window_start

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US = timedelta(microseconds=1)

Period = tuple[str, ...]
"""The values of the columns that a period has in the lake's folders."""


@dataclass(slots=True)
class Count:
    """Records of one period."""

    rows: int = 0
    dead: int = 0
    filtered: int = 0

    @property
    def records(self) -> int:
        return self.rows + self.dead + self.filtered


@dataclass(frozen=True, slots=True)
class Periods:
    """The division of a lake's time: by its layout, or by days if the layout has no time."""

    unit: str
    time_zone: str

    @classmethod
    def of(cls, layout: Layout) -> Periods:
        """The periods of a layout."""
        return cls(layout.time_unit or "day", layout.time_zone)

    def of_window(self, window: int) -> Period:
        """The values of the period's columns: a date, a date and an hour, or a month.

        A window counts where it begins. That matters in zones whose days do not begin at a tenth minute of UTC.
        """
        try:
            when = window_start(window).astimezone(ZoneInfo(self.time_zone))
        except (OverflowError, ValueError):
            when = window_start(window)
        day = when.date().isoformat()
        if self.unit == "month":
            return (day[:7],)
        return (day,) if self.unit == "day" else (day, f"{when.hour:02d}")

    def path(self, period: Period) -> str:
        """`date=2013-01-01` or `date=2013-01-01/hour=07`."""
        return partition_path(Layout((self.unit,)), period).rstrip("/")

    @property
    def columns(self) -> tuple[str, ...]:
        """The headings of a picture's columns: the months of a year, days of a month, or hours of a day."""
        first, last = {"month": (1, 12), "day": (1, 31), "hour": (0, 23)}[self.unit]
        return tuple(str(number) for number in range(first, last + 1))

    def place(self, period: Period) -> tuple[str, int]:
        """The line and the column of a period in a picture."""
        if self.unit == "hour":
            return period[0], int(period[1])
        line, _, column = period[0].rpartition("-")
        return line, int(column) - 1

    def text(self, period: Period) -> str:
        """A period as a person reads it."""
        return f"{period[0]} {period[1]}:00" if self.unit == "hour" else period[0]

    def end_us(self, period: Period) -> int:
        """The end of a period, in microseconds; the later time where clocks are set back."""
        return self._us(self.next(period))

    def next(self, period: Period) -> Period:
        """The period that follows."""
        begin = self._local(period)
        if self.unit == "month":
            after = (begin.replace(day=1) + timedelta(days=32)).replace(day=1)
        else:
            after = begin + (timedelta(days=1) if self.unit == "day" else timedelta(hours=1))
        day = after.date().isoformat()
        return {"month": (day[:7],), "day": (day,)}.get(self.unit, (day, f"{after.hour:02d}"))

    def _local(self, period: Period) -> datetime:
        if self.unit == "month":
            return datetime.fromisoformat(f"{period[0]}-01")
        return datetime.fromisoformat(period[0] if self.unit == "day" else f"{period[0]}T{period[1]}:00")

    def _us(self, period: Period) -> int:
        return (self._local(period).replace(tzinfo=ZoneInfo(self.time_zone), fold=1) - _EPOCH) // _US


def counts_by_period(tally: Tally, periods: Periods) -> dict[Period, Count]:
    """A topic's records by period, without those whose window is not known."""
    counts: dict[Period, Count] = {}
    filtered = tally.filtered or (0,) * len(tally.windows)
    for window, rows, dead, left_out in zip(tally.windows, tally.rows, tally.dead, filtered, strict=True):
        if window != OLDER:
            count = counts.setdefault(periods.of_window(window), Count())
            count.rows += rows
            count.dead += dead
            count.filtered += left_out
    return counts


def closed(given: Iterable[Period], periods: Periods, through_us: int) -> Iterator[Period]:
    """The periods that ended by a time; a period at the end of the calendar never does."""
    for period in given:
        try:
            if periods.end_us(period) <= through_us:
                yield period
        except (OverflowError, ValueError):
            continue
