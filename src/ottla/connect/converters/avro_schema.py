"""Schemas of Connect as Avro schemas and back, by the rules of Confluent's AvroData, whose properties are kept."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from ottla.connect.converters.json_schema import scale_of
from ottla.connect.data import DATE, DAY_MS, DECIMAL, TIME, TIMESTAMP, Instant, Schema, Struct, Type, struct
from ottla.connect.errors import DataException
from ottla.connect.java.text import scaled, unscaled
from ottla.formats.avro_tree import AvroField, AvroNode

UNION: Final = "io.confluent.connect.avro.Union"
ENUM: Final = "io.confluent.connect.avro.Enum"
MAP_ENTRY: Final = "MapEntry"
_SPACE: Final = "io.confluent.connect.avro"
_UNNAMED: Final = "ConnectDefault"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_PLAIN: Final = {
    "boolean": Type.BOOLEAN, "int": Type.INT32, "long": Type.INT64, "float": Type.FLOAT32, "double": Type.FLOAT64,
    "bytes": Type.BYTES, "fixed": Type.BYTES, "string": Type.STRING, "enum": Type.STRING,
}  # fmt: skip
_NAMES: Final = {
    Type.INT8: "int", Type.INT16: "int", Type.INT32: "int", Type.INT64: "long", Type.FLOAT32: "float",
    Type.FLOAT64: "double", Type.BOOLEAN: "boolean", Type.BYTES: "bytes", Type.STRING: "string",
}  # fmt: skip
_LOGICAL: Final = {("int", "date"): DATE, ("int", "time-millis"): TIME, ("long", "timestamp-millis"): TIMESTAMP}
_WORDS: Final = {DATE: "date", TIME: "time-millis", TIMESTAMP: "timestamp-millis"}
_SMALL: Final = {"int8": Type.INT8, "int16": Type.INT16}


def connect_schema(node: AvroNode, inside: tuple[AvroNode, ...] = ()) -> Schema:
    """The Connect schema of an Avro type; `DataException` for a type that refers to itself."""
    if node in inside:
        raise DataException(f"The Avro type {node.name} refers to itself, which no schema of Connect can")
    inside = (*inside, node) if node.name else inside
    match node.kind:
        case "null":
            raise DataException("The Avro type null alone has no schema in Connect")
        case "union":
            return _of_union(node, inside)
        case "array" if is_entry(node.items):
            assert node.items is not None
            key, value = (connect_schema(each.type, inside) for each in node.items.fields)
            return Schema(Type.MAP, key=key, value=value, **_parts(node))
        case "array":
            assert node.items is not None
            return Schema(Type.ARRAY, value=connect_schema(node.items, inside), **_parts(node))
        case "map":
            assert node.items is not None
            return Schema(Type.MAP, key=Schema(Type.STRING), value=connect_schema(node.items, inside), **_parts(node))
        case "record" | "error":
            parts = {"name": node.name, "doc": node.doc, **_parts(node)}
            return struct(((each.name, _of_field(each, inside)) for each in node.fields), **parts)
    return _of_primitive(node)


def is_entry(node: AvroNode | None) -> bool:
    """True for the records that stand for the entries of a map whose keys are no text."""
    return node is not None and node.kind == "record" and node.properties.get("connect.internal.type") == MAP_ENTRY


def _parts(node: AvroNode) -> dict[str, Any]:
    """The parts of a schema that AvroData keeps in properties."""
    found = {}
    for part, of in (("name", str), ("version", int), ("doc", str), ("parameters", dict)):
        value = node.properties.get(f"connect.{part}")
        if isinstance(value, of):
            found[part] = value
    return found


def _of_primitive(node: AvroNode) -> Schema:
    parts = _parts(node)
    logical = node.properties.get("logicalType")
    if logical == "decimal" and node.kind in ("bytes", "fixed"):
        scale = {"scale": str(node.properties.get("scale", 0))}
        return Schema(Type.BYTES, **{"name": DECIMAL, "version": 1, **parts, "parameters": scale})
    name = _LOGICAL.get((node.kind, str(logical)))
    if name is not None:
        return Schema(_PLAIN[node.kind], **{"version": 1, **parts, "name": name})
    if node.kind == "enum":
        symbols = {f"{ENUM}.{symbol}": symbol for symbol in node.symbols}
        parts = {"name": node.name, "doc": node.doc, **parts, "parameters": {ENUM: node.name, **symbols}}
    elif node.kind == "fixed":
        parts = {"name": node.name, **parts, "parameters": {"connect.fixed.size": str(node.size)}}
    kind = _SMALL.get(str(node.properties.get("connect.type")), _PLAIN[node.kind])
    return Schema(kind, **parts)


def others(node: AvroNode) -> list[AvroNode]:
    """A union's branches without null."""
    return [branch for branch in node.branches if branch.kind != "null"]


def _of_union(node: AvroNode, inside: tuple[AvroNode, ...]) -> Schema:
    """An optional schema for null and one other; else a struct with an optional field for each branch."""
    branches = others(node)
    optional = len(branches) < len(node.branches)
    if not branches:
        raise DataException("The Avro type null alone has no schema in Connect")
    if len(branches) == 1:
        return connect_schema(branches[0], inside).but(optional=optional)
    fields = ((branch_name(each), connect_schema(each, inside).but(optional=True)) for each in branches)
    return struct(fields, name=UNION, optional=optional)


def branch_name(node: AvroNode) -> str:
    """The field of a union's struct that a branch has."""
    return node.short_name if node.name else node.kind


def _of_field(member: AvroField, inside: tuple[AvroNode, ...]) -> Schema:
    schema = connect_schema(member.type, inside)
    if member.doc is not None and schema.doc is None:
        schema = schema.but(doc=member.doc)
    if member.has_default and member.default is not None:
        return schema.but(default=default_value(member.type, schema, member.default))
    return schema


def default_value(node: AvroNode, schema: Schema, default: Any) -> Any:
    """A default of Avro's JSON as a value of Connect."""
    if node.kind == "union":
        node = others(node)[0] if node.branches[0].kind == "null" else node.branches[0]
    match schema.name, schema.type:
        case "org.apache.kafka.connect.data.Decimal", _:
            return scaled(int.from_bytes(default.encode("latin-1"), "big", signed=True), scale_of(schema))
        case ("org.apache.kafka.connect.data.Date", _):
            return Instant(default * DAY_MS)
        case ("org.apache.kafka.connect.data.Time" | "org.apache.kafka.connect.data.Timestamp", _):
            return Instant(default)
        case _, Type.BYTES:
            return default.encode("latin-1")
        case _, (Type.FLOAT32 | Type.FLOAT64):
            return float(default)
        case _, Type.ARRAY if node.items is not None and schema.value is not None:
            return [default_value(node.items, schema.value, item) for item in default]
        case _, Type.MAP if node.items is not None and schema.value is not None and isinstance(default, dict):
            return {key: default_value(node.items, schema.value, item) for key, item in default.items()}
        case _, Type.STRUCT:
            return _default_struct(node, schema.but(default=None), default)
    return default


def _default_struct(node: AvroNode, schema: Schema, default: Mapping[str, Any]) -> Struct:
    values = []
    for each, member in zip(node.fields, schema.members, strict=True):
        given = default.get(each.name, each.default)
        values.append(None if given is None else default_value(each.type, member.schema, given))
    return Struct(schema, values)


@dataclass(slots=True)
class _Naming:
    """Names of records that were written already, and the number of those without a name of their own."""

    written: dict[str, Schema] = field(default_factory=dict)
    unnamed: int = 0

    def free(self) -> str:
        """A name for one more record without any."""
        self.unnamed += 1
        return f"{_SPACE}.{_UNNAMED}{self.unnamed if self.unnamed > 1 else ''}"


def avro_schema(schema: Schema) -> Any:
    """The Avro schema of a Connect schema, as JSON; `DataException` where Avro has no name for it."""
    return _nullable(schema, _Naming())


def _written(schema: Schema, naming: _Naming) -> Any:
    """A schema's Avro type, null left aside."""
    match schema.type:
        case Type.STRUCT if schema.name == UNION:
            return [_written(member.schema, naming) for member in schema.members]
        case Type.STRUCT:
            return _record(schema, naming)
        case Type.ARRAY:
            made: dict[str, Any] = {"type": "array", "items": _nullable(schema.value, naming)}
        case Type.MAP if schema.key is not None and schema.key.type is Type.STRING and not schema.key.optional:
            made = {"type": "map", "values": _nullable(schema.value, naming)}
        case Type.MAP:
            made = {"type": "array", "items": _entry(schema, naming)}
        case _:
            made = _primitive(schema)
    for part in ("name", "version", "doc", "parameters"):
        value = getattr(schema, part)
        if value is not None:
            made[f"connect.{part}"] = dict(value) if part == "parameters" else value
    return made["type"] if len(made) == 1 else made


def _primitive(schema: Schema) -> dict[str, Any]:
    made: dict[str, Any] = {"type": _NAMES[schema.type]}
    if schema.type in (Type.INT8, Type.INT16):
        made["connect.type"] = schema.type.value
    if schema.name == DECIMAL:
        made |= {"logicalType": "decimal", "precision": 64, "scale": scale_of(schema)}
    elif schema.name in _WORDS:
        made["logicalType"] = _WORDS[schema.name]
    return made


def _nullable(schema: Schema | None, naming: _Naming) -> Any:
    if schema is None:
        raise DataException("An array or a map of nulls alone has no Avro schema")
    written = _written(schema, naming)
    if not schema.optional:
        return written
    return ["null", *written] if isinstance(written, list) else ["null", written]


def _entry(schema: Schema, naming: _Naming) -> dict[str, Any]:
    fields = [
        {"name": part, "type": _nullable(of, naming)} for part, of in (("key", schema.key), ("value", schema.value))
    ]
    name = naming.free().replace(_UNNAMED, MAP_ENTRY)
    return {"type": "record", "name": name, "connect.internal.type": MAP_ENTRY, "fields": fields}


def _record(schema: Schema, naming: _Naming) -> Any:
    name = schema.name or naming.free()
    if not _NAME.fullmatch(name):
        raise DataException(f"'{name}' is no name in Avro; SetSchemaMetadata can give the schema another")
    known = naming.written.get(name)
    plain = schema.but(optional=False, default=None)
    if known is not None:
        if known != plain:
            raise DataException(f"Two different schemas have the name '{name}', which Avro does not allow")
        return name
    naming.written[name] = plain
    made: dict[str, Any] = {"type": "record", "name": name}
    if schema.doc is not None:
        made["doc"] = schema.doc
    made["fields"] = [_field(member.name, member.schema, naming) for member in schema.members]
    if schema.name is not None:
        made["connect.name"] = schema.name
    for part in ("version", "parameters"):
        value = getattr(schema, part)
        if value is not None:
            made[f"connect.{part}"] = dict(value) if part == "parameters" else value
    return made


def _field(name: str, schema: Schema, naming: _Naming) -> dict[str, Any]:
    """A field; its default must be of the first type of its union."""
    if not _NAME.fullmatch(name) or "." in name:
        raise DataException(f"'{name}' is no name of a field in Avro; ReplaceField can rename it")
    kind = _nullable(schema, naming)
    made: dict[str, Any] = {"name": name, "type": kind}
    if schema.default is not None:
        if schema.optional:
            made["type"] = [*kind[1:], "null"]
        made["default"] = plain_default(schema.default, schema)
    elif schema.optional:
        made["default"] = None
    return made


def plain_default(value: Any, schema: Schema) -> Any:
    """A default as Avro's JSON."""
    match value:
        case bytes():
            return value.decode("latin-1")
        case Decimal():
            return decimal_bytes(unscaled(value)).decode("latin-1")
        case Instant():
            return value.ms // DAY_MS if schema.name == DATE else value.ms
        case list() if schema.value is not None:
            return [plain_default(item, schema.value) for item in value]
        case dict() if schema.value is not None:
            return {key: plain_default(item, schema.value) for key, item in value.items()}
        case Struct():
            pairs = zip(value.schema.members, value.filled(), strict=True)
            return {member.name: plain_default(item, member.schema) for member, item in pairs}
    return value


def decimal_bytes(number: int) -> bytes:
    """A whole number in the fewest bytes that keep its sign."""
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)
