"""Times of ISO 8601: text with more digits than microseconds have, and days that the calendar does not have. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

_FINER = re.compile(r"[.,]\d{6}\d*[1-9]")
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_DAY_MICROS = 86_400_000_000


def is_finer(text: str) -> bool:
    """True if the fraction of a second has digits beyond microseconds: Python's and Arrow's parsers drop them."""
    return _FINER.search(text) is not None


def check_calendar(array: pa.Array) -> None:
    """Raise pa.ArrowInvalid where a day or a time lies outside the years 1 to 9999, which most readers refuse."""
    for name, leaf in _leaves(array, ""):
        if pa.types.is_date32(leaf.type):
            first, last, counts = _FIRST_DAY, _LAST_DAY, leaf.cast(pa.int32())
        elif pa.types.is_timestamp(leaf.type) and leaf.type.unit == "us":
            first, last, counts = _FIRST_DAY * _DAY_MICROS, (_LAST_DAY + 1) * _DAY_MICROS - 1, leaf.cast(pa.int64())
        else:
            continue
        ends = pc.min_max(counts).as_py()
        if ends["min"] is not None and not first <= ends["min"] <= ends["max"] <= last:
            raise pa.ArrowInvalid(f"{name}: a day or a time outside the years 1 to 9999")


def _leaves(array: pa.Array, name: str) -> Iterator[tuple[str, pa.Array]]:
    """The arrays without parts inside an array, each with its path; they hold no value of a null list or object."""
    if pa.types.is_struct(array.type):
        for field, part in zip(array.type, array.flatten(), strict=True):
            yield from _leaves(part, f"{name}.{field.name}" if name else field.name)
    elif pa.types.is_list(array.type):
        yield from _leaves(array.flatten(), f"{name}[]")
    elif pa.types.is_map(array.type):
        entries = array.cast(pa.list_(pa.struct([array.type.key_field, array.type.item_field])))
        yield from _leaves(entries.flatten().field(1), f"{name}[]")
    else:
        yield name, array
