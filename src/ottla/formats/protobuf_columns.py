"""Protobuf messages as columns: one list per field over all messages, since upb is fast and Python objects are not.

A field that says whether it was set is null where it was not, unless it has a default of its own (proto2); any other
has the default of its type. Timestamps and wrappers are what they mean, Struct and its kin are JSON text, enums their
names. Unsigned numbers are one width wider: hardly any table format knows them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from ottla.formats.arrays import from_numbers, lists
from ottla.formats.evolution import described
from ottla.formats.faults import BadPayload, SchemaFault
from ottla.formats.iso_times import FINER, Nanoseconds
from ottla.formats.protobuf_imports import WELL_KNOWN
from ottla.formats.protobuf_options import params

MOST_COLUMNS = 5_000
UINT64 = pa.decimal128(20, 0)
MICROS, NANOS = pa.timestamp("us", tz="UTC"), pa.timestamp("ns", tz="UTC")
_MOST_NANOS_SECONDS = 9_214_560_000
"""The years 1678 to 2261 are within so many seconds of 1970; 64 bits of nanoseconds reach a little further."""
_LEAST_SECONDS, _MOST_SECONDS = -62_135_596_800, 253_402_300_799
WRAPPERS = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
AS_JSON = frozenset(f"google.protobuf.{kind}" for kind in ("Struct", "Value", "ListValue"))
TIMESTAMP = "google.protobuf.Timestamp"
_DECIMAL = "confluent.type.Decimal"
_CONNECT = frozenset({_DECIMAL, "google.type.Date", "google.type.TimeOfDay"})
_ANY_SCALE = {"scale", "value"}
_READ_SPECIALLY = WRAPPERS | AS_JSON | {TIMESTAMP}
_SCALARS = {
    FieldDescriptor.CPPTYPE_INT32: pa.int32(),
    FieldDescriptor.CPPTYPE_INT64: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT32: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT64: UINT64,
    FieldDescriptor.CPPTYPE_DOUBLE: pa.float64(),
    FieldDescriptor.CPPTYPE_FLOAT: pa.float32(),
    FieldDescriptor.CPPTYPE_BOOL: pa.bool_(),
    FieldDescriptor.CPPTYPE_ENUM: pa.string(),
}

Build = Callable[[list[Any]], pa.Array]
"""Makes an array of values, or of messages none of which is None."""


@dataclass(frozen=True, slots=True)
class Column:
    """The steps from values of one type to an array."""

    type: pa.DataType
    build: Build


def message_column(descriptor: Descriptor, nanoseconds: Nanoseconds = "cut") -> Column | None:
    """The column of a message type; None where it has no field that could be one.

    `nanoseconds` says what becomes of a Timestamp with digits beyond microseconds; refused, its message is a bad one.
    """
    return _Columns(nanoseconds).message(descriptor)


class _Columns:
    """Makes columns of nested types; `open` are the messages that are being made right now."""

    def __init__(self, nanoseconds: Nanoseconds) -> None:
        self.nanoseconds = nanoseconds
        self.open: list[str] = []
        self.count = 0

    def message(self, descriptor: Descriptor) -> Column | None:
        if descriptor.full_name in self.open:
            raise SchemaFault(
                f"the Protobuf message {descriptor.full_name} contains itself: a recursive schema has no columns"
            )
        self.open.append(descriptor.full_name)
        fields, builds = [], []
        for each in descriptor.fields:
            self.count += 1
            if self.count > MOST_COLUMNS:
                raise SchemaFault(f"the Protobuf schema has more than {MOST_COLUMNS} columns")
            found = self._field(each)
            if found is not None:
                default = None if each.has_presence else found.build([_absent(each)])
                column = pa.field(each.name, found.type)
                fields.append(described(column, default=default, number=each.number, meaning=_meaning(each)))
                builds.append(_member(each, found))
        self.open.pop()
        if not fields:
            return None
        kind = pa.struct(fields)

        def build(messages: list[Message]) -> pa.Array:
            return pa.StructArray.from_arrays([each(messages) for each in builds], fields=list(kind))

        return Column(kind, build)

    def _field(self, field: FieldDescriptor) -> Column | None:
        if is_map(field):
            return self._map(field)
        one = self._value(field)
        return _repeated(one) if one is not None and field.is_repeated else one

    def _value(self, field: FieldDescriptor, named: str = "") -> Column | None:
        """The column of single values; `named` is the field that they belong to, if it is another."""
        if field.cpp_type != FieldDescriptor.CPPTYPE_MESSAGE:
            return _scalar(field)
        name = field.message_type.full_name
        if name in _READ_SPECIALLY and field.message_type.file.name not in WELL_KNOWN:
            raise SchemaFault(f"the Protobuf schema defines {name} itself")
        if name == TIMESTAMP:
            if self.nanoseconds == "keep":
                return Column(NANOS, partial(_nanoseconds, name=named or field.name))
            return Column(MICROS, partial(_timestamps, name=named or field.name, exact=self.nanoseconds == "refuse"))
        if name in WRAPPERS:
            inner = _scalar(field.message_type.fields_by_name["value"])
            read = attrgetter("value")
            return Column(inner.type, lambda messages: inner.build(list(map(read, messages))))
        if name in AS_JSON:
            return Column(pa.string(), lambda messages: pa.array(list(map(_json, messages)), pa.string()))
        return self.message(field.message_type)

    def _map(self, field: FieldDescriptor) -> Column:
        keys = _scalar(field.message_type.fields_by_name["key"])
        values = self._value(field.message_type.fields_by_name["value"], field.name)
        kind = pa.map_(keys.type, pa.null() if values is None else values.type)

        def build(maps: list[Any]) -> pa.Array:
            pairs = [list(each.items()) for each in maps]
            flat = list(chain.from_iterable(pairs))
            found = pa.nulls(len(flat)) if values is None else values.build([value for _, value in flat])
            parts = [keys.build([key for key, _ in flat]), found]
            entries = pa.StructArray.from_arrays(parts, fields=[kind.key_field, kind.item_field])
            return lists(kind, _edges(pairs), entries, np.ones(len(maps), dtype=np.bool_))

        return Column(kind, build)


def _member(field: FieldDescriptor, column: Column) -> Build:
    """Takes one field out of all messages."""
    read, build = attrgetter(field.name), column.build
    if not field.has_presence or field.has_default_value:
        return lambda messages: build(list(map(read, messages)))
    name = field.name
    if field.cpp_type != FieldDescriptor.CPPTYPE_MESSAGE:

        def scalars(messages: list[Message]) -> pa.Array:
            return build([read(each) if each.HasField(name) else None for each in messages])

        return scalars

    def messages_inside(messages: list[Message]) -> pa.Array:
        present = np.fromiter((each.HasField(name) for each in messages), np.bool_, len(messages))
        if bool(present.all()):
            return build(list(map(read, messages)))
        set_ones = build([read(each) for each in messages if each.HasField(name)])
        places = np.cumsum(present) - 1
        return set_ones.take(pa.array(places, mask=~present))

    return messages_inside


def _meaning(field: FieldDescriptor) -> str:
    """Kafka Connect's name of the type, by the message that its converter writes for it; a decimal's with its scale."""
    if field.is_repeated:
        return ""
    if field.message_type is None:
        return params(field).get("connect.name", "")
    name = field.message_type.full_name
    if name == _DECIMAL and "scale" in (given := params(field)):
        return f"{name} {given['scale']}"
    if name.rpartition(".")[2] == "VariableScaleDecimal" and set(field.message_type.fields_by_name) == _ANY_SCALE:
        return "io.debezium.data.VariableScaleDecimal"
    return name if name in _CONNECT else ""


def _repeated(one: Column) -> Column:
    kind = pa.list_(one.type)

    def build(repeated: list[Any]) -> pa.Array:
        items = one.build(list(chain.from_iterable(repeated)))
        return lists(kind, _edges(repeated), items, np.ones(len(repeated), dtype=np.bool_))

    return Column(kind, build)


def _edges(parts: list[Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
    counts = np.fromiter(map(len, parts), np.int64, len(parts))
    return np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(counts)))


def _scalar(field: FieldDescriptor) -> Column:
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        kind = pa.binary() if field.type == FieldDescriptor.TYPE_BYTES else pa.string()
        return Column(kind, lambda values: pa.array(values, kind))
    kind = _SCALARS[field.cpp_type]
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        names = _names(field.enum_type)
        return Column(kind, lambda values: pa.array([_name(names, value) for value in values], kind))
    if kind == UINT64:
        return Column(kind, lambda values: pa.array(values, pa.uint64()).cast(UINT64))
    return Column(kind, lambda values: pa.array(values, kind))


def _names(enum: EnumDescriptor) -> dict[int, str]:
    """The name of each number; the first name if a number has several."""
    return {value.number: value.name for value in reversed(enum.values)}


def _name(names: dict[int, str], value: int | None) -> str | None:
    """The name of a number, or the number as text if the schema does not name it: Protobuf keeps such numbers too."""
    return None if value is None else names.get(value) or str(value)


def _timestamps(messages: list[Any], *, name: str, exact: bool) -> pa.Array:
    seconds = np.fromiter(map(attrgetter("seconds"), messages), np.int64, len(messages))
    nanos = np.fromiter(map(attrgetter("nanos"), messages), np.int64, len(messages))
    if bool(np.any((seconds < _LEAST_SECONDS) | (seconds > _MOST_SECONDS) | (nanos < 0) | (nanos > 999_999_999))):
        raise BadPayload(f"field {name}: a Timestamp outside the years 1 to 9999")
    if exact and len(finer := nanos[nanos % 1000 != 0]):
        raise BadPayload(f"field {name}: a Timestamp of {finer[0]} nanoseconds, and {FINER}")
    return from_numbers(MICROS, seconds * 1_000_000 + nanos // 1000)


def _nanoseconds(messages: list[Any], *, name: str) -> pa.Array:
    seconds = np.fromiter(map(attrgetter("seconds"), messages), np.int64, len(messages))
    nanos = np.fromiter(map(attrgetter("nanos"), messages), np.int64, len(messages))
    if bool(np.any((abs(seconds) > _MOST_NANOS_SECONDS) | (nanos < 0) | (nanos > 999_999_999))):
        raise BadPayload(f"field {name}: a Timestamp outside the years 1678 to 2261, which a column of nanoseconds has")
    return from_numbers(NANOS, seconds * 1_000_000_000 + nanos)


def _json(message: Message) -> str:
    try:
        return json.dumps(json_format.MessageToDict(message), ensure_ascii=False)
    except (json_format.SerializeToJsonError, ValueError) as fault:
        raise BadPayload(f"a {message.DESCRIPTOR.name} that is no JSON: {fault}") from None


def _absent(field: FieldDescriptor) -> Any:
    """The value of an unset field without presence."""
    if is_map(field):
        return {}
    return [] if field.is_repeated else field.default_value


def is_map(field: FieldDescriptor) -> bool:
    kind = field.message_type
    return kind is not None and bool(kind.GetOptions().map_entry) and bool(field.is_repeated)
