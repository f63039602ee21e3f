"""ProtobufConverter: values in Protobuf, their schema in a registry, typed as Confluent's converter types them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from typing import Any, ClassVar, Final

from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, EncodeError

from ottla.connect import data
from ottla.connect.config_def import ConfigDef
from ottla.connect.converters.protobuf_options import OPTIONS
from ottla.connect.converters.protobuf_text import ENUM, LOGICAL, MOST_NESTED, TAG, UNION, WRAPPERS, proto_text
from ottla.connect.converters.registry import Read, RegistryConverter, Write
from ottla.connect.data import DATE, DAY_MS, DECIMAL, TIME, TIMESTAMP, Instant, Schema, Struct, Type, struct
from ottla.connect.errors import DataException
from ottla.connect.records import SchemaAndValue
from ottla.formats.faults import BadPayload, SchemaFault
from ottla.formats.protobuf import index_path, read_index_path
from ottla.formats.protobuf_options import params
from ottla.formats.protoc import compiled, message_at
from ottla.formats.writer import WriterSchema

Convert = Callable[[Any], Any]
_TYPES: Final = {
    FieldDescriptor.CPPTYPE_INT32: Type.INT32, FieldDescriptor.CPPTYPE_INT64: Type.INT64,
    FieldDescriptor.CPPTYPE_UINT32: Type.INT64, FieldDescriptor.CPPTYPE_UINT64: Type.INT64,
    FieldDescriptor.CPPTYPE_FLOAT: Type.FLOAT32, FieldDescriptor.CPPTYPE_DOUBLE: Type.FLOAT64,
    FieldDescriptor.CPPTYPE_BOOL: Type.BOOLEAN,
}  # fmt: skip
_BY_MESSAGE: Final = {message: name for name, message in LOGICAL.items()}
_WRAPPED: Final = {f"google.protobuf.{name}": name for name in (*WRAPPERS.values(), "UInt32Value", "UInt64Value")}
_MOST: Final = 1 << 63


class ProtobufConverter(RegistryConverter):
    """Writes and reads Protobuf."""

    KIND = "PROTOBUF"
    OPTIONS: ClassVar[ConfigDef] = OPTIONS

    def __init__(self, given: Mapping[str, Any], client: Any = None) -> None:
        super().__init__(given, client)
        self._wrappers: bool = self.options["wrapper.for.nullables"]
        self._by_path: dict[tuple[int, tuple[int, ...]], tuple[Schema, Read]] = {}

    def schema_text(self, schema: Schema) -> str:
        """The .proto text of a Connect schema."""
        return proto_text(schema, optional=self.options["optional.for.nullables"], wrappers=self._wrappers)

    def writer(self, written: WriterSchema, schema: Schema) -> Write:
        """Writes values as the first message of a file."""
        if schema.type is not Type.STRUCT:
            raise DataException(f"a Protobuf message is a struct, not {schema.type.name}: HoistField makes one")
        descriptor = _message(written, (0,))
        made, prefix = message_factory.GetMessageClass(descriptor), index_path(descriptor)
        given = _given(descriptor, schema, self._wrappers)

        def write(value: Any) -> bytes:
            try:
                return prefix + bytes(made(**given(value)).SerializeToString())
            except (ValueError, TypeError, EncodeError) as fault:
                raise DataException(f"the value does not fit its Protobuf schema: {fault}") from None

        return write

    def to_connect(self, topic: str, content: bytes | None) -> SchemaAndValue:
        """The value behind a schema's id and the place of its message in the schema."""
        if content is None:
            return SchemaAndValue(None, None)
        number, payload = self.parts(topic, content)
        try:
            path, begin = read_index_path(payload)
        except BadPayload as fault:
            raise DataException(f"Failed to deserialize data for topic {topic} to Protobuf: {fault}") from None
        known = self._by_path.get((number, path))
        if known is None:
            known = self._by_path[number, path] = self._of_message(_message(self.written(number), path))
        schema, read = known
        return SchemaAndValue(schema, read(payload[begin:]))

    def reader(self, written: WriterSchema) -> tuple[Schema, Read]:
        """Reads the first message of a file."""
        return self._of_message(_message(written, (0,)))

    def _of_message(self, descriptor: Descriptor) -> tuple[Schema, Read]:
        found = _Reading(wrappers=self._wrappers, full_names=self.options["enhanced.protobuf.schema.support"])
        schema, taken = found.message(descriptor, 0)
        made = message_factory.GetMessageClass(descriptor)

        def read(payload: bytes) -> Any:
            try:
                return taken(made.FromString(payload))
            except DecodeError as fault:
                raise DataException(f"the value is not of its Protobuf schema: {fault}") from None

        return schema, read


def _message(written: WriterSchema, path: tuple[int, ...]) -> Descriptor:
    try:
        found = message_at(compiled(written), path)
    except SchemaFault as fault:
        raise DataException(f"the Protobuf schema is not valid: {fault}") from fault
    if found is None:
        raise DataException(f"the Protobuf schema has no message at {list(path)}")
    return found


def _given(descriptor: Descriptor, schema: Schema, wrappers: bool) -> Convert:
    """Makes of a struct the arguments of its message; null is a field that nobody set."""
    parts: list[tuple[int, str, Convert]] = []
    unions: list[tuple[int, Convert]] = []
    for member in schema.members:
        if (member.schema.name or "").startswith(UNION):
            unions.append((member.index, _given(descriptor, member.schema, wrappers)))
            continue
        field = descriptor.fields_by_name.get(member.name)
        if field is None:
            raise DataException(f"the Protobuf message {descriptor.full_name} has no field {member.name}")
        parts.append((member.index, member.name, _field(field, member.schema, wrappers)))

    def convert(value: Struct) -> dict[str, Any]:
        filled = value.filled()
        made = {name: to(filled[index]) for index, name, to in parts if filled[index] is not None}
        for index, to in unions:
            made |= to(filled[index]) if filled[index] is not None else {}
        return made

    return convert


def _field(field: FieldDescriptor, schema: Schema, wrappers: bool) -> Convert:
    if schema.type is Type.MAP:
        assert schema.value is not None
        inner = _one(field.message_type.fields_by_name["value"], schema.value, wrappers)
        return lambda entries: {key: inner(value) for key, value in entries.items()}
    if schema.type is Type.ARRAY:
        assert schema.value is not None
        one = _one(field, schema.value, wrappers)
        return lambda values: [one(each) for each in values]
    return _one(field, schema, wrappers)


def _one(field: FieldDescriptor, schema: Schema, wrappers: bool) -> Convert:
    if schema.name in LOGICAL:
        return _TO_LOGICAL[schema.name]
    if schema.type is Type.STRUCT:
        return _given(field.message_type, schema, wrappers)
    if field.message_type is not None and field.message_type.full_name in _WRAPPED:
        return lambda value: {"value": value}
    return lambda value: value


class _Reading:
    """Connect schemas of messages, and what takes their values out."""

    def __init__(self, *, wrappers: bool, full_names: bool) -> None:
        self._wrappers, self._full_names = wrappers, full_names

    def message(self, descriptor: Descriptor, depth: int) -> tuple[Schema, Convert]:
        """A struct of all fields. The fields of a oneof are a struct of their own, as in Confluent's converter."""
        if depth > MOST_NESTED:
            raise DataException(f"the message {descriptor.full_name} holds itself, which no schema of Connect says")
        unions = [each for each in descriptor.oneofs if not _is_synthetic(each.fields)]
        members: list[tuple[str, Schema]] = []
        takes: list[Convert] = []
        for place, union in enumerate(unions):
            schema, take = self._fields(union.fields, UNION + union.name, depth, optional=True)
            members.append((f"{union.name}_{place}", schema))
            takes.append(_in_oneof(union.name, take))
        inside = {field.number for union in unions for field in union.fields}
        plain, take_plain = self._fields([each for each in descriptor.fields if each.number not in inside], None, depth)
        name = descriptor.full_name if self._full_names else descriptor.name
        schema = struct([*members, *((each.name, each.schema) for each in plain.members)], name=name)
        return schema, lambda message: Struct(
            schema, [*(take(message) for take in takes), *take_plain(message).filled()]
        )

    def _fields(self, fields: Any, name: str | None, depth: int, *, optional: bool = False) -> tuple[Schema, Convert]:
        found = [(field, *self._field(field, depth)) for field in fields]
        schema = struct([(field.name, kind) for field, kind, _ in found], name=name, optional=optional)

        def take(message: Any) -> Struct:
            return Struct(schema, [
                None if field.has_presence and not message.HasField(field.name) else to(getattr(message, field.name))
                for field, _, to in found
            ])  # fmt: skip

        return schema, take

    def _field(self, field: FieldDescriptor, depth: int) -> tuple[Schema, Convert]:
        tag = {TAG: str(field.number)}
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            key, _ = self._one(field.message_type.fields_by_name["key"], depth)
            value, to = self._one(field.message_type.fields_by_name["value"], depth)
            kind = data.map_of(key, value, optional=True, parameters=tag)
            return kind, lambda entries: {each: to(entries[each]) for each in entries}
        one, to = self._one(field, depth)
        if field.is_repeated:
            return data.array(one, optional=True, parameters=tag), lambda values: [to(each) for each in values]
        return one.but(parameters={**(one.parameters or {}), **tag}), to

    def _one(self, field: FieldDescriptor, depth: int) -> tuple[Schema, Convert]:
        """The schema of one value; all may be missing, as nothing is required in Protobuf."""
        if field.message_type is not None:
            return self._of_message(field, field.message_type.full_name, depth)
        if field.enum_type is not None:
            return _enumeration(field.enum_type)
        if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
            kind = Type.BYTES if field.type == FieldDescriptor.TYPE_BYTES else Type.STRING
            return Schema(kind, optional=True), lambda value: value
        kind = _narrowed(_TYPES[field.cpp_type], field)
        take = _in_64_bits if field.cpp_type == FieldDescriptor.CPPTYPE_UINT64 else _as_it_is
        return Schema(kind, optional=True), take

    def _of_message(self, field: FieldDescriptor, name: str, depth: int) -> tuple[Schema, Convert]:
        if (logical := _BY_MESSAGE.get(name)) is not None:
            scale = int(params(field).get("scale", "0"))
            made = data.decimal(scale) if logical == DECIMAL else _LOGICAL_SCHEMAS[logical]
            take = (lambda message: _decimal(message, scale)) if logical == DECIMAL else _FROM_LOGICAL[logical]
            return made.but(optional=True), take
        if self._wrappers and name in _WRAPPED:
            schema, inner = self._one(field.message_type.fields_by_name["value"], depth)
            return schema.but(type=_narrowed(schema.type, field)), lambda message: inner(message.value)
        schema, take = self.message(field.message_type, depth + 1)
        return schema.but(optional=True), _restamped(take, schema.but(optional=True))


def _narrowed(kind: Type, field: FieldDescriptor) -> Type:
    """The smaller type that a parameter of a field names."""
    if kind is not Type.INT32:
        return kind
    return {"int8": Type.INT8, "int16": Type.INT16}.get(params(field).get("connect.type", ""), kind)


def _in_oneof(name: str, take: Convert) -> Convert:
    return lambda message: take(message) if message.WhichOneof(name) else None


def _restamped(take: Convert, schema: Schema) -> Convert:
    return lambda message: Struct(schema, take(message).filled())


def _is_synthetic(fields: Any) -> bool:
    """True for the oneof that stands for `optional` in proto3."""
    return len(fields) == 1 and fields[0].containing_oneof.name == f"_{fields[0].name}"


def _enumeration(enum: Any) -> tuple[Schema, Convert]:
    symbols = {f"{ENUM}.{each.name}": str(each.number) for each in enum.values}
    names = {each.number: each.name for each in enum.values}
    schema = Schema(Type.STRING, optional=True, name=enum.name, parameters={ENUM: enum.name, **symbols})
    return schema, lambda number: names.get(number, f"UNKNOWN_ENUM_VALUE_{enum.name}_{number}")


def _as_it_is(value: Any) -> Any:
    return value


def _in_64_bits(value: int) -> int:
    if value >= _MOST:
        raise DataException(f"{value} is beyond the 64 bits of Connect's numbers, which have a sign")
    return value


def _decimal(message: Any, scale: int) -> Decimal:
    if message.scale != scale:
        raise DataException(f"a decimal has {message.scale} digits behind the point, and its schema says {scale}")
    return Decimal(int.from_bytes(message.value, "big", signed=True)).scaleb(-scale)


def _of_decimal(value: Decimal) -> dict[str, Any]:
    sign, digits, exponent = value.as_tuple()
    number = int("".join(map(str, digits))) * (-1 if sign else 1)
    size = (number.bit_length() + 8) // 8
    return {"value": number.to_bytes(size, "big", signed=True), "precision": len(digits), "scale": -int(exponent)}


def _of_date(value: Instant) -> dict[str, int]:
    if value.ms % DAY_MS:
        raise DataException("Kafka Connect Date type should not have any time fields set to non-zero values.")
    found = date.fromordinal(719_163 + value.ms // DAY_MS)
    return {"year": found.year, "month": found.month, "day": found.day}


def _of_time(value: Instant) -> dict[str, int]:
    if not 0 <= value.ms < DAY_MS:
        raise DataException("a time of day lies between 0 and 86400000 milliseconds")
    seconds, ms = divmod(value.ms, 1000)
    return {"hours": seconds // 3600, "minutes": seconds // 60 % 60, "seconds": seconds % 60, "nanos": ms * 1_000_000}


def _of_timestamp(value: Instant) -> dict[str, int]:
    seconds, ms = divmod(value.ms, 1000)
    return {"seconds": seconds, "nanos": ms * 1_000_000}


def _to_date(message: Any) -> Instant:
    try:
        return Instant((date(message.year, message.month, message.day).toordinal() - 719_163) * DAY_MS)
    except ValueError as fault:
        raise DataException(f"a date is none: {fault}") from None


def _to_time(message: Any) -> Instant:
    return Instant((message.hours * 3600 + message.minutes * 60 + message.seconds) * 1000 + message.nanos // 1_000_000)


def _to_timestamp(message: Any) -> Instant:
    return Instant(message.seconds * 1000 + message.nanos // 1_000_000)


_LOGICAL_SCHEMAS: Final = {
    DATE: data.DATE_SCHEMA, TIME: data.TIME_SCHEMA, TIMESTAMP: data.TIMESTAMP_SCHEMA,
}  # fmt: skip
_FROM_LOGICAL: Final[dict[str, Convert]] = {DATE: _to_date, TIME: _to_time, TIMESTAMP: _to_timestamp}
_TO_LOGICAL: Final[dict[str, Convert]] = {
    DATE: _of_date, TIME: _of_time, TIMESTAMP: _of_timestamp, DECIMAL: _of_decimal,
}  # fmt: skip
