"""Values as PostgreSQL writes them in text: times, intervals, arrays, hstore, bits, money. Pure.

The session of the reader fixes the forms: DateStyle ISO, IntervalStyle postgres, bytea in hex, the zone UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Final

SESSION: Final = (
    "-c DateStyle=ISO -c IntervalStyle=postgres -c bytea_output=hex -c TimeZone=UTC -c extra_float_digits=3 "
    "-c lc_monetary=C -c client_encoding=UTF8"
)
"""The settings under which the forms read here are written."""
DAY_US: Final = 86_400_000_000
INFINITE_US: Final = {"infinity": 9_223_372_036_825_200_000, "-infinity": -9_223_372_036_832_400_000}
"""The timestamps that stand for infinity, those of PostgreSQL's Java driver."""
INFINITE_DAYS: Final = {"infinity": 2**31 - 1, "-infinity": -(2**31)}
_EPOCH: Final = date(1970, 1, 1).toordinal()
_DATE: Final = re.compile(r"(\d+)-(\d\d)-(\d\d)")
_TIME: Final = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?(?:([+-])(\d\d)(?::(\d\d))?(?::(\d\d))?)?")
_PART: Final = re.compile(r"([+-]?\d+) (year|mon|day)s?")
_CLOCK: Final = re.compile(r"([+-]?)(\d+):(\d\d):(\d\d(?:\.\d+)?)$")
_PAIR: Final = re.compile(r'"((?:[^"\\]|\\.)*)"=>(?:NULL|"((?:[^"\\]|\\.)*)")')
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)


def days_of(text: str) -> int:
    """A date as days since 1970, in the proleptic Gregorian calendar."""
    if text in INFINITE_DAYS:
        return INFINITE_DAYS[text]
    try:
        return date.fromisoformat(text).toordinal() - _EPOCH
    except ValueError:
        return _far_days(text)


def _far_days(text: str) -> int:
    """The days of a date that Python's calendar does not reach."""
    found = _DATE.match(text)
    if found is None:
        raise ValueError(f"{text!r} is no date")
    year, month, day = map(int, found.groups())
    if text.endswith(" BC"):
        year = 1 - year
    # Four centuries have the same days: count from a year that Python knows.
    cycles = (year - 2000) // 400
    return date(year - cycles * 400, month, day).toordinal() - _EPOCH + cycles * 146_097


def micros_of_day(text: str) -> int:
    """A time of day in microseconds; one with a zone is turned into UTC, within the day."""
    found = _TIME.search(text)
    if found is None:
        raise ValueError(f"{text!r} is no time")
    hour, minute, second, fraction, sign, *zone = found.groups()
    micros = ((int(hour) * 60 + int(minute)) * 60 + int(second)) * 1_000_000 + int((fraction or "").ljust(6, "0"))
    if sign is None:
        return micros
    hours, minutes, seconds = (int(each or 0) for each in zone)
    offset = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000
    return (micros - offset if sign == "+" else micros + offset) % DAY_US


def micros_of(text: str) -> int:
    """A timestamp in microseconds since 1970."""
    if text in INFINITE_US:
        return INFINITE_US[text]
    if text.endswith("+00"):
        text = text[:-3]
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        text = text.replace("+00 BC", " BC")
        return _far_days(text) * DAY_US + micros_of_day(text)
    seconds = (found.hour * 60 + found.minute) * 60 + found.second
    return (found.toordinal() - _EPOCH) * DAY_US + seconds * 1_000_000 + found.microsecond


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval; hours, minutes and seconds have one sign."""

    months: int
    days: int
    micros: int

    @classmethod
    def of(cls, text: str) -> Interval:
        """An interval in the style `postgres`."""
        months = days = micros = 0
        for number, unit in _PART.findall(text):
            if unit == "day":
                days = int(number)
            else:
                months += int(number) * (12 if unit == "year" else 1)
        if found := _CLOCK.search(text):
            sign, hours, minutes, seconds = found.groups()
            micros = (int(hours) * 60 + int(minutes)) * 60_000_000 + int(Decimal(seconds) * 1_000_000)
            micros = -micros if sign == "-" else micros
        return cls(months, days, micros)

    def average_micros(self) -> int:
        """Its length in microseconds, with months of 30.4375 days."""
        return self.months * (DAY_US * 487 // 16) + self.days * DAY_US + self.micros

    def iso(self) -> str:
        """Its form by ISO 8601, with every part."""
        years, months = _divided(self.months, 12)
        hours, left = _divided(self.micros, 3_600_000_000)
        minutes, left = _divided(left, 60_000_000)
        seconds = f"{Decimal(left).scaleb(-6):f}"
        seconds = seconds.rstrip("0").rstrip(".") if "." in seconds else seconds
        return f"P{years}Y{months}M{self.days}DT{hours}H{minutes}M{seconds}S".replace("M-0S", "M0S")


def _divided(value: int, by: int) -> tuple[int, int]:
    """Quotient and rest toward zero."""
    whole = abs(value) // by * (1 if value >= 0 else -1)
    return whole, value - whole * by


def items_of(text: str, delimiter: str = ",") -> list[str | None]:
    """The items of an array of one dimension; ValueError for one with more."""
    if text.startswith("["):  # its bounds do not begin at 1
        text = text[text.index("=") + 1 :]
    if text == "{}":
        return []
    return list(_items(text, delimiter))


def _items(text: str, delimiter: str) -> Iterator[str | None]:
    at, end = 1, len(text) - 1
    while at < end:
        if text[at] == "{":
            raise ValueError("an array of several dimensions")
        if text[at] == '"':
            begin = at = at + 1
            while text[at] != '"':
                at += 2 if text[at] == "\\" else 1
            yield _ESCAPE.sub(r"\1", text[begin:at])
            at += 2
        else:
            stop = text.find(delimiter, at)
            stop = end if stop < 0 else stop
            item = text[at:stop]
            yield None if item == "NULL" else item
            at = stop + 1


def hstore_of(text: str) -> dict[str, str | None]:
    """The pairs of an hstore."""
    found: dict[str, str | None] = {}
    for pair in _PAIR.finditer(text):
        value = pair[2]
        found[_ESCAPE.sub(r"\1", pair[1])] = None if value is None else _ESCAPE.sub(r"\1", value)
    return found


def bits_of(text: str) -> bytes:
    """Bits as bytes, the lowest first, without zeros at the end, as Java's BitSet."""
    number = int(text, 2) if text else 0
    return number.to_bytes((number.bit_length() + 7) // 8, "little")


def money_of(text: str) -> Decimal:
    """An amount of money in the form of the locale C."""
    plain = text.replace("$", "").replace(",", "")
    return -Decimal(plain[1:-1]) if plain.startswith("(") else Decimal(plain)


def point_of(text: str) -> tuple[float, float]:
    """The coordinates of a point."""
    x, y = text.strip("()").split(",")
    return float(x), float(y)


def unscaled(number: int) -> bytes:
    """A whole number as Java's BigInteger writes it: the least bytes of two's complement, the highest first."""
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return number.to_bytes(size, "big", signed=True)


def iso_date(days: int) -> str:
    """Days since 1970 as an ISO date, with a sign for years of more than four digits, as Java writes it."""
    cycles = (days + _EPOCH - 1) // 146_097
    found = date.fromordinal(days + _EPOCH - cycles * 146_097)
    year = found.year + cycles * 400
    shown = f"{year:04d}" if 0 <= year <= 9999 else f"{year:+05d}"
    return f"{shown}-{found.month:02d}-{found.day:02d}"


def iso_time(micros: int, digits: int | None = None) -> str:
    """Microseconds of a day as an ISO time, with so many digits of a fraction; None: as many as it takes."""
    seconds, fraction = divmod(micros, 1_000_000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    shown = f"{fraction:06d}"
    shown = shown.rstrip("0") if digits is None else shown[:digits]
    return f"{text}.{shown}" if shown else text


def iso_timestamp(micros: int, digits: int | None = None) -> str:
    """Microseconds since 1970 as an ISO timestamp in UTC."""
    days, rest = divmod(micros, DAY_US)
    return f"{iso_date(days)}T{iso_time(rest, digits)}Z"
