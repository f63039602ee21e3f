"""The types that the schema in a Debezium event's envelope gives to the fields of a row. Pure.

Kafka's JsonConverter writes a decimal as Base64 and a day as a number, and says in `schema` what they are. The meaning
of a field is noted in the columns' schema when it first comes. A column that events without a schema made before keeps
their type; an event whose schema says something else than the note is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from ottla.formats.evolution import meanings
from ottla.lake.columns.events import event_states
from ottla.lake.columns.types import Misfit

TYPES = b"ottla.debezium"
RAW = ""
"""The kind of a field whose JSON value is the value."""
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_KINDS = {
    "org.apache.kafka.connect.data.Date": "days",
    "io.debezium.time.Date": "days",
    "org.apache.kafka.connect.data.Time": "time of milliseconds",
    "io.debezium.time.Time": "time of milliseconds",
    "io.debezium.time.MicroTime": "time of microseconds",
    "org.apache.kafka.connect.data.Timestamp": "milliseconds",
    "io.debezium.time.Timestamp": "milliseconds",
    "io.debezium.time.MicroTimestamp": "microseconds",
    "io.debezium.time.ZonedTimestamp": "zoned",
    "io.debezium.data.VariableScaleDecimal": "decimal of any scale",
    "confluent.type.Decimal": "decimal of any scale",
    "google.type.Date": "days",
    "google.type.TimeOfDay": "time of day",
}
_MOST_DIGITS = 38

Kinds = Mapping[str, str]
"""From a field of a row to its kind: one of `_KINDS`, `bytes`, `decimal N` of a scale, or RAW."""


def noted(schema: pa.Schema | None) -> dict[str, str]:
    """The kinds that are noted in a schema."""
    text = None if schema is None else (schema.metadata or {}).get(TYPES)
    return {} if text is None else dict(json.loads(text))


def kinds_in(columns: pa.Schema | None) -> dict[str, str]:
    """All kinds: those that are noted, and those of Kafka Connect's names in an Avro or Protobuf schema."""
    found: dict[str, str] = {}
    for state in event_states(columns) if columns is not None else ():
        for each in state:
            for name in meanings(each)[:1]:
                found.setdefault(each.name, _named(name))
    return {**found, **noted(columns)}


def check_kinds(columns: pa.Schema) -> None:
    """Misfit where a schema gives a field another kind than its column has."""
    for state in event_states(columns):
        for each in state:
            if len(names := meanings(each)) > 1 and len(set(map(_named, names))) > 1:
                raise Misfit(f"field {each.name}: its schema says {names[1]}, where the column holds {names[0]}")


def with_kinds(schema: pa.Schema, kinds: Kinds) -> pa.Schema:
    """The schema with these notes; its other metadata stays."""
    known = {name: text for name, text in (schema.metadata or {}).items() if name != TYPES}
    if kinds:
        known[TYPES] = json.dumps(dict(sorted(kinds.items()))).encode()
    return schema.with_metadata(known or None)


def adopted(known: Kinds, found: Kinds, held: frozenset[str]) -> dict[str, str]:
    """The kinds after an event with these: a field has the kind that it came with, and one without a kind none."""
    return {**{name: kind for name, kind in found.items() if name not in held}, **known}


def contradiction(known: Kinds, found: Kinds) -> str | None:
    """The reason why an event's schema does not go with the kinds that are noted; None where it does."""
    for name, kind in found.items():
        if known.get(name, kind) != kind:
            return f"field {name}: its schema says {_text(kind)}, where the column holds {_text(known[name])}"
    return None


@dataclass(slots=True)
class Envelopes:
    """Takes the schemas out of JSON envelopes; each text of a schema is understood once."""

    _known: dict[str, Kinds] = field(default_factory=dict)
    _decoder: json.JSONDecoder = field(default_factory=json.JSONDecoder)

    def opened(self, value: bytes | None) -> tuple[bytes | None, Kinds | None]:
        """The value with its payload alone, and the kinds that its schema names; any other value as it is."""
        if value is None or b'"schema"' not in value or b'"payload"' not in value:
            return value, None
        try:
            text = value.decode()
            members = dict(self._members(text))
        except (ValueError, RecursionError):
            return value, None
        if members.keys() != {"schema", "payload"} or not all(each.startswith("{") for each in members.values()):
            return value, None
        return f'{{"payload":{members["payload"]}}}'.encode(), self._kinds(members["schema"])

    def _members(self, text: str) -> Iterator[tuple[str, str]]:
        """The members of an object, as text; ValueError where it is no object, or has a member twice."""
        at, seen = _after_spaces(text, 0), set[str]()
        if text[at : at + 1] != "{":
            raise ValueError("not an object")
        while True:
            name, at = self._decoder.raw_decode(text, _after_spaces(text, at + 1))
            at = _after_spaces(text, at)
            if not isinstance(name, str) or name in seen or text[at : at + 1] != ":":
                raise ValueError("not an object")
            seen.add(name)
            begin = _after_spaces(text, at + 1)
            known = self._prefix(text, begin) if name == "schema" else None
            at = known if known is not None else self._decoder.raw_decode(text, begin)[1]
            yield name, text[begin:at]
            at = _after_spaces(text, at)
            if text[at : at + 1] != ",":
                break
        if text[at : at + 1] != "}" or _after_spaces(text, at + 1) != len(text):
            raise ValueError("not an object")

    def _prefix(self, text: str, begin: int) -> int | None:
        """The end of the schema at a place, where it is one that is known."""
        return next((begin + len(each) for each in self._known if text.startswith(each, begin)), None)

    def _kinds(self, text: str) -> Kinds:
        if text not in self._known:
            if len(self._known) >= 16:
                self._known.pop(next(iter(self._known)))
            self._known[text] = kinds_of(json.loads(text))
        return self._known[text]


def kinds_of(schema: object) -> dict[str, str]:
    """The kinds of the fields of `before` and `after` by the schema of an event."""
    found: dict[str, str] = {}
    for part in _fields(schema):
        if part.get("field") in ("before", "after"):
            found |= {str(each["field"]): _kind(each) for each in _fields(part) if "field" in each}
    return found


def _fields(schema: object) -> list[dict[str, Any]]:
    fields = schema.get("fields") if isinstance(schema, dict) else None
    return [each for each in fields if isinstance(each, dict)] if isinstance(fields, list) else []


def _kind(declared: Mapping[str, Any]) -> str:
    name, parameters = declared.get("name"), declared.get("parameters")
    if name == _DECIMAL and isinstance(parameters, dict):
        return _scaled(str(parameters.get("scale", "")))
    if declared.get("type") == "bytes" and name is None:
        return "bytes"
    return _KINDS.get(str(name), RAW)


def _named(name: str) -> str:
    """The kind of a name: Protobuf's decimal may bring its scale."""
    known, _, scale = name.partition(" ")
    return _scaled(scale) if scale else _KINDS.get(known, RAW)


def _scaled(scale: str) -> str:
    return f"decimal {int(scale)}" if scale.isdecimal() and int(scale) <= _MOST_DIGITS else RAW


def _after_spaces(text: str, at: int) -> int:
    while text[at : at + 1] in (" ", "\t", "\n", "\r") and at < len(text):
        at += 1
    return at


def _text(kind: str) -> str:
    return kind if kind != RAW else "a plain value"
