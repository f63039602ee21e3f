"""Keys and values of records as people read them: JSON, text, numbers, bytes; decoded by the schemas of a registry.

A value that cannot be read is shown as bytes, with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.console.masks import STARS, Mask, covered
from ottla.records.reader import Record

MOST_SHOWN = 64 << 10
"""Characters of a value on a page; the rest is a download."""
_MOST_BYTES = 256
_JSON_STARTS = '{["-0123456789tfnNI \t\r\n'
_KEY_HEADER, _VALUE_HEADER = "__key_schema_id", "__value_schema_id"
_NOTHING: Any = object()
Decode = Callable[[Sequence[bytes | None], Sequence[bytes | None]], list[Any]]
"""Objects for values and the headers that name their schemas; an exception stands for one that cannot be read."""


@dataclass(slots=True)
class ShownPart:
    """One key or value: its kind (null, json, schema, text, bytes), its text, and the object in it if there is one."""

    kind: str
    text: str
    size: int
    note: str = ""
    value: Any = None
    _content: bytes = b""
    """The bytes behind a text that does not have them all."""

    @property
    def searched(self) -> str:
        """The text that a search looks into."""
        return self._content.decode("utf-8", "replace") if self._content else self.text

    @property
    def short(self) -> str:
        """The text as far as a page shows it."""
        return self.text if len(self.text) <= MOST_SHOWN else self.text[:MOST_SHOWN] + "…"

    @property
    def pretty(self) -> str:
        """JSON over several lines; other text as it is."""
        if self.kind not in ("json", "schema") or len(self.text) > MOST_SHOWN:
            return self.short
        return json.dumps(self.value, ensure_ascii=False, indent=2, default=str)


@dataclass(slots=True)
class ShownRecord:
    """One record of a topic as a page has it."""

    partition: int
    offset: int
    timestamp: int
    key: ShownPart
    value: ShownPart
    headers: list[tuple[str, str | None]]

    @property
    def size(self) -> int:
        """The bytes of key and value."""
        return self.key.size + self.value.size


class Viewer:
    """Reads the records of one topic."""

    def __init__(self, decode: Decode | None = None, masks: Sequence[Mask] = ()) -> None:
        self._decode = decode
        self._masks = masks

    @property
    def sees_bytes(self) -> bool:
        """True if the bytes of a record hold all that is shown of it: no schema turns them into something else."""
        return self._decode is None and not self._masks

    @property
    def uses_schemas(self) -> bool:
        """True if values are decoded by schemas, which may have to be fetched."""
        return self._decode is not None

    def shown(self, partition: int, records: Sequence[Record]) -> list[ShownRecord]:
        """All records of a partition, in their order."""
        keys = self._parts([each.key for each in records], [_header(each, _KEY_HEADER) for each in records])
        values = self._parts([each.value for each in records], [_header(each, _VALUE_HEADER) for each in records])
        return [
            self._masked(
                ShownRecord(
                    partition,
                    record.offset,
                    record.timestamp,
                    key,
                    value,
                    [(name, None if content is None else _plain(content)) for name, content in record.headers],
                )
            )
            for record, key, value in zip(records, keys, values, strict=True)
        ]

    def _parts(self, contents: Sequence[bytes | None], headers: Sequence[bytes | None]) -> list[ShownPart]:
        found: list[Any] = [_NOTHING] * len(contents)
        if self._decode is not None:
            of_schemas = [
                at
                for at, (content, header) in enumerate(zip(contents, headers, strict=True))
                if content is not None and (header is not None or (len(content) > 4 and content[0] == 0))
            ]
            if of_schemas:
                decoded = self._decode([contents[at] for at in of_schemas], [headers[at] for at in of_schemas])
                for at, value in zip(of_schemas, decoded, strict=True):
                    found[at] = value
        return [shown(content, value) for content, value in zip(contents, found, strict=True)]

    def _masked(self, record: ShownRecord) -> ShownRecord:
        for each in self._masks:
            if each.part == "header":
                record.headers = [
                    (name, STARS if name == each.path[0] and text is not None else text)
                    for name, text in record.headers
                ]
            else:
                setattr(record, each.part, _hidden(getattr(record, each.part), each.path))
        return record


def _hidden(part: ShownPart, path: Sequence[str]) -> ShownPart:
    """A part without the field. Bytes and text that no schema explains may hold it anywhere: all of them are hidden."""
    if part.kind == "null":
        return part
    if not path or part.kind not in ("json", "schema"):
        return ShownPart("text", STARS, part.size, "masked")
    value = covered(part.value, path)
    return ShownPart(part.kind, json.dumps(value, ensure_ascii=False, default=str), part.size, "masked", value)


def shown(content: bytes | None, decoded: Any = _NOTHING) -> ShownPart:
    """One key or value; `decoded` is the object that a schema made of it, or why none did."""
    if content is None:
        return ShownPart("null", "null", 0)
    size = len(content)
    if isinstance(decoded, Exception):
        return ShownPart("bytes", _plain(content), size, f"not decoded: {decoded}", None, content)
    if decoded is not _NOTHING:
        return ShownPart("schema", json.dumps(decoded, ensure_ascii=False, default=str), size, "", decoded)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return ShownPart("bytes", _plain(content), size, _number(content), None, content)
    if text[:1] in _JSON_STARTS:  # a refusal by the parser costs three times as much
        try:
            return ShownPart("json", text, size, "", json.loads(text))
        except (ValueError, RecursionError):
            pass
    return ShownPart("text", text, size, _number(content) if "\0" in text else "")


def _plain(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        more = f" … {len(content):,} bytes" if len(content) > _MOST_BYTES else ""
        return content[:_MOST_BYTES].hex(" ") + more


def _number(content: bytes) -> str:
    """Java's serializers write numbers as 4 or 8 bytes."""
    return f"as a number {int.from_bytes(content, 'big', signed=True):,}" if len(content) in (4, 8) else ""


def _header(record: Record, name: str) -> bytes | None:
    return next((content for key, content in record.headers if key == name), None)
