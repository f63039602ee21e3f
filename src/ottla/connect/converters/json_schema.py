"""Schemas as JsonConverter writes them beside each value, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ottla.connect.data import DECIMAL, Schema, Type, struct
from ottla.connect.errors import DataException

_BY_NAME: Final = {kind.value: kind for kind in Type}

ToPlain = Callable[[Schema | None, Any], Any]


def to_json(schema: Schema | None, plain: ToPlain) -> dict[str, Any] | None:
    """The schema as JSON, its members in JsonConverter's order. `plain` makes a default's JSON."""
    if schema is None:
        return None
    made: dict[str, Any] = {"type": schema.type.value}
    match schema.type:
        case Type.ARRAY:
            made["items"] = to_json(schema.value, plain)
        case Type.MAP:
            made["keys"] = to_json(schema.key, plain)
            made["values"] = to_json(schema.value, plain)
        case Type.STRUCT:
            made["fields"] = [{**(to_json(each.schema, plain) or {}), "field": each.name} for each in schema.members]
    made["optional"] = schema.optional
    parts = {"name": schema.name, "version": schema.version, "doc": schema.doc}
    made |= {name: part for name, part in parts.items() if part is not None}
    if schema.parameters is not None:
        made["parameters"] = dict(schema.parameters)
    if schema.default is not None:
        made["default"] = plain(schema, schema.default)
    return made


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
