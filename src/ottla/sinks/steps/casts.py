"""Cast: members, or whole values, as another primitive type, with Java's rules for numbers and text. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from ottla.connect.data import BITS, BYTES, DATE_SCHEMA, TIMESTAMP_SCHEMA, Instant, decimal
from ottla.connect.data import Type as Kind
from ottla.connect.java.text import float32, float_text, parse_float, parse_int
from ottla.connect.transforms.cast import cast, casts_of
from ottla.formats.arrays import from_numbers, numbers, valid
from ottla.lake.columns.types import Misfit, text_of
from ottla.sinks.steps.rows import Mask, SteppedRows, ValueMember
from ottla.sinks.steps.values import by_distinct, milliseconds

TYPES: Final = {
    Kind.INT8: pa.int8(), Kind.INT16: pa.int16(), Kind.INT32: pa.int32(), Kind.INT64: pa.int64(),
    Kind.FLOAT32: pa.float32(), Kind.FLOAT64: pa.float64(), Kind.BOOLEAN: pa.bool_(), Kind.STRING: pa.string(),
}  # fmt: skip
"""The type of a column for each type that Cast knows."""
_BY_POINT: Final = frozenset({Kind.STRING, Kind.INT8, Kind.INT16, Kind.INT32})
"""Types to which a whole number is cast in another way than a float of the same value: as other text, other bits."""


class CastStep:
    """Casts members by their names, or whole values."""

    keeps_nulls: ClassVar[bool] = True

    def __init__(self, options: Mapping[str, Any], *, plain: bool) -> None:
        casts = casts_of(options["spec"])
        self._whole = casts.pop(None, None)
        self._casts = {name: kind for name, kind in casts.items() if name is not None}
        self._plain = plain

    def change(self, rows: SteppedRows) -> None:
        """Change all values. A plain object has the named members afterwards, if only as nulls."""
        if self._whole is not None:
            rows.value = self._cast(rows, rows.value, self._whole, "the value")
            return
        found = rows.members("Cast")
        if found is None:
            return
        made = [self._member(rows, each) for each in found]
        names = {each.field.name for each in found}
        for name, kind in self._casts.items() if self._plain else ():
            if name not in names:
                made.append(ValueMember(pa.field(name, TYPES[kind]), pa.nulls(len(rows), TYPES[kind])))
        rows.put(made, "Cast")

    def _member(self, rows: SteppedRows, member: ValueMember) -> ValueMember:
        kind = self._casts.get(member.field.name)
        if kind is None:
            return member
        made = self._cast(rows, member.values, kind, member.field.name)
        return ValueMember(pa.field(member.field.name, made.type), made)

    def _cast(self, rows: SteppedRows, values: pa.Array, kind: Kind, name: str) -> pa.Array:
        """The values as another type; those that cannot be of it are refused."""
        source, present = values.type, valid(values)
        nothing = pa.nulls(len(values), TYPES[kind])
        if pa.types.is_null(source):
            return nothing
        if pa.types.is_nested(source):
            rows.refuse(present, f"Cast: {name} is {text_of(source)}, which cannot be cast")
            return nothing
        if pa.types.is_string(source):
            return self._from_text(rows, values, kind, name)
        if pa.types.is_boolean(source):
            return _from_integers(np.asarray(values.fill_null(False), dtype=np.bool_), present, values, kind)
        if pa.types.is_signed_integer(source):
            wide = np.where(present, numbers(values, np.dtype(f"i{source.bit_width // 8}").type), 0)
            return _from_integers(wide, present, values, kind)
        if source in (pa.float32(), pa.float64()):
            return self._from_floats(rows, values, kind, name)
        made, refused = self._one_by_one(values, kind)
        rows.refuse(refused, f"Cast: {name} is {source}, which cannot be cast to {kind.value}")
        return made

    def _one_by_one(self, values: pa.Array, kind: Kind) -> tuple[pa.Array, Mask]:
        """Times, decimals and bytes by the transformation's own rules; without a schema it takes none of them."""
        source, present = values.type, valid(values)
        if pa.types.is_temporal(source) and not self._plain:
            schema = DATE_SCHEMA if pa.types.is_date(source) else TIMESTAMP_SCHEMA
            times = from_numbers(pa.int64(), milliseconds(values), present)
            return by_distinct(times, lambda ms: cast(schema, Instant(ms), kind), TYPES[kind])
        if pa.types.is_decimal(source) or pa.types.is_binary(source):
            schema = decimal(source.scale) if pa.types.is_decimal(source) else BYTES
            return by_distinct(values, lambda value: cast(schema, value, kind), TYPES[kind])
        return pa.nulls(len(values), TYPES[kind]), present

    def _from_text(self, rows: SteppedRows, values: pa.Array, kind: Kind, name: str) -> pa.Array:
        if kind is Kind.STRING:
            return values
        reader: Callable[[str], Any]
        if kind is Kind.BOOLEAN:
            reader = _is_true
        elif kind in BITS:
            bits = BITS[kind]
            reader = lambda text: parse_int(text, bits)  # noqa: E731  # one of three readers
        else:
            reader = parse_float if kind is Kind.FLOAT64 else lambda text: float32(parse_float(text))
        made, failed = by_distinct(values, reader, TYPES[kind])
        rows.refuse(failed, f"Cast: a text of {name} was out of range for requested data type")
        return made

    def _from_floats(self, rows: SteppedRows, values: pa.Array, kind: Kind, name: str) -> pa.Array:
        present = valid(values)
        given = np.where(present, numbers(values, np.float32 if values.type == pa.float32() else np.float64), 0)
        if self._plain and kind in _BY_POINT:
            raise Misfit(
                f"Cast: {name} holds numbers with a point. JSON without a schema does not tell 1 from 1.0 beside them, "
                f"which {kind.value} does; give the schema, or cast to int64 or float64"
            )
        if kind is Kind.STRING:
            single = values.type == pa.float32()
            return by_distinct(values, lambda number: float_text(number, single=single), pa.string())[0]
        if kind is Kind.BOOLEAN:
            return pa.array(np.abs(given) >= 1, mask=~present)
        if kind not in BITS:
            with np.errstate(over="ignore"):
                return from_numbers(
                    TYPES[kind], given.astype(np.float32 if kind is Kind.FLOAT32 else np.float64), present
                )
        if self._plain:
            inside = (np.trunc(given) >= -(2.0**63)) & (given < 2.0**63)
            rows.refuse(present & ~inside, f"Cast: a number of {name} is out of the range of int64")
        return from_numbers(TYPES[kind], _narrowed(given, BITS[kind]), present)


def _from_integers(given: np.ndarray[Any, Any], present: Mask, values: pa.Array, kind: Kind) -> pa.Array:
    """Whole numbers, or booleans as 0 and 1, as another type: the lowest bits count."""
    if kind is Kind.STRING:
        return values.cast(pa.string())
    if kind is Kind.BOOLEAN:
        return pa.array(given != 0, mask=~present)
    if kind in BITS:
        return from_numbers(TYPES[kind], given.astype(np.int64).astype(f"i{BITS[kind] // 8}"), present)
    return from_numbers(TYPES[kind], given.astype(np.float64).astype(TYPES[kind].to_pandas_dtype()), present)


def _narrowed(given: np.ndarray[Any, Any], bits: int) -> np.ndarray[Any, Any]:
    """Floats as whole numbers: toward zero, held within the bounds of an int or a long, then the lowest bits."""
    wide = given.astype(np.float64)
    most = 2.0 ** (63 if bits == 64 else 31)
    inside = (wide > -most) & (wide < most)
    held = np.where(inside, np.trunc(np.where(inside, wide, 0)), 0).astype(np.int64)
    held[wide >= most] = int(most) - 1
    held[wide <= -most] = -int(most)
    return held.astype(f"i{bits // 8}")


def _is_true(text: str) -> bool:
    return text.lower() == "true"
