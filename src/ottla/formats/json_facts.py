"""Facts about the documents that a JSON Schema, or several at once, let pass: types, bounds, properties, items."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

Json = Any
Node = dict[str, Any]

ATOMS = frozenset({"null", "boolean", "integer", "fraction", "string", "array", "object"})
"""JSON's types; numbers that are whole, and those that are not."""
NUMBERS = frozenset({"integer", "fraction"})
_MAX_BACKTRACKS = 10_000


def atoms(type_word: Json) -> frozenset[str]:
    """The types that a value of `type` allows."""
    words = [type_word] if isinstance(type_word, str) else type_word
    return frozenset(atom for word in words for atom in (NUMBERS if word == "number" else {word}))


def types_of(nodes: Iterable[Node]) -> frozenset[str]:
    found = ATOMS
    for node in nodes:
        if "type" in node:
            found &= atoms(node["type"])
    return found


def json_key(value: Json) -> str:
    """Equal for values that are equal in JSON: 1 and 1.0 are, 1 and true are not."""
    return json.dumps(_plain(value), sort_keys=True)


def _plain(value: Json) -> Json:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return {name: _plain(each) for name, each in value.items()} if isinstance(value, dict) else value


def values_of(nodes: Sequence[Node]) -> list[Json] | None:
    """All values that are possible; None where they are not listed."""
    types = types_of(nodes)
    found: dict[str, Json] | None = None
    for node in nodes:
        listed = [node["const"]] if "const" in node else node.get("enum")
        if isinstance(listed, list):
            here = {json_key(value): value for value in listed}
            found = here if found is None else {key: value for key, value in found.items() if key in here}
    if found is None and types <= {"null", "boolean"}:
        found = {json_key(value): value for value in (None, True, False)}
    if found is None:
        return None
    return [value for value in found.values() if atom_of(value) in types]


def values_differ(left: Sequence[Node], right: Sequence[Node]) -> bool:
    """True if both sides list their values and have none in common."""
    mine, theirs = values_of(left), values_of(right)
    if mine is None or theirs is None:
        return False
    return not {json_key(each) for each in mine} & {json_key(each) for each in theirs}


def atom_of(value: Json) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return "integer"
    if isinstance(value, float):
        return "fraction"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def only(value: Json) -> Node:
    """A schema that one value passes, with all that its keywords can say about it."""
    atom = atom_of(value)
    node: Node = {"const": value, "type": "number" if atom == "fraction" else atom}
    if atom in NUMBERS:
        node |= {"minimum": value, "maximum": value, "multipleOf": abs(value)}
    elif atom == "string":
        node |= {"minLength": len(value), "maxLength": len(value)}
    elif atom == "array":
        unique = len({json_key(each) for each in value}) == len(value)
        node |= {"prefixItems": [{"const": each} for each in value], "items": False, "uniqueItems": unique}
        node |= {"minItems": len(value), "maxItems": len(value)}
    elif atom == "object":
        node |= {"properties": {name: {"const": each} for name, each in value.items()}, "required": list(value)}
        node |= {"additionalProperties": False, "minProperties": len(value), "maxProperties": len(value)}
    return node


Bound = tuple[Fraction, bool]
"""A number, and whether it lies outside itself."""


def lower_bound(node: Node) -> Bound | None:
    return _bound(node, "minimum", "exclusiveMinimum", sign=1)


def upper_bound(node: Node) -> Bound | None:
    """Negated, so that bounds of both directions are compared alike."""
    return _bound(node, "maximum", "exclusiveMaximum", sign=-1)


def _bound(node: Node, plain: str, exclusive: str, *, sign: int) -> Bound | None:
    """The stricter of both spellings; in draft 4 the exclusive one is a flag."""
    found = []
    flag = node.get(exclusive)
    if plain in node:
        found.append((sign * Fraction(str(node[plain])), flag is True))
    if flag is not None and not isinstance(flag, bool):
        found.append((sign * Fraction(str(flag)), True))
    return max(found, default=None)


def number(nodes: Sequence[Node], word: str, *, least: bool) -> int | float | None:
    """The strictest of a keyword: the greatest minimum (`least`), or the least maximum."""
    found: list[int | float] = [node[word] for node in nodes if isinstance(node.get(word), int | float)]
    if not found:
        return None
    return max(found) if least else min(found)


def required(nodes: Iterable[Node]) -> set[str]:
    return {name for node in nodes if isinstance(node.get("required"), list) for name in node["required"]}


def named(nodes: Iterable[Node]) -> list[str]:
    """All properties that are named, in order."""
    return list(dict.fromkeys(name for node in nodes for name in node.get("properties", {})))


def patterns(node: Node) -> dict[str, Json]:
    found: dict[str, Json] = node.get("patternProperties", {})
    return found


def property_schemas(nodes: Iterable[Node], name: str) -> list[Json]:
    """The schemas that the value of a property has to pass."""
    found = []
    for node in nodes:
        own = [node["properties"][name]] if name in node.get("properties", {}) else []
        own += [schema for pattern, schema in patterns(node).items() if matches(pattern, name, unsure=False)]
        named_here = own or any(matches(pattern, name, unsure=True) for pattern in patterns(node))
        if not named_here and "additionalProperties" in node:
            own = [node["additionalProperties"]]
        found += own
    return found


def other_schemas(nodes: Iterable[Node]) -> list[Json]:
    """The schemas that a property has to pass which nothing names."""
    return [node["additionalProperties"] for node in nodes if "additionalProperties" in node]


def matches(pattern: str, text: str, *, unsure: bool) -> bool:
    """True if a pattern is found in a text; `unsure` for a pattern that cannot be read or takes too many steps."""
    from jsonschema_rs import ValidationErrorKind

    validator = _validator(pattern)
    if validator is None:
        return unsure
    try:
        fault = next(iter(validator.iter_errors(text)), None)
    except UnicodeEncodeError:
        return unsure
    if fault is not None and isinstance(fault.kind, ValidationErrorKind.BacktrackLimitExceeded):
        return unsure
    return fault is None


@lru_cache(1_000)
def _validator(pattern: str) -> Any:
    """A validator of one pattern; Python's own regular expressions may take years for a text of 40 letters."""
    import jsonschema_rs

    try:
        options = jsonschema_rs.FancyRegexOptions(backtrack_limit=_MAX_BACKTRACKS)
        return jsonschema_rs.Draft7Validator({"pattern": pattern}, pattern_options=options)
    except (ValueError, jsonschema_rs.ValidationError):
        return None


def items_of(node: Node) -> tuple[list[Json], Json]:
    """Schemas of the first items, and that of the rest (True where there is none)."""
    if "prefixItems" in node:
        return node["prefixItems"], node.get("items", True)
    items = node.get("items", True)
    return (items, node.get("additionalItems", True)) if isinstance(items, list) else ([], items)


def item_schemas(nodes: Iterable[Node], index: int) -> list[Json]:
    """The schemas that the item at an index has to pass."""
    found = []
    for node in nodes:
        prefix, rest = items_of(node)
        found.append(prefix[index] if index < len(prefix) else rest)
    return found
