"""Times as people write them, in milliseconds since 1970: numbers of any unit, dates and ISO 8601."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation

UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
"""The number of each that makes a second."""
_SIZES = ((10**11, "s"), (10**14, "ms"), (10**17, "us"))
"""Numbers below these are in that unit: 10**11 seconds end in the year 5138, and as milliseconds in 1973."""
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")
_ISO = re.compile(r"(\d{4}-\d\d-\d\d)(?:[Tt ](\d\d:\d\d(?::\d\d)?)(?:[.,](\d+))? ?([Zz]|[+-]\d\d(?::?\d\d)?)?)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class InputTimes:
    """Turns the times of one input into milliseconds. All numbers of an input are of one unit."""

    def __init__(self, unit: str | None = None) -> None:
        """`unit` is one of `UNITS`; without one the size of the first number says which it is."""
        self._unit = unit
        self._is_given = unit is not None

    def milliseconds(self, value: object) -> int:
        """The time, a part of a millisecond left out; ValueError where it is none or before 1970."""
        if isinstance(value, datetime):
            found = (value if value.tzinfo is not None else value.replace(tzinfo=UTC)) - _EPOCH
            return _since_1970(found // _MILLISECOND, value)
        if isinstance(value, date):
            return self.milliseconds(datetime(value.year, value.month, value.day))
        if isinstance(value, str) and not _NUMBER.fullmatch(value.strip()):
            return _iso(value.strip())
        return self._number(value)

    def _number(self, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
            raise ValueError(f"{value!r} is no time")
        try:
            number = Decimal(value.strip() if isinstance(value, str) else str(value))
            if not number.is_finite():
                raise ValueError(f"{value!r} is no time")
            size = next((unit for limit, unit in _SIZES if abs(number) < limit), "ns")
            if self._unit is None:
                self._unit = size
            if number and size != self._unit and not self._is_given:
                raise ValueError(
                    f"{value} looks like a time in {size}, those before it are in {self._unit}: give --time-unit"
                )
            return _since_1970(int(number * 1000 // UNITS[self._unit]), value)
        except InvalidOperation:
            raise ValueError(f"{value!r} is no time") from None


def _since_1970(found: int, value: object) -> int:
    if found < 0:
        raise ValueError(f"{value} is before 1970, which Kafka has no times for")
    if found >= 1 << 63:
        raise ValueError(f"{value} is no time: it is too large")
    return found


def _iso(text: str) -> int:
    """`2026-01-31`, `2026-01-31 12:00:00.5`, `2026-01-31T12:00Z`, `+01:00`; UTC where no zone is given."""
    found = _ISO.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no time: write 2026-01-31, 2026-01-31T12:00:00Z or a number since 1970")
    day, clock, fraction, zone = found.groups()
    zone = "+00:00" if zone is None or zone in "Zz" else zone
    try:
        whole = datetime.fromisoformat(f"{day}T{clock or '00:00'}{zone}")
    except ValueError as fault:
        raise ValueError(f"{text!r} is no time: {fault}") from None
    return _since_1970((whole - _EPOCH) // _MILLISECOND + int(((fraction or "") + "000")[:3]), text)
