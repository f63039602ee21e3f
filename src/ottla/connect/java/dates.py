"""Java's SimpleDateFormat in UTC with English names: patterns are read once, then write and read times.

It reads as leniently as Java: 30 February is 1 March, and text behind the pattern's end is ignored.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ottla.connect.data import DAY_MS
from ottla.connect.java.calendar import CalendarMoment, lenient_day, moment

MONTHS: Final = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
                 "November", "December")  # fmt: skip
WEEKDAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
ZONES: Final = {
    "UTC": 0, "GMT": 0, "UT": 0, "EST": -300, "EDT": -240, "CST": -360, "CDT": -300, "MST": -420, "MDT": -360,
    "PST": -480, "PDT": -420, "Coordinated Universal Time": 0, "Greenwich Mean Time": 0,
}  # fmt: skip
"""Time zones that a time may name, in minutes east of Greenwich."""
_LETTERS: Final = frozenset("GyMLwWDdFEuaHkKhmsSzZXY")
_HOUR, _MINUTE, _SECOND = 3_600_000, 60_000, 1000
_ZONE = re.compile(r"(GMT|UTC)?([+-])(\d{1,2}):?(\d{2})")
_ISO_ZONE = re.compile(r"Z|([+-])(\d{2})(?::?(\d{2}))?")
_NUMBER = re.compile(r"-?\d+")

_NUMBERS: Final[dict[str, Callable[[CalendarMoment], int]]] = {
    "y": lambda at: at.year if at.year > 0 else 1 - at.year,
    "Y": lambda at: at.week_year,
    "M": lambda at: at.month,
    "L": lambda at: at.month,
    "w": lambda at: at.week_of_year,
    "W": lambda at: at.week_of_month,
    "D": lambda at: at.day_of_year,
    "d": lambda at: at.day,
    "F": lambda at: (at.day - 1) // 7 + 1,
    "u": lambda at: at.weekday or 7,
    "H": lambda at: at.ms // _HOUR,
    "k": lambda at: at.ms // _HOUR or 24,
    "K": lambda at: at.ms // _HOUR % 12,
    "h": lambda at: at.ms // _HOUR % 12 or 12,
    "m": lambda at: at.ms // _MINUTE % 60,
    "s": lambda at: at.ms // _SECOND % 60,
    "S": lambda at: at.ms % 1000,
}


@dataclass(frozen=True, slots=True)
class Piece:
    """Letters of one kind in a pattern, or literal text where there is no letter."""

    letter: str
    count: int
    text: str = ""

    @property
    def is_number(self) -> bool:
        """True if it is written in digits."""
        return self.letter in _NUMBERS and not (self.letter in "ML" and self.count > 2)


class DatePattern:
    """A pattern that writes and reads milliseconds since 1970; ValueError where Java refuses the pattern."""

    def __init__(self, pattern: str, *, now_ms: int | None = None) -> None:
        self.pattern = pattern
        self._pieces = _pieces(pattern)
        self._writers = [_writer(piece) for piece in self._pieces]
        self._now_ms = now_ms

    def format(self, ms: int) -> str:
        """The text of a time."""
        at = moment(ms)
        return "".join([write(at) for write in self._writers])

    def parse(self, text: str) -> int:
        """The time that a text names, or ValueError."""
        fields: dict[str, int] = {}
        at = 0
        for place, piece in enumerate(self._pieces):
            if not piece.letter:
                if not text.startswith(piece.text, at):
                    raise ValueError(text)
                at += len(piece.text)
                continue
            behind = self._pieces[place + 1] if place + 1 < len(self._pieces) else None
            at = self._read(piece, text, at, fields, exact=behind is not None and behind.is_number)
        if not at:
            raise ValueError(text)
        return self._resolved(fields)

    def _read(self, piece: Piece, text: str, at: int, fields: dict[str, int], *, exact: bool) -> int:
        """Read one field; its end. `exact` numbers take as many characters as letters: a number follows."""
        end = at + piece.count
        while text[at : at + 1] in (" ", "\t"):
            at += 1
        letter = "M" if piece.letter == "L" else piece.letter
        if letter in "zZX":
            return _read_zone(letter, text, at, fields)
        if not piece.is_number:
            value, at = _read_name(letter, text, at)
        else:
            if exact and end > len(text):
                raise ValueError(text)
            found = _NUMBER.match(text, at, end if exact else len(text))
            if found is None:
                raise ValueError(text)
            value, digits, at = int(found[0]), found.end() - at, found.end()
            if letter in "yY" and piece.count <= 2 and digits == 2 and value >= 0:
                fields["short"] = value
                value += self._century(value)
        letter, value = _calendar_field(letter, value)
        fields.pop(letter, None)  # the order in which fields were read counts
        fields[letter] = value
        return at

    def _century(self, value: int) -> int:
        """The century of a year of two digits: within 80 years before now and 20 behind it."""
        first = self._century_start().year
        return first // 100 * 100 + (100 if value < first % 100 else 0)

    def _century_start(self) -> CalendarMoment:
        now = moment(int(time.time() * 1000) if self._now_ms is None else self._now_ms)
        fields = {"y": now.year - 80, "M": now.month, "d": now.day}
        return moment(lenient_day(fields) * DAY_MS + now.ms)

    def _resolved(self, fields: dict[str, int]) -> int:
        short = fields.pop("short", None)
        if fields.pop("G", 1) == 0:
            fields["y"] = 1 - fields.get("y", 1970)
        hours = _hours(fields)
        zone = fields.pop("zone", 0)
        rest = hours * _HOUR + fields.get("m", 0) * _MINUTE + fields.get("s", 0) * _SECOND + fields.get("S", 0)
        found = lenient_day(fields) * DAY_MS + rest - zone * _MINUTE
        if short is not None and short == self._century_start().year % 100:
            start = self._century_start()
            if (found // DAY_MS, found % DAY_MS) < (_day_of(start), start.ms):
                fields["y"] += 100
                found = lenient_day(fields) * DAY_MS + rest - zone * _MINUTE
        return found


def _calendar_field(letter: str, value: int) -> tuple[str, int]:
    """The calendar's field that a letter sets, and its value."""
    match letter:
        case "u":
            return "E", value % 7
        case "k":
            return "H", 0 if value == 24 else value
        case "h" | "K":
            return "h", 0 if letter == "h" and value == 12 else value
    return letter, value


def _hours(fields: dict[str, int]) -> int:
    """The hour of the day. One from 0 to 23 counts unless half of the day and hour in it were read behind it."""
    at = {name: place for place, name in enumerate(fields, 1)}
    halved = max(at["h"], at["a"]) if "h" in at and "a" in at else 0
    if "H" in at and at["H"] >= halved:
        return fields["H"]
    return fields.get("h", 0) + 12 * fields.get("a", 0)


def _day_of(at: CalendarMoment) -> int:
    return lenient_day({"y": at.year, "M": at.month, "d": at.day})


def _pieces(pattern: str) -> list[Piece]:
    """The pattern's letters and literals. Neighbouring literals are one piece."""
    pieces: list[Piece] = []
    for found in re.finditer(r"''|'((?:[^']|'')*)('?)|([a-zA-Z])\3*|(?s:.)", pattern):
        text = found[0]
        if text == "''":
            literal = "'"
        elif text.startswith("'"):
            if not found[2]:
                raise ValueError("Unterminated quote")
            literal = found[1].replace("''", "'")
        elif found[3]:
            if found[3] not in _LETTERS:
                raise ValueError(f"Illegal pattern character '{found[3]}'")
            if found[3] == "X" and len(text) > 3:
                raise ValueError(f"invalid ISO 8601 format: length={len(text)}")
            pieces.append(Piece(found[3], len(text)))
            continue
        else:
            literal = text
        if pieces and not pieces[-1].letter:
            literal = pieces.pop().text + literal
        pieces.append(Piece("", 0, literal))
    return pieces


def _writer(piece: Piece) -> Callable[[CalendarMoment], str]:
    letter, count = piece.letter, piece.count
    if not letter:
        return lambda at: piece.text
    if letter in "yY" and count == 2:
        return lambda at: f"{_NUMBERS[letter](at) % 100:02d}"
    if letter in _NUMBERS and piece.is_number:
        number = _NUMBERS[letter]
        return lambda at: str(number(at)).rjust(count, "0")
    match letter:
        case "M" | "L":
            return lambda at: MONTHS[at.month - 1] if count > 3 else MONTHS[at.month - 1][:3]
        case "E":
            return lambda at: WEEKDAYS[at.weekday] if count > 3 else WEEKDAYS[at.weekday][:3]
        case "a":
            return lambda at: "PM" if at.ms >= 12 * _HOUR else "AM"
        case "G":
            return lambda at: "AD" if at.year > 0 else "BC"
    zone = {"Z": "+0000", "X": "Z"}.get(letter) or ("Coordinated Universal Time" if count > 3 else "UTC")
    return lambda at: zone


_NAMES: Final[dict[str, tuple[tuple[str, int], ...]]] = {
    "M": tuple((name, at) for at, full in enumerate(MONTHS, 1) for name in (full, full[:3])),
    "E": tuple((name, at) for at, full in enumerate(WEEKDAYS) for name in (full, full[:3])),
    "a": (("AM", 0), ("PM", 1)),
    "G": (("BC", 0), ("AD", 1)),
}


def _read_name(letter: str, text: str, at: int) -> tuple[int, int]:
    """The longest name that stands there, in any case, and its end."""
    found = [(len(name), value) for name, value in _NAMES[letter] if text[at : at + len(name)].lower() == name.lower()]
    if not found:
        raise ValueError(text)
    length, value = max(found)
    return value, at + length


def _read_zone(letter: str, text: str, at: int, fields: dict[str, int]) -> int:
    """Read a time zone, by offset or by name; its end."""
    if letter == "X":
        iso = _ISO_ZONE.match(text, at)
        if iso is None:
            raise ValueError(text)
        minutes = int(iso[2] or 0) * 60 + int(iso[3] or 0)
        fields["zone"] = -minutes if iso[1] == "-" else minutes
        return iso.end()
    if offset := _ZONE.match(text, at):
        minutes = int(offset[3]) * 60 + int(offset[4])
        fields["zone"] = -minutes if offset[2] == "-" else minutes
        return offset.end()
    names = [name for name in ZONES if text[at : at + len(name)].lower() == name.lower()]
    if not names:
        raise ValueError(text)
    name = max(names, key=len)
    fields["zone"] = ZONES[name]
    return at + len(name)
