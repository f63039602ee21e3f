"""Java's GregorianCalendar in UTC for the United States: weeks begin on Sunday.

Dates before 15 October 1582 are Julian. Years before the first one are zero or negative: the year 1 BC is 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ottla.connect.data import DAY_MS

CUTOVER_DAY: Final = -141_427
"""15 October 1582 in days since 1970."""
_YEARS_400: Final = 146_097


@dataclass(frozen=True, slots=True)
class CalendarMoment:
    """A point in time, taken apart."""

    year: int
    month: int
    day: int
    weekday: int
    """Sunday is 0."""
    day_of_year: int
    ms: int
    """Milliseconds since midnight."""

    @property
    def week_of_year(self) -> int:
        """The week in `week_year`, from 1."""
        return 1 if self.week_year > self.year else self._week(self.day_of_year)

    @property
    def week_of_month(self) -> int:
        """The week in the month, from 1."""
        return self._week(self.day)

    @property
    def week_year(self) -> int:
        """The year that the week belongs to: the last days of December may be in the first week of the next year."""
        sunday = self.day_of_year - self.weekday
        return self.year + (sunday + 7 > days_in_year(self.year) + 1)

    def _week(self, day: int) -> int:
        first_weekday = (self.weekday - day + 1) % 7
        return (day + first_weekday - 1) // 7 + 1


def moment(ms: int) -> CalendarMoment:
    """The parts of a point in time."""
    days, rest = divmod(ms, DAY_MS)
    year, month, day = _gregorian(days) if days >= CUTOVER_DAY else _julian(days)
    return CalendarMoment(year, month, day, (days + 4) % 7, days - day_number(year, 1, 1) + 1, rest)


def days_in_year(year: int) -> int:
    """The number of days that a year has."""
    return day_number(year + 1, 1, 1) - day_number(year, 1, 1)


def day_number(year: int, month: int, day: int) -> int:
    """Days since 1970. Months and days beyond their bounds run on, as in a lenient calendar."""
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    gregorian = _gregorian_days(year, month) + day - 1
    if year > 1582 or (year == 1582 and gregorian >= CUTOVER_DAY):
        return gregorian
    return _julian_days(year, month) + day - 1


def _shifted(year: int, month: int) -> tuple[int, int]:
    """The year that begins in March, and the days before the month in it."""
    return year - (month < 3), (153 * ((month + 9) % 12) + 2) // 5


def _gregorian_days(year: int, month: int) -> int:
    year, before = _shifted(year, month)
    return 365 * year + year // 4 - year // 100 + year // 400 + before - 719_468


def _julian_days(year: int, month: int) -> int:
    year, before = _shifted(year, month)
    return 365 * year + year // 4 + before - 719_470


def _date(year: int, day_of_year: int) -> tuple[int, int, int]:
    """The date of a day in a year that begins in March."""
    month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month + 2) // 5 + 1
    return (year, month + 3, day) if month < 10 else (year + 1, month - 9, day)


def _gregorian(days: int) -> tuple[int, int, int]:
    era, in_era = divmod(days + 719_468, _YEARS_400)
    year = (in_era - in_era // 1460 + in_era // 36_524 - in_era // 146_096) // 365
    return _date(era * 400 + year, in_era - (365 * year + year // 4 - year // 100))


def _julian(days: int) -> tuple[int, int, int]:
    era, in_era = divmod(days + 719_470, 1461)
    year = min(in_era // 365, 3)
    return _date(era * 4 + year, in_era - 365 * year)


def lenient_day(fields: Mapping[str, int]) -> int:
    """Days since 1970 of the date that fields name, by Calendar's rule: of two ways to name a day the later counts.

    Fields are those of the pattern's letters, in the order in which they were read: `y` (with the era in it), `M`,
    `d`, `D`, `E` (0 is Sunday), `w`, `W`, `F`, and `Y` for the year of weeks.
    """
    at = {name: place for place, name in enumerate(fields, 1)}
    stamp = {name: at.get(name, 0) for name in "yMdDEwWFY"}
    year = fields.get("y", 1970)
    if stamp["Y"] > stamp["y"]:
        return _in_week(day_number(fields["Y"], 1, 1), fields.get("w", 1), fields.get("E"))
    way = _way(stamp)
    if way == "d":
        return day_number(year, fields.get("M", 1), fields.get("d", 1))
    if way == "D":
        return day_number(year, 1, 1) + fields["D"] - 1
    if way == "w":
        return _in_week(day_number(year, 1, 1), fields["w"], fields.get("E"))
    first = day_number(year, fields.get("M", 1), 1)
    if way == "W":
        return _in_week(first, fields["W"], fields.get("E"))
    weekday, week = fields.get("E", 0), fields.get("F", 1)
    if week < 0:
        first = day_number(year, fields.get("M", 1) + 1, 1)
        return _on_or_before(first + 7 * (week + 1) - 1, weekday)
    return _on_or_before(first + 7 * week - 1, weekday)


def _way(stamp: Mapping[str, int]) -> str:
    """The field that names the day."""
    weekday = stamp["E"]
    ways = {"d": stamp["d"], "D": stamp["D"]}
    for week in "WFw":
        ways[week] = max(stamp[week], weekday) if stamp[week] and weekday else 0
    if not any(ways.values()):
        ways |= {"W": stamp["W"], "F": max(stamp["F"], weekday), "w": stamp["w"]}
    best = max(ways.values())
    if not best or ways["d"] == best:
        return "d"
    # With one weekday read behind several weeks, all of them have its stamp: the week that was read last counts.
    equal = [way for way in ways if ways[way] == best]
    return max(equal, key=lambda way: stamp[way])


def _on_or_before(day: int, weekday: int) -> int:
    return day - (day + 4 - weekday) % 7


def _in_week(first: int, week: int, weekday: int | None) -> int:
    """A day of a week, counted from the week that the first day of a month or year is in."""
    sunday = _on_or_before(first, 0)
    return sunday + 7 * (week - 1) + ((weekday or 0) % 7)
