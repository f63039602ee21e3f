"""One face for the three types of schemas: parse, print in one way, compare with an earlier version."""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import Any, NamedTuple

from ottla.formats.compatibility import Incompatibility, InvalidSchema

Sources = tuple[tuple[str, str], ...]
"""Referenced schemas, each after those that it refers to itself: the name by which it is used, and its text."""

TYPES = ("JSON", "PROTOBUF", "AVRO")
_KEPT_CHARACTERS = 16_000_000
"""Bounds the texts of the parsed schemas that are kept; their trees take several times as much."""


class _Request(NamedTuple):
    schema_type: str
    text: str
    sources: Sources
    normalized: bool


@dataclass(frozen=True, slots=True, eq=False)
class ParsedSchema:
    """A valid schema. `text` is stored and compared."""

    schema_type: str
    text: str
    tree: Any
    key: str
    """Equal for schemas that count as the same."""

    def incompatibilities(self, writer: ParsedSchema) -> list[Incompatibility]:
        """The reasons why this schema, as the reader's, does not accept everything that `writer` allows."""
        try:
            return self._incompatibilities(writer)
        except RecursionError:
            return [Incompatibility("TOO_COMPLEX", "", "types lead to types deeper than the comparison goes")]

    def _incompatibilities(self, writer: ParsedSchema) -> list[Incompatibility]:
        if writer.schema_type != self.schema_type:
            detail = f"the reader's type is {self.schema_type}, the writer's {writer.schema_type}"
            return [Incompatibility("SCHEMA_TYPE_CHANGED", "", detail)]
        if self.schema_type == "AVRO":
            from ottla.formats.avro_compatibility import avro_incompatibilities

            return avro_incompatibilities(self.tree, writer.tree)
        if self.schema_type == "JSON":
            from ottla.formats.json_compatibility import json_incompatibilities

            return json_incompatibilities(self.tree, writer.tree)
        from ottla.formats.protobuf_compatibility import protobuf_incompatibilities

        return protobuf_incompatibilities(self.tree, writer.tree)


class _Kept:
    """The schemas that were parsed last, within a bound on the characters of their texts and sources."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._schemas: OrderedDict[_Request, ParsedSchema] = OrderedDict()
        self._characters = 0

    def get(self, request: _Request) -> ParsedSchema | None:
        with self._lock:
            if request not in self._schemas:
                return None
            self._schemas.move_to_end(request)
            return self._schemas[request]

    def put(self, request: _Request, parsed: ParsedSchema) -> None:
        """Keep a schema, and forget those that were not asked for the longest."""
        with self._lock:
            if request not in self._schemas:
                self._characters += _characters(request)
            self._schemas[request] = parsed
            while self._characters > _KEPT_CHARACTERS:
                oldest, _ = self._schemas.popitem(last=False)
                self._characters -= _characters(oldest)


def _characters(request: _Request) -> int:
    return len(request.text) + sum(len(text) for _, text in request.sources)


_kept = _Kept()


def parse(schema_type: str, text: str, sources: Sources = (), *, normalized: bool = False) -> ParsedSchema:
    """Parse and print a schema; InvalidSchema where it is none."""
    request = _Request(schema_type, text, sources, normalized)
    found = _kept.get(request)
    if found is None:
        found = _checked(schema_type, text, sources, normalized=normalized)
        _kept.put(request, found)
    return found


def _checked(schema_type: str, text: str, sources: Sources, *, normalized: bool) -> ParsedSchema:
    try:
        parsed = _parse(schema_type, text, sources, normalized=normalized)
        parsed.text.encode()
        return parsed
    except UnicodeEncodeError as fault:
        raise InvalidSchema("it has half a surrogate pair, which is not a character") from fault
    except RecursionError as fault:
        raise InvalidSchema("types lead to types too deep") from fault


def _parse(schema_type: str, text: str, sources: Sources, *, normalized: bool) -> ParsedSchema:
    if schema_type == "AVRO":
        return _avro(text, sources, normalized=normalized)
    if schema_type == "JSON":
        return _json(text, sources, normalized=normalized)
    if schema_type == "PROTOBUF":
        return _protobuf(text, sources, normalized=normalized)
    raise InvalidSchema(f"no schema type {schema_type}; there are {', '.join(TYPES)}")


def _avro(text: str, sources: Sources, *, normalized: bool) -> ParsedSchema:
    from ottla.formats.avro_tree import parse_avro
    from ottla.formats.canonical import avro_text

    tree = parse_avro(text, [source for _, source in sources])
    printed = avro_text(tree, normalized=normalized)
    _check_by_fastavro(printed, sources)
    return ParsedSchema("AVRO", printed, tree, printed)


def _check_by_fastavro(text: str, sources: Sources) -> None:
    """Parse with the library that readers will use, too: a schema that it refuses must not be registered."""
    from fastavro.schema import SchemaParseException, UnknownType, parse_schema

    named: dict[str, Any] = {}
    try:
        for _, source in sources:
            parse_schema(json.loads(source), named_schemas=named)
        parse_schema(json.loads(text), named_schemas=named)
    except (SchemaParseException, UnknownType, ValueError, KeyError, TypeError) as fault:
        raise InvalidSchema(f"fastavro refuses it: {fault}") from fault


def _json(text: str, sources: Sources, *, normalized: bool) -> ParsedSchema:
    from ottla.formats.canonical import json_text
    from ottla.formats.json_schema_tree import parse_json_schema

    tree = parse_json_schema(text, dict(sources))
    printed = json_text(tree.document, normalized=normalized)
    return ParsedSchema("JSON", printed, tree, printed)


def _protobuf(text: str, sources: Sources, *, normalized: bool) -> ParsedSchema:
    from ottla.formats.protobuf_text import protobuf_text
    from ottla.registry.protoc import parse_protobuf

    source, tree = parse_protobuf(text, dict(sources))
    normal = protobuf_text(tree.file, tree.imports, normalized=True)
    return ParsedSchema("PROTOBUF", normal if normalized else source, tree, normal)
