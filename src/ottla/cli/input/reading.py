"""Reads inputs one after the other as runs of records, each in the format that it has."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from ottla.cli.extras import extra
from ottla.cli.faults import BadInput, Misuse
from ottla.cli.input.detect import AVRO, CSV, JSON_LINES, LINES, PARQUET, RECORDS, TITLES, TSV, WITH_FIELDS, detect
from ottla.cli.input.lines import CsvRows, InputRow, json_rows, numbered_lines
from ottla.cli.input.records import record_runs
from ottla.cli.input.rows import Encode, RowRecords, Taken, as_written
from ottla.cli.input.sources import STANDARD_INPUT, InputSource
from ottla.cli.input.times import InputTimes
from ottla.client.produce.run import Run


@dataclass(frozen=True, slots=True)
class Wishes:
    """The options of the command that say how inputs are read."""

    common: Run
    """Headers and partition of all records."""
    format: str | None = None
    key: str | None = None
    """A field; the key of all records where the input has no fields."""
    separator: bytes | None = None
    """Stands between key and value of a line."""
    time: str | None = None
    headers: Sequence[tuple[str, str]] = ()
    """(name of a header, field)."""
    time_unit: str | None = None
    delimiter: str | None = None
    encode: Callable[[bool], Encode] | None = None
    """Makes the encoder of values by a schema; true for fields that are text."""

    @property
    def needs_fields(self) -> bool:
        return self.time is not None or bool(self.headers) or self.encode is not None


@dataclass(slots=True)
class Inputs:
    """Files and standard input, in the order of the command line."""

    paths: Sequence[str]
    wishes: Wishes
    formats: list[tuple[str, str]] = field(default_factory=list)
    """(input, format) of those that were begun."""
    current: InputSource | None = None
    bytes_done: int = 0
    """Bytes of the inputs before the current one."""

    @property
    def bytes_read(self) -> int:
        return self.bytes_done + (self.current.bytes_read if self.current is not None else 0)

    @property
    def size(self) -> int:
        """The bytes of all files; 0 where one's size is not known."""
        sizes = [os.path.getsize(path) if os.path.isfile(path) else 0 for path in self.paths]
        return sum(sizes) if all(sizes) else 0

    def runs(self) -> Iterator[Run]:
        """All records, in their order."""
        for path in self.paths:
            self.current = source = InputSource(path)
            try:
                wishes = self.wishes
                found = wishes.format or detect(source, key=wishes.key, needs_fields=wishes.needs_fields)
                self.formats.append((source.name, found))
                for runs in _runs(source, found, wishes):
                    yield from runs
            finally:
                source.close()
            self.bytes_done += source.bytes_read
            self.current = None

    def described(self) -> str:
        """`a.csv (CSV) and b.jsonl (JSON lines)`; empty for standard input in the format that was asked for."""
        named = [f"{name} ({TITLES[found]})" for name, found in self.formats]
        if list(self.paths) == [STANDARD_INPUT] and self.formats[0][1] in (LINES, self.wishes.format):
            return ""
        return f"{len(named)} files" if len(named) > 3 else " and ".join(named)


def _runs(source: InputSource, found: str, wishes: Wishes) -> Iterator[list[Run]]:
    if found == RECORDS:
        _without_effect(source, found, wishes)
        return record_runs(source, wishes.common)
    if found == LINES:
        _without_effect(source, found, wishes)
        return _line_runs(source, wishes)
    if wishes.separator is not None:
        raise Misuse(f"--key-separator parts lines, and {source.name} is {TITLES[found]}: --key FIELD takes a field")
    encode = wishes.encode(found in (CSV, TSV)) if wishes.encode is not None else as_written
    taken = Taken(wishes.key, wishes.time, wishes.headers)
    return RowRecords(wishes.common, taken, InputTimes(wishes.time_unit), encode).runs(_rows(source, found, wishes))


def _without_effect(source: InputSource, found: str, wishes: Wishes) -> None:
    """Refuse options about fields for an input that has none."""
    given = {"time": wishes.time, "header-field": wishes.headers, "schema": wishes.encode}
    if found == RECORDS:
        given["key"] = wishes.key
    for option, value in given.items():
        if value:
            fitting = ", ".join(sorted(WITH_FIELDS))
            raise Misuse(
                f"--{option} needs an input with fields, and {source.name} is read as {TITLES[found]}: "
                f"--input is one of {fitting}"
            )


def _rows(source: InputSource, found: str, wishes: Wishes) -> Iterator[list[InputRow]]:
    if found == JSON_LINES:
        return json_rows(source, envelopes=wishes.format == JSON_LINES)
    if found in (CSV, TSV):
        return CsvRows(source, wishes.delimiter or ("\t" if found == TSV else ",")).blocks()
    assert found in (AVRO, PARQUET)
    return _file_rows(source, found)


def _file_rows(source: InputSource, found: str) -> Iterator[list[InputRow]]:
    files = extra(TITLES[found])
    number = 0
    try:
        blocks = files.avro_rows(source.binary()) if found == AVRO else files.parquet_rows(source.seekable())
        for block in blocks:
            yield [InputRow(f"{source.name}, row {at}", fields) for at, fields in enumerate(block, number + 1)]
            number += len(block)
    except files.BadPayload as fault:
        raise BadInput(f"{source.name}: {fault}") from None


def _line_runs(source: InputSource, wishes: Wishes) -> Iterator[list[Run]]:
    """Lines as values, with one key for all of them or the key in front."""
    common, separator = wishes.common, wishes.separator
    key = None if wishes.key is None else os.fsencode(wishes.key)
    for numbered in numbered_lines(source):
        if separator is None:
            yield [common._replace(values=[line for _, line in numbered], keys=key)]
            continue
        keys: list[bytes | None] = []
        values: list[bytes | None] = []
        fault = None
        for number, line in numbered:
            before, found, value = line.partition(separator)
            if not found:
                shown = line.decode("utf-8", "replace")[:200]
                fault = BadInput(f"line {number} has no key separator {os.fsdecode(separator)!r}: {shown}")
                break
            keys.append(before)
            values.append(value)
        yield [common._replace(values=values, keys=keys)]
        if fault is not None:
            raise fault
