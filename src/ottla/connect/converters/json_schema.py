"""Schemas as JsonConverter writes them beside each value, and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from ottla.connect.data import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Type, struct
from ottla.connect.errors import DataException

INSTANTS: Final = {DATE: "Date", TIME: "Time", TIMESTAMP: "Timestamp"}
_dumped: Final[Callable[[object], str]] = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_BY_NAME: Final = {kind.value: kind for kind in Type}


def schema_text(schema: Schema | None, write: Callable[[Schema, Any], str], field: str | None = None) -> str:
    """The schema as JSON, its parts in JsonConverter's order. `write` makes a default's JSON."""
    if schema is None:
        return "null"
    parts = [f'"type":"{schema.type.value}"']
    match schema.type:
        case Type.ARRAY:
            parts.append(f'"items":{schema_text(schema.value, write)}')
        case Type.MAP:
            parts += [f'"keys":{schema_text(schema.key, write)}', f'"values":{schema_text(schema.value, write)}']
        case Type.STRUCT:
            members = ",".join([schema_text(each.schema, write, each.name) for each in schema.members])
            parts.append(f'"fields":[{members}]')
    parts.append(f'"optional":{_dumped(schema.optional)}')
    named = {
        "name": schema.name,
        "version": schema.version,
        "doc": schema.doc,
        "parameters": schema.parameters and dict(schema.parameters),
    }
    parts += [f'"{name}":{_dumped(part)}' for name, part in named.items() if part is not None]
    if schema.default is not None:
        parts.append(f'"default":{write(schema, schema.default)}')
    if field is not None:
        parts.append(f'"field":{_dumped(field)}')
    return "{" + ",".join(parts) + "}"


def from_json(document: Any, value_of: Callable[[Schema, Any], Any]) -> Schema | None:
    """The schema that JSON describes. `value_of` reads a default."""
    if document is None:
        return None
    name = document.get("type") if isinstance(document, dict) else None
    if not isinstance(name, str):
        raise DataException("Schema must contain 'type' field")
    kind = _BY_NAME.get(name)
    if kind is None:
        raise DataException(f"Unknown schema type: {name}")
    parts: dict[str, Any] = {"optional": document.get("optional") is True}
    for part, of in (("name", str), ("version", int), ("doc", str)):
        if type(document.get(part)) is of:
            parts[part] = document[part]
    parameters = document.get("parameters")
    if isinstance(parameters, dict) and parameters:
        if not all(isinstance(value, str) for value in parameters.values()):
            raise DataException("Schema parameters must have string values.")
        parts["parameters"] = parameters
    schema = _shaped(kind, document, parts, value_of)
    if "default" in document:
        schema = schema.but(default=value_of(schema, document["default"]))
    return schema


def _shaped(kind: Type, document: Any, parts: dict[str, Any], value_of: Callable[[Schema, Any], Any]) -> Schema:
    """A schema with what its type needs: items, keys and values, fields."""
    match kind:
        case Type.ARRAY:
            if document.get("items") is None:
                raise DataException("Array schema did not specify the element type")
            return Schema(kind, value=from_json(document["items"], value_of), **parts)
        case Type.MAP:
            for part, noun in (("keys", "key"), ("values", "value")):
                if part not in document:
                    raise DataException(f"Map schema did not specify the {noun} type")
            key, value = from_json(document["keys"], value_of), from_json(document["values"], value_of)
            return Schema(kind, key=key, value=value, **parts)
        case Type.STRUCT:
            return struct(_fields(document.get("fields"), value_of), **parts)
    return Schema(kind, **parts)


def _fields(fields: Any, value_of: Callable[[Schema, Any], Any]) -> list[tuple[str, Schema]]:
    if not isinstance(fields, list):
        raise DataException('Struct schema\'s "fields" argument is not an array.')
    found = []
    for each in fields:
        if not isinstance(each, dict) or not isinstance(each.get("field"), str):
            raise DataException("Struct schema's field name not specified properly")
        schema = from_json(each, value_of)
        assert schema is not None, "an object is no null"
        found.append((each["field"], schema))
    return found


def scale_of(schema: Schema) -> int:
    """The digits behind the point of a decimal's schema."""
    text = (schema.parameters or {}).get("scale")
    if text is None:
        raise DataException(f"Invalid Decimal schema: scale parameter not found. {DECIMAL}")
    try:
        return int(text)
    except ValueError:
        raise DataException("Invalid scale parameter found in Decimal schema: ") from None
