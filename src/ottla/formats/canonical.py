"""One text for each schema, whatever its spaces and spelling were: Avro and JSON Schema.

The plain form is what a registry stores: Avro as Apache Avro's Java library prints it, JSON without spaces. The
normal form is for those who ask for it: keys sorted, Avro's names in full.
"""

from __future__ import annotations

import json
from typing import Any

from ottla.formats.avro_tree import NAMED, PRIMITIVES, AvroField, AvroNode, AvroSchema

Json = Any
"""A parsed JSON document."""


def json_text(document: Json, *, normalized: bool = False) -> str:
    """JSON without spaces; sorted keys in the normal form."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), sort_keys=normalized)


def avro_text(schema: AvroSchema, *, normalized: bool = False) -> str:
    """A schema in the order of attributes that Apache Avro's Java library prints."""
    return json_text(_Printer(set(schema.foreign), normalized=normalized).type(schema.root, ""))


class _Printer:
    def __init__(self, defined: set[str], *, normalized: bool) -> None:
        self._defined = defined
        self._normalized = normalized

    def type(self, node: AvroNode, space: str) -> Json:
        if node.kind in PRIMITIVES:
            return {"type": node.kind, **self._properties(node.properties)} if node.properties else node.kind
        if node.kind == "union":
            return [self.type(branch, space) for branch in node.branches]
        if node.kind in NAMED:
            return self._named(node, space)
        assert node.items is not None
        inner = "items" if node.kind == "array" else "values"
        return {"type": node.kind, inner: self.type(node.items, space), **self._properties(node.properties)}

    def _named(self, node: AvroNode, space: str) -> Json:
        if node.name in self._defined:
            return node.name if self._normalized or node.namespace != space else node.short_name
        self._defined.add(node.name)
        made: dict[str, Json] = {"type": node.kind}
        if self._normalized:
            made["name"] = node.name
        else:
            made["name"] = node.short_name
            if node.namespace != space:
                made["namespace"] = node.namespace
        if node.doc is not None:
            made["doc"] = node.doc
        if node.kind == "enum":
            made["symbols"] = list(node.symbols)
            if node.default is not None:
                made["default"] = node.default
        elif node.kind == "fixed":
            made["size"] = node.size
        else:
            made["fields"] = [self._field(each, node.namespace) for each in node.fields]
        made |= self._properties(node.properties)
        if node.aliases:
            made["aliases"] = [self._alias(alias, node) for alias in node.aliases]
        return made

    def _field(self, each: AvroField, space: str) -> Json:
        made: dict[str, Json] = {"name": each.name, "type": self.type(each.type, space)}
        if each.doc is not None:
            made["doc"] = each.doc
        if each.has_default:
            made["default"] = each.default
        if each.order != "ascending":
            made["order"] = each.order
        if each.aliases:
            made["aliases"] = list(each.aliases)
        return made | self._properties(each.properties)

    def _alias(self, alias: str, node: AvroNode) -> str:
        space, _, short = alias.rpartition(".")
        return short if space == node.namespace and not self._normalized else alias

    def _properties(self, properties: Json) -> dict[str, Json]:
        return dict(sorted(properties.items())) if self._normalized else dict(properties)
