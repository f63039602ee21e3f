"""The types of PostgreSQL as schemas of Connect, with what reads their text. Names and forms are Debezium's. Pure."""

from __future__ import annotations

import base64
import json
import struct as layout
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Final

from ottla.connect import data
from ottla.connect.data import Instant, Schema, Struct, Type, struct
from ottla.connect.plugins.capture import literals

Options = Mapping[str, Any]
Read = Callable[[Any], Any]
_EXACT: Final = Context(prec=20_000)
_VARIABLE: Final = struct(
    [("scale", data.INT32), ("value", data.BYTES)], name="io.debezium.data.VariableScaleDecimal", version=1,
    doc="Variable scaled decimal",
)  # fmt: skip
POINT: Final = struct(
    [("x", data.FLOAT64), ("y", data.FLOAT64), ("wkb", data.BYTES.but(optional=True)),
     ("srid", data.INT32.but(optional=True))],
    name="io.debezium.data.geometry.Point", version=1, doc="Geometry (POINT)",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PgType:
    """A type of the database. Of a domain it is the base type."""

    name: str
    kind: str = "b"
    """b: a base type, e: an enumeration, r: a range; others as in pg_type.typtype."""
    element: PgType | None = None
    """The type of an array's items."""
    labels: tuple[str, ...] = ()
    """The values of an enumeration."""
    delimiter: str = ","


@dataclass(frozen=True, slots=True)
class Codec:
    """The schema of a column, not optional, and what turns its text into a value. `read` raises ValueError."""

    schema: Schema
    read: Read
    zero: Any = None
    """The value that stands for a default that is computed, and for a value that is not known."""

    def reading(self, schema: Schema) -> Read:
        """A reader for the schema, which may be null or have a default; a struct names its own schema."""
        if schema.type is not Type.STRUCT:
            return self.read
        return lambda text: Struct(schema, self.read(text).values)


def codec_of(kind: PgType, modifier: int, options: Options) -> Codec | None:
    """The codec of a type, None for one that Connect has no form for."""
    if kind.element is not None:
        return _array(kind.element, modifier, options)
    if kind.kind == "e":
        allowed = {"allowed": ",".join(kind.labels)}
        return Codec(named(Type.STRING, "io.debezium.data.Enum", parameters=allowed), str, "")
    if kind.kind in "rm":
        return TEXT
    for choose in (_simple, _number, _time, _binary):
        if (found := choose(kind.name, modifier, options)) is not None:
            return found
    if options["include.unknown.datatypes"]:
        return bytes_as(options["binary.handling.mode"], str.encode)
    return None


def named(kind: Type, name: str, **parts: Any) -> Schema:
    """A schema with a name of Debezium."""
    return Schema(kind, name=name, version=1, **parts)


TEXT: Final = Codec(data.STRING, str, "")
_SIMPLE: Final = {
    "bool": Codec(data.BOOLEAN, lambda text: text == "t", zero=False),
    "int2": Codec(data.INT16, int, 0), "int4": Codec(data.INT32, int, 0), "int8": Codec(data.INT64, int, 0),
    "oid": Codec(data.INT64, int, 0),
    "float4": Codec(data.FLOAT32, float, 0.0), "float8": Codec(data.FLOAT64, float, 0.0),
    **dict.fromkeys(
        ("text", "varchar", "bpchar", "char", "name", "citext", "inet", "cidr", "macaddr", "macaddr8"), TEXT
    ),
    "uuid": Codec(named(Type.STRING, "io.debezium.data.Uuid"), str, "00000000-0000-0000-0000-000000000000"),
    "json": Codec(named(Type.STRING, "io.debezium.data.Json"), str, "{}"),
    "jsonb": Codec(named(Type.STRING, "io.debezium.data.Json"), str, "{}"),
    "xml": Codec(named(Type.STRING, "io.debezium.data.Xml"), str, ""),
    "tsvector": Codec(named(Type.STRING, "io.debezium.data.Tsvector"), str, ""),
    "ltree": Codec(named(Type.STRING, "io.debezium.data.Ltree"), str, ""),
}  # fmt: skip


def _simple(name: str, modifier: int, options: Options) -> Codec | None:
    if name == "hstore":
        if options["hstore.handling.mode"] == "map":
            return Codec(data.map_of(data.STRING, data.OPTIONAL_STRING), literals.hstore_of, {})
        return Codec(named(Type.STRING, "io.debezium.data.Json"), lambda text: json.dumps(
            literals.hstore_of(text), ensure_ascii=False, separators=(",", ":")
        ), "{}")  # fmt: skip
    if name == "point":
        return Codec(POINT, _point, Struct(POINT, [0.0, 0.0, None, None]))
    return _SIMPLE.get(name)


def _point(text: str) -> Struct:
    x, y = literals.point_of(text)
    return Struct(POINT, [x, y, layout.pack("<BIdd", 1, 1, x, y), None])


def _number(name: str, modifier: int, options: Options) -> Codec | None:
    if name not in ("numeric", "money"):
        return None
    mode = options["decimal.handling.mode"]
    if name == "money":
        unit = Decimal(1).scaleb(-options["money.fraction.digits"])

        def amount(text: str) -> Decimal:
            return literals.money_of(text).quantize(unit, ROUND_HALF_UP, _EXACT)

        read = {"string": lambda text: str(amount(text)), "double": lambda text: float(amount(text))}.get(mode, amount)
        return _decimal(mode, data.decimal(options["money.fraction.digits"]), read)
    if modifier < 0 and mode in ("string", "double"):
        return _decimal(mode, data.STRING, str if mode == "string" else float)
    if modifier < 0:
        return Codec(_VARIABLE, _variable, _variable("0"))
    precision, scale = (modifier - 4 >> 16) & 0xFFFF, ((modifier - 4 & 0x7FF) ^ 1024) - 1024
    return decimal_as(mode, precision, scale)


def decimal_as(mode: str, precision: int, scale: int) -> Codec:
    """A number of so many digits in the form of a decimal.handling.mode."""
    if mode in ("string", "double"):
        return _decimal(mode, data.STRING, str if mode == "string" else float)
    schema = data.decimal(scale)
    schema = schema.but(parameters={**(schema.parameters or {}), "connect.decimal.precision": str(precision)})
    return _decimal(mode, schema, lambda text: _finite(text).quantize(Decimal(1).scaleb(-scale), context=_EXACT))


def _decimal(mode: str, precise: Schema, read: Read) -> Codec:
    schema = {"string": data.STRING, "double": data.FLOAT64}.get(mode, precise)
    return Codec(schema, read, read("0"))


def _finite(text: str) -> Decimal:
    number = Decimal(text)
    if not number.is_finite():
        raise ValueError(f"{text} is no number that a decimal can be: set decimal.handling.mode=double or string")
    return number


def _variable(text: str) -> Struct:
    number = _finite(text)
    scale = -int(number.as_tuple().exponent)
    return Struct(_VARIABLE, [scale, literals.unscaled(int(number.scaleb(scale, _EXACT)))])


def _time(name: str, modifier: int, options: Options) -> Codec | None:
    mode = options["time.precision.mode"]
    digits = modifier if 0 <= modifier <= 6 else 6
    match name:
        case "date":
            return date_as(mode)
        case "time":
            return time_as(mode, digits, literals.micros_of_day)
        case "timestamp":
            return timestamp_as(mode, digits)
        case "timetz":
            return Codec(named(Type.STRING, "io.debezium.time.ZonedTime"), lambda text: (
                literals.iso_time(literals.micros_of_day(text)) + "Z"
            ), "00:00:00Z")  # fmt: skip
        case "timestamptz":

            def read(text: str) -> str:
                return text if text.endswith("infinity") else literals.iso_timestamp(literals.micros_of(text), digits)

            return Codec(named(Type.STRING, "io.debezium.time.ZonedTimestamp"), read, literals.iso_timestamp(0, digits))
        case "interval" if options["interval.handling.mode"] == "string":
            return Codec(named(Type.STRING, "io.debezium.time.Interval"), lambda text: (
                literals.Interval.of(text).iso()
            ), "P0Y0M0DT0H0M0S")  # fmt: skip
        case "interval":
            return Codec(named(Type.INT64, "io.debezium.time.MicroDuration"), lambda text: (
                literals.Interval.of(text).average_micros()
            ), 0)  # fmt: skip
    return None


def date_as(mode: str) -> Codec:
    """A date in the form of a time.precision.mode."""
    return _DATES.get(mode, _DATE)


def time_as(mode: str, digits: int, micros: Callable[[str], int]) -> Codec:
    """A time with so many digits of a fraction, whose text `micros` reads."""
    return _times(micros)[_precision(mode, digits, times=True)]


def timestamp_as(mode: str, digits: int) -> Codec:
    """A timestamp without a zone, with so many digits of a fraction."""
    return _TIMESTAMPS[_precision(mode, digits, times=False)]


def _precision(mode: str, digits: int, *, times: bool) -> str:
    if mode == "adaptive_time_microseconds":
        mode = "microseconds" if times else "adaptive"
    return mode if mode != "adaptive" else "milliseconds" if digits <= 3 else "microseconds"


def _within(bits: int, number: int) -> int:
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError(f"{number} has more than {bits} bits: set another time.precision.mode")
    return number


_DATE: Final = Codec(named(Type.INT32, "io.debezium.time.Date"), literals.days_of, 0)
_DATES: Final = {
    "connect": Codec(data.DATE_SCHEMA, lambda text: Instant(literals.days_of(text) * data.DAY_MS), Instant(0)),
    "isostring": Codec(named(Type.STRING, "io.debezium.time.IsoDate"), lambda text: (
        text if text.endswith("infinity") else literals.iso_date(literals.days_of(text)) + "Z"
    ), "1970-01-01Z"),
}  # fmt: skip
_TIMESTAMPS: Final = {
    "milliseconds": Codec(named(Type.INT64, "io.debezium.time.Timestamp"), lambda text: (
        literals.micros_of(text) // 1000
    ), 0),
    "microseconds": Codec(named(Type.INT64, "io.debezium.time.MicroTimestamp"), lambda text: (
        _within(64, literals.micros_of(text))
    ), 0),
    "nanoseconds": Codec(named(Type.INT64, "io.debezium.time.NanoTimestamp"), lambda text: (
        _within(64, literals.micros_of(text) * 1000)
    ), 0),
    "connect": Codec(data.TIMESTAMP_SCHEMA, lambda text: Instant(literals.micros_of(text) // 1000), Instant(0)),
    "isostring": Codec(named(Type.STRING, "io.debezium.time.IsoTimestamp"), lambda text: (
        text if text.endswith("infinity") else literals.iso_timestamp(literals.micros_of(text))
    ), "1970-01-01T00:00:00Z"),
}  # fmt: skip


def _times(micros: Callable[[str], int]) -> Mapping[str, Codec]:
    def of_one_day(text: str) -> int:
        found = micros(text)
        if not 0 <= found <= literals.DAY_US:
            raise ValueError(f"{text} is no time of one day: set time.precision.mode=microseconds")
        return found

    return {
        "milliseconds": Codec(named(Type.INT32, "io.debezium.time.Time"), lambda text: micros(text) // 1000, 0),
        "microseconds": Codec(named(Type.INT64, "io.debezium.time.MicroTime"), micros, 0),
        "nanoseconds": Codec(named(Type.INT64, "io.debezium.time.NanoTime"), lambda text: micros(text) * 1000, 0),
        "connect": Codec(data.TIME_SCHEMA, lambda text: Instant(of_one_day(text) // 1000), Instant(0)),
        "isostring": Codec(named(Type.STRING, "io.debezium.time.IsoTime"), lambda text: (
            literals.iso_time(of_one_day(text)) + "Z"
        ), "00:00:00Z"),
    }  # fmt: skip


def _binary(name: str, modifier: int, options: Options) -> Codec | None:
    if name == "bytea":
        return bytes_as(options["binary.handling.mode"], lambda text: bytes.fromhex(text[2:]))
    if name in ("bit", "varbit") and modifier == 1:
        return Codec(data.BOOLEAN, lambda text: text == "1", zero=False)
    if name in ("bit", "varbit"):
        length = {"length": str(modifier if modifier >= 0 else 2**31 - 1)}
        return Codec(named(Type.BYTES, "io.debezium.data.Bits", parameters=length), literals.bits_of, b"")
    return None


_ENCODINGS: Final[dict[str, Callable[[bytes], str]]] = {
    "base64": lambda value: base64.b64encode(value).decode(),
    "base64-url-safe": lambda value: base64.urlsafe_b64encode(value).decode(),
    "hex": bytes.hex,
}


def bytes_as(mode: str, read: Callable[[Any], bytes]) -> Codec:
    """Bytes in the form of a binary.handling.mode."""
    if mode == "bytes":
        return Codec(data.BYTES, read, b"")
    encode = _ENCODINGS[mode]
    return Codec(data.STRING, lambda text: encode(read(text)), "")


def _array(element: PgType, modifier: int, options: Options) -> Codec | None:
    inner = codec_of(element, modifier, options)
    if inner is None:
        return None
    item = inner.schema if element.kind == "e" else inner.schema.but(optional=True)
    read_item = inner.reading(item)

    def read(text: str) -> list[Any]:
        found = literals.items_of(text, element.delimiter)
        return [None if each is None else read_item(each) for each in found]

    return Codec(data.array(item), read, [])
