"""Reads one file as items: lines, rows or objects. A bad line is an item with its fault; it stops nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from decimal import Decimal
from typing import Any, Final, NamedTuple

from ottla.cli.extras import extra
from ottla.cli.faults import BadInput
from ottla.cli.input.detect import AVRO, CSV, JSON_LINES, LINES, PARQUET, TITLES
from ottla.cli.input.lines import CsvRows, json_object, numbered_lines
from ottla.cli.input.rows import plain
from ottla.cli.input.sources import InputSource
from ottla.connect import data
from ottla.connect.data import Schema, Struct
from ottla.connect.errors import DataException
from ottla.connect.plugins.mail.message import place_of, values_of

WHOLE: Final = "whole"
MAIL: Final = "mail"


class Item(NamedTuple):
    """One record's value; `fault` says why there is none, and the value is the text that was refused then."""

    value: Any
    schema: Schema | None = None
    fault: DataException | None = None
    key: str | None = None


def items(path: str, options: Mapping[str, Any]) -> Generator[Item]:
    """All items in their order. BadInput, OSError: the rest of the file cannot be read."""
    kind = options["format"]
    if kind == WHOLE:
        content = _whole(path, options["whole.max.bytes"])
        claimed = options["claim.store"] is not None
        yield Item(dict(place_of(options["claim.store"])(content))) if claimed else Item(content, data.BYTES)
        return
    if kind == MAIL:
        yield from _mail(_whole(path, options["whole.max.bytes"]), path, options)
        return
    with closing(InputSource(path)) as source:
        yield from _READERS[kind](source, options)


def _whole(path: str, most: int) -> bytes:
    with open(path, "rb") as file:
        if (size := os.fstat(file.fileno()).st_size) > most:
            raise BadInput(f"{path} has {size:,} bytes, more than whole.max.bytes={most}")
        return file.read()


def _mail(content: bytes, path: str, options: Mapping[str, Any]) -> Iterator[Item]:
    """The message, and its attachments where these are records."""
    try:
        for value in values_of(content, options["mail.attachments"], place_of(options["claim.store"])):
            yield Item(value, key=value["message_id"])
    except DataException as fault:
        yield _refused(content, f"{path}: {fault}")


def _lines(source: InputSource, options: Mapping[str, Any]) -> Iterator[Item]:
    for block in numbered_lines(source):
        for number, line in block:
            try:
                yield Item(line.decode(), data.STRING)
            except UnicodeDecodeError as fault:
                yield _refused(line, f"{source.name}, line {number} is not UTF-8: {fault}")


def _objects(source: InputSource, options: Mapping[str, Any]) -> Iterator[Item]:
    for block in numbered_lines(source):
        for number, line in block:
            if not line.strip():
                continue
            place = f"{source.name}, line {number}"
            try:
                yield Item(exact(json_object(line, place), place))
            except (BadInput, DataException) as fault:
                yield _refused(line, str(fault))


def exact(value: Any, place: str) -> Any:
    """The value with floats in place of decimals; a number that a float cannot hold is refused."""
    match value:
        case dict():
            return {name: exact(each, place) for name, each in value.items()}
        case list():
            return [exact(each, place) for each in value]
        case Decimal():
            if Decimal(repr(float(value))) != value:
                raise DataException(f"{place}: {value} has more digits than a double; format=lines keeps them as text")
            return float(value)
    return value


def _csv(source: InputSource, options: Mapping[str, Any]) -> Iterator[Item]:
    rows = CsvRows(source, options["csv.delimiter"])
    schema: Schema | None = None
    for found in rows.each():
        if isinstance(found, BadInput):
            yield _refused(rows.text, str(found))
            continue
        if schema is None:
            schema = data.struct((name, data.OPTIONAL_STRING) for name in found.fields)
        yield Item(Struct(schema, list(found.fields.values())), schema)


def _file(source: InputSource, options: Mapping[str, Any]) -> Iterator[Item]:
    """The rows of a file of Avro or Parquet: days, times and decimals become text, bytes Base64."""
    kind = options["format"]
    files = extra(TITLES[kind])
    number = 0
    try:
        for block in files.avro_rows(source.binary()) if kind == AVRO else files.parquet_rows(source.seekable()):
            for row in block:
                number += 1
                try:
                    yield Item(plain(row))
                except (ValueError, TypeError) as fault:
                    yield _refused(repr(row), f"{source.name}, row {number}: {fault}")
    except files.BadPayload as fault:
        raise BadInput(f"{source.name}: {fault}") from None


def _refused(text: bytes | str, reason: str) -> Item:
    return Item(text, fault=DataException(reason))


_READERS: Final[Mapping[str, Callable[[InputSource, Mapping[str, Any]], Iterator[Item]]]] = {
    LINES: _lines, JSON_LINES: _objects, CSV: _csv, AVRO: _file, PARQUET: _file,
}  # fmt: skip
FORMATS: Final = (*_READERS, WHOLE, MAIL)
