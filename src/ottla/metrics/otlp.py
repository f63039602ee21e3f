"""Reads OTLP's metrics, as Kafka's clients push them: gauges and sums of numbers. Pure.

`opentelemetry-proto` would bring generated code for all of OTLP. Unknown fields are skipped, as the protocol demands;
histograms, which no client pushes, are counted as left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import NamedTuple

MOST_FIELDS = 100_000
"""The most fields of one push: reading them takes less than a turn of the loop may.

The attributes of a resource count again for each of its points, which get them all.
"""
MOST_NAME_BYTES = 1024
"""A metric or an attribute with a longer name is refused: each of its points takes time for the name."""
_DELTA = 1
_DOUBLE, _INT64 = Struct("<d"), Struct("<q")
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class BadOtlp(ValueError):
    """Content that is no metrics of OTLP."""


class Point(NamedTuple):
    """One number of a metric. `counts` is True of a sum that only grows; `delta` if it is the growth since the last."""

    name: str
    attributes: tuple[tuple[str, str], ...]
    value: float
    counts: bool
    delta: bool


@dataclass(slots=True)
class Pushed:
    """The content of a push; `left_out` are metrics of other kinds."""

    points: list[Point] = field(default_factory=list)
    left_out: int = 0


class _Reader:
    """Reads messages; all together have at most MOST_FIELDS fields."""

    def __init__(self) -> None:
        self._left = MOST_FIELDS

    def spend(self, fields: int) -> None:
        """Count fields."""
        self._left -= fields
        if self._left < 0:
            raise BadOtlp(f"more than {MOST_FIELDS} fields")

    def fields(self, view: memoryview) -> Iterator[tuple[int, int, int | memoryview]]:
        """(number, type, content) of each field of a message."""
        at, end = 0, len(view)
        while at < end:
            self.spend(1)
            tag, at = _varint(view, at)
            kind = tag & 7
            if kind == _VARINT:
                value, at = _varint(view, at)
                yield tag >> 3, kind, value
                continue
            size = 8 if kind == _FIXED64 else 4
            if kind == _BYTES:
                size, at = _varint(view, at)
            elif kind not in (_FIXED64, _FIXED32):
                raise BadOtlp(f"a field of type {kind}")
            if at + size > end:
                raise BadOtlp("a field ends behind its message")
            yield tag >> 3, kind, view[at : at + size]
            at += size

    def messages(self, view: memoryview, number: int) -> Iterator[memoryview]:
        """The messages in one field."""
        for found, kind, content in self.fields(view):
            if found == number and kind == _BYTES:
                assert isinstance(content, memoryview)
                yield content

    def attributes(self, view: memoryview, number: int) -> Iterator[tuple[str, str]]:
        for pair in self.messages(view, number):
            key = value = ""
            for found, kind, content in self.fields(pair):
                if kind == _BYTES and isinstance(content, memoryview):
                    if found == 1:
                        key = _name(content)
                    elif found == 2:
                        value = self._any_value(content)
            yield key, value

    def _any_value(self, view: memoryview) -> str:
        for found, kind, content in self.fields(view):
            if found == 1 and isinstance(content, memoryview):
                return _text(content)
            if found in (2, 3) and isinstance(content, int):
                return str(bool(content)).lower() if found == 2 else str(content - ((content >> 63) << 64))
            if found == 4 and kind == _FIXED64:
                return repr(_DOUBLE.unpack(content)[0])  # type: ignore[arg-type]
        return ""


def read_metrics(content: memoryview) -> Pushed:
    """The points of a push; BadOtlp if it is none."""
    reader, pushed = _Reader(), Pushed()
    for of_resource in reader.messages(content, 1):
        about = [pair for resource in reader.messages(of_resource, 1) for pair in reader.attributes(resource, 1)]
        for scope in reader.messages(of_resource, 2):
            for metric in reader.messages(scope, 2):
                _read_metric(reader, metric, about, pushed)
    return pushed


def _read_metric(reader: _Reader, metric: memoryview, about: list[tuple[str, str]], pushed: Pushed) -> None:
    name, held = "", []
    for number, kind, content in reader.fields(metric):
        if number == 1 and isinstance(content, memoryview):
            name = _name(content)
        elif number in (5, 7) and isinstance(content, memoryview):
            held.append((number == 7, content))
        elif number in (9, 10, 11) and kind == _BYTES:
            pushed.left_out += 1
    for sums, holder in held:
        delta = counts = False
        for number, kind, content in reader.fields(holder) if sums else ():
            if kind == _VARINT:
                delta |= number == 2 and content == _DELTA
                counts |= number == 3 and bool(content)
        for point in reader.messages(holder, 1):
            value = _value(reader, point)
            if value is None:
                pushed.left_out += 1
            else:
                reader.spend(len(about))
                attributes = dict(about) | dict(reader.attributes(point, 7))
                pushed.points.append(Point(name, tuple(sorted(attributes.items())), value, counts, delta))


def _value(reader: _Reader, point: memoryview) -> float | None:
    for number, kind, content in reader.fields(point):
        if kind == _FIXED64 and isinstance(content, memoryview):
            if number == 4:
                return float(_DOUBLE.unpack(content)[0])
            if number == 6:
                return float(_INT64.unpack(content)[0])
    return None


def _varint(view: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(view) or shift > 63:
            raise BadOtlp("a number does not end")
        byte = view[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _name(view: memoryview) -> str:
    if len(view) > MOST_NAME_BYTES:
        raise BadOtlp(f"a name of {len(view)} bytes; {MOST_NAME_BYTES} are the most")
    return _text(view)


def _text(view: memoryview) -> str:
    try:
        return str(view, "utf-8")
    except UnicodeDecodeError:
        raise BadOtlp("a text is not UTF-8") from None
