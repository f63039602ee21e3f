"""Columns of any type as the numbers or values that steps work on. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ottla.connect.data import DAY_MS
from ottla.connect.errors import DataException
from ottla.formats.arrays import numbers, valid
from ottla.rows.arrow import indices
from ottla.sinks.steps.rows import Mask

_PER_SECOND: Final = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}
Times = np.ndarray[Any, np.dtype[np.int64]]


def milliseconds(values: pa.Array) -> Times:
    """Dates, times of day or timestamps as milliseconds; 0 where there is none. Parts of a millisecond are lost."""
    kind, present = values.type, valid(values)
    if pa.types.is_date32(kind):
        return np.where(present, numbers(values, np.int32), 0).astype(np.int64) * DAY_MS
    wide = np.int32 if kind.bit_width == 32 else np.int64
    given = np.where(present, numbers(values, wide), 0).astype(np.int64)
    per_second = _PER_SECOND[kind.unit]
    return given // (per_second // 1000) if per_second >= 1000 else given * 1000


def by_distinct(values: pa.Array, make: Callable[[Any], Any], kind: pa.DataType) -> tuple[pa.Array, Mask]:
    """Each distinct value made anew, and a mask of those that `make` refuses by ValueError or DataException.

    Those are null.
    """
    coded = values.dictionary_encode()
    made: list[Any] = []
    refused: list[bool] = []
    for value in coded.dictionary.to_pylist():
        try:
            made.append(make(value))
            refused.append(False)
        except (ValueError, DataException):
            made.append(None)
            refused.append(True)
    where, present = numbers(coded.indices, np.int32), valid(values)
    masked = np.zeros(len(values), dtype=np.bool_)
    masked[present] = np.array(refused, dtype=np.bool_)[where[present]]
    places = np.where(present, where, len(made)).astype(np.int64)
    return pa.array([*made, None], kind).take(indices(places)), masked
