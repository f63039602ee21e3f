"""Durations, sizes and moments as people write them: `7d`, `1h30m`, `1GiB`, `-1h`, `yesterday 10:00`.

Every command reads them here. A text that leaves a choice, or would have to be rounded, is refused with a sentence.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal

DURATIONS = "write e.g. 500ms, 90s, 15m, 1h30m or 7d"
SIZES = "write e.g. 1000000, 512KiB, 64MiB or 1GiB"
MOMENTS = "write e.g. 2026-01-31T12:00Z, -1h (an hour ago), yesterday or yesterday 10:00"

_WHOLE_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_MS = {"us": Decimal("0.001"), **{unit: Decimal(ms) for unit, ms in _WHOLE_MS.items()}}
_NAMES = {
    "us": ("µs", "micros", "microsecond", "microseconds"),
    "ms": ("millis", "millisecond", "milliseconds"),
    "s": ("sec", "secs", "second", "seconds"),
    "m": ("min", "mins", "minute", "minutes"),
    "h": ("hr", "hrs", "hour", "hours"),
    "d": ("day", "days"),
    "w": ("week", "weeks"),
}
_UNITS_MS = _MS | {name: _MS[unit] for unit, names in _NAMES.items() for name in names}
_CALENDAR = frozenset({"mo", "mon", "month", "months", "y", "yr", "yrs", "year", "years"})
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_MOST = (1 << 63) - 1
_NUMBER = r"\d+(?:\.\d+)?"
_PART = re.compile(rf"({_NUMBER})\s*([a-zµ]+)\s*", re.ASCII | re.IGNORECASE)
_SIZE = re.compile(rf"({_NUMBER})\s*([kmgtp]?)(?:i?b)?|({_NUMBER})\s*bytes?", re.ASCII | re.IGNORECASE)
_ISO_LENGTH = re.compile(
    rf"P(?=.)(?:({_NUMBER})W)?(?:({_NUMBER})D)?(?:T(?=.)(?:({_NUMBER})H)?(?:({_NUMBER})M)?(?:({_NUMBER})S)?)?", re.ASCII
)
_DAY = re.compile(r"(today|yesterday)(?:(?:\s+|T)(\S+))?", re.IGNORECASE)
_AGO = re.compile(r"-\s*(\S.*)|(.*\S)\s+ago", re.IGNORECASE)


def duration_ms(text: str, *, bare: str | None = None) -> int:
    """Milliseconds of `90s`, `1h30m`, `7 days`, `PT1H`; a bare number counts in the unit `bare`, if there is one."""
    exact = fine_duration_ms(text, bare=bare)
    if exact != int(exact):
        raise ValueError(f"{text!r} is not a whole number of milliseconds")
    return int(exact)


def fine_duration_ms(text: str, *, bare: str | None = None) -> Decimal:
    """Milliseconds as `duration_ms` reads them, with a fraction where there is one: 0.5 of `500us`."""
    asked = text.strip()
    if asked.isascii() and asked.isdigit():
        if bare is None:
            raise ValueError(f"{text!r} lacks a unit: {DURATIONS}")
        return _within(Decimal(asked) * _MS[bare], text)
    if iso := _ISO_LENGTH.fullmatch(asked):
        parts = [(number, unit) for number, unit in zip(iso.groups(), ("w", "d", "h", "m", "s"), strict=True) if number]
    else:
        parts = _PART.findall(asked) if re.fullmatch(rf"(?:{_PART.pattern})+", asked, _PART.flags) else []
    if not parts:
        raise ValueError(f"{text!r} is not a duration: {DURATIONS}")
    return _within(sum((Decimal(number) * _unit_ms(unit, text) for number, unit in parts), Decimal(0)), text)


def _unit_ms(unit: str, text: str) -> Decimal:
    if unit == "M":
        raise ValueError(f"{text!r}: M may be minutes or months; write m for minutes, d for days")
    if unit.lower() in _CALENDAR:
        raise ValueError(f"{text!r}: months and years differ in length; write days, as in 30d")
    found = _UNITS_MS.get(unit.lower())
    if found is None:
        raise ValueError(f"{text!r} is not a duration, as {unit} is not a unit of time: {DURATIONS}")
    return found


def size_bytes(text: str) -> int:
    """Bytes of `1000000`, `64MiB`, `1g`; K, M, G, T and P count in steps of 1024, with B or iB behind them or not."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a size: {SIZES}")
    size = Decimal(found[1] or found[3]) * 1024 ** _POWERS[(found[2] or "").lower()]
    if size != int(size):
        raise ValueError(f"{text!r} is not a whole number of bytes")
    return int(_within(size, text))


def moment_ms(text: str, now_ms: int) -> int:
    """Milliseconds since 1970 of an ISO time, `-1h`, `1h ago`, `now`, `today` or `yesterday 10:00`.

    Days and times without a zone are of UTC.
    """
    asked = text.strip()
    if asked.lower() == "now":
        return now_ms
    if ago := _AGO.fullmatch(asked):
        return _since_1970(now_ms - duration_ms(ago[1] or ago[2]), text)
    if day := _DAY.fullmatch(asked):
        date = _utc(now_ms).date() - timedelta(days=day[1].lower() == "yesterday")
        return _of_iso(f"{date.isoformat()}T{day[2] or '00:00'}", text)
    return _of_iso(asked, text)


def _of_iso(iso: str, text: str) -> int:
    try:
        found = datetime.fromisoformat(iso)
    except ValueError:
        raise ValueError(f"{text!r} is not a time{_instead(text)}") from None
    aware = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    since, rest = divmod(aware - _utc(0), timedelta(milliseconds=1))
    if rest:
        raise ValueError(f"{text!r} is finer than a millisecond: records have no finer times")
    return _since_1970(since, text)


def _instead(text: str) -> str:
    """A remedy: a duration without its sign means a time ago, and a time of day lacks its day."""
    try:
        duration_ms(text)
    except ValueError:
        of_day = re.fullmatch(r"\d{1,2}:\d\d(:\d\d)?", text.strip())
        return f": write today {text.strip()} or yesterday {text.strip()}" if of_day else f": {MOMENTS}"
    return f": write -{text.strip()} for so long ago"


def moment_text(ms: int) -> str:
    """`2026-01-31T12:00:00Z`, for messages that say which moment was understood."""
    return _utc(ms).isoformat(timespec="milliseconds" if ms % 1000 else "seconds").replace("+00:00", "Z")


def _utc(ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


def _since_1970(ms: int, text: str) -> int:
    if ms < 0:
        raise ValueError(f"{text!r} is before 1970: brokers know no such times")
    return ms


def _within(number: Decimal, text: str) -> Decimal:
    if number > _MOST:
        raise ValueError(f"{text!r} is too much: more than {_MOST}")
    return number
