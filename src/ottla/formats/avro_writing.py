"""Values of columns as fastavro takes them: unions by the branch's name, maps as dicts, durations as their bytes."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from itertools import count
from struct import Struct
from struct import error as StructError
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa

from ottla.formats.avro import evolving_type
from ottla.formats.avro_schema import (
    ArraySchema,
    Enum,
    FixedSchema,
    Map,
    Node,
    Primitive,
    RecordField,
    RecordSchema,
    Union,
    is_null,
    parse,
)
from ottla.formats.avro_types import arrow_type, members, only_branch
from ottla.formats.faults import BadPayload, SchemaFault
from ottla.formats.writer import WriterSchema

_DURATION = Struct("<III")
_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


class AvroWriter:
    """Writes rows of `type` as payloads of one schema."""

    def __init__(self, schema: WriterSchema) -> None:
        node = parse(schema.text, schema.references)
        self.type = evolving_type(node)
        self._writable = _writable(node)
        named: dict[str, Any] = {}
        try:
            for reference in schema.references:
                fastavro.parse_schema(json.loads(reference), named_schemas=named)
            self._parsed = fastavro.parse_schema(json.loads(schema.text), named_schemas=named)
        except (ValueError, KeyError, fastavro.schema.SchemaParseException) as fault:
            raise SchemaFault(f"the Avro schema cannot be written by: {fault}") from None

    def write(self, value: Any) -> bytes:
        """The payload of one value, or `BadPayload`."""
        out = io.BytesIO()
        try:
            fastavro.schemaless_writer(out, self._parsed, self._writable(value))
        except (ValueError, TypeError, OverflowError, KeyError, AttributeError, StructError) as fault:
            raise BadPayload(f"a row does not fit the Avro schema: {fault}") from None
        return out.getvalue()


Convert = Callable[[Any], Any]


def _writable(node: Node) -> Convert:
    """Makes of a column's value what fastavro writes."""
    if arrow_type(node) is None:
        unseen = _unseen(node)
        return lambda _: unseen
    match node:
        case RecordSchema():
            return _record(node)
        case ArraySchema():
            item = _writable(node.items)
            return lambda values: [item(each) for each in values]
        case Map():
            inner = _writable(node.values)
            return lambda entries: {key: inner(each) for key, each in entries}
        case Union():
            return _union(node)
        case FixedSchema(logical="duration"):
            return lambda parts: _DURATION.pack(parts["months"], parts["days"], parts["milliseconds"])
        case FixedSchema(logical="uuid"):
            return UUID
        case Primitive(logical="timestamp-millis" | "local-timestamp-millis" | "time-millis"):
            return _milliseconds
        case Primitive(logical="timestamp-nanos"):
            return lambda time: (time - _EPOCH) // _MICROSECOND * 1000
        case Primitive(logical="local-timestamp-nanos"):
            return lambda time: (time.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND * 1000
    return lambda value: value


def _milliseconds(moment: datetime | time) -> datetime | time:
    """A time as it is, if milliseconds hold all of it: fastavro drops other digits."""
    if moment.microsecond % 1000:
        raise BadPayload(f"{moment.isoformat()} has digits beyond milliseconds, which its Avro schema has no place for")
    return moment


def _unseen(node: Node) -> Any:
    """The value of a node without a column: all values of such a node look alike."""
    match node:
        case RecordSchema():
            return {field.name: _unseen(field.node) for field in node.fields}
        case FixedSchema():
            return b""
        case ArraySchema():
            return []
        case Union():
            return None if any(is_null(branch) for branch in node.branches) else _unseen(node.branches[0])
    return None


def _record(node: RecordSchema) -> Convert:
    parts = [(field.name, _member(field)) for field in node.fields]
    return lambda row: {name: convert(row) for name, convert in parts}


def _member(field: RecordField) -> Convert:
    name, convert = field.name, _writable(field.node)
    if arrow_type(field.node) is None:
        return convert

    def member(row: dict[str, Any]) -> Any:
        value = row[name]
        if value is None and not isinstance(field.node, Union):
            raise BadPayload(f"field {name} is null, which its Avro schema does not allow")
        return None if value is None else convert(value)

    return member


def _union(node: Union) -> Convert:
    single = only_branch(node)
    if single is not None:
        inner = _writable(single)
        return lambda value: None if value is None else inner(value)
    branches = [(name, _branch_name(node.branches[at]), _writable(node.branches[at])) for name, _, at in members(node)]

    empty = next((each for each in node.branches if arrow_type(each) is None and not is_null(each)), None)
    unseen = None if empty is None else (_branch_name(empty), _unseen(empty))

    def convert(row: dict[str, Any] | None) -> Any:
        if row is not None:
            for member, branch, inner in branches:
                if row[member] is not None:
                    return branch, inner(row[member])
        return unseen if row is not None else None

    return convert


def _branch_name(node: Node) -> str:
    match node:
        case Primitive():
            return node.kind
        case RecordSchema() | Enum() | FixedSchema():
            return node.name
        case ArraySchema():
            return "array"
    return "map"


def derived_schema(kind: pa.DataType, name: str) -> dict[str, Any]:
    """An Avro schema for columns of this type; every field may be null."""
    return _derived_record(kind, name, set())


def _derived_record(kind: pa.DataType, name: str, taken: set[str]) -> dict[str, Any]:
    """A record whose name is none of those taken: the member c of a_b and the member b_c of a would have the same."""
    others = (f"{name}_{number}" for number in count(2))
    free = name if name not in taken else next(other for other in others if other not in taken)
    taken.add(free)
    fields = [
        {"name": each.name, "type": ["null", _derived(each.type, f"{name}_{each.name}", taken)], "default": None}
        for each in kind
    ]
    return {"type": "record", "name": free, "fields": fields}


def _derived(kind: pa.DataType, name: str, taken: set[str]) -> Any:
    simple = {
        pa.bool_(): "boolean",
        pa.int8(): "int",
        pa.int16(): "int",
        pa.int32(): "int",
        pa.int64(): "long",
        pa.float32(): "float",
        pa.float64(): "double",
        pa.string(): "string",
        pa.binary(): "bytes",
        pa.date32(): {"type": "int", "logicalType": "date"},
    }
    if kind in simple:
        return simple[kind]
    if pa.types.is_timestamp(kind):
        return {"type": "long", "logicalType": f"{'local-' if kind.tz is None else ''}timestamp-micros"}
    if pa.types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if pa.types.is_struct(kind):
        return _derived_record(kind, name, taken)
    if pa.types.is_map(kind) and kind.key_type == pa.string():
        return {"type": "map", "values": ["null", _derived(kind.item_type, f"{name}_value", taken)]}
    if pa.types.is_list(kind):
        return {"type": "array", "items": ["null", _derived(kind.value_type, f"{name}_item", taken)]}
    raise SchemaFault(f"no Avro type is derived for {kind}: give a schema")
