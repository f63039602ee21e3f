"""JsonSchemaConverter: values as JSON, their JSON Schema in a registry, with Confluent's `connect.` hints in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from ottla.client.registry_client import RegistryClient
from ottla.connect.config_def import ConfigDef, Option
from ottla.connect.config_def import Type as Kind
from ottla.connect.converters.json import JsonConverter
from ottla.connect.converters.registry import Read, RegistryConverter, Write
from ottla.connect.data import DECIMAL, Schema, Type, struct
from ottla.connect.errors import DataException
from ottla.formats.writer import WriterSchema

_NAMES: Final = {
    Type.INT8: "integer", Type.INT16: "integer", Type.INT32: "integer", Type.INT64: "integer", Type.FLOAT32: "number",
    Type.FLOAT64: "number", Type.BOOLEAN: "boolean", Type.STRING: "string", Type.BYTES: "string",
}  # fmt: skip
_HINTS: Final = {
    **{kind: kind.name.lower() for kind in (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64)},
    Type.BYTES: "bytes",
}
_BY_HINT: Final = {hint: kind for kind, hint in _HINTS.items()}
_PLAIN: Final = {
    "integer": Type.INT64, "number": Type.FLOAT64, "boolean": Type.BOOLEAN, "string": Type.STRING,
}  # fmt: skip
MOST_NESTED: Final = 100


class JsonSchemaConverter(RegistryConverter):
    """Writes and reads JSON whose schema is registered."""

    KIND = "JSON"
    OPTIONS: ClassVar[ConfigDef] = RegistryConverter.OPTIONS.joined(
        ConfigDef(
            JsonConverter.OPTIONS.options["decimal.format"],
            Option("use.optional.for.nonrequired", Kind.BOOLEAN, False,
                   doc="Take a property that its schema does not require for optional."),
        )
    )  # fmt: skip

    def __init__(self, given: Mapping[str, Any], client: RegistryClient | None = None) -> None:
        super().__init__(given, client)
        plain = {"converter.type": "value", "schemas.enable": "false", "decimal.format": self.options["decimal.format"]}
        self._json = JsonConverter(plain)

    def schema_text(self, schema: Schema) -> str:
        """The JSON Schema of a Connect schema."""
        return json.dumps(json_schema(schema, self._json), separators=(",", ":"))

    def writer(self, written: WriterSchema, schema: Schema) -> Write:
        """Writes values as JSON, once the registered schema is known to have a place for each of their fields."""
        _check_fit(schema, self.reader(written)[0], "")
        return lambda value: self._json.from_connect("", schema, value) or b"null"

    def reader(self, written: WriterSchema) -> tuple[Schema, Read]:
        """Reads JSON of a registered schema."""
        document = json.loads(written.text)
        loose = self.options["use.optional.for.nonrequired"]
        schema = _Reading(document, self._json, loose=loose).schema(document, 0)
        return schema, lambda payload: self._json.read_as(schema, payload)


def _check_fit(ours: Schema, theirs: Schema, path: str) -> None:
    """Raise `DataException` unless JSON of one schema is JSON of the other."""
    where = f" at {path}" if path else ""
    kinds = (_NAMES.get(ours.type, ours.type.value), _NAMES.get(theirs.type, theirs.type.value))
    if kinds[0] != kinds[1] or (ours.name == DECIMAL) != (theirs.name == DECIMAL):
        raise DataException(f"The registered JSON Schema has {theirs} where the value has {ours}{where}")
    if ours.optional and not theirs.optional:
        raise DataException(f"The registered JSON Schema allows no null where the value may have one{where}")
    if ours.value is not None and theirs.value is not None:
        _check_fit(ours.value, theirs.value, f"{path}[]")
    for member in ours.members:
        if member.name not in theirs.places:
            raise DataException(f"The registered JSON Schema has no field {member.name}{where}")
        _check_fit(member.schema, theirs.places[member.name].schema, f"{path}.{member.name}".lstrip("."))
    for member in theirs.members:
        if member.name not in ours.places and not member.schema.optional:
            raise DataException(
                f"The registered JSON Schema requires a field {member.name}{where}, which the value lacks"
            )


def json_schema(schema: Schema, plain: JsonConverter) -> dict[str, Any]:
    """The JSON Schema of a Connect schema."""
    made: dict[str, Any] = {}
    match schema.type:
        case Type.STRUCT:
            fields = {
                member.name: {**json_schema(member.schema, plain), "connect.index": member.index}
                for member in schema.members
            }
            made = {"type": "object", "properties": fields}
        case Type.ARRAY | Type.MAP if schema.value is None:
            raise DataException("An array or a map of nulls alone has no JSON Schema")
        case Type.ARRAY:
            assert schema.value is not None
            made = {"type": "array", "items": json_schema(schema.value, plain)}
        case Type.MAP:
            assert schema.value is not None
            value = json_schema(schema.value, plain)
            if schema.key is None or schema.key.type is not Type.STRING:
                raise DataException("JsonSchemaConverter writes maps with keys that are text alone")
            made = {"type": "object", "additionalProperties": value, "connect.type": "map"}
        case _:
            made = {"type": "number" if schema.name == DECIMAL and plain.numeric else _NAMES[schema.type]}
            if schema.type in _HINTS:
                made["connect.type"] = _HINTS[schema.type]
    for part, name in (("name", "title"), ("version", "connect.version"), ("doc", "description")):
        value = getattr(schema, part)
        if value is not None:
            made[name] = value
    if schema.parameters is not None:
        made["connect.parameters"] = dict(schema.parameters)
    if schema.default is not None:
        made["default"] = json.loads(plain.from_connect("", schema.but(default=None), schema.default) or b"null")
    return {"oneOf": [{"type": "null"}, made]} if schema.optional else made


class _Reading:
    """Reads one registered document."""

    def __init__(self, document: Any, plain: JsonConverter, *, loose: bool) -> None:
        self._document, self._plain, self._loose = document, plain, loose

    def schema(self, node: Any, depth: int) -> Schema:
        """The Connect schema of a part of the document."""
        if depth > MOST_NESTED:
            raise DataException("The JSON Schema refers to itself, or is nested too deep")
        if not isinstance(node, dict):
            raise DataException(f"A JSON Schema is an object, not {json.dumps(node)}")
        if "$ref" in node:
            return self.schema(self._referred(str(node["$ref"])), depth + 1)
        for choice in ("oneOf", "anyOf"):
            if choice in node:
                others = [each for each in node[choice] if each != {"type": "null"}]
                if len(others) != 1:
                    raise DataException(f"{choice} of {len(others)} types has no schema in Connect")
                return self.schema(others[0], depth + 1).but(optional=len(others) < len(node[choice]))
        kinds = node.get("type")
        if isinstance(kinds, list):
            others = [kind for kind in kinds if kind != "null"]
            if len(others) != 1:
                raise DataException(f"A value of the types {', '.join(map(str, kinds))} has no schema in Connect")
            return self.schema({**node, "type": others[0]}, depth + 1).but(optional="null" in kinds)
        return self._typed(node, kinds, depth)

    def _typed(self, node: dict[str, Any], kind: Any, depth: int) -> Schema:
        parts: dict[str, Any] = {
            "name": node.get("title"), "version": node.get("connect.version"), "doc": node.get("description"),
            "parameters": node.get("connect.parameters"),
        }  # fmt: skip
        if kind == "object" and "properties" in node:
            return struct(self._fields(node, depth), **parts)
        if kind == "object" and isinstance(node.get("additionalProperties"), dict):
            value = self.schema(node["additionalProperties"], depth + 1)
            return Schema(Type.MAP, key=Schema(Type.STRING), value=value, **parts)
        if kind == "array" and "items" in node:
            return Schema(Type.ARRAY, value=self.schema(node["items"], depth + 1), **parts)
        if kind is None and "enum" in node:
            kind = "string"
        if kind not in _PLAIN:
            raise DataException(f"The JSON Schema {json.dumps(node)[:200]} has no schema in Connect")
        schema = Schema(_BY_HINT.get(node.get("connect.type", ""), _PLAIN[kind]), **parts)
        if "default" in node and node["default"] is not None:
            return schema.but(default=self._plain.read_as(schema, json.dumps(node["default"]).encode()))
        return schema

    def _fields(self, node: dict[str, Any], depth: int) -> list[tuple[str, Schema]]:
        """The properties by `connect.index`, those without one behind in the order of the document."""
        required = node.get("required", [])
        found = []
        for place, (name, each) in enumerate(node["properties"].items()):
            schema = self.schema(each, depth + 1)
            if self._loose and name not in required:
                schema = schema.but(optional=True)
            index = each.get("connect.index") if isinstance(each, dict) else None
            found.append(((index is None, place if index is None else index), name, schema))
        return [(name, schema) for _, name, schema in sorted(found, key=lambda each: each[0])]

    def _referred(self, reference: str) -> Any:
        if not reference.startswith("#"):
            raise DataException(f"The JSON Schema refers to {reference}; only references within it are known")
        found = self._document
        for step in reference[1:].split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or name not in found:
                raise DataException(f"The JSON Schema refers to {reference}, which is not there")
            found = found[name]
        return found
