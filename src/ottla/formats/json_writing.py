"""Values of columns as JSON that its schema declares: null members are left out, times are text."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC
from typing import Any

import pyarrow as pa

from ottla.formats.faults import BadPayload, SchemaFault
from ottla.formats.json_nodes import UTC_MICROS, Entries, Items, JsonText, Members, Node, arrow_type, parse
from ottla.formats.writer import WriterSchema


class JsonWriter:
    """Writes rows of `type` as payloads of one schema."""

    def __init__(self, schema: WriterSchema) -> None:
        _, node = parse(schema.text, dict(schema.named_references))
        self.type = arrow_type(node)
        self._plain = _plain(node)

    def write(self, value: Any) -> bytes:
        """The payload of one value, or `BadPayload`."""
        try:
            return json.dumps(self._plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        except (ValueError, TypeError) as fault:
            raise BadPayload(f"a row does not fit the JSON Schema: {fault}") from None


def _plain(node: Node) -> Callable[[Any], Any]:
    match node:
        case Members():
            parts = {name: _plain(member) for name, member in node.fields}
            return lambda row: {name: parts[name](value) for name, value in row.items() if value is not None}
        case Items():
            item = _plain(node.item)
            return lambda values: [None if each is None else item(each) for each in values]
        case Entries():
            entry = _plain(node.value)
            return lambda pairs: {key: None if each is None else entry(each) for key, each in pairs}
        case JsonText():
            return json.loads
    if arrow_type(node) == UTC_MICROS:
        return lambda time: time.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return (lambda day: day.isoformat()) if arrow_type(node) == pa.date32() else lambda value: value


def derived_document(kind: pa.DataType) -> dict[str, Any]:
    """A JSON Schema for columns of this type."""
    if pa.types.is_struct(kind):
        return {"type": "object", "properties": {field.name: derived_document(field.type) for field in kind}}
    if pa.types.is_map(kind) and kind.key_type == pa.string():
        return {"type": "object", "additionalProperties": derived_document(kind.item_type)}
    if pa.types.is_list(kind):
        return {"type": "array", "items": derived_document(kind.value_type)}
    if pa.types.is_integer(kind):
        return {"type": "integer"}
    if pa.types.is_floating(kind):
        return {"type": "number"}
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return {"type": "string", "format": "date-time"}
    named = {pa.bool_(): {"type": "boolean"}, pa.string(): {"type": "string"}}
    named[pa.date32()] = {"type": "string", "format": "date"}
    if kind in named:
        return named[kind]
    raise SchemaFault(f"no JSON type is derived for {kind}: give a schema")
