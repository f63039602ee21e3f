"""The values of a row in the binary log, by the type and the metadata of each column. Pure.

Times come as the server's text, so that one reader serves the log and the rows of a snapshot.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from ottla.connect.errors import DataException

Cell = Callable[[bytes, int], tuple[Any, int]]
"""Reads a value at a place: the value, and the place behind it."""
TINY, SHORT, LONG, FLOAT, DOUBLE, LONGLONG, INT24, DATE, YEAR, VARCHAR, BIT = 1, 2, 3, 4, 5, 8, 9, 10, 13, 15, 16
TIMESTAMP2, DATETIME2, TIME2, NEWDECIMAL, ENUM, SET, BLOB, VAR_STRING, STRING, GEOMETRY = (
    17, 18, 19, 246, 247, 248, 252, 253, 254, 255,
)  # fmt: skip
METADATA: Final = {
    FLOAT: 1, DOUBLE: 1, VARCHAR: 2, BIT: 2, TIMESTAMP2: 1, DATETIME2: 1, TIME2: 1, NEWDECIMAL: 2, ENUM: 2, SET: 2,
    BLOB: 1, VAR_STRING: 2, STRING: 2, GEOMETRY: 1, 140: 1, 141: 2, 245: 1,
}  # fmt: skip
"""The bytes of metadata of each type that has some."""
NUMBERS: Final = frozenset({TINY, SHORT, INT24, LONG, LONGLONG, NEWDECIMAL, FLOAT, DOUBLE, YEAR})
"""Types of which the log says whether they are unsigned."""
_REFUSED: Final = {
    7: "TIMESTAMP in the form before MariaDB 10.1", 11: "TIME in the form before MariaDB 10.1",
    12: "DATETIME in the form before MariaDB 10.1", 140: "a compressed column", 141: "a compressed column",
    245: "MySQL's binary JSON",
}  # fmt: skip
_LEFT_OUT: Final = frozenset({0x81, 0x8D, 0x8F, 0x90, 0x9D})
_DIGITS: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
_CODECS: Final = {
    "binary": None, "utf8mb4": "utf8", "utf8mb3": "utf8", "utf8": "utf8", "ascii": "ascii", "latin1": "cp1252",
    "latin2": "iso8859_2", "latin5": "iso8859_9", "latin7": "iso8859_13", "greek": "iso8859_7", "hebrew": "iso8859_8",
    "cp1250": "cp1250", "cp1251": "cp1251", "cp1256": "cp1256", "cp1257": "cp1257", "cp850": "cp850",
    "cp852": "cp852", "cp866": "cp866", "koi8r": "koi8_r", "koi8u": "koi8_u", "ucs2": "utf_16_be",
    "utf16": "utf_16_be", "utf16le": "utf_16_le", "utf32": "utf_32_be", "big5": "big5", "gbk": "gbk",
    "gb2312": "gb2312", "sjis": "shift_jis", "cp932": "cp932", "ujis": "euc_jp", "eucjpms": "euc_jp",
    "euckr": "euc_kr", "tis620": "tis_620", "macroman": "mac_roman", "macce": "mac_latin2",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class LogType:
    """The type of a column as the log has it."""

    code: int
    metadata: int
    unsigned: bool = False
    charset: str | None = None
    """None for what is no text; `binary` for bytes."""
    labels: tuple[str, ...] = ()
    """The values of ENUM and SET."""
    point: bool = False


def text_of(value: bytes, charset: str) -> str:
    """Text in a character set of the server."""
    try:
        codec = _CODECS[charset]
    except KeyError:
        raise DataException(f"text in the character set {charset} cannot be read: convert the column") from None
    try:
        return value.decode(codec or "latin1")
    except UnicodeDecodeError as fault:
        if charset == "latin1":  # five bytes that Windows leaves out are control characters in MariaDB
            return "".join(bytes([each]).decode("latin1" if each in _LEFT_OUT else "cp1252") for each in value)
        raise DataException(f"text in the character set {charset} cannot be read: {fault}") from fault


def cell_of(kind: LogType) -> Cell:
    """The reader of a type."""
    match kind.code:
        case 1 | 2 | 3 | 8 | 9:
            return _whole({TINY: 1, SHORT: 2, INT24: 3, LONG: 4, LONGLONG: 8}[kind.code], signed=not kind.unsigned)
        case 4 | 5:
            return _packed("<f" if kind.code == FLOAT else "<d")
        case 10:
            return _date
        case 13:
            return lambda row, at: (row[at] + 1900 if row[at] else 0, at + 1)
        case 15 | 253 | 254 | 252 | 255:
            return _bytes(kind)
        case 16:
            return _fixed(((kind.metadata >> 8) * 8 + (kind.metadata & 0xFF) + 7) // 8)
        case 17 | 18 | 19:
            return {TIMESTAMP2: _timestamp, DATETIME2: _datetime, TIME2: _time}[kind.code](kind.metadata)
        case 246:
            return _decimal(kind.metadata & 0xFF, kind.metadata >> 8)
        case 247:
            size, labels = kind.metadata >> 8, kind.labels
            return lambda row, at: (_label(labels, int.from_bytes(row[at : at + size], "little")), at + size)
        case 248:
            size, labels = kind.metadata >> 8, kind.labels
            return lambda row, at: (_members(labels, int.from_bytes(row[at : at + size], "little")), at + size)
    what = _REFUSED.get(kind.code, f"a type of the number {kind.code}")
    raise DataException(f"the log has {what}: ALTER TABLE … FORCE, or leave the table out")


def _whole(size: int, *, signed: bool) -> Cell:
    return lambda row, at: (int.from_bytes(row[at : at + size], "little", signed=signed), at + size)


def _packed(form: str) -> Cell:
    layout = struct.Struct(form)
    return lambda row, at: (layout.unpack_from(row, at)[0], at + layout.size)


def _fixed(size: int) -> Cell:
    return lambda row, at: (row[at : at + size], at + size)


def _bytes(kind: LogType) -> Cell:
    sized = kind.code in (BLOB, GEOMETRY)
    prefix = kind.metadata if sized else 1 if kind.metadata < 256 else 2
    charset = kind.charset
    width = kind.metadata if kind.code == STRING and charset == "binary" else 0

    def read(row: bytes, at: int) -> tuple[Any, int]:
        begin = at + prefix
        end = begin + int.from_bytes(row[at:begin], "little")
        value = row[begin:end]
        if charset is None or charset == "binary":
            return value.ljust(width, b"\0"), end  # the log leaves out zeros at the end of BINARY
        return text_of(value, charset), end

    return read


def _label(labels: tuple[str, ...], number: int) -> str:
    return labels[number - 1] if number else ""


def _members(labels: tuple[str, ...], bits: int) -> str:
    return ",".join(label for place, label in enumerate(labels) if bits >> place & 1)


def _date(row: bytes, at: int) -> tuple[str, int]:
    packed = int.from_bytes(row[at : at + 3], "little")
    return f"{packed >> 9:04d}-{packed >> 5 & 15:02d}-{packed & 31:02d}", at + 3


def _fraction(number: int, size: int, digits: int) -> str:
    """A fraction of a second, which the log has in hundredths, in 1/10000 or in millionths."""
    return f".{number:0{2 * size}d}"[: digits + 1] if digits else ""


def _timestamp(digits: int) -> Cell:
    """A moment; the text is in UTC."""
    size = (digits + 1) // 2

    def read(row: bytes, at: int) -> tuple[str, int]:
        seconds = int.from_bytes(row[at : at + 4], "big")
        fraction = _fraction(int.from_bytes(row[at + 4 : at + 4 + size], "big"), size, digits)
        end = at + 4 + size
        if not seconds and not fraction.strip(".0"):
            return "0000-00-00 00:00:00" + fraction, end
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S") + fraction, end

    return read


def _datetime(digits: int) -> Cell:
    size = (digits + 1) // 2

    def read(row: bytes, at: int) -> tuple[str, int]:
        packed = int.from_bytes(row[at : at + 5], "big") - 0x80_0000_0000
        fraction = _fraction(int.from_bytes(row[at + 5 : at + 5 + size], "big"), size, digits)
        months, day = packed >> 22, packed >> 17 & 31
        clock = f"{packed >> 12 & 31:02d}:{packed >> 6 & 63:02d}:{packed & 63:02d}"
        return f"{months // 13:04d}-{months % 13:02d}-{day:02d} {clock}{fraction}", at + 5 + size

    return read


def _time(digits: int) -> Cell:
    size = (digits + 1) // 2

    def read(row: bytes, at: int) -> tuple[str, int]:
        packed = int.from_bytes(row[at : at + 3 + size], "big") - (0x80_0000 << 8 * size)
        sign, packed = ("-", -packed) if packed < 0 else ("", packed)
        fraction = _fraction(packed & (1 << 8 * size) - 1, size, digits)
        packed >>= 8 * size
        return f"{sign}{packed >> 12 & 1023:02d}:{packed >> 6 & 63:02d}:{packed & 63:02d}{fraction}", at + 3 + size

    return read


def _decimal(precision: int, scale: int) -> Cell:
    """Groups of nine digits in four bytes, the highest first; of a negative number all bits are turned."""
    left, right = precision - scale, scale
    sizes = [_DIGITS[left % 9]] + [4] * (left // 9)
    tail = [4] * (right // 9) + [_DIGITS[right % 9]]
    widths = [9] * (right // 9) + [right % 9]
    total = sum(sizes) + sum(tail)

    def read(row: bytes, at: int) -> tuple[str, int]:
        packed = bytearray(row[at : at + total])
        negative = not packed[0] & 0x80
        packed[0] ^= 0x80
        if negative:
            packed = bytearray(each ^ 0xFF for each in packed)
        place, whole, fraction = 0, 0, ""
        for size in sizes:
            if size:
                whole = whole * 1_000_000_000 + int.from_bytes(packed[place : place + size], "big")
                place += size
        for size, width in zip(tail, widths, strict=True):
            if size:
                fraction += f"{int.from_bytes(packed[place : place + size], 'big'):0{width}d}"
                place += size
        text = f"{whole}.{fraction}" if fraction else str(whole)
        return ("-" + text if negative else text), at + total

    return read
