"""Numbers and times as Java writes and reads them: what a cast to text gives, and which text is a number."""

from __future__ import annotations

import base64
import math
import re
from decimal import Decimal, InvalidOperation
from struct import error as PackError
from struct import pack, unpack
from typing import Any, Final

from ottla.connect.data import DAY_MS, Float32, Instant, Schema, Struct, Type
from ottla.connect.java.dates import DatePattern

_JAVA_FLOAT = re.compile(r"[\x00-\x20]*([+-]?(?:NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFdD]?))[\x00-\x20]*")
_JAVA_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_JAVA_INTEGER = re.compile(r"[+-]?\d+")
_HEX_FLOAT = re.compile(r"[\x00-\x20]*[+-]?0[xX]")
ISO_DATE: Final = DatePattern("yyyy-MM-dd")
ISO_TIME: Final = DatePattern("HH:mm:ss.SSS'Z'")
ISO_TIMESTAMP: Final = DatePattern("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")


def float32(value: float) -> Float32:
    """The nearest float of 32 bits; infinite beyond the greatest."""
    try:
        return Float32(unpack(">f", pack(">f", value))[0])
    except (OverflowError, PackError):
        return Float32("inf" if value > 0 else "-inf")


def float_text(value: float, *, single: bool = False) -> str:
    """A float as Java's Double.toString writes it, or Float.toString for those of 32 bits."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if not single and 1e-3 <= abs(value) < 1e7:
        return float.__repr__(value)
    sign, digits, exponent = Decimal(_shortest32(value) if single else repr(value)).as_tuple()
    assert isinstance(exponent, int)
    number = "".join(map(str, digits)).rstrip("0") or "0"
    point = len(digits) + exponent if any(digits) else 1
    if -3 < point <= 7:
        whole, part = (number[:point].ljust(point, "0"), number[point:]) if point > 0 else ("0", "0" * -point + number)
        text = f"{whole}.{part or '0'}"
    else:
        text = f"{number[0]}.{number[1:] or '0'}E{point - 1}"
    return f"-{text}" if sign else text


def _shortest32(value: float) -> str:
    """The fewest digits that a float of 32 bits is read back from."""
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if float32(float(text)) == value:
            return text
    return repr(value)


def parse_float(text: str) -> float:
    """The number that Java's Double.parseDouble reads, or ValueError."""
    if _HEX_FLOAT.match(text):
        return float.fromhex(text.strip("\0\t\n\v\f\r ").rstrip("fFdD"))
    found = _JAVA_FLOAT.fullmatch(text)
    if found is None or not text.isascii():
        raise ValueError(text)
    return float(found[1].rstrip("fFdD"))


def parse_int(text: str, bits: int) -> int:
    """The number that Java's parseByte, parseShort, parseInt or parseLong reads, or ValueError."""
    if _JAVA_INTEGER.fullmatch(text) is None:
        raise ValueError(text)
    number = int(text)
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError(text)
    return number


def parse_decimal(text: str) -> Decimal:
    """The number that Java's BigDecimal reads, or ValueError. Its scale is kept."""
    if _JAVA_DECIMAL.fullmatch(text) is None:
        raise ValueError(text)
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise ValueError(text) from None
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or not -(1 << 31) <= -exponent < 1 << 31:
        raise ValueError(text)
    return number


def scaled(number: int, scale: int) -> Decimal:
    """A whole number as so many digits behind the point, all of them kept."""
    sign, digits, _ = Decimal(number).as_tuple()
    return Decimal((sign, digits, -scale))


def unscaled(number: Decimal) -> int:
    """All digits of a decimal as a whole number."""
    sign, digits, _ = number.as_tuple()
    return int(Decimal((sign, digits, 0)))


def wrapped(number: int, bits: int) -> int:
    """The lowest bits of a whole number, with a sign, as Java's narrowing conversions keep them."""
    return (number + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def whole(number: Decimal, bits: int) -> int:
    """A decimal as a whole number: toward zero, then the lowest bits."""
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or exponent >= bits:
        return 0  # so many factors of ten leave no bit
    return wrapped(int(number), bits)


def narrowed(number: float, bits: int) -> int:
    """A float as a whole number: toward zero, held within the bounds of an int or a long, then cut."""
    if math.isnan(number):
        return 0
    wide = 64 if bits == 64 else 32
    held = (1 << wide - 1) - 1 if number >= 1 << wide - 1 else max(-(1 << wide - 1), int(max(number, -1e30)))
    return wrapped(held, bits)


def instant_text(value: Instant) -> str:
    """A date, time or timestamp, by which of them it may be: Java's class does not say."""
    if value.ms < DAY_MS:
        return ISO_TIME.format(value.ms)
    return (ISO_DATE if value.ms % DAY_MS == 0 else ISO_TIMESTAMP).format(value.ms)


def text(value: Any, schema: Schema | None = None) -> str:
    """A value as Java's toString gives it; bytes in base64."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            single = schema.type is Type.FLOAT32 if schema is not None else isinstance(value, Float32)
            return float_text(value, single=single)
        case bytes():
            return base64.b64encode(value).decode()
        case Instant():
            return _DATE_TEXT.format(value.ms)
        case list():
            return f"[{', '.join(text(item) for item in value)}]"
        case dict():
            return "{" + ", ".join(f"{text(key)}={text(item)}" for key, item in value.items()) + "}"
        case Struct():
            pairs = zip(value.schema.members, value.values, strict=True)
            shown = (f"{member.name}={text(item, member.schema)}" for member, item in pairs if item is not None)
            return f"Struct{{{','.join(shown)}}}"
    return str(value)


_DATE_TEXT: Final = DatePattern("EEE MMM dd HH:mm:ss zzz yyyy")
