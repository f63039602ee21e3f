"""Lines of a source, and the rows of such lines: with keys in front, as CSV, as JSON objects."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import NamedTuple, NoReturn, TypeVar

from ottla.cli.command import counted
from ottla.cli.faults import BadInput
from ottla.cli.input.sources import InputSource

ENVELOPE = frozenset({"topic", "partition", "offset"})
"""Members of a record as `ottla consume --format json` and kcat's -J print it."""

T = TypeVar("T")
R = TypeVar("R")


class InputRow(NamedTuple):
    """One object of an input: its fields, and its bytes as they stood there if it had any."""

    place: str
    """For errors: `a.csv, line 3`."""
    fields: dict[str, object]
    text: bytes | None = None


def line_blocks(source: InputSource, *, keep_returns: bool = False) -> Iterator[list[bytes]]:
    """The lines of each chunk, without their ends (`\\n` or `\\r\\n`); the last one may lack its end.

    `keep_returns`: a `\\r` before the end stays.
    """
    parts: list[bytes] = []
    for chunk in source.chunks():
        first, found, rest = chunk.partition(b"\n")
        if not found:
            parts.append(chunk)
            continue
        lines = rest.split(b"\n")
        last = lines.pop()
        lines.insert(0, b"".join([*parts, first]))
        parts = [last] if last else []
        has_returns = not keep_returns and (b"\r" in chunk or lines[0][-1:] == b"\r")
        yield [line.removesuffix(b"\r") for line in lines] if has_returns else lines
    if parts:
        yield [b"".join(parts) if keep_returns else b"".join(parts).removesuffix(b"\r")]


def each_made(items: Iterable[T], make: Callable[[T], R]) -> Iterator[list[R]]:
    """All that is made of some items; where one is refused, those before it come before the error."""
    made: list[R] = []
    try:
        for item in items:
            made.append(make(item))  # noqa: PERF401  those before an error stay
    except BadInput:
        yield made
        raise
    yield made


def numbered_lines(source: InputSource) -> Iterator[list[tuple[int, bytes]]]:
    """The lines of each chunk with their numbers."""
    number = 1
    for lines in line_blocks(source):
        yield list(enumerate(lines, number))
        number += len(lines)


def json_rows(source: InputSource, *, envelopes: bool) -> Iterator[list[InputRow]]:
    """The objects of JSON lines; empty lines are left out. `envelopes`: take records as `consume` prints them as well.

    Numbers with a fraction keep their digits.
    """

    def row(line: tuple[int, bytes]) -> InputRow:
        place = f"{source.name}, line {line[0]}"
        fields = json_object(line[1], place)
        if not envelopes and is_envelope(fields):
            raise BadInput(
                f"{place} is a record with its topic, partition and offset, as `ottla consume --format json` or "
                "kcat -J prints it: --input json writes the record again, --input jsonl the whole object as a value"
            )
        return InputRow(place, fields, line[1])

    for lines in numbered_lines(source):
        yield from each_made((line for line in lines if line[1].strip()), row)


def is_envelope(fields: dict[str, object]) -> bool:
    return fields.keys() >= ENVELOPE and bool(fields.keys() & {"value", "value_base64", "payload"})


def json_object(line: bytes, place: str) -> dict[str, object]:
    """One object of JSON; BadInput names the place."""
    try:
        found = json.loads(line.decode(), parse_float=Decimal, parse_constant=_no_constant)
    except (ValueError, RecursionError) as fault:
        raise BadInput(f"{place} is not a JSON object ({fault}): {_shown(line)}{_REMEDY}") from None
    if not isinstance(found, dict):
        raise BadInput(f"{place} is not a JSON object: {_shown(line)}{_REMEDY}")
    return found


_REMEDY = ". JSON lines have one object on each line (`jq -c . FILE` writes them so); --input lines takes any text"


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def _shown(line: bytes) -> str:
    text = line.decode("utf-8", "replace")
    return text if len(text) <= 200 else f"{text[:200]}..."


class CsvRows:
    """The rows of CSV behind a header line, as text; a row with more or fewer fields than the header is refused."""

    def __init__(self, source: InputSource, delimiter: str) -> None:
        self._source = source
        self._waiting: list[bytes] = []
        """Lines that have come and are not read yet, the next one last."""
        csv.field_size_limit(sys.maxsize)
        self._reader = csv.reader(self._lines(), delimiter=delimiter, strict=True)
        self._delimiter = delimiter
        self._taken: list[str] = []
        self._broken = False
        """True once no line can follow."""

    def blocks(self) -> Iterator[list[InputRow]]:
        """The rows, given on whenever all lines that have come are read."""
        header = self._checked_header()
        rows: list[InputRow] = []
        try:
            while (fields := self._next()) is not None:
                if fields or len(header) == 1:
                    rows.append(self._row(header, fields or [""]))
                if rows and not self._waiting:
                    yield rows
                    rows = []
        except BadInput:
            yield rows
            raise
        yield rows

    def each(self) -> Iterator[InputRow | BadInput]:
        """The rows one by one; a bad row is its fault, and the rows behind it follow. A bad header is raised."""
        header = self._checked_header()
        while True:
            try:
                fields = self._next()
                if fields is None:
                    return
                if fields or len(header) == 1:
                    yield self._row(header, fields or [""])
            except BadInput as fault:
                if self._broken:
                    raise
                yield fault

    @property
    def text(self) -> str:
        """The lines of the last row, as they stood in the file."""
        return "".join(self._taken)

    def _checked_header(self) -> Sequence[str]:
        header = self._next()
        name = self._source.name
        if not header:
            raise BadInput(f"{name} has no header line: CSV names its fields in the first line")
        if "" in header:
            raise BadInput(f"{name}: field {header.index('') + 1} of the header line has no name")
        if twice := [field for at, field in enumerate(header) if field in header[:at]]:
            raise BadInput(f"{name}: the header line names {twice[0]!r} twice")
        if len(header) == 1:
            for other in ",;\t|":
                if other in header[0] and other != self._delimiter:
                    raise BadInput(
                        f"{name}: the header line {header[0]!r} is one field; --delimiter {other!r} would part it"
                    )
        return header

    def _row(self, header: Sequence[str], fields: list[str]) -> InputRow:
        place = f"{self._source.name}, line {self._reader.line_num}"
        if len(fields) != len(header):
            raise BadInput(f"{place} has {counted(len(fields), 'field')}, and the header line has {len(header)}")
        return InputRow(place, dict(zip(header, fields, strict=True)))

    def _next(self) -> list[str] | None:
        self._taken.clear()
        try:
            return next(self._reader, None)
        except csv.Error as fault:
            raise BadInput(f"{self._source.name}, line {self._reader.line_num}: {fault}") from None

    def _blocks(self) -> Iterator[list[bytes]]:
        try:
            yield from line_blocks(self._source, keep_returns=True)
        except BadInput:
            self._broken = True
            raise

    def _lines(self) -> Iterator[str]:
        number = 0
        for lines in self._blocks():
            self._waiting = lines[::-1]
            while self._waiting:
                number += 1
                line = self._waiting.pop()
                try:
                    self._taken.append(line.decode() + "\n")
                except UnicodeDecodeError:
                    self._broken = True
                    place = f"{self._source.name}, line {number}"
                    raise BadInput(f"{place} is not text in UTF-8: {_shown(line)}") from None
                yield self._taken[-1]
