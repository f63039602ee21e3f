"""The format of an input: by what it holds, else by the name of the file."""

from __future__ import annotations

import csv
import json

from ottla.cli.faults import BadInput, Misuse
from ottla.cli.input.sources import InputSource, extension

LINES, JSON_LINES, CSV, TSV, AVRO, PARQUET, RECORDS = "lines", "jsonl", "csv", "tsv", "avro", "parquet", "json"
FORMATS = (LINES, JSON_LINES, CSV, TSV, AVRO, PARQUET, RECORDS)
TITLES = {
    LINES: "lines",
    JSON_LINES: "JSON lines",
    CSV: "CSV",
    TSV: "CSV with tabs",
    AVRO: "Avro",
    PARQUET: "Parquet",
    RECORDS: "records in JSON",
}
WITH_FIELDS = frozenset({JSON_LINES, CSV, TSV, AVRO, PARQUET})
BY_EXTENSION = {
    ".csv": CSV,
    ".tsv": TSV,
    ".jsonl": JSON_LINES,
    ".ndjson": JSON_LINES,
    ".json": JSON_LINES,
    ".txt": LINES,
    ".log": LINES,
    ".avro": AVRO,
    ".parquet": PARQUET,
}
_BINARY = {b"Obj\x01": AVRO, b"PAR1": PARQUET}


def detect(source: InputSource, *, key: str | None, needs_fields: bool) -> str:
    """The format of a source for which none was given.

    Standard input, .txt and .log are lines unless they are binary, or an option names a field of their first line.
    """
    head = source.head
    for magic, found in _BINARY.items():
        if head.startswith(magic):
            return found
    claimed = LINES if source.is_stdin else BY_EXTENSION.get(extension(source.name))
    if claimed == LINES and b"\0" not in head:
        looks = _looks(head)
        named = looks is not None and key is not None and key.split(".", 1)[0] in _first_fields(head, looks)
        return looks if looks is not None and (needs_fields or named) else LINES
    if claimed in (AVRO, PARQUET) and head:
        raise BadInput(f"{source.name} is named as {TITLES[claimed]} and is none: its first bytes are {head[:8]!r}")
    if b"\0" in head and not source.is_stdin:
        raise BadInput(f"{source.name} is binary and of no format that is known; --input lines takes it as text")
    if claimed is not None:
        return claimed  # standard input with zero bytes, too: it is cut at its line ends as ever
    looks = _looks(head)
    if looks in (CSV, TSV):
        assert looks is not None
        raise Misuse(f"{source.name} may be {TITLES[looks]} or lines of text: give --input {looks} or --input lines")
    return looks or LINES


def _looks(head: bytes) -> str | None:
    """JSON lines, or CSV where all lines have the same number of fields; None for anything else."""
    lines = [line for line in _whole_lines(head) if line.strip()]
    if not lines:
        return None
    if _is_object(lines[0]):
        return JSON_LINES
    for found, delimiter in ((TSV, "\t"), (CSV, ",")):
        rows = _parsed(lines, delimiter)
        header = rows[0] if rows else []
        even = len(rows) > 1 and len(header) > 1 and len({len(row) for row in rows}) == 1
        if even and all(header) and len(set(header)) == len(header):
            return found
    return None


def _parsed(lines: list[bytes], delimiter: str) -> list[list[str]]:
    try:
        return list(csv.reader((line.decode() + "\n" for line in lines), delimiter=delimiter, strict=True))
    except (csv.Error, UnicodeDecodeError):
        return []


def _first_fields(head: bytes, looks: str) -> list[str]:
    first = next(line for line in _whole_lines(head) if line.strip())
    if looks == JSON_LINES:
        return list(json.loads(first))
    return next(iter(_parsed([first], "\t" if looks == TSV else ",")), [])


def _whole_lines(head: bytes) -> list[bytes]:
    """The lines of the head; the last one only if it is the whole head."""
    lines = head.split(b"\n")
    return [line.removesuffix(b"\r") for line in (lines[:-1] if len(lines) > 1 else lines)]


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False
