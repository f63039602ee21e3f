"""Values of change events become what their schema says: decimals, days, times and bytes. Pure, on whole columns."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from datetime import date, time
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa

from ottla.formats.iso_times import is_finer
from ottla.lake.columns.event_types import RAW, Kinds
from ottla.lake.columns.layout import event_times, in_calendar

Mask = np.ndarray[Any, np.dtype[np.bool_]]

_DAY_US = 86_400_000_000
_EXACTLY = Context(prec=38, traps=[Inexact, InvalidOperation])
_SURE_DIGITS = 15


def typed(rows: pa.Table, kinds: Kinds, *, times_as_numbers: bool) -> tuple[pa.Table, dict[int, str]]:
    """The rows with each field in the type of its kind, and the reasons of the rows with a value that is none.

    `times_as_numbers` makes times of day microseconds since midnight, for tables that have no such type.
    """
    faults: dict[int, str] = {}
    for place, name in enumerate(rows.column_names):
        kind = kinds.get(name, RAW)
        if kind == RAW:
            continue
        column = rows.column(name)
        whole = pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)
        made, good = _converted(whole, kind, times_as_numbers=times_as_numbers)
        for row in np.flatnonzero(~good & whole.is_valid().to_numpy(zero_copy_only=False)).tolist():
            faults.setdefault(row, f"field {name}: a value that is no {kind}, as its schema says")
        rows = rows.set_column(place, name, made)
    return rows, faults


def _converted(values: pa.Array, kind: str, *, times_as_numbers: bool) -> tuple[pa.Array, Mask]:
    """The values as a kind, and a mask of those that are of it."""
    if kind.startswith("decimal ") and kind.removeprefix("decimal ").isdecimal():
        scale = int(kind.removeprefix("decimal "))
        return _each(values, lambda value: _decimal(value, scale), pa.decimal128(38, scale))
    if kind == "decimal of any scale":
        return _each(values, _any_decimal, pa.string())
    if kind == "bytes":
        return _each(values, _bytes, pa.binary())
    if kind == "zoned":
        return _zoned(values)
    if kind == "time of day":
        times, good = _each(values, _time_of_day, pa.int64())
        return times if times_as_numbers else times.cast(pa.time64("us")), good
    if kind == "days" and pa.types.is_struct(values.type):
        return _each(values, _day, pa.date32())
    numbers, good = _whole_numbers(values)
    if kind == "days":
        good &= in_calendar(np.clip(numbers, -(10**7), 10**7) * _DAY_US)
        days = pa.array(np.where(good, numbers, 0).astype(np.int32), mask=~good)
        return days.cast(pa.date32()), good
    step = 1000 if kind.endswith("milliseconds") else 1
    good &= np.abs(numbers) < 1 << 62 if step == 1 else np.abs(numbers) < 1 << 52
    times = np.where(good, numbers, 0) * step
    if not kind.startswith("time of"):
        good &= in_calendar(times)
        return pa.array(times, mask=~good).cast(pa.timestamp("us")), good
    good &= (times >= 0) & (times < _DAY_US)
    made = pa.array(np.where(good, times, 0), mask=~good)
    return made if times_as_numbers else made.cast(pa.time64("us")), good


def _whole_numbers(values: pa.Array) -> tuple[np.ndarray, Mask]:
    """The values as whole numbers, and a mask of those that are."""
    if pa.types.is_integer(values.type):
        numbers = values.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        return numbers, np.array(values.is_valid().to_numpy(False))
    given = values.to_pylist()
    good = [isinstance(each, float) and each.is_integer() and abs(each) <= 1 << 53 for each in given]
    numbers = [int(each) if fine else 0 for each, fine in zip(given, good, strict=True)]
    return np.array(numbers, dtype=np.int64), np.array(good, dtype=np.bool_)


def _each(values: pa.Array, convert: Callable[[Any], Any], kind: pa.DataType) -> tuple[pa.Array, Mask]:
    """Each value converted; a value for which that raises ValueError is none."""
    found, good = [], np.ones(len(values), dtype=np.bool_)
    for row, value in enumerate(values.to_pylist()):
        try:
            found.append(None if value is None else convert(value))
        except (ValueError, ArithmeticError):
            found.append(None)
            good[row] = False
    return pa.array(found, kind), good & values.is_valid().to_numpy(zero_copy_only=False)


def _bytes(value: object) -> bytes:
    if isinstance(value, bytes):
        return value  # Avro has no need of Base64
    if not isinstance(value, str):
        raise ValueError("not Base64")
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as fault:
        raise ValueError("not Base64") from fault


def _unscaled(value: object, scale: int) -> Decimal:
    if not (encoded := _bytes(value)):
        raise ValueError("no digits")
    return Decimal(int.from_bytes(encoded, "big", signed=True)).scaleb(-scale, Context(prec=10_000))


def _decimal(value: object, scale: int) -> Decimal:
    """A decimal in Base64, or as the number that the converter's `decimal.format` may write."""
    if isinstance(value, dict):  # Protobuf's decimal brings its own scale
        found = Decimal(_any_decimal(value))
    else:
        found = _unscaled(value, scale) if isinstance(value, str) else Decimal(repr(value))
    if isinstance(value, float) and len(found.as_tuple().digits) > _SURE_DIGITS:
        raise ValueError("a number whose digits a double may not hold")
    return found.quantize(Decimal(1).scaleb(-scale), context=_EXACTLY)


def _any_decimal(value: object) -> str:
    """A decimal that brings its own scale, as the text of all its digits."""
    if not isinstance(value, dict) or not isinstance(value.get("scale"), int) or abs(value["scale"]) > 10_000:
        raise ValueError("no scale")
    return f"{_unscaled(value.get('value'), value['scale']):f}"


def _day(value: dict[str, int]) -> date:
    """Protobuf's google.type.Date; one without a year, a month or a day is none."""
    return date(value["year"], value["month"], value["day"])


def _time_of_day(value: dict[str, int]) -> int:
    """Protobuf's google.type.TimeOfDay as microseconds since midnight; it may not have more digits."""
    if value["nanos"] % 1000:
        raise ValueError("digits beyond microseconds")
    found = time(value["hours"], value["minutes"], value["seconds"], value["nanos"] // 1000)
    return ((found.hour * 60 + found.minute) * 60 + found.second) * 1_000_000 + found.microsecond


def _zoned(values: pa.Array) -> tuple[pa.Array, Mask]:
    kind = pa.timestamp("us", "UTC")
    if not pa.types.is_string(values.type):
        return pa.nulls(len(values), kind), np.zeros(len(values), dtype=np.bool_)
    times, good = event_times(pa.chunked_array([values]))
    good = good & in_calendar(times)
    finer = [text is not None and is_finer(text) for text in values.to_pylist()]
    good &= ~np.array(finer, dtype=np.bool_)
    return pa.array(np.where(good, times, 0), mask=~good).cast(kind), good
