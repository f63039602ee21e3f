"""JSON of values as JsonConverter writes it: one function for each schema, made once."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any, Final

from ottla.connect.converters.json_schema import INSTANTS, scale_of
from ottla.connect.data import (
    BITS,
    DATE,
    DAY_MS,
    DECIMAL,
    TIME,
    Instant,
    Schema,
    Struct,
    Type,
    inferred,
    java_class,
)
from ottla.connect.errors import DataException
from ottla.connect.java.text import float_text, unscaled

Write = Callable[[Any], str]
"""Makes the JSON of a value."""

_PYTHON: Final[dict[Type, type]] = {
    **dict.fromkeys(BITS, int), Type.FLOAT32: float, Type.FLOAT64: float, Type.BOOLEAN: bool, Type.STRING: str,
    Type.BYTES: bytes, Type.ARRAY: list, Type.MAP: dict, Type.STRUCT: Struct,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Form:
    """`numeric`: decimals are numbers, not base64. `fill`: a null is written as its field's default."""

    numeric: bool
    fill: bool


def writer(schema: Schema | None, form: Form) -> Write:
    """Writes the values of a schema; without one, whatever has a type of its own."""
    if schema is None:
        return lambda value: "null" if value is None else _write_inferred(value, form)
    write = _present(schema, form)
    if schema.default is not None and form.fill:
        return lambda value: write(schema.default if value is None else value)
    if schema.optional:
        return lambda value: write(value) if value is not None else "null"
    return lambda value: write(value) if value is not None else _refuse_null()


def _refuse_null() -> str:
    raise DataException("Conversion error: null value for field that is required and has no default value")


def _present(schema: Schema, form: Form) -> Write:
    """Writes the values of a schema that are not null."""
    if schema.name == DECIMAL:
        return _decimal(schema, form)
    if schema.name in INSTANTS:
        return _instant(schema)
    return _typed(schema.type, schema, schema.type.name, form)


def _write_inferred(value: Any, form: Form) -> str:
    kind = inferred(value)
    if kind is None:
        raise DataException(f"Java class class {java_class(value)} does not have corresponding schema type.")
    return _of_inferred(kind, value.schema if kind is Type.STRUCT else None, form)(value)


@lru_cache(maxsize=1000)
def _of_inferred(kind: Type, schema: Schema | None, form: Form) -> Write:
    return _typed(kind, schema, "unknown schema", form)


def _typed(kind: Type, schema: Schema | None, noun: str, form: Form) -> Write:
    """Writes the values of a type, whose items have the schemas of `schema`; `noun` is the type in errors."""
    of = _PYTHON[kind]
    write = _of_type(kind, schema, form)

    def checked(value: Any) -> str:
        if type(value) is not of and (not isinstance(value, of) or isinstance(value, bool)):
            raise DataException(f"Invalid type for {noun}: class {java_class(value)}")
        return write(value)

    return checked


def _of_type(kind: Type, schema: Schema | None, form: Form) -> Write:
    match kind:
        case Type.BOOLEAN:
            return lambda value: "true" if value else "false"
        case Type.STRING:
            return encode_basestring
        case Type.FLOAT32:
            return lambda value: _float(value, single=True)
        case Type.FLOAT64:
            return _float
        case Type.BYTES:
            return _bytes
        case Type.ARRAY:
            return _array(None if schema is None else schema.value, form)
        case Type.MAP:
            return _map(schema, form)
        case Type.STRUCT:
            assert schema is not None
            return _struct(schema, form)
    return str


def _float(value: float, *, single: bool = False) -> str:
    text = float_text(value, single=single)
    return text if math.isfinite(value) else f'"{text}"'


def _bytes(value: bytes) -> str:
    return f'"{base64.b64encode(value).decode()}"'


def _array(items: Schema | None, form: Form) -> Write:
    write = writer(items, form)
    return lambda value: f"[{','.join([write(item) for item in value])}]"


def _map(schema: Schema | None, form: Form) -> Write:
    """Writes an object where all keys are text, else a list of pairs."""
    keys, values = (schema.key, schema.value) if schema is not None else (None, None)
    key, write = writer(keys, form), writer(values, form)

    def as_object(value: dict[Any, Any]) -> str:
        pairs = [f"{_name(key(one))}:{write(item)}" for one, item in value.items()]
        return "{" + ",".join(pairs) + "}"

    def as_pairs(value: dict[Any, Any]) -> str:
        return f"[{','.join([f'[{key(one)},{write(item)}]' for one, item in value.items()])}]"

    if keys is not None:
        return as_object if keys.type is Type.STRING else as_pairs
    return lambda value: as_object(value) if all(isinstance(one, str) for one in value) else as_pairs(value)


def _name(key: str) -> str:
    """The name in an object for the JSON of a key, which is text or null."""
    return '"null"' if key == "null" else key


def _struct(schema: Schema, form: Form) -> Write:
    members = [(f"{encode_basestring(each.name)}:", writer(each.schema, form)) for each in schema.members]

    def write(value: Struct) -> str:
        if value.schema != schema:
            raise DataException("Mismatching schema.")
        parts = [name + of(item) for (name, of), item in zip(members, value.values, strict=True)]
        return "{" + ",".join(parts) + "}"

    return write


def _decimal(schema: Schema, form: Form) -> Write:
    def write(value: Any) -> str:
        if not isinstance(value, Decimal):
            raise DataException(f"Invalid type for Decimal, expected BigDecimal but was class {java_class(value)}")
        return str(value) if form.numeric else _bytes(decimal_bytes(schema, value))

    return write


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


def _instant(schema: Schema) -> Write:
    """Writes a date in days, a time or a timestamp in milliseconds."""
    noun = INSTANTS[schema.name or ""]

    def write(value: Any) -> str:
        if not isinstance(value, Instant):
            raise DataException(f"Invalid type for {noun}, expected Date but was class {java_class(value)}")
        if schema.name == DATE:
            return str(_days(value.ms))
        if schema.name == TIME and not 0 <= value.ms <= DAY_MS:
            raise DataException("Kafka Connect Time type must have date within a day of the epoch.")
        return str(value.ms)

    return write


def _days(ms: int) -> int:
    if ms % DAY_MS:
        raise DataException("Kafka Connect Date type should not have any time fields set to non-zero values.")
    days = ms // DAY_MS
    if not -(1 << 31) <= days < 1 << 31:
        raise DataException(f"Kafka Connect Date type holds days of 32 bits, not {days}")
    return days
