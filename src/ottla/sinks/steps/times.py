"""TimestampConverter: a member, or whole values, as text, Unix times, dates, times of day or timestamps. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from ottla.connect.data import DAY_MS
from ottla.connect.java.dates import DatePattern
from ottla.formats.arrays import from_numbers, numbers, valid
from ottla.lake.columns.types import Misfit, text_of
from ottla.rows.arrow import TYPES
from ottla.sinks.steps.rows import Mask, SteppedRows, ValueMember
from ottla.sinks.steps.values import Times, by_distinct, milliseconds

_TARGETS: Final = {
    "string": pa.string(), "unix": pa.int64(), "Date": pa.date32(), "Time": pa.time64("us"),
    "Timestamp": TYPES["timestamp"],
}  # fmt: skip
_PER_MS: Final = {
    "nanoseconds": (1_000_000, 1), "microseconds": (1000, 1), "milliseconds": (1, 1), "seconds": (1, 1000),
}  # fmt: skip
"""Units in so many milliseconds."""
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999
"""The ends of the calendar, years 1 to 9999: columns of a lake hold no other times."""
_MOST, _LEAST = np.iinfo(np.int64).max, np.iinfo(np.int64).min


class TimestampConverterStep:
    """Converts one member, or whole values."""

    keeps_nulls: ClassVar[bool] = True

    def __init__(self, options: Mapping[str, Any], *, plain: bool) -> None:
        self._field, self._target = options["field"], options["target.type"]
        self._units, self._ms = _PER_MS[options["unix.precision"]]
        text = options["format"]
        self._pattern = DatePattern(text) if text.strip() else None
        self._plain = plain

    def change(self, rows: SteppedRows) -> None:
        """Change all values. A plain object has the member afterwards, if only as nulls."""
        if not self._field:
            rows.value = self._converted(rows, rows.value)
            return
        found = rows.members("TimestampConverter")
        if found is None:
            return
        made = [self._member(rows, each) if each.field.name == self._field else each for each in found]
        if self._plain and all(each.field.name != self._field for each in found):
            kind = _TARGETS[self._target]
            made.append(ValueMember(pa.field(self._field, kind), pa.nulls(len(rows), kind)))
        rows.put(made, "TimestampConverter")

    def _member(self, rows: SteppedRows, member: ValueMember) -> ValueMember:
        made = self._converted(rows, member.values)
        return ValueMember(pa.field(self._field, made.type), made)

    def _converted(self, rows: SteppedRows, values: pa.Array) -> pa.Array:
        if pa.types.is_null(values.type):
            return pa.nulls(len(values), _TARGETS[self._target])
        times, present = self._read(rows, values)
        match self._target:
            case "string":
                assert self._pattern is not None, "text needs a pattern"
                return by_distinct(from_numbers(pa.int64(), times, present), self._pattern.format, pa.string())[0]
            case "unix":
                return from_numbers(pa.int64(), _scaled(times, self._units, self._ms), present)
            case "Time":
                return from_numbers(pa.time64("us"), times % DAY_MS * 1000, present)
        inside = (times >= _FIRST_MS) & (times <= _LAST_MS)
        rows.refuse(present & ~inside, "TimestampConverter: a time that no column of times can hold")
        held, present = np.where(inside, times, 0), present & inside
        if self._target == "Date":
            return from_numbers(pa.date32(), (held // DAY_MS).astype(np.int32), present)
        return from_numbers(_TARGETS["Timestamp"], held * 1000, present)

    def _read(self, rows: SteppedRows, values: pa.Array) -> tuple[Times, Mask]:
        """Times in milliseconds since 1970, and where there is one. Parts below a millisecond are lost."""
        kind, present = values.type, valid(values)
        if pa.types.is_string(kind):
            return self._from_text(rows, values)
        if kind == pa.int64() or (self._plain and pa.types.is_signed_integer(kind)):
            given = np.where(present, numbers(values.cast(pa.int64()), np.int64), 0)
            return _scaled(given, self._ms, self._units), present
        if pa.types.is_timestamp(kind) or pa.types.is_date32(kind) or pa.types.is_time(kind):
            return milliseconds(values), present
        if not self._plain or pa.types.is_floating(kind):
            raise Misfit(f"TimestampConverter: {self._field or 'the value'} is {text_of(kind)}, which is no time")
        rows.refuse(present, f"TimestampConverter: {self._field or 'the value'} is {text_of(kind)}, which is no time")
        return np.zeros(len(values), dtype=np.int64), np.zeros(len(values), dtype=np.bool_)

    def _from_text(self, rows: SteppedRows, values: pa.Array) -> tuple[Times, Mask]:
        pattern = self._pattern
        if pattern is None:
            rows.refuse(valid(values), "TimestampConverter needs the option 'format' to read times that are text")
            return np.zeros(len(values), dtype=np.int64), np.zeros(len(values), dtype=np.bool_)
        made, failed = by_distinct(values, pattern.parse, pa.int64())
        rows.refuse(failed, f"TimestampConverter: a text does not match pattern ({pattern.pattern})")
        present = valid(made)
        return np.where(present, numbers(made, np.int64), 0), present


def _scaled(times: Times, by: int, over: int) -> Times:
    """Times as many other units, toward zero, held within 64 bits."""
    if by == 1:
        whole: Times = times // over
        whole += (times % over != 0) & (times < 0)
        return whole
    assert over == 1, "units are multiples of one another"
    inside = (times <= _MOST // by) & (times >= -(_MOST // by))
    held: Times = np.where(inside, np.where(inside, times, 0) * by, np.where(times > 0, _MOST, _LEAST))
    return held
