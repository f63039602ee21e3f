"""Floating-point numbers as Java reads and prints them: users compare values and output with Kafka's."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable

_DOUBLE = re.compile(r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)")
_PLAIN_FROM, _PLAIN_BELOW = -3, 7
"""The exponents of ten of numbers that are printed without an exponent."""


def parse_double(text: str) -> float:
    """`Double.parseDouble`, without its hexadecimal numbers; ValueError where the text is not a number."""
    if not _DOUBLE.fullmatch(text):
        raise ValueError(f"{text!r} is not a number")
    return float(text.rstrip("fFdD") if text[-1:] in "fFdD" else text)


def double_text(value: float) -> str:
    """`Double.toString`."""
    return _text(value, lambda text: float(text) == value)


def float_text(value: float) -> str:
    """`Float.toString` of a number that 32 bits hold."""

    def is_same(text: str) -> bool:
        try:
            return bool(struct.unpack(">f", struct.pack(">f", float(text)))[0] == value)
        except OverflowError:  # rounded up, beyond the greatest number
            return False

    return _text(value, is_same)


def _text(value: float, is_same: Callable[[str], bool]) -> str:
    """The shortest digits that mean the number, in Java's spelling."""
    if math.isnan(value):
        return "NaN"
    sign = "-" if math.copysign(1, value) < 0 else ""
    if math.isinf(value) or not value:
        return sign + ("Infinity" if value else "0.0")
    # Java looks among the numbers of two digits first: 4.9E-324 is nearer to the least double than 5E-324.
    shortest = next(text for places in range(1, 17) if is_same(text := f"{value:.{places}e}"))
    mantissa, _, power = shortest.lstrip("-").partition("e")
    digits, exponent = mantissa.replace(".", "").rstrip("0"), int(power)
    if not _PLAIN_FROM <= exponent < _PLAIN_BELOW:
        return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    return f"{sign}{whole}.{digits[exponent + 1 :] or '0'}"
