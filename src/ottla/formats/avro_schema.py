"""An Avro schema's JSON as a tree of nodes: names resolved, logical types recognised, recursion refused.

avro_types.py turns the nodes into types of columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from ottla.formats.faults import SchemaFault

MOST_NODES = 5_000
"""Columns and their parts; named types that refer to one another many times would grow without end."""
MOST_DEPTH = 64
PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
MISSING: Final = object()
"""The default of a field that has none; None is the default null."""

_LOGICAL: dict[str, frozenset[str]] = {
    "date": frozenset({"int"}),
    "time-millis": frozenset({"int"}),
    "time-micros": frozenset({"long"}),
    "timestamp-millis": frozenset({"long"}),
    "timestamp-micros": frozenset({"long"}),
    "timestamp-nanos": frozenset({"long"}),
    "local-timestamp-millis": frozenset({"long"}),
    "local-timestamp-micros": frozenset({"long"}),
    "local-timestamp-nanos": frozenset({"long"}),
    "uuid": frozenset({"string", "fixed"}),
    "decimal": frozenset({"bytes", "fixed"}),
    "duration": frozenset({"fixed"}),
}


@dataclass(frozen=True, slots=True, eq=False)
class Primitive:
    kind: str
    logical: str = ""
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Fixed:
    name: str
    size: int
    logical: str = ""
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Enum:
    name: str
    symbols: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    name: str
    node: Node
    aliases: tuple[str, ...] = ()
    default: object = MISSING


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    name: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Array:
    items: Node


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    values: Node


@dataclass(frozen=True, slots=True, eq=False)
class Union:
    branches: tuple[Node, ...]


Node = Primitive | Fixed | Enum | Record | Array | Map | Union


def parse(text: str, references: Iterable[str] = ()) -> Node:
    """The tree of a schema; `references` are texts that define names it uses, in an order in which each resolves."""
    parser = _Parser()
    for reference in references:
        parser.node(_document(reference), "", 0)
    parser.count = 0
    return parser.node(_document(text), "", 0)


def is_null(node: Node) -> bool:
    return isinstance(node, Primitive) and node.kind == "null"


def is_empty(node: Node) -> bool:
    """True if every value takes no bytes at all."""
    if isinstance(node, Fixed):
        return node.size == 0
    if isinstance(node, Record):
        return all(is_empty(field.node) for field in node.fields)
    return is_null(node)


def optional(node: Union) -> tuple[Node, int] | None:
    """The other branch and the null's place, for a union of null and one other; None for any other union."""
    if len(node.branches) != 2:
        return None
    nulls = [place for place, branch in enumerate(node.branches) if is_null(branch)]
    return (node.branches[1 - nulls[0]], nulls[0]) if len(nulls) == 1 else None


def _document(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as fault:
        if text.strip() in PRIMITIVES:
            return text.strip()
        raise SchemaFault(f"the Avro schema is not JSON: {fault}") from fault


class _Parser:
    """Holds the names that were defined so far; a name that maps to None is being defined right now."""

    def __init__(self) -> None:
        self.names: dict[str, Node | None] = {}
        self.sizes: dict[str, int] = {}
        self.count = 0

    def node(self, found: Any, namespace: str, depth: int) -> Node:
        self._grow(1)
        if depth > MOST_DEPTH:
            raise SchemaFault(f"the Avro schema is nested deeper than {MOST_DEPTH} levels")
        if isinstance(found, str):
            return Primitive(found) if found in PRIMITIVES else self._named(found, namespace)
        if isinstance(found, list):
            return self._union(found, namespace, depth)
        if not isinstance(found, dict):
            raise SchemaFault(f"{found!r} is not an Avro schema")
        kind = found.get("type")
        if kind in ("record", "error", "enum", "fixed"):
            return self._definition(found, str(kind), namespace, depth)
        if kind == "array":
            return Array(self.node(_member(found, "items"), namespace, depth + 1))
        if kind == "map":
            return Map(self.node(_member(found, "values"), namespace, depth + 1))
        if isinstance(kind, str) and kind in PRIMITIVES:
            logical, precision, scale = _logical(found, kind, 0)
            return Primitive(kind, logical, precision, scale)
        if kind is None:
            raise SchemaFault(f"an Avro schema without a type: {json.dumps(found)[:100]}")
        return self.node(kind, namespace, depth + 1)

    def _grow(self, by: int) -> None:
        self.count += by
        if self.count > MOST_NODES:
            raise SchemaFault(f"the Avro schema has more than {MOST_NODES} parts when its names are resolved")

    def _named(self, name: str, namespace: str) -> Node:
        full = _full_name(name, namespace)
        if full not in self.names and name in self.names:
            full = name
        if full not in self.names:
            raise SchemaFault(f"the Avro schema uses the name {full}, which nothing defines")
        node = self.names[full]
        if node is None:
            raise SchemaFault(f"the Avro record {full} contains itself: a recursive schema has no columns")
        self._grow(self.sizes[full])
        return node

    def _union(self, found: list[Any], namespace: str, depth: int) -> Node:
        branches = tuple(self.node(branch, namespace, depth + 1) for branch in found)
        if not branches or any(isinstance(branch, Union) for branch in branches):
            raise SchemaFault("an Avro union has at least one branch, and no union as a branch")
        if sum(is_null(branch) for branch in branches) > 1:
            raise SchemaFault("an Avro union has the branch null twice")
        return Union(branches)

    def _definition(self, found: dict[str, Any], kind: str, namespace: str, depth: int) -> Node:
        full = _full_name(str(_member(found, "name")), str(found.get("namespace", namespace)))
        if full in self.names:
            raise SchemaFault(f"the Avro schema defines {full} twice")
        self.names[full] = None
        before = self.count
        node: Node
        if kind == "enum":
            node = Enum(full, _symbols(full, _member(found, "symbols")))
        elif kind == "fixed":
            size = _member(found, "size")
            if not isinstance(size, int) or not 0 <= size < 1 << 31:
                raise SchemaFault(f"the Avro fixed {full} has the size {size!r}")
            node = Fixed(full, size, *_logical(found, "fixed", size))
        else:
            node = self._record(full, _member(found, "fields"), depth)
        self.names[full] = node
        self.sizes[full] = self.count - before
        return node

    def _record(self, full: str, members: Any, depth: int) -> Record:
        if not isinstance(members, list):
            raise SchemaFault(f"the fields of the Avro record {full} are not a list")
        fields = []
        for member in members:
            if not isinstance(member, dict):
                raise SchemaFault(f"a field of the Avro record {full} is not an object")
            node = self.node(_member(member, "type"), _namespace(full), depth + 1)
            aliases = tuple(str(alias) for alias in member.get("aliases", ()))
            fields.append(Field(str(_member(member, "name")), node, aliases, member.get("default", MISSING)))
        if len({field.name for field in fields}) < len(fields):
            raise SchemaFault(f"the Avro record {full} has two fields of one name")
        return Record(full, tuple(fields))


def _symbols(full: str, found: Any) -> tuple[str, ...]:
    if not isinstance(found, list) or not found or not all(isinstance(symbol, str) for symbol in found):
        raise SchemaFault(f"the symbols of the Avro enum {full} are not a list of names")
    return tuple(found)


def _member(found: dict[str, Any], name: str) -> Any:
    if name not in found:
        raise SchemaFault(f"an Avro schema lacks its {name}: {json.dumps(found)[:100]}")
    return found[name]


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _namespace(full: str) -> str:
    return full.rpartition(".")[0]


def _logical(found: dict[str, Any], kind: str, size: int) -> tuple[str, int, int]:
    """The logical type where it is one of this type; the specification has all others ignored."""
    logical = found.get("logicalType")
    if not isinstance(logical, str) or kind not in _LOGICAL.get(logical, frozenset()):
        return "", 0, 0
    if (logical == "uuid" and kind == "fixed" and size != 16) or (logical == "duration" and size != 12):
        return "", 0, 0
    if logical != "decimal":
        return logical, 0, 0
    precision, scale = found.get("precision"), found.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int) or precision < 1 or not 0 <= scale <= precision:
        return "", 0, 0
    # A fixed of 33 bytes holds more than the 76 digits that Arrow's widest decimal has.
    digits = 76 if kind == "bytes" or size > 32 else len(str((1 << max(0, 8 * size - 1)) - 1)) - 1
    return ("decimal", precision, scale) if precision <= digits else ("", 0, 0)
