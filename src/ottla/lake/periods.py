"""The months, days or hours of a lake, and the windows of each. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from ottla.lake.layout import Layout, partition_path
from ottla.lake.windows import OLDER, Tally, window_start

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US = timedelta(microseconds=1)


@dataclass(slots=True)
class Count:
    """Records of one period."""

    rows: int = 0
    dead: int = 0

    @property
    def records(self) -> int:
        return self.rows + self.dead


@dataclass(frozen=True, slots=True)
class Periods:
    """How a lake's time is divided: by its layout, by days where that has no time."""

    unit: str
    time_zone: str

    @classmethod
    def of(cls, layout: Layout) -> Periods:
        """Those of a layout."""
        return cls(layout.time_unit or "day", layout.time_zone)

    def of_window(self, window: int) -> tuple[str, ...]:
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

    def path(self, period: tuple[str, ...]) -> str:
        """`date=2013-01-01` or `date=2013-01-01/hour=07`."""
        return partition_path(Layout((self.unit,)), period).rstrip("/")

    def end_us(self, period: tuple[str, ...]) -> int:
        """When a period ends, in microseconds; the later time where clocks are set back."""
        return self._us(self.next(period))

    def next(self, period: tuple[str, ...]) -> tuple[str, ...]:
        """The period that follows."""
        begin = self._local(period)
        if self.unit == "month":
            after = (begin.replace(day=1) + timedelta(days=32)).replace(day=1)
        else:
            after = begin + (timedelta(days=1) if self.unit == "day" else timedelta(hours=1))
        day = after.date().isoformat()
        return {"month": (day[:7],), "day": (day,)}.get(self.unit, (day, f"{after.hour:02d}"))

    def _local(self, period: tuple[str, ...]) -> datetime:
        if self.unit == "month":
            return datetime.fromisoformat(f"{period[0]}-01")
        return datetime.fromisoformat(period[0] if self.unit == "day" else f"{period[0]}T{period[1]}:00")

    def _us(self, period: tuple[str, ...]) -> int:
        return (self._local(period).replace(tzinfo=ZoneInfo(self.time_zone), fold=1) - _EPOCH) // _US


def counts_by_period(tally: Tally, periods: Periods) -> dict[tuple[str, ...], Count]:
    """A topic's records by period, without those whose window is not known."""
    counts: dict[tuple[str, ...], Count] = {}
    for window, rows, dead in zip(tally.windows, tally.rows, tally.dead, strict=True):
        if window != OLDER:
            count = counts.setdefault(periods.of_window(window), Count())
            count.rows += rows
            count.dead += dead
    return counts


def closed(given: Iterable[tuple[str, ...]], periods: Periods, through_us: int) -> Iterator[tuple[str, ...]]:
    """Those that ended by a time; a period at the end of the calendar never does."""
    for period in given:
        try:
            if periods.end_us(period) <= through_us:
                yield period
        except (OverflowError, ValueError):
            continue
