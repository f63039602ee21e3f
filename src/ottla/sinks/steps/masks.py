"""MaskField: an empty value, or a replacement, in the place of members' values. A null stays. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from ottla.connect.java.text import float32, parse_decimal, whole
from ottla.formats.arrays import from_numbers, lists, valid
from ottla.lake.columns.types import Misfit, text_of
from ottla.rows.arrow import repeated
from ottla.sinks.steps.rows import SteppedRows, ValueMember


class MaskFieldStep:
    """Masks members by their names."""

    keeps_nulls: ClassVar[bool] = True

    def __init__(self, options: Mapping[str, Any], *, plain: bool) -> None:
        self._fields = frozenset(options["fields"])
        self._text: str | None = options["replacement"]
        self._plain = plain

    def change(self, rows: SteppedRows) -> None:
        """Change all values; a record without one is refused, as by Kafka's."""
        rows.refuse(rows.missing, "MaskField: Only Map objects supported for [mask fields], found: null")
        found = rows.members("MaskField")
        if found is not None:
            rows.put(
                [self._masked(each, rows) if each.field.name in self._fields else each for each in found], "MaskField"
            )

    def _masked(self, member: ValueMember, rows: SteppedRows) -> ValueMember:
        kind, present = member.values.type, valid(member.values)
        if pa.types.is_null(kind):
            return member
        made = self._empty(kind, present) if self._text is None else self._replaced(member.field, present, rows)
        if made is None:
            how = "" if self._text is None else " with custom replacement"
            why = f"MaskField: cannot mask {member.field.name}, which is {text_of(kind)}{how}"
            rows.refuse(present, why)
            made = pa.nulls(len(present), kind)
        return ValueMember(member.field, made)

    def _empty(self, kind: pa.DataType, present: np.ndarray[Any, np.dtype[np.bool_]]) -> pa.Array | None:
        """Empty values where there are values; None for a type that has none."""
        count = len(present)
        if pa.types.is_string(kind):
            return _with_nulls(repeated(b"", count), present)
        if pa.types.is_list(kind) or pa.types.is_map(kind):
            inner = kind.value_type if pa.types.is_list(kind) else pa.struct([kind.key_field, kind.item_field])
            return lists(kind, np.zeros(count + 1, dtype=np.int64), pa.nulls(0, inner), present)
        if pa.types.is_struct(kind) and self._plain:
            return _with_nulls(
                pa.Array.from_buffers(kind, count, [None], children=[pa.nulls(count, each.type) for each in kind]),
                present,
            )
        if pa.types.is_boolean(kind):
            return _with_nulls(pa.array(np.zeros(count, dtype=np.bool_)), present)
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_temporal(kind):
            return from_numbers(kind, np.zeros(count, dtype=f"i{kind.bit_width // 8}"), present)
        if pa.types.is_decimal(kind):
            return _constant(Decimal(0), kind, present)
        return None

    def _replaced(
        self, field: pa.Field, present: np.ndarray[Any, np.dtype[np.bool_]], rows: SteppedRows
    ) -> pa.Array | None:
        """The replacement where there are values; None for a type that has none."""
        kind, text = field.type, self._text
        assert text is not None, "without a replacement values are emptied"
        if pa.types.is_string(kind):
            return _with_nulls(repeated(text.encode(), len(present)), present)
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
            return None
        try:
            number = parse_decimal(text)
        except ValueError:
            rows.refuse(present, f"MaskField: unable to convert {text} to a number for {field.name}")
            return pa.nulls(len(present), kind)
        if pa.types.is_decimal(kind):
            return _constant(number, kind, present)
        if pa.types.is_integer(kind):
            return _numbers(whole(number, kind.bit_width), kind, present)
        if self._plain and number != int(number):
            raise Misfit(
                f"MaskField: {field.name} holds numbers with and without a point, and JSON without a schema does not "
                f"tell which of them {text} is for; give a whole number"
            )
        return _numbers(float32(float(number)) if kind == pa.float32() else float(number), kind, present)


def _numbers(value: float, kind: pa.DataType, present: np.ndarray[Any, np.dtype[np.bool_]]) -> pa.Array:
    letter = "f" if pa.types.is_floating(kind) else "i" if pa.types.is_signed_integer(kind) else "u"
    wide = f"{letter}{kind.bit_width // 8}"
    return from_numbers(kind, np.full(len(present), value, dtype=wide), present)


def _constant(number: Decimal, kind: pa.DataType, present: np.ndarray[Any, np.dtype[np.bool_]]) -> pa.Array:
    try:
        one = pa.array([number, None], kind)
    except pa.ArrowInvalid as fault:
        raise Misfit(f"MaskField: {fault}") from None
    return one.take(pa.array(np.where(present, 0, 1)))


def _with_nulls(made: pa.Array, present: np.ndarray[Any, np.dtype[np.bool_]]) -> pa.Array:
    """The values, null where there is none."""
    if present.all():
        return made
    return made.take(pa.array(np.arange(len(present)), mask=~present))
