"""The nodes of an Avro schema that columns are made of: logical types recognised, recursion refused.

avro_tree.py parses, for the registry as for readers; avro_types.py turns the nodes into types of columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.formats.avro_tree import PRIMITIVES, AvroNode, parse_avro
from ottla.formats.compatibility import InvalidSchema
from ottla.formats.faults import SchemaFault

MOST_NODES = 5_000
"""Columns and their parts; named types that refer to one another many times would grow without end."""
MOST_DEPTH = 64
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
class FixedSchema:
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
class RecordField:
    name: str
    node: Node
    aliases: tuple[str, ...] = ()
    default: object = MISSING
    meaning: str = ""
    """Kafka Connect's name for the type of the values, where Avro itself has none."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordSchema:
    name: str
    fields: tuple[RecordField, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ArraySchema:
    items: Node


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    values: Node


@dataclass(frozen=True, slots=True, eq=False)
class Union:
    branches: tuple[Node, ...]


Node = Primitive | FixedSchema | Enum | RecordSchema | ArraySchema | Map | Union


def parse(text: str, references: Iterable[str] = ()) -> Node:
    """The tree of a schema; `references` are texts that define names it uses, in an order in which each resolves."""
    try:
        tree = parse_avro(text, tuple(references))
    except InvalidSchema as fault:
        raise SchemaFault(f"the Avro schema is not valid: {fault}") from fault
    except RecursionError:
        raise SchemaFault("the types of the Avro schema lead to types too deep") from None
    return _Nodes().node(tree.root, 0)


def is_null(node: Node) -> bool:
    return isinstance(node, Primitive) and node.kind == "null"


def is_empty(node: Node) -> bool:
    """True if every value takes no bytes at all."""
    if isinstance(node, FixedSchema):
        return node.size == 0
    if isinstance(node, RecordSchema):
        return all(is_empty(field.node) for field in node.fields)
    return is_null(node)


def optional(node: Union) -> tuple[Node, int] | None:
    """The other branch and the null's place, for a union of null and one other; None for any other union."""
    if len(node.branches) != 2:
        return None
    nulls = [place for place, branch in enumerate(node.branches) if is_null(branch)]
    return (node.branches[1 - nulls[0]], nulls[0]) if len(nulls) == 1 else None


class _Nodes:
    """Makes nodes of parsed types. A named type that maps to None is being made right now."""

    def __init__(self) -> None:
        self.named: dict[str, Node | None] = {}
        self.sizes: dict[str, int] = {}
        self.count = 0

    def node(self, found: AvroNode, depth: int) -> Node:
        self._grow(1)
        if depth > MOST_DEPTH:
            raise SchemaFault(f"the Avro schema is nested deeper than {MOST_DEPTH} levels")
        if found.name:
            return self._named(found, depth)
        if found.kind in PRIMITIVES:
            return Primitive(found.kind, *_logical(found.properties, found.kind, 0))
        if found.kind == "union":
            return Union(tuple(self.node(branch, depth + 1) for branch in found.branches))
        assert found.items is not None
        inside = self.node(found.items, depth + 1)
        return ArraySchema(inside) if found.kind == "array" else Map(inside)

    def _grow(self, by: int) -> None:
        self.count += by
        if self.count > MOST_NODES:
            raise SchemaFault(f"the Avro schema has more than {MOST_NODES} parts when its names are resolved")

    def _named(self, found: AvroNode, depth: int) -> Node:
        full = found.name
        if full in self.named:
            node = self.named[full]
            if node is None:
                raise SchemaFault(f"the Avro record {full} contains itself: a recursive schema has no columns")
            self._grow(self.sizes[full])
            return node
        self.named[full] = None
        before = self.count
        node = self.named[full] = self._definition(found, depth)
        self.sizes[full] = self.count - before
        return node

    def _definition(self, found: AvroNode, depth: int) -> Node:
        if found.kind == "enum":
            return Enum(found.name, found.symbols)
        if found.kind == "fixed":
            return FixedSchema(found.name, found.size, *_logical(found.properties, "fixed", found.size))
        fields = (
            RecordField(
                each.name,
                self.node(each.type, depth + 1),
                each.aliases,
                each.default if each.has_default else MISSING,
                _meaning(each.type),
            )
            for each in found.fields
        )
        return RecordSchema(found.name, tuple(fields))


def _meaning(found: AvroNode) -> str:
    """The type's `connect.name`; empty where a logical type says what values are."""
    if found.kind == "union":
        others = [branch for branch in found.branches if branch.kind != "null"]
        return _meaning(others[0]) if len(others) == 1 else ""
    name = found.properties.get("connect.name")
    return name if isinstance(name, str) and not _logical(found.properties, found.kind, found.size)[0] else ""


def _logical(found: Mapping[str, Any], kind: str, size: int) -> tuple[str, int, int]:
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
