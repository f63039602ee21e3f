"""Dead letters: records that a job could not take, kept in a topic with headers that say where from and why.

Writes and reads ottla's own headers, Kafka Connect's and those of Kafka Streams (KIP-1034). Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from ottla.client.model import Header
from ottla.kernel.ids import TopicPartition

REDRIVEN = "ottla.redriven"
"""The number of times that the record was sent back to its topic; a job that refuses it again keeps the header."""
MOST_OF_A_REASON = 500
"""The most characters of a reason in ottla's header: it may quote names of fields, which may be as long as values."""
_CONNECT = "__connect.errors."
_STREAMS = "__streams.errors."
_OURS = {
    "topic": "ottla.topic",
    "partition": "ottla.partition",
    "offset": "ottla.offset",
    "reason": "ottla.reason",
    "timestamp": "ottla.timestamp",
}
_CONNECTS = {
    "topic": _CONNECT + "topic",
    "partition": _CONNECT + "partition",
    "offset": _CONNECT + "offset",
    "connector": _CONNECT + "connector.name",
    "task": _CONNECT + "task.id",
    "stage": _CONNECT + "stage",
    "at_class": _CONNECT + "class.name",
    "exception": _CONNECT + "exception.class.name",
    "reason": _CONNECT + "exception.message",
    "trace": _CONNECT + "exception.stacktrace",
}
_OF_STREAMS = {
    "topic": _STREAMS + "topic",
    "partition": _STREAMS + "partition",
    "offset": _STREAMS + "offset",
    "exception": _STREAMS + "exception",
    "reason": _STREAMS + "message",
    "trace": _STREAMS + "stacktrace",
}
_SHORTENED = ("ottla.key.bytes", "ottla.value.bytes", "ottla.headers")
"""Lengths that a key and a value had, and the number of headers, where the topic did not take the whole letter."""
_ERROR_HEADERS = frozenset((*_OURS.values(), *_CONNECTS.values(), *_OF_STREAMS.values(), *_SHORTENED))
_FAMILIES = ((_CONNECT, _CONNECTS), (_STREAMS, _OF_STREAMS))
_NUMBERS = ("partition", "offset", "task", "timestamp")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")
_DIGITS = re.compile(r"\d+")


class Style(Enum):
    """The headers that say where a letter comes from."""

    OTTLA = "ottla"
    CONNECT = "connect"
    STREAMS = "streams"


@dataclass(frozen=True, slots=True)
class Cause:
    """The origin of a letter and the reason it was refused; None for what the headers do not say."""

    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    reason: str | None = None
    timestamp: int | None = None
    """The record's own time in milliseconds, where the letter has another one."""
    connector: str | None = None
    task: int | None = None
    stage: str | None = None
    at_class: str | None = None
    """The class of the converter or transformation that failed."""
    exception: str | None = None
    trace: str | None = None

    @property
    def kind(self) -> str:
        """The reason without what differs from record to record: numbers, and what stands in quotes."""
        reason = self.reason or self.exception or "no reason is given"
        return _DIGITS.sub("N", _QUOTED.sub("'…'", reason.splitlines()[0] if reason else reason))


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """The headers of a dead letter, read."""

    cause: Cause
    headers: tuple[Header, ...]
    """The headers of the record itself."""
    redriven: int = 0
    """The times it was sent back before."""
    shortened: bool = False
    """True where key, value or headers are not whole, as the topic did not take the whole letter."""

    @property
    def origin(self) -> TopicPartition | None:
        """The partition that the record came from, if the headers say so."""
        if self.cause.topic is None or self.cause.partition is None:
            return None
        return TopicPartition(self.cause.topic, self.cause.partition)


class UnreadableLetter(ValueError):
    """An error header has content that no job writes."""


def error_headers(cause: Cause, style: Style) -> list[Header]:
    """The headers to put behind those of the record. Connect writes all of its ten, an unknown one as null."""
    if style is Style.CONNECT:
        return [(header, _text(getattr(cause, name))) for name, header in _CONNECTS.items()]
    names = _OURS if style is Style.OTTLA else _OF_STREAMS
    texts = {name: _text(getattr(cause, name)) for name in names}
    return [(names[name], text) for name, text in texts.items() if text is not None]


def short_reason(reason: str) -> str:
    """A reason cut to MOST_OF_A_REASON characters."""
    return reason if len(reason) <= MOST_OF_A_REASON else f"{reason[:MOST_OF_A_REASON]}…"


def own_time(timestamp: int) -> Header:
    """The header with the record's own time, where the topic refuses it as the letter's."""
    return _OURS["timestamp"], _text(timestamp)


def is_ours(header: Header) -> bool:
    """True for a header that ottla put on a letter; others belong to the record."""
    return header[0] == REDRIVEN or header[0] in _OURS.values() or header[0] in _SHORTENED


def lost_parts(key: bytes | None, value: bytes | None, most: int, headers: int) -> list[Header]:
    """Headers for a letter whose key and value are cut to `most` bytes and whose own headers are left out."""
    lost: list[Header] = []
    for name, content in zip(_SHORTENED, (key, value), strict=False):
        if content is not None and len(content) > most:
            lost.append((name, _text(len(content))))
    return [*lost, (_SHORTENED[2], _text(headers))] if headers else lost


def read_letter(headers: Iterable[Header]) -> DeadLetter:
    """The cause in a letter's headers, of any style, and the record's own headers.

    UnreadableLetter for a number that is none. The last headers count: a record that was refused twice has two causes.
    """
    own: list[Header] = []
    found: dict[str, bytes | None] = {}
    names = _OURS
    for name, content in headers:
        if name == REDRIVEN or name in _ERROR_HEADERS:
            found[name] = content
            names = next((each for start, each in _FAMILIES if name.startswith(start)), _OURS)
        else:
            own.append((name, content))
    values = {name: _value(name, header, found.get(header)) for name, header in names.items()}
    redriven = _value("offset", REDRIVEN, found.get(REDRIVEN)) or 0
    assert isinstance(redriven, int)
    cause = Cause(**values)  # type: ignore[arg-type]  # `_value` gives numbers for `_NUMBERS`, text for the others
    return DeadLetter(cause, tuple(own), redriven, shortened=any(name in found for name in _SHORTENED))


def redriven_headers(letter: DeadLetter) -> list[Header]:
    """The headers of the record when it is sent back: its own, and how often that was done."""
    return [*letter.headers, (REDRIVEN, _text(letter.redriven + 1))]


def _text(value: str | int | None) -> bytes | None:
    return None if value is None else str(value).encode("utf-8", "replace")


def _value(name: str, header: str, content: bytes | None) -> str | int | None:
    if content is None:
        return None
    text = content.decode("utf-8", "replace")
    if name not in _NUMBERS:
        return text
    digits = text.removeprefix("-") if name == "timestamp" else text
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
        raise UnreadableLetter(f"the header {header} is {text[:40]!r}, not a number")
    return int(text)
