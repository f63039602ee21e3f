"""Records on their way through a chain: their values as one Arrow array, and what became of each. Pure.

A value that is an object is a struct, and a record without a value has a null there. Members of a null are null.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ottla.formats.arrays import bitmap, whole
from ottla.lake.columns.evolution import conform
from ottla.lake.columns.json_columns import no_columns
from ottla.lake.columns.types import Misfit, text_of
from ottla.rows.arrow import indices, null_mask

Mask = np.ndarray[Any, np.dtype[np.bool_]]
Places = np.ndarray[Any, np.dtype[np.int64]]


class ValueMember(NamedTuple):
    """A member of objects: its name and type, and its values."""

    field: pa.Field
    values: pa.Array


@dataclass(slots=True)
class SteppedRows:
    """Records, as many as came; a record that was dropped or refused stays, and is not looked at any more."""

    topic: str
    records: pa.RecordBatch
    """The records as they came, for their partition, offset and timestamp."""
    value: pa.Array
    headers: pa.Array
    places: Places
    """The numbers that these rows have among all rows of the batch."""
    live: Mask
    filtered: Mask
    faults: list[tuple[int, str]] = field(default_factory=list)

    @classmethod
    def of(cls, topic: str, records: pa.RecordBatch, value: pa.Array) -> SteppedRows:
        """All records of a batch."""
        count = records.num_rows
        return cls(
            topic, records, value, records.column("headers"), np.arange(count), np.ones(count, dtype=np.bool_),
            np.zeros(count, dtype=np.bool_),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.live)

    def drop(self, chosen: Mask) -> None:
        """Filter records out."""
        self.filtered |= chosen & self.live
        self.live &= ~chosen

    def refuse(self, chosen: Mask, why: str) -> None:
        """Refuse records with a reason. The first reason of a record counts."""
        refused = chosen & self.live
        if refused.any():
            self.faults += [(row, why) for row in self.places[refused].tolist()]
            self.live &= ~chosen

    def part(self, chosen: Mask) -> SteppedRows:
        """Some of the records, to be changed by themselves; `take_back` brings them back."""
        rows = indices(np.flatnonzero(chosen))
        return SteppedRows(
            self.topic, self.records.take(rows), self.value.take(rows), self.headers.take(rows), self.places[chosen],
            self.live[chosen], self.filtered[chosen],
        )  # fmt: skip

    def take_back(
        self, part: SteppedRows, chosen: Mask, *, others_are_null: bool, part_is_null: bool, what: str
    ) -> None:
        """Take the values of `part` for the chosen records; the others keep theirs, within a type that holds both.

        Misfit where there is none. Values of which it is known that they are all null have no say in that.
        """
        others = self.value.take(indices(np.flatnonzero(~chosen)))
        kind = part.value.type if others_are_null else others.type if part_is_null else None
        if kind is None:
            kind = both(others.type, part.value.type, what)
        joined = pa.concat_arrays([_as(part.value, kind), _as(others, kind)])
        back = np.empty(len(chosen), dtype=np.int64)
        back[np.concatenate([np.flatnonzero(chosen), np.flatnonzero(~chosen)])] = np.arange(len(chosen))
        self.value = joined.take(indices(back))
        self.live[chosen] = part.live
        self.faults += part.faults

    @property
    def missing(self) -> Mask:
        """The records without a value."""
        return null_mask(self.value)

    def members(self, what: str) -> list[ValueMember] | None:
        """The members of the values; None where no record has a value yet. Misfit where values are no objects."""
        kind = self.value.type
        if pa.types.is_null(kind):
            return None
        if not pa.types.is_struct(kind):
            raise Misfit(f"{what} needs objects, and values are {text_of(kind)}")
        return members(self.value)

    def put(self, given: Sequence[ValueMember], what: str) -> None:
        """Give the values other members; where there is no value there is none now. Misfit for two of one name."""
        self.value = object_of(given, len(self), None if not self.value.null_count else ~self.missing, what)


def members(objects: pa.Array) -> list[ValueMember]:
    """The members of objects, null where the object is."""
    return [ValueMember(*pair) for pair in zip(objects.type, objects.flatten(), strict=True)]


def object_of(given: Sequence[ValueMember], rows: int, present: Mask | None, what: str) -> pa.Array:
    """Objects of these members."""
    taken: set[str] = set()
    for each in given:
        if each.field.name in taken:
            raise Misfit(f"{what} makes two fields {each.field.name}")
        taken.add(each.field.name)
    kind = pa.struct([each.field for each in given])
    return pa.Array.from_buffers(kind, rows, [bitmap(present)], children=[each.values for each in given])


def object_of_columns(columns: pa.Table, missing: Mask) -> pa.Array:
    """The values that these columns were made of."""
    given = [ValueMember(each, whole(columns.column(at))) for at, each in enumerate(columns.schema)]
    return object_of(given, columns.num_rows, ~missing, "the topic")


def columns_of(value: pa.Array) -> pa.Table:
    """The columns of values. Misfit where they are no objects; a member of which no value is known makes none."""
    kind = value.type
    if not (pa.types.is_struct(kind) or pa.types.is_null(kind)):
        raise Misfit(f"the transformations leave {text_of(kind)}, and only objects can be rows")
    found = [] if pa.types.is_null(kind) else members(value)
    kept = [each.field.with_type(known) for each in found if (known := _known(each.field.type)) is not None]
    if not kept:
        return no_columns(len(value))
    table = pa.Table.from_arrays([each.values for each in found], schema=pa.schema([each.field for each in found]))
    return table if kept == [each.field for each in found] else conform(table, pa.schema(kept))


def _known(kind: pa.DataType) -> pa.DataType | None:
    """The type without members of which no value is known; None where nothing is left."""
    if pa.types.is_null(kind):
        return None
    if pa.types.is_list(kind):
        item = _known(kind.value_type)
        return None if item is None else kind if item.equals(kind.value_type) else pa.list_(item)
    if pa.types.is_struct(kind):
        kept = [each.with_type(known) for each in kind if (known := _known(each.type)) is not None]
        return pa.struct(kept) if kept else None
    return kind


def both(one: pa.DataType, other: pa.DataType, what: str, path: str = "value") -> pa.DataType:
    """The type that holds values of both without a change; Misfit where there is none."""
    if one.equals(other) or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if not (pa.types.is_struct(one) and pa.types.is_struct(other)):
        raise Misfit(
            f"{what} is done to some records alone, and {path} would be {text_of(one)} in some records and "
            f"{text_of(other)} in others"
        )
    found = {each.name: each for each in one}
    for each in other:
        known = found.get(each.name)
        found[each.name] = each if known is None else known.with_type(both(known.type, each.type, what, each.name))
    return pa.struct(list(found.values()))


def _as(value: pa.Array, kind: pa.DataType) -> pa.Array:
    if value.type.equals(kind, check_metadata=True):
        return value
    if value.null_count == len(value):
        return pa.nulls(len(value), kind)
    return whole(conform(pa.table({"value": value}), pa.schema([("value", kind)])).column(0))
