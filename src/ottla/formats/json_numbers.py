"""Numbers of JSON whose digits a double cannot hold. Pure."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

LARGEST = 1 << 53
"""The largest whole number up to which a double holds each one."""
_LONG_WHOLE = re.compile(rb"[\[:,\s]-?[0-9]{16,}\s*[,}\]]")
"""A whole number that may lie beyond 2**53, or what looks like one inside a text."""


class Real(float):
    """A number with a fraction or an exponent, and its own digits, which may be more than a double has."""

    __slots__ = ("text",)

    text: str

    def __new__(cls, text: str) -> Real:
        made = super().__new__(cls, text)
        made.text = text
        return made


def may_lose_digits(array: pa.Array | pa.ChunkedArray, text: pa.Buffer | memoryview) -> bool:
    """True if Arrow's parser may have made a double of a whole number beyond 2**53 in this text."""
    return _large_double(array) and _LONG_WHOLE.search(text) is not None


def _large_double(array: pa.Array | pa.ChunkedArray) -> bool:
    if isinstance(array, pa.ChunkedArray):
        return any(_large_double(chunk) for chunk in array.chunks)
    if pa.types.is_struct(array.type):
        return any(_large_double(array.field(at)) for at in range(array.type.num_fields))
    if pa.types.is_list(array.type):
        return _large_double(array.values)
    if not pa.types.is_floating(array.type):
        return False
    ends = pc.min_max(array)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    return low is not None and bool(np.abs([low, high]).max() >= LARGEST)
