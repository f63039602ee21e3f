"""JsonConverter: values as JSON, with their schema beside them or without one."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from ottla.connect.checks import one_of, understood
from ottla.connect.config_def import ConfigDef, Importance, Option, Width
from ottla.connect.config_def import Type as Kind
from ottla.connect.converters.common import CONVERTER_TYPE
from ottla.connect.converters.json_schema import from_json, scale_of, to_json
from ottla.connect.data import (
    BITS,
    DATE,
    DAY_MS,
    DECIMAL,
    TIME,
    TIMESTAMP,
    Instant,
    Schema,
    Struct,
    Type,
    inferred,
    java_class,
)
from ottla.connect.errors import ConfigException, DataException
from ottla.connect.java.text import float32, float_text, scaled, unscaled, wrapped
from ottla.connect.records import SchemaAndValue

_NODES: Final = {
    type(None): "NULL", bool: "BOOLEAN", int: "NUMBER", float: "NUMBER", Decimal: "NUMBER", str: "STRING",
    list: "ARRAY", dict: "OBJECT",
}  # fmt: skip
_INSTANTS: Final = {DATE: "Date", TIME: "Time", TIMESTAMP: "Timestamp"}
_ENVELOPE: Final = (
    'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain additional fields. '
    "If you are trying to deserialize plain JSON data, set schemas.enable=false in your converter configuration."
)
MOST_NESTED: Final = 200
"""Deeper JSON is refused when it is read: every step on its way would need as many calls."""
_QUOTED: Final = json.JSONEncoder(ensure_ascii=False).encode
_FAILED: Final = "Converting byte[] to Kafka Connect data failed due to serialization error: "


@dataclass(frozen=True, slots=True)
class _Number:
    """A number as Java writes it. NaN and infinity are text in JSON."""

    text: str
    is_number: bool = True


class JsonConverter:
    """Writes and reads values as JSON."""

    OPTIONS = ConfigDef(
        CONVERTER_TYPE,
        Option("schemas.enable", Kind.BOOLEAN, True, Importance.HIGH,
               "Write each value's schema beside it, and expect one.", group="Schemas", order=0, width=Width.MEDIUM,
               display="Enable Schemas"),
        Option("schemas.cache.size", Kind.INT, 1000, Importance.HIGH, "The number of schemas to remember.",
               group="Schemas", order=1, width=Width.MEDIUM, display="Schema Cache Size"),
        Option("schema.content", Kind.STRING, None, Importance.HIGH,
               "The schema of all values that are read, in JsonConverter's form; values have none beside them then.",
               understood(lambda text: json.loads(text) if text else None), group="Schemas", order=2,
               width=Width.MEDIUM, display="Schema Content"),
        Option("decimal.format", Kind.STRING, "BASE64", Importance.LOW, "Write decimals in base64 or as numbers.",
               one_of("NUMERIC", "BASE64", any_case=True), group="Serialization", order=0, width=Width.MEDIUM,
               display="Decimal Format"),
        Option("replace.null.with.default", Kind.BOOLEAN, True, Importance.LOW,
               "Take a field's default where the field is null and has one.", group="Serialization", order=1,
               width=Width.MEDIUM, display="Replace null with default"),
    )  # fmt: skip

    def __init__(self, given: Mapping[str, Any]) -> None:
        options = self.OPTIONS.parse(given)
        self._enabled: bool = options["schemas.enable"]
        self.numeric = options["decimal.format"].upper() == "NUMERIC"
        self._fill: bool = options["replace.null.with.default"]
        self._most = max(options["schemas.cache.size"], 1)
        self._written: dict[Schema, str] = {}
        self._read: dict[str, Schema | None] = {}
        self._fixed: Schema | None = None
        if options["schema.content"]:
            try:
                self._fixed = from_json(json.loads(options["schema.content"]), self.value)
            except DataException as fault:
                raise ConfigException.of("schema.content", options["schema.content"], str(fault)) from None

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """The bytes of a value."""
        if schema is None and value is None:
            return None
        payload = _dumped(self.plain(schema, value))
        if not self._enabled:
            return _encoded(payload)
        return _encoded(f'{{"schema":{self._schema_text(schema)},"payload":{payload}}}')

    def to_connect(self, topic: str, content: bytes | None) -> SchemaAndValue:
        """The value of bytes, and its schema. No bytes are a tombstone, with schemas too (KAFKA-3832)."""
        if content is None:
            return SchemaAndValue(self._fixed, None)
        document = _loaded(content) if content else None
        if self._fixed is not None:
            return SchemaAndValue(self._fixed, self.value(self._fixed, document))
        if not self._enabled:
            return SchemaAndValue(None, self.value(None, document))
        if not isinstance(document, dict) or document.keys() != {"schema", "payload"}:
            raise DataException(_ENVELOPE)
        schema = self._schema(document["schema"])
        return SchemaAndValue(schema, self.value(schema, document["payload"]))

    def read_as(self, schema: Schema | None, content: bytes) -> Any:
        """The value of JSON that has no schema beside it."""
        return self.value(schema, _loaded(content))

    def _schema_text(self, schema: Schema | None) -> str:
        if schema is None:
            return "null"
        text = self._written.get(schema)
        if text is None:
            if len(self._written) >= self._most:
                self._written.clear()
            text = self._written[schema] = _dumped(to_json(schema, self.plain))
        return text

    def _schema(self, document: Any) -> Schema | None:
        key = json.dumps(document, default=str)
        if key not in self._read:
            if len(self._read) >= self._most:
                self._read.clear()
            self._read[key] = from_json(document, self.value)
        return self._read[key]

    def plain(self, schema: Schema | None, value: Any) -> Any:
        """A value as plain JSON."""
        if value is None:
            if schema is None:
                return None
            if schema.default is not None and self._fill:
                return self.plain(schema, schema.default)
            if schema.optional:
                return None
            raise DataException("Conversion error: null value for field that is required and has no default value")
        if schema is None:
            return self._plain_of(inferred(value), None, value)
        if schema.name == DECIMAL:
            return self._decimal(schema, value)
        if schema.name in _INSTANTS:
            return _instant(schema, value)
        return self._plain_of(schema.type, schema, value)

    def _plain_of(self, kind: Type | None, schema: Schema | None, value: Any) -> Any:
        if kind is None:
            raise DataException(f"Java class class {java_class(value)} does not have corresponding schema type.")
        if not _is(kind, value):
            noun = kind.name if schema is not None else "unknown schema"
            raise DataException(f"Invalid type for {noun}: class {java_class(value)}")
        match kind:
            case Type.FLOAT32 | Type.FLOAT64:
                return _Number(float_text(value, single=kind is Type.FLOAT32), is_number=math.isfinite(value))
            case Type.BYTES:
                return base64.b64encode(value).decode()
            case Type.ARRAY:
                of = schema.value if schema is not None else None
                return [self.plain(of, item) for item in value]
            case Type.MAP:
                return self._map(schema, value)
            case Type.STRUCT:
                if schema is not None and value.schema != schema:
                    raise DataException("Mismatching schema.")
                values = value.filled() if self._fill else value.values
                members = value.schema.members
                return {at.name: self.plain(at.schema, item) for at, item in zip(members, values, strict=True)}
        return value

    def _map(self, schema: Schema | None, value: dict[Any, Any]) -> Any:
        keys, of = (schema.key, schema.value) if schema is not None else (None, None)
        as_object = keys.type is Type.STRING if keys is not None else all(isinstance(key, str) for key in value)
        if as_object:
            return {_key(self.plain(keys, key)): self.plain(of, item) for key, item in value.items()}
        return [[self.plain(keys, key), self.plain(of, item)] for key, item in value.items()]

    def _decimal(self, schema: Schema, value: Any) -> Any:
        if not isinstance(value, Decimal):
            raise DataException(f"Invalid type for Decimal, expected BigDecimal but was class {java_class(value)}")
        if self.numeric:
            return _Number(str(value))
        return base64.b64encode(decimal_bytes(schema, value)).decode()

    def value(self, schema: Schema | None, node: Any) -> Any:
        """The value that plain JSON stands for."""
        if schema is None:
            return _schemaless(node)
        if node is None:
            if schema.default is not None and self._fill:
                return schema.default
            if schema.optional:
                return None
            raise DataException(f"Invalid null value for required {schema.type.name} field")
        if schema.name == DECIMAL:
            return _read_decimal(schema, node)
        if schema.name in _INSTANTS:
            return _read_instant(schema, node)
        return self._value_of(schema, node)

    def _value_of(self, schema: Schema, node: Any) -> Any:
        match schema.type:
            case Type.ARRAY:
                return [self.value(schema.value, item) for item in node] if isinstance(node, list) else []
            case Type.MAP:
                return self._read_map(schema, node)
            case Type.STRUCT:
                if not isinstance(node, dict):
                    raise DataException(f"Structs should be encoded as JSON objects, but found {_NODES[type(node)]}")
                values = [self.value(member.schema, node.get(member.name)) for member in schema.members]
                return Struct(schema, values)
        return _READERS[schema.type](node)

    def _read_map(self, schema: Schema, node: Any) -> dict[Any, Any]:
        found = _NODES[type(node)]
        if schema.key is not None and schema.key.type is Type.STRING:
            if not isinstance(node, dict):
                raise DataException(f"Maps with string fields should be encoded as JSON objects, but found {found}")
            return {key: self.value(schema.value, item) for key, item in node.items()}
        if not isinstance(node, list):
            raise DataException(
                f"Maps with non-string fields should be encoded as JSON array of tuples, but found {found}"
            )
        made = {}
        for entry in node:
            if not isinstance(entry, list):
                raise DataException(f"Found invalid map entry instead of array tuple: {_NODES[type(entry)]}")
            if len(entry) != 2:
                raise DataException(f"Found invalid map entry, expected length 2 but found :{len(entry)}")
            made[self.value(schema.key, entry[0])] = self.value(schema.value, entry[1])
        return made


_PYTHON: Final[dict[Type, type]] = {
    **dict.fromkeys(BITS, int), Type.FLOAT32: float, Type.FLOAT64: float, Type.BOOLEAN: bool, Type.STRING: str,
    Type.BYTES: bytes, Type.ARRAY: list, Type.MAP: dict, Type.STRUCT: Struct,
}  # fmt: skip


def _key(plain: Any) -> str:
    return "null" if plain is None else str(plain)


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as fault:
        raise DataException(
            f"Converting Kafka Connect data to byte[] failed due to serialization error: {fault}"
        ) from None


def _is(kind: Type, value: object) -> bool:
    return isinstance(value, _PYTHON[kind]) and (kind is Type.BOOLEAN or not isinstance(value, bool))


def _dumped(plain: Any) -> str:
    """JSON without blanks, as Jackson writes it."""
    match plain:
        case None:
            return "null"
        case bool():
            return "true" if plain else "false"
        case _Number():
            return plain.text if plain.is_number else f'"{plain.text}"'
        case str():
            return _QUOTED(plain)
        case list():
            return f"[{','.join([_dumped(item) for item in plain])}]"
        case dict():
            return "{" + ",".join([f"{_QUOTED(key)}:{_dumped(item)}" for key, item in plain.items()]) + "}"
    return str(plain)


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _loaded(content: bytes) -> Any:
    try:
        return json.loads(content, parse_float=Decimal, parse_constant=_no_constant)
    except (ValueError, RecursionError) as fault:
        raise DataException(_FAILED + str(fault)) from None


def _schemaless(node: Any, depth: int = 0) -> Any:
    """JSON as it is: whole numbers are Java's Long, all others Double."""
    if depth > MOST_NESTED:
        raise DataException(f"{_FAILED}arrays and objects are nested more than {MOST_NESTED} deep")
    match node:
        case bool() | str() | None:
            return node
        case int():
            return wrapped(node, 64)
        case Decimal() | float():
            return float(node)
        case list():
            return [_schemaless(item, depth + 1) for item in node]
    return {key: _schemaless(item, depth + 1) for key, item in node.items()}


def _whole(bits: int) -> Callable[[Any], int]:
    """Reads a number as Jackson does: anything else counts as zero there, and is refused here."""

    def read(node: Any) -> int:
        if isinstance(node, bool) or not isinstance(node, int | Decimal | float):
            raise DataException(f"Expected a number, but found {_NODES[type(node)]}")
        return wrapped(int(node), bits)

    return read


def _float(node: Any) -> float:
    if node in ("NaN", "Infinity", "-Infinity"):
        return float(node)
    if isinstance(node, bool) or not isinstance(node, int | Decimal | float):
        raise DataException(f"Expected a number, but found {_NODES[type(node)]}")
    return float(node)


def _exactly(kind: type, noun: str) -> Callable[[Any], Any]:
    def read(node: Any) -> Any:
        if type(node) is not kind:
            raise DataException(f"Expected {noun}, but found {_NODES[type(node)]}")
        return node

    return read


def _bytes(node: Any) -> bytes:
    try:
        return base64.b64decode(_exactly(str, "bytes in base64")(node), validate=True)
    except binascii.Error:
        raise DataException("Invalid bytes field") from None


_READERS: Final[dict[Type, Callable[[Any], Any]]] = {
    **{kind: _whole(bits) for kind, bits in BITS.items()},
    Type.FLOAT32: lambda node: float32(_float(node)),
    Type.FLOAT64: _float,
    Type.BOOLEAN: _exactly(bool, "a boolean"),
    Type.STRING: _exactly(str, "text"),
    Type.BYTES: _bytes,
}


def _instant(schema: Schema, value: Any) -> int:
    """A date in days, a time or a timestamp in milliseconds."""
    noun = _INSTANTS[schema.name or ""]
    if not isinstance(value, Instant):
        raise DataException(f"Invalid type for {noun}, expected Date but was class {java_class(value)}")
    if schema.name == DATE:
        if value.ms % DAY_MS:
            raise DataException("Kafka Connect Date type should not have any time fields set to non-zero values.")
        days = value.ms // DAY_MS
        if not -(1 << 31) <= days < 1 << 31:
            raise DataException(f"Kafka Connect Date type holds days of 32 bits, not {days}")
        return days
    if schema.name == TIME and not 0 <= value.ms <= DAY_MS:
        raise DataException("Kafka Connect Time type must have date within a day of the epoch.")
    return value.ms


def _read_instant(schema: Schema, node: Any) -> Instant:
    number = _READERS[schema.type](node)
    if schema.name == TIME and not 0 <= number <= DAY_MS:
        raise DataException("Time values must use number of milliseconds greater than 0 and less than 86400000")
    return Instant(number * DAY_MS if schema.name == DATE else number)


def decimal_bytes(schema: Schema, value: Decimal) -> bytes:
    """A decimal's digits as a whole number in bytes; its scale is that of the schema."""
    exponent = value.as_tuple().exponent
    scale = scale_of(schema)
    if exponent != -scale:
        raise DataException(
            f"Decimal value has mismatching scale for given Decimal schema. Schema has scale {scale}, value has scale "
            f"{-exponent if isinstance(exponent, int) else exponent}."
        )
    number = unscaled(value)
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)


def _read_decimal(schema: Schema, node: Any) -> Decimal:
    """A decimal from a number as it is written, or from base64."""
    if isinstance(node, int | Decimal) and not isinstance(node, bool):
        return Decimal(node)
    if isinstance(node, float):
        return Decimal(repr(node))
    if not isinstance(node, str):
        of = _NODES[type(node)]
        raise DataException(
            f"Invalid type for Decimal, underlying representation should be numeric or bytes but was {of}"
        )
    return scaled(int.from_bytes(_bytes(node), "big", signed=True), scale_of(schema))
