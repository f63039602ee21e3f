"""Schemas of all types behind one face: what is too deep is refused instead of failing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.formats.compatibility import InvalidSchema
from ottla.registry import parsing
from ottla.registry.parsing import ParsedSchema, parse


def chain_of_references(last: Any) -> ParsedSchema:
    """A JSON Schema without nesting whose $refs are a chain of 600."""
    links = {f"d{i}": {"properties": {"a": {"$ref": f"#/definitions/d{i + 1}"}}} for i in range(600)}
    return parse("JSON", json.dumps({"definitions": {**links, "d600": last}, "$ref": "#/definitions/d0"}))


def test_a_chain_that_is_too_long_to_compare_is_incompatible() -> None:
    reader, writer = chain_of_references({"type": "string"}), chain_of_references({"type": "integer"})
    assert [each.kind for each in reader.incompatibilities(writer)] == ["TOO_COMPLEX"]


def test_a_chain_of_names_that_is_too_long_is_no_schema() -> None:
    def link(number: int) -> dict[str, Any]:
        kind = "int" if number == 0 else f"R{number - 1}"
        return {"type": "record", "name": f"R{number}", "fields": [{"name": "f", "type": kind}]}

    sources = (("chain", json.dumps([link(number) for number in range(2_000)])),)
    schema = {"type": "record", "name": "Top", "fields": [{"name": "f", "type": "R1999"}]}
    with pytest.raises(InvalidSchema, match="too deep"):
        parse("AVRO", json.dumps(schema), sources)


def test_parsed_schemas_are_kept_as_long_as_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that looks schemas of 1 MB up would else fill the memory."""
    monkeypatch.setattr(parsing, "_KEPT_CHARACTERS", 10_000)
    sources = (("other", json.dumps({"type": "record", "name": "Other", "fields": [], "doc": "x" * 900})),)
    first = parse("AVRO", '"int"', sources)
    assert parse("AVRO", '"int"', sources) is first
    for number in range(20):
        parse("AVRO", json.dumps({"type": "fixed", "name": f"F{number}", "size": 1}), sources)
        if number == 5:
            assert parse("AVRO", '"int"', sources) is first
    assert parse("AVRO", '"int"', sources) is not first
