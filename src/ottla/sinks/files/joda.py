"""Joda's patterns for times, as `path.format` has them: `'year'=YYYY/'month'=MM`. Pure.

Names of months and days are English. A letter that is not known here is refused when the connector is validated.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Final

_PIECE: Final = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_NUMBERS: Final[dict[str, Callable[[datetime], int]]] = {
    "Y": lambda time: time.year,
    "y": lambda time: time.year,
    "x": lambda time: time.isocalendar().year,
    "M": lambda time: time.month,
    "w": lambda time: time.isocalendar().week,
    "d": lambda time: time.day,
    "D": lambda time: time.timetuple().tm_yday,
    "e": lambda time: time.isoweekday(),
    "H": lambda time: time.hour,
    "k": lambda time: time.hour or 24,
    "K": lambda time: time.hour % 12,
    "h": lambda time: time.hour % 12 or 12,
    "m": lambda time: time.minute,
    "s": lambda time: time.second,
}
_YEARS: Final = "Yyx"
Shown = Callable[[datetime], str]


def time_pattern(pattern: str) -> Shown:
    """The function that shows a time by a pattern; ValueError names what is not known."""
    pieces: list[Shown] = []
    at = 0
    while at < len(pattern):
        match = _PIECE.match(pattern, at)
        if match is None:
            raise ValueError(f"the quotation mark at place {at + 1} is not closed")
        pieces.append(_shown(match))
        at = match.end()
    return lambda time: "".join(piece(time) for piece in pieces)


def _shown(match: re.Match[str]) -> Shown:
    letter, count = match[2], len(match[0])
    if letter is None:
        plain = match[0] if match[1] is None else match[1].replace("''", "'") or "'"
        return lambda time: plain
    if letter == "M" and count > 2:
        return lambda time: _MONTHS[time.month - 1][: None if count > 3 else 3]
    if letter == "E":
        return lambda time: _DAYS[time.weekday()][: None if count > 3 else 3]
    if letter == "a":
        return lambda time: "AM" if time.hour < 12 else "PM"
    if letter == "S":
        return lambda time: f"{time.microsecond // 1000:03}".ljust(count, "0")[:count]
    if letter not in _NUMBERS:
        raise ValueError(f"the letter {letter} is unknown here: there are {''.join(_NUMBERS)}EaS, and text in ''")
    number = _NUMBERS[letter]
    if letter in _YEARS and count == 2:
        return lambda time: f"{number(time) % 100:02}"
    return lambda time: str(number(time)).rjust(count, "0")
