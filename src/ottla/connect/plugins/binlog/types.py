"""The types of MariaDB as schemas of Connect, from the log and from the catalog; the forms are Debezium's. Pure."""

from __future__ import annotations

import ipaddress
import re
import struct as layout
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.connect import data
from ottla.connect.data import Schema, Struct, Type, struct
from ottla.connect.plugins.binlog import cells
from ottla.connect.plugins.binlog.cells import LogType
from ottla.connect.plugins.binlog.table_map import TableMap
from ottla.connect.plugins.capture import literals
from ottla.connect.plugins.capture.tables import Column, Table
from ottla.connect.plugins.capture.types import (
    POINT,
    TEXT,
    Codec,
    bytes_as,
    date_as,
    decimal_as,
    named,
    time_as,
    timestamp_as,
)  # fmt: skip

_GEOMETRY: Final = struct(
    [("wkb", data.BYTES), ("srid", data.INT32.but(optional=True))],
    name="io.debezium.data.geometry.Geometry", version=1, doc="Geometry",
)  # fmt: skip
_COORDINATES: Final = (layout.Struct(">dd"), layout.Struct("<dd"))
_FLOAT: Final = layout.Struct("<f")
_DECLARED: Final = re.compile(r"(\w+)(?:\((.*)\))?(.*)", re.DOTALL)
_LABEL: Final = re.compile(r"'((?:[^']|'')*)'")
_TIME: Final = re.compile(r"(-?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?")
_SHAPES: Final = frozenset(
    {"geometry", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection"}
)
TEXTS: Final = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
BUILTIN: Final = re.compile(r"mysql|information_schema|performance_schema|sys", re.IGNORECASE)
_BYTES: Final = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_WHOLE: Final = {
    "tinyint": (data.INT16, data.INT16), "smallint": (data.INT16, data.INT32), "mediumint": (data.INT32, data.INT32),
    "int": (data.INT32, data.INT64),
}  # fmt: skip
_IN_LOG: Final = {
    cells.TINY: "tinyint", cells.SHORT: "smallint", cells.INT24: "mediumint", cells.LONG: "int",
    cells.LONGLONG: "bigint", cells.FLOAT: "float", cells.DOUBLE: "double", cells.NEWDECIMAL: "decimal",
    cells.YEAR: "year", cells.DATE: "date", cells.TIME2: "time", cells.DATETIME2: "datetime",
    cells.TIMESTAMP2: "timestamp", cells.BIT: "bit", cells.ENUM: "enum", cells.SET: "set",
}  # fmt: skip
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", "0": "\0", "b": "\b", "Z": "\x1a"}
_LARGE: Final = {1: "tiny", 2: "", 3: "medium", 4: "long"}


@dataclass(frozen=True, slots=True)
class MyType:
    """A type of the database."""

    name: str
    unsigned: bool = False
    size: int = 0
    """The digits of a number, the bits of BIT, the digits of a fraction of a second."""
    scale: int = 0
    labels: tuple[str, ...] = ()
    """The values of ENUM and SET."""


def declared(text: str) -> MyType:
    """A type as the catalog declares it, such as `int(10) unsigned`."""
    found = _DECLARED.fullmatch(text)
    assert found is not None, text
    name, inside, more = found[1].lower(), found[2] or "", found[3].lower()
    unsigned = "unsigned" in more or "zerofill" in more
    if name in ("enum", "set"):
        return MyType(name, labels=tuple(each.replace("''", "'") for each in _LABEL.findall(inside)))
    numbers = [int(each) for each in inside.split(",")] if inside else []
    if name in ("decimal", "bit", "time", "datetime", "timestamp"):
        default = {"decimal": [10, 0], "bit": [1]}.get(name, [0])
        size, *scale = numbers or default
        return MyType(name, unsigned, size, scale[0] if scale else 0)
    return MyType(name, unsigned)


def logged(kind: LogType) -> MyType:
    """A type as the log describes it."""
    name = _IN_LOG.get(kind.code)
    if kind.code == cells.NEWDECIMAL:
        return MyType("decimal", kind.unsigned, kind.metadata & 0xFF, kind.metadata >> 8)
    if kind.code == cells.BIT:
        return MyType("bit", size=(kind.metadata >> 8) * 8 + (kind.metadata & 0xFF))
    if kind.code in (cells.TIME2, cells.DATETIME2, cells.TIMESTAMP2):
        return MyType(_IN_LOG[kind.code], size=kind.metadata)
    if name is not None:
        whole = name.endswith("int")
        return MyType(name, whole and kind.unsigned, labels=kind.labels)
    if kind.code == cells.GEOMETRY:
        return MyType("point" if kind.point else "geometry")
    binary = kind.charset in (None, "binary")
    if kind.code == cells.BLOB:
        return MyType(_LARGE[kind.metadata] + ("blob" if binary else "text"))
    fixed = kind.code == cells.STRING
    return MyType(("binary" if fixed else "varbinary") if binary else ("char" if fixed else "varchar"))


def as_logged(table: TableMap, now: Table | None) -> Table:
    """The table as the log describes it, whatever has become of it since.

    The default of a column, and whether bytes are a UUID or an address, are not described: they are taken as they are
    in the catalog now, where the column still has the type that it had.
    """
    known = {} if now is None else {each.name: each for each in now.columns}
    columns = []
    for each in table.columns:
        kind = logged(each.kind)
        default, found = None, known.get(each.name)
        if found is not None and isinstance(found.kind, MyType):
            if _same_bytes(kind, each.kind, found.kind):
                kind = found.kind
            if found.kind.name == kind.name or {found.kind.name, kind.name} <= _SHAPES:
                default = found.default
        columns.append(Column(each.name, kind, optional=each.optional, default=default))
    return Table(table.schema, table.name, tuple(columns), table.key)


def _same_bytes(logged_kind: MyType, kind: LogType, now: MyType) -> bool:
    sizes = {"uuid": 16, "inet6": 16, "inet4": 4}
    return logged_kind.name == "binary" and sizes.get(now.name) == kind.metadata


def codec_of(kind: MyType, modifier: int, options: Mapping[str, Any]) -> Codec | None:
    """The codec of a type, None for one that Connect has no form for."""
    del modifier  # a type has its own sizes here
    if kind.name in _WHOLE:
        return Codec(_WHOLE[kind.name][kind.unsigned], int, 0)
    if kind.name in TEXTS:
        return TEXT
    if kind.name in _BYTES:
        return bytes_as(options["binary.handling.mode"], bytes)
    for choose in (_number, _moment, _labelled, _shape, _address):
        if (found := choose(kind, options)) is not None:
            return found
    return None


def _number(kind: MyType, options: Mapping[str, Any]) -> Codec | None:
    match kind.name:
        case "bigint" if kind.unsigned and options["bigint.unsigned.handling.mode"] == "precise":
            return decimal_as("precise", 20, 0)
        case "bigint":
            return Codec(data.INT64, _long, 0)
        case "decimal":
            return decimal_as(options["decimal.handling.mode"], kind.size, kind.scale)
        case "float":
            return Codec(data.FLOAT32, _short, 0.0)
        case "double":
            return Codec(data.FLOAT64, float, 0.0)
        case "bit" if kind.size == 1:
            return Codec(data.BOOLEAN, lambda value: value != b"\0", zero=False)
        case "bit":
            schema = named(Type.BYTES, "io.debezium.data.Bits", parameters={"length": str(kind.size)})
            return Codec(schema, lambda value: value[::-1], bytes((kind.size + 7) // 8))
        case "year":
            return Codec(named(Type.INT32, "io.debezium.time.Year"), int, 0)
    return None


def _short(value: Any) -> float:
    """A FLOAT by the fewest digits that tell it."""
    exact = float(value)
    packed = _FLOAT.pack(exact)
    texts = (f"{exact:.{digits}g}" for digits in (6, 7, 8))
    return float(next((each for each in texts if _fits(each, packed)), f"{exact:.9g}"))


def _fits(text: str, packed: bytes) -> bool:
    try:
        return _FLOAT.pack(float(text)) == packed
    except OverflowError:
        return False


def _long(value: Any) -> int:
    number = int(value)
    if number >= 1 << 63:
        raise ValueError(f"{number} has more than 63 bits: set bigint.unsigned.handling.mode=precise")
    return number


def _moment(kind: MyType, options: Mapping[str, Any]) -> Codec | None:
    mode = options["time.precision.mode"]
    match kind.name:
        case "date":
            return date_as(mode)
        case "time":
            return time_as(mode, kind.size, micros_of_time)
        case "datetime":
            return timestamp_as(mode, kind.size)
        case "timestamp":
            return Codec(named(Type.STRING, "io.debezium.time.ZonedTimestamp"), lambda text: (
                literals.iso_timestamp(literals.micros_of(text), kind.size)
            ), literals.iso_timestamp(0, 0))  # fmt: skip
    return None


def micros_of_time(text: str) -> int:
    """A time in microseconds: from -838:59:59 to 838:59:59."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no time")
    sign, hours, minutes, seconds, fraction = found.groups()
    whole = (int(hours) * 60 + int(minutes)) * 60 + int(seconds)
    micros = whole * 1_000_000 + int((fraction or "").ljust(6, "0"))
    return -micros if sign else micros


def _labelled(kind: MyType, options: Mapping[str, Any]) -> Codec | None:
    names = {"enum": "io.debezium.data.Enum", "set": "io.debezium.data.EnumSet"}
    if kind.name not in names:
        return None
    return Codec(named(Type.STRING, names[kind.name], parameters={"allowed": ",".join(kind.labels)}), str, "")


def _shape(kind: MyType, options: Mapping[str, Any]) -> Codec | None:
    """Geometry is four bytes of a reference system, and the shape in well-known binary."""
    if kind.name == "point":

        def point(value: bytes) -> Struct:
            shape = _in_system(value)
            x, y = _COORDINATES[shape[1][0]].unpack_from(shape[1], 5)
            return Struct(POINT, [x, y, shape[1], shape[0]])

        return Codec(POINT, point)
    if kind.name in _SHAPES:
        return Codec(_GEOMETRY, lambda value: Struct(_GEOMETRY, list(_in_system(value))[::-1]))
    return None


def _in_system(value: bytes) -> tuple[int | None, bytes]:
    return int.from_bytes(value[:4], "little") or None, value[4:]


def _address(kind: MyType, options: Mapping[str, Any]) -> Codec | None:
    match kind.name:
        case "uuid":
            schema: Schema = named(Type.STRING, "io.debezium.data.Uuid")
            zero = "00000000-0000-0000-0000-000000000000"
            return Codec(schema, lambda value: value if isinstance(value, str) else str(uuid.UUID(bytes=value)), zero)
        case "inet6" | "inet4":
            return Codec(data.STRING, lambda value: (
                value if isinstance(value, str) else str(ipaddress.ip_address(value))
            ), "")  # fmt: skip
    return None


def default_of(column: Column, codec: Codec) -> Any:
    """The value of a default that is a constant; the type's zero for the time of now where no null may be."""
    text = column.default
    if text is None or text == "NULL" or codec.schema.type is Type.STRUCT:
        return None
    if text.lower().startswith("current_timestamp"):
        return None if column.optional else codec.zero
    if bits := re.fullmatch(r"b'([01]*)'", text):
        assert isinstance(column.kind, MyType)
        return codec.read(int(bits[1] or "0", 2).to_bytes((column.kind.size + 7) // 8, "big"))
    if quoted := re.fullmatch(r"'(.*)'", text, re.DOTALL):
        text = re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), quoted[1].replace("''", "'"))
    elif not re.fullmatch(r"-?[\d.]+(e-?\d+)?", text):
        return None
    try:
        return codec.read(text.encode() if column.kind.name in _BYTES else text)
    except (ValueError, ArithmeticError):
        return None
