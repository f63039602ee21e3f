"""An Avro schema's JSON as a tree in which every name is resolved; refuses what the specification does not allow."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.formats.compatibility import InvalidSchema

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED = frozenset({"record", "error", "enum", "fixed"})
MAX_DEPTH = 200
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TYPE_WORDS = frozenset({"type", "name", "namespace", "doc", "aliases", "fields", "symbols", "size", "items", "values"})
_FIELD_WORDS = frozenset({"name", "type", "doc", "default", "order", "aliases"})
_ORDERS = frozenset({"ascending", "descending", "ignore"})
_RANGES = {"int": 2**31, "long": 2**63}


@dataclass(slots=True, eq=False)
class AvroField:
    """One field of a record."""

    name: str
    type: AvroNode
    doc: str | None = None
    has_default: bool = False
    default: Any = None
    order: str = "ascending"
    aliases: tuple[str, ...] = ()
    properties: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class AvroNode:
    """One type. A named type is one object however often it is named, so recursive types are circles."""

    kind: str
    """null ... string, record, error, enum, fixed, array, map, union."""
    name: str = ""
    """Full name of a named type."""
    aliases: tuple[str, ...] = ()
    """Full names."""
    doc: str | None = None
    fields: list[AvroField] = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    default: str | None = None
    """The symbol that a reader's enum takes for those that it does not know."""
    size: int = 0
    items: AvroNode | None = None
    """Items of arrays; values of maps."""
    branches: list[AvroNode] = field(default_factory=list)
    properties: Mapping[str, Any] = field(default_factory=dict)
    """Other attributes, such as logicalType."""

    @property
    def namespace(self) -> str:
        return self.name.rpartition(".")[0]

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A parsed schema, and the names that come from other schemas."""

    root: AvroNode
    foreign: frozenset[str] = frozenset()


def parse_avro(text: str, references: Sequence[str] = ()) -> AvroSchema:
    """Parse a schema; `references` are the texts that define names it uses, each after those that it needs itself.

    Raises InvalidSchema.
    """
    names: dict[str, AvroNode] = {}
    for each in references:
        _Parser(names).parse(_load(each), "", 0)
    foreign = frozenset(names)
    root = _Parser(names).parse(_load(text), "", 0)
    _check_defaults(root, set(), _Values())
    return AvroSchema(root, foreign)


def _load(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError) as fault:
        if text.strip() in PRIMITIVES:
            return text.strip()
        raise InvalidSchema(f"not JSON: {fault}") from fault


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"{text} is out of range")
    return number


class _Parser:
    """Makes nodes, and enters named types into `names` before their fields are looked at."""

    def __init__(self, names: dict[str, AvroNode]) -> None:
        self.names = names

    def parse(self, raw: Any, space: str, depth: int) -> AvroNode:
        if depth > MAX_DEPTH:
            raise InvalidSchema(f"types are nested more than {MAX_DEPTH} deep")
        if isinstance(raw, str):
            return self._named(raw, space)
        if isinstance(raw, list):
            return self._union(raw, space, depth)
        if not isinstance(raw, dict):
            raise InvalidSchema(f"a type is a name, an object or a list, not {json.dumps(raw)}")
        kind = raw.get("type")
        if isinstance(kind, dict | list):
            return self.parse(kind, space, depth + 1)
        if not isinstance(kind, str):
            raise InvalidSchema(f"no type: {json.dumps(raw)[:200]}")
        properties = {key: value for key, value in raw.items() if key not in _TYPE_WORDS}
        if kind in PRIMITIVES:
            return AvroNode(kind, properties=properties)
        if kind in ("array", "map"):
            inner = "items" if kind == "array" else "values"
            if inner not in raw:
                raise InvalidSchema(f"{kind} has no {inner}")
            return AvroNode(kind, items=self.parse(raw[inner], space, depth + 1), properties=properties)
        if kind in NAMED:
            return self._define(kind, raw, space, properties, depth)
        return self._named(kind, space)

    def _named(self, name: str, space: str) -> AvroNode:
        if name in PRIMITIVES:
            return AvroNode(name)
        known = self.names.get(name if "." in name or not space else f"{space}.{name}") or self.names.get(name)
        if known is None:
            raise InvalidSchema(f"undefined name: {name}")
        return known

    def _union(self, raw: list[Any], space: str, depth: int) -> AvroNode:
        branches = [self.parse(each, space, depth + 1) for each in raw]
        seen = set()
        for branch in branches:
            if branch.kind == "union":
                raise InvalidSchema("a union directly inside a union")
            tag = branch.name or branch.kind
            if tag in seen:
                raise InvalidSchema(f"a union has {tag} twice")
            seen.add(tag)
        return AvroNode("union", branches=branches)

    def _define(self, kind: str, raw: dict[str, Any], space: str, properties: dict[str, Any], depth: int) -> AvroNode:
        name = _full_name(raw, space)
        if name in self.names:
            raise InvalidSchema(f"{name} is defined twice")
        node = AvroNode(kind, name=name, doc=_doc(raw), properties=properties)
        node.aliases = tuple(alias if "." in alias else _join(node.namespace, alias) for alias in _aliases(raw))
        self.names[name] = node
        if kind == "enum":
            self._fill_enum(node, raw)
        elif kind == "fixed":
            size = raw.get("size")
            if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 1 << 31:
                raise InvalidSchema(f"fixed {name} has the size {json.dumps(size)}, not a whole number of 31 bits")
            node.size = size
        else:
            self._fill_record(node, raw, depth)
        return node

    def _fill_enum(self, node: AvroNode, raw: dict[str, Any]) -> None:
        symbols = raw.get("symbols")
        if not isinstance(symbols, list) or not all(isinstance(each, str) for each in symbols):
            raise InvalidSchema(f"enum {node.name} has no list of symbols")
        for symbol in symbols:
            if not _NAME.fullmatch(symbol):
                raise InvalidSchema(f"enum {node.name}: {symbol!r} is not a symbol")
        if len(set(symbols)) < len(symbols):
            raise InvalidSchema(f"enum {node.name} has a symbol twice")
        default = raw.get("default")
        if default is not None and default not in symbols:
            raise InvalidSchema(f"enum {node.name}: the default {default!r} is none of its symbols")
        node.symbols, node.default = tuple(symbols), default
        node.properties = {key: value for key, value in node.properties.items() if key != "default"}

    def _fill_record(self, node: AvroNode, raw: dict[str, Any], depth: int) -> None:
        fields = raw.get("fields")
        if not isinstance(fields, list):
            raise InvalidSchema(f"record {node.name} has no list of fields")
        seen = set()
        for each in fields:
            made = self._field(each, node, depth)
            if made.name in seen:
                raise InvalidSchema(f"record {node.name} has the field {made.name} twice")
            seen.add(made.name)
            node.fields.append(made)

    def _field(self, raw: Any, record: AvroNode, depth: int) -> AvroField:
        if not isinstance(raw, dict) or not isinstance(raw.get("name"), str) or "type" not in raw:
            raise InvalidSchema(f"record {record.name}: a field needs a name and a type")
        name = raw["name"]
        if not _NAME.fullmatch(name):
            raise InvalidSchema(f"record {record.name}: {name!r} is not a name of a field")
        order = raw.get("order", "ascending")
        if not isinstance(order, str) or order not in _ORDERS:
            raise InvalidSchema(f"field {record.name}.{name}: {order!r} is not an order of fields")
        return AvroField(
            name,
            self.parse(raw["type"], record.namespace, depth + 1),
            _doc(raw),
            "default" in raw,
            raw.get("default"),
            order,
            tuple(_aliases(raw)),
            {key: value for key, value in raw.items() if key not in _FIELD_WORDS},
        )


def _full_name(raw: dict[str, Any], space: str) -> str:
    name, namespace = raw.get("name"), raw.get("namespace")
    if not isinstance(name, str):
        raise InvalidSchema(f"a {raw['type']} has no name")
    if namespace is not None and not isinstance(namespace, str):
        raise InvalidSchema(f"{name}: the namespace is not a string")
    full = name if "." in name else _join(space if namespace is None else namespace, name)
    if not all(_NAME.fullmatch(part) for part in full.split(".")):
        raise InvalidSchema(f"{full!r} is not a name")
    if full in PRIMITIVES:
        raise InvalidSchema(f"{full} is the name of a primitive type")
    return full


def _join(space: str, name: str) -> str:
    return f"{space}.{name}" if space else name


def _doc(raw: dict[str, Any]) -> str | None:
    doc = raw.get("doc")
    return doc if isinstance(doc, str) else None


def _aliases(raw: dict[str, Any]) -> list[str]:
    aliases = raw.get("aliases", [])
    if not isinstance(aliases, list) or not all(isinstance(each, str) for each in aliases):
        raise InvalidSchema(f"aliases are a list of names, not {json.dumps(aliases)[:100]}")
    return aliases


def _check_defaults(node: AvroNode, seen: set[int], values: _Values) -> None:
    """Refuse a default that is not a value of its field."""
    if id(node) in seen:
        return
    seen.add(id(node))
    for each in node.fields:
        if each.has_default and not values.has(each.type, each.default):
            raise InvalidSchema(
                f"field {node.name}.{each.name}: the default {json.dumps(each.default)[:100]} is no "
                f"{each.type.name or each.type.kind}"
            )
        _check_defaults(each.type, seen, values)
    for inner in (*node.branches, *([node.items] if node.items else ())):
        _check_defaults(inner, seen, values)


class _Values:
    """Tells whether JSON as it stands in a default is a value of a type; each pair is looked at once.

    A union of records that contain the same union would else be tried in all combinations of its branches.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], bool] = {}

    def has(self, node: AvroNode, value: Any) -> bool:
        """True if `value`, a part of the parsed schema, is a value of the node's type."""
        pair = (id(node), id(value))
        if pair not in self._known:
            self._known[pair] = self._is_value(node, value)
        return self._known[pair]

    def _is_value(self, node: AvroNode, value: Any) -> bool:
        kind = node.kind
        if kind == "union":
            return any(self.has(branch, value) for branch in node.branches)
        if kind == "array":
            assert node.items is not None
            return isinstance(value, list) and all(self.has(node.items, each) for each in value)
        if kind not in ("map", "record", "error"):
            return _is_simple_value(node, value)
        if not isinstance(value, dict):
            return False
        if kind == "map":
            assert node.items is not None
            return all(self.has(node.items, each) for each in value.values())
        return all(
            self.has(each.type, value[each.name]) if each.name in value else each.has_default for each in node.fields
        )


def _is_simple_value(node: AvroNode, value: Any) -> bool:
    kind = node.kind
    if kind == "null":
        return value is None
    if kind == "boolean":
        return isinstance(value, bool)
    if kind in _RANGES:
        return isinstance(value, int) and not isinstance(value, bool) and -_RANGES[kind] <= value < _RANGES[kind]
    if kind in ("float", "double"):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "enum":
        return value in node.symbols
    if not isinstance(value, str) or kind == "string":
        return isinstance(value, str)
    sized = kind == "bytes" or len(value) == node.size
    return sized and all(ord(letter) < 256 for letter in value)
