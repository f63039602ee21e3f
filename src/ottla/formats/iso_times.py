"""Times of ISO 8601: text with more digits than microseconds have, and days that the calendar does not have. Pure."""

from __future__ import annotations

import re
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from ottla.formats.arrays import leaves

Nanoseconds = Literal["refuse", "cut", "keep"]
"""A time with digits beyond microseconds is bad, loses them, or has a column that holds them (in Protobuf)."""
FINER = "its column holds no digits beyond microseconds"
"""The end of the reason why such a time is refused."""
_FINER = re.compile(r"[.,]\d{6}\d*[1-9]")
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_DAY_MICROS = 86_400_000_000


def is_finer(text: str) -> bool:
    """True if the fraction of a second has digits beyond microseconds: Python's and Arrow's parsers drop them."""
    return _FINER.search(text) is not None


def check_calendar(array: pa.Array) -> None:
    """Raise pa.ArrowInvalid where a day or a time lies outside the years 1 to 9999, which most readers refuse."""
    for path, leaf in leaves(array):
        if pa.types.is_date32(leaf.type):
            first, last, counts = _FIRST_DAY, _LAST_DAY, leaf.cast(pa.int32())
        elif pa.types.is_timestamp(leaf.type) and leaf.type.unit == "us":
            first, last, counts = _FIRST_DAY * _DAY_MICROS, (_LAST_DAY + 1) * _DAY_MICROS - 1, leaf.cast(pa.int64())
        else:
            continue
        ends = pc.min_max(counts).as_py()
        if ends["min"] is not None and not first <= ends["min"] <= ends["max"] <= last:
            name = ".".join(path).replace(".[]", "[]")
            raise pa.ArrowInvalid(f"{name}: a day or a time outside the years 1 to 9999")
