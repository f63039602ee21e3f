"""One syslog message as an object: RFC 5424 first, then RFC 3164, else as it came. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final

_PRIORITY: Final = re.compile(r"<(0|[1-9]\d{0,2})>")
_FACILITIES: Final = (
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp", "ntp",
    "audit", "alert", "clock", *(f"local{n}" for n in range(8)),
)  # fmt: skip
_SEVERITIES: Final = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")
_NEW: Final = re.compile(r"1 (\S+) (\S{1,255}) (\S{1,48}) (\S{1,128}) (\S{1,32}) (.*)", re.DOTALL)
_OLD: Final = re.compile(
    r"(?P<month>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) {1,2}(?P<day>\d{1,2}) "
    r"(?P<time>\d\d:\d\d:\d\d) (?P<host>\S+) (?P<rest>.*)",
    re.DOTALL,
)
_TAG: Final = re.compile(r"([^\s:\[]{1,48})(?:\[([^\]\s]*)\])?:? ?(.*)", re.DOTALL)
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_ELEMENT: Final = re.compile(r'\[([^\s=\]"]{1,32})((?: [^\s=\]"]{1,32}="(?:[^"\\\]]|\\.)*")*)\]', re.DOTALL)
_PARAMETER: Final = re.compile(r' ([^\s=\]"]{1,32})="((?:[^"\\\]]|\\.)*)"', re.DOTALL)
_ESCAPED: Final = re.compile(r'\\(["\\\]])')
_CLOCKS_DIFFER: Final = timedelta(days=1)
_BOM: Final = "\ufeff"


def parsed(content: bytes, *, now: datetime, zone: tzinfo = UTC) -> dict[str, Any]:
    """The parts of a message. `format` says by which RFC it was read; `raw` is one of neither, kept as its text.

    Old messages have no year and no zone: theirs is the last year that is not in the future, in `zone`. Bytes that are
    not UTF-8 stand as \\xNN.
    """
    text = content.decode("utf-8", "backslashreplace").rstrip("\r\n\0")
    found = _PRIORITY.match(text)
    if found is None or int(found[1]) > 191:
        return {"format": "raw", "message": text}
    priority, rest = int(found[1]), text[found.end() :]
    made = {"facility": _FACILITIES[priority >> 3], "severity": _SEVERITIES[priority & 7], "priority": priority}
    parts = _new(rest) or _old(rest, now, zone)
    return {"format": "raw", "message": text} if parts is None else {**made, **parts}


def timestamp_ms(message: dict[str, Any]) -> int | None:
    """The time of a message, None if it has none."""
    text = message.get("timestamp")
    return None if text is None else int(datetime.fromisoformat(text).timestamp() * 1000)


def _new(rest: str) -> dict[str, Any] | None:
    found = _NEW.fullmatch(rest)
    if found is None:
        return None
    when, host, app, process, message_id, behind = found.groups()
    structured = _structured(behind)
    if structured is None:
        return None
    elements, message = structured
    made: dict[str, Any] = {"format": "rfc5424"}
    if when != "-":
        try:
            stamp = datetime.fromisoformat(when)
        except ValueError:
            return None
        if stamp.tzinfo is None:
            return None
        made["timestamp"] = stamp.isoformat()
    named = (("host", host), ("app", app), ("process", process), ("message_id", message_id))
    made |= {name: text for name, text in named if text != "-"}
    if elements:
        made["structured"] = elements
    return {**made, "message": message.removeprefix(_BOM)}


def _structured(text: str) -> tuple[dict[str, dict[str, str]], str] | None:
    """The structured data at the beginning, and the message behind it; None if it is broken."""
    elements: dict[str, dict[str, str]] = {}
    if text == "-" or text.startswith("- "):
        return elements, text[2:]
    at = 0
    while match := _ELEMENT.match(text, at):
        named = {name: _ESCAPED.sub(r"\1", value) for name, value in _PARAMETER.findall(match[2])}
        elements.setdefault(match[1], {}).update(named)
        at = match.end()
    if not at or (at < len(text) and text[at] != " "):
        return None
    return elements, text[at + 1 :]


def _old(rest: str, now: datetime, zone: tzinfo) -> dict[str, Any] | None:
    found = _OLD.fullmatch(rest)
    if found is None:
        return None
    stamp = _of_last_year(found["month"], int(found["day"]), found["time"], now, zone)
    if stamp is None:
        return None
    made: dict[str, Any] = {"format": "rfc3164", "timestamp": stamp.isoformat(), "host": found["host"]}
    tag = _TAG.fullmatch(found["rest"])
    if tag is None or found["rest"][len(tag[1]) : len(tag[1]) + 1] not in (":", "["):
        return {**made, "message": found["rest"]}
    made["app"] = tag[1]
    if tag[2]:
        made["process"] = tag[2]
    return {**made, "message": tag[3]}


def _of_last_year(month: str, day: int, time: str, now: datetime, zone: tzinfo) -> datetime | None:
    hour, minute, second = (int(each) for each in time.split(":"))
    candidates = []
    for year in range(now.year - 8, now.year + 2):  # 29 February may be eight years ago
        try:
            candidates.append(datetime(year, _MONTHS.index(month) + 1, day, hour, minute, second, tzinfo=zone))
        except ValueError:  # no such day in that year, or no time at all
            continue
    return max((each for each in candidates if each <= now + _CLOCKS_DIFFER), default=None)
