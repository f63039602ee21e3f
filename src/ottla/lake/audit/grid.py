"""A lake's completeness as grids, one for each topic. Pure.

A line is a month of days, a day of hours, or a year of months.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ottla.lake.columns.windows import Tally
from ottla.lake.notes.history import History
from ottla.lake.reports.periods import Count, Period, Periods, closed, counts_by_period
from ottla.lake.reports.status import TopicStatus
from ottla.lake.reports.tiers import Compared, Judgement

MOST_LINES = 60
"""Only the newest lines of a topic are shown, so that wild times do not make a page too large to open."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One month, day or hour of a topic."""

    name: str
    rows: int
    dead: int
    late: int
    missing: int
    """The records that a tier counted and the lake lacks."""
    closed: bool
    """True if the topic is complete through its end."""


@dataclass(frozen=True, slots=True)
class GridLine:
    """A year, month or day, with a cell or nothing for each of its parts."""

    name: str
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """One topic."""

    status: TopicStatus
    unit: str
    columns: tuple[str, ...]
    lines: tuple[GridLine, ...]
    """The oldest first."""
    left_out: int
    """The number of older lines."""

    @property
    def most_rows(self) -> int:
        return max((cell.rows for line in self.lines for cell in line.cells if cell is not None), default=0)


@dataclass(frozen=True, slots=True)
class LakeFacts:
    """The facts about a lake from which its picture is made."""

    history: History
    statuses: tuple[TopicStatus, ...]
    through: dict[str, int | None]
    """From a topic to the time through which it is complete, in microseconds."""
    compared: tuple[Compared, ...] = ()


def grids(seen: LakeFacts, periods: Periods) -> list[Grid]:
    """A grid for each topic that has a status."""
    windows, late = seen.history.windows(), seen.history.late()
    return [
        _grid(
            status,
            periods,
            counts_by_period(windows.get(status.topic, Tally()), periods),
            counts_by_period(late.get(status.topic, Tally()), periods),
            _missing(status.topic, seen.compared, periods),
            seen.through.get(status.topic),
        )
        for status in seen.statuses
    ]


def _grid(
    status: TopicStatus,
    periods: Periods,
    counts: dict[Period, Count],
    late: dict[Period, Count],
    missing: dict[Period, int],
    through: int | None,
) -> Grid:
    shown = sorted({*counts, *missing})
    done = set(closed(shown, periods, through)) if through is not None else set()
    lines: dict[str, dict[int, Cell]] = {}
    for period in shown:
        line, column = periods.place(period)
        count = counts.get(period, Count())
        lines.setdefault(line, {})[column] = Cell(
            periods.text(period),
            count.rows,
            count.dead,
            late.get(period, Count()).records,
            missing.get(period, 0),
            period in done,
        )
    names = sorted(lines)
    columns = periods.columns
    kept = tuple(GridLine(name, tuple(lines[name].get(each) for each in range(len(columns)))) for name in names)
    return Grid(status, periods.unit, columns, kept[-MOST_LINES:], max(0, len(kept) - MOST_LINES))


def _missing(topic: str, compared: Iterable[Compared], periods: Periods) -> dict[Period, int]:
    """By period, the missing records by the tier that misses the most."""
    by_tier: dict[tuple[str, Period], int] = {}
    for each in compared:
        if each.topic == topic and each.judgement is Judgement.MISSING:
            place = (each.tier, periods.of_window(each.window))
            by_tier[place] = by_tier.get(place, 0) + each.told - each.in_lake
    missing: dict[Period, int] = {}
    for (_, period), records in by_tier.items():
        missing[period] = max(records, missing.get(period, 0))
    return missing
