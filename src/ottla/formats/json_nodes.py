"""A JSON Schema's document as a tree of column types: what is declared, followed through references.

A schema without a single type (several types, a recursive part, an object without declared members) is JSON text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ottla.formats.compatibility import InvalidSchema
from ottla.formats.faults import SchemaFault
from ottla.formats.json_schema_tree import JsonSchema, leads_outside, parse_json_schema

MOST_DEPTH = 64
MOST_NODES = 5_000
UTC_MICROS = pa.timestamp("us", tz="UTC")
_SCALARS = {"string": pa.string(), "integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}
_FORMATS = {"date-time": UTC_MICROS, "date": pa.date32()}


@dataclass(frozen=True, slots=True, eq=False)
class Scalar:
    type: pa.DataType


@dataclass(frozen=True, slots=True, eq=False)
class JsonText:
    """Any JSON, as text."""


@dataclass(frozen=True, slots=True, eq=False)
class Members:
    fields: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    item: Node


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    value: Node


Node = Scalar | JsonText | Members | Items | Entries


def parse(text: str, references: Mapping[str, str]) -> tuple[Any, Node]:
    """The document and its tree; `references` are texts by the names they are referred to by."""
    try:
        schema = parse_json_schema(text, references)
        return schema.document, _Tree(schema).node(schema.root, ())
    except InvalidSchema as fault:
        raise SchemaFault(f"the JSON Schema is not valid: {fault}") from None
    except RecursionError:
        raise SchemaFault("the types of the JSON Schema lead to types too deep") from None


def arrow_type(node: Node) -> pa.DataType:
    """The type of the column."""
    match node:
        case Scalar():
            return node.type
        case Members():
            return pa.struct([(name, arrow_type(member)) for name, member in node.fields])
        case Items():
            return pa.list_(arrow_type(node.item))
        case Entries():
            return pa.map_(pa.string(), arrow_type(node.value))
    return pa.string()


def in_blocks(node: Node) -> bool:
    """True if Arrow's parser reads such values: it knows neither maps nor JSON as text."""
    match node:
        case Members():
            return bool(node.fields) and all(in_blocks(member) for _, member in node.fields)
        case Items():
            return in_blocks(node.item)
    return isinstance(node, Scalar)


class _Tree:
    def __init__(self, schema: JsonSchema) -> None:
        self.schema = schema
        self.count = 0

    def node(self, schema: Any, path: tuple[int, ...]) -> Node:
        """The node of a part of the schema; `path` are the parts around it, by identity."""
        self.count += 1
        if self.count > MOST_NODES:
            raise SchemaFault(f"the JSON Schema has more than {MOST_NODES} parts when its references are followed")
        if not isinstance(schema, dict) or id(schema) in path or len(path) >= MOST_DEPTH:
            return JsonText()
        inside = (*path, id(schema))
        if "$ref" in schema:
            return self.node(self._followed(schema), inside)
        for word in ("anyOf", "oneOf"):
            if word in schema:
                return self._choice(schema[word], inside)
        kinds = _kinds(schema)
        if kinds == {"object"}:
            return self._object(schema, inside)
        if kinds == {"array"}:
            items = schema.get("items")
            return Items(self.node(items, inside)) if isinstance(items, dict) else JsonText()
        if kinds == {"integer", "number"}:
            return Scalar(pa.float64())
        if len(kinds) != 1:
            return JsonText()
        kind = next(iter(kinds))
        if kind == "string" and schema.get("format") in _FORMATS:
            return Scalar(_FORMATS[schema["format"]])
        return Scalar(_SCALARS[kind]) if kind in _SCALARS else JsonText()

    def _choice(self, branches: Any, path: tuple[int, ...]) -> Node:
        """One schema or null is that schema; any other choice has no type."""
        others = [branch for branch in branches if not (isinstance(branch, dict) and branch.get("type") == "null")]
        return self.node(others[0], path) if len(others) == 1 else JsonText()

    def _object(self, schema: dict[str, Any], path: tuple[int, ...]) -> Node:
        fields = self._members(schema, path)
        if fields:
            return Members(tuple(fields.items()))
        more = schema.get("additionalProperties")
        return Entries(self.node(more, path)) if isinstance(more, dict) else JsonText()

    def _members(self, schema: dict[str, Any], path: tuple[int, ...]) -> dict[str, Node]:
        """The declared members, those of every part of `allOf` too."""
        fields: dict[str, Node] = {}
        for part in schema.get("allOf", ()):
            if not isinstance(part, dict):
                continue  # true or false, which declare nothing
            target = self._followed(part) if "$ref" in part else part
            if isinstance(target, dict) and id(target) not in path:
                fields |= self._members(target, (*path, id(target)))
        for name, member in schema.get("properties", {}).items():
            fields[str(name)] = self.node(member, path)
        return fields

    def _followed(self, part: dict[str, Any]) -> Any:
        """The target of a part's $ref; true, which declares nothing, where it is a schema of JSON Schema itself."""
        target = self.schema.target(part["$ref"], self.schema.bases.get(id(part), ""))
        return True if leads_outside(target) else target


def _kinds(schema: dict[str, Any]) -> set[str]:
    """The types that a value may have, null aside; from its members or values where no type is named."""
    named = schema.get("type")
    if named is None:
        if any(word in schema for word in ("properties", "additionalProperties", "allOf")):
            return {"object"}
        values = schema.get("enum", [schema["const"]] if "const" in schema else [])
        return {_kind(value) for value in values if value is not None}
    return {str(each) for each in (named if isinstance(named, list) else [named])} - {"null"}


def _kind(value: Any) -> str:
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return kinds.get(type(value), "null")
