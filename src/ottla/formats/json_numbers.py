"""Numbers of JSON whose digits a double cannot hold. Pure."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.formats.arrays import leaves

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
    doubles = (leaf for _, leaf in leaves(array) if pa.types.is_floating(leaf.type))
    return any(map(_large, doubles)) and _LONG_WHOLE.search(text) is not None


def _large(array: pa.Array) -> bool:
    ends = pc.min_max(array)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    return low is not None and bool(np.abs([low, high]).max() >= LARGEST)
