"""Rows with fields become records: the value is the object in JSON or as a schema has it, key and time are fields."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import NamedTuple
from uuid import UUID

from ottla.cli.faults import BadInput
from ottla.cli.input.lines import InputRow, each_made
from ottla.cli.input.times import InputTimes
from ottla.client.model import Header
from ottla.client.produce.run import Run

Encode = Callable[[InputRow], bytes]


class Taken(NamedTuple):
    """The fields that become something else than a part of the value."""

    key: str | None = None
    time: str | None = None
    headers: Sequence[tuple[str, str]] = ()
    """(name of the header, field)."""


class _Made(NamedTuple):
    value: bytes
    key: bytes | None
    timestamp: int
    headers: list[Header]


class RowRecords:
    """Makes runs of the rows of one input."""

    def __init__(self, common: Run, taken: Taken, times: InputTimes, encode: Encode) -> None:
        self._common = common
        self._taken = taken
        self._times = times
        self._encode = encode

    def runs(self, blocks: Iterator[list[InputRow]]) -> Iterator[list[Run]]:
        """A run for each block of rows; for each row where rows have headers of their own."""
        for rows in blocks:
            for made in each_made(rows, self._record):
                if made:
                    yield self._joined(made)

    def _joined(self, made: list[_Made]) -> list[Run]:
        if self._taken.headers:
            return [self._run([one], [*self._common.headers, *one.headers]) for one in made]
        return [self._run(made, self._common.headers)]

    def _run(self, made: list[_Made], headers: Sequence[Header]) -> Run:
        return Run(
            [one.value for one in made],
            None if self._taken.key is None else [one.key for one in made],
            headers,
            None if self._taken.time is None else [one.timestamp for one in made],
            self._common.partition,
        )

    def _record(self, row: InputRow) -> _Made:
        key = None if self._taken.key is None else field_bytes(row, self._taken.key)
        headers = [(name, field_bytes(row, field)) for name, field in self._taken.headers]
        return _Made(self._encode(row), key, self._timestamp(row), headers)

    def _timestamp(self, row: InputRow) -> int:
        if self._taken.time is None:
            return -1
        value = field(row, self._taken.time)
        try:
            if value is None or value == "":
                raise ValueError("there is no time")
            found = self._times.milliseconds(value)
        except ValueError as fault:
            raise BadInput(f"{row.place}: field {self._taken.time}: {fault}") from None
        return found


def field(row: InputRow, path: str) -> object:
    """A field by its name, or by names with dots between where objects hold it; BadInput where there is none."""
    if path in row.fields:
        return row.fields[path]
    found: object = row.fields
    for name in path.split("."):
        if not isinstance(found, dict) or name not in found:
            names = list(found) if isinstance(found, dict) else []
            there = f"; there are {', '.join(names[:20])}" if names else ""
            raise BadInput(f"{row.place} has no field {path}{there}")
        found = found[name]
    return found


def field_bytes(row: InputRow, path: str) -> bytes | None:
    """A field as a key or a header: text and bytes as they are, anything else as JSON; null is none."""
    value = field(row, path)
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return _utf8(value, row.place)
    if isinstance(value, Decimal):
        return str(value).encode()
    shown = as_json(value, row.place)
    return shown[1:-1] if shown[:1] == b'"' else shown


def as_written(row: InputRow) -> bytes:
    """The row's own bytes, else its fields as JSON."""
    return row.text.strip() if row.text is not None else as_json(row.fields, row.place)


def as_json(value: object, place: str) -> bytes:
    """A value in JSON: bytes in Base64, decimals as text, days and times by ISO 8601.

    BadInput for values that JSON has not.
    """
    try:
        text = json.dumps(plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError) as fault:
        raise BadInput(f"{place}: {fault}") from None
    return _utf8(text, place)


def plain(value: object) -> object:
    """The value in what JSON has; TypeError for other things."""
    if value is None or isinstance(value, str | int | bool):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} is not a number of JSON")
        return value
    if isinstance(value, dict):
        return {_name(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal | UUID):
        return str(value)
    raise TypeError(f"a {type(value).__name__} has no form in JSON")


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"{name!r} is no name of a member: JSON has text for names")
    return name


def _utf8(text: str, place: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise BadInput(f"{place}: {text[:200]!r} is not text in UTF-8") from None
