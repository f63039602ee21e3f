"""Debezium's change events as rows: columns `before`, `after` and `op`, also below `payload`, become the row itself.

Pure, in Arrow, on the columns that JSON values were read into.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.lake.json_columns import column_names
from ottla.lake.tables.evolution import conform, union
from ottla.lake.tables.keyed import DELETED

_KEPT, _REMOVED = ("c", "u", "r"), "d"
RECORD_COLUMNS = ("key", "headers", "partition", "offset", "timestamp")


@dataclass(frozen=True, slots=True)
class Unwrapped:
    """Rows for a staged file, and the events that are none: the place in the given rows, and why."""

    rows: pa.Table
    faults: tuple[tuple[int, str], ...]


def unwrap_envelopes(rows: pa.Table, flattened: Callable[[pa.Table], pa.Table] = lambda state: state) -> Unwrapped:
    """The state that each event leaves (`after`), for a deletion the last one (`before`), beside the record's columns.

    `flattened` makes the columns of a state.

    A record without a value, as Debezium sends one after a deletion, becomes a delete of its key's columns, all null,
    which a keyed table passes over where its key is a field.
    """
    record = rows.select([name for name in RECORD_COLUMNS if name in rows.column_names])
    operation, before, after = _parts(rows)
    removes = pc.fill_null(pc.equal(operation, _REMOVED), False)
    empty = _empty(rows)
    state = flattened(_state(before, after, removes))
    good, faults = _check(operation, removes, empty, before, after)
    state = state.rename_columns(column_names(state.schema.names))
    for name in record.column_names:
        state = state.append_column(name, record.column(name))
    state = state.append_column(DELETED, pc.or_(removes, empty))
    return Unwrapped(state.filter(pa.array(good)), faults)


def _parts(rows: pa.Table) -> tuple[pa.Array, pa.Array, pa.Array]:
    """The columns op, before and after; those below `payload` where there are some."""
    place = rows.schema.get_field_index("payload")
    wrapped = place >= 0 and pa.types.is_struct(rows.schema.field(place).type)
    source = rows.column("payload").combine_chunks() if wrapped else None
    found = []
    for name in ("op", "before", "after"):
        if source is not None and source.type.get_field_index(name) >= 0:
            found.append(pc.struct_field(source, name))
        elif name in rows.column_names:
            found.append(rows.column(name).combine_chunks())
        else:
            found.append(pa.nulls(rows.num_rows, pa.string() if name == "op" else pa.struct([])))
    return found[0], found[1], found[2]


def _state(before: pa.Array, after: pa.Array, removes: pa.Array) -> pa.Table:
    """Per row the struct `after`, or `before` where the event removes, as columns."""
    schema = union(*(pa.schema(list(part.type)) for part in (after, before)))
    new, old = [conform(pa.table({"_place": pa.nulls(len(part))} | _members(part)), schema) for part in (after, before)]
    columns = [pc.if_else(removes, old.column(name), new.column(name)) for name in schema.names]
    return pa.Table.from_arrays(columns, schema=schema)


def _members(part: pa.Array) -> dict[str, pa.Array]:
    return {field.name: pc.struct_field(part, field.name) for field in part.type}


def _empty(rows: pa.Table) -> pa.Array:
    """A mask of the records without any envelope: all columns of their value are null."""
    empty: pa.Array = pa.repeat(True, rows.num_rows)
    for name in rows.column_names:
        if name not in RECORD_COLUMNS:
            empty = pc.and_(empty, pc.is_null(rows.column(name)).combine_chunks())
    return empty


def _check(
    operation: pa.Array, removes: pa.Array, empty: pa.Array, before: pa.Array, after: pa.Array
) -> tuple[np.ndarray[tuple[int], np.dtype[np.bool_]], tuple[tuple[int, str], ...]]:
    """A mask of the events that are rows, and the faults of the others."""
    keeps = pc.fill_null(pc.is_in(operation, pa.array(_KEPT)), False)
    fine = pc.or_(pc.and_(keeps, pc.is_valid(after)), pc.and_(removes, pc.is_valid(before)))
    good = pc.or_(fine, empty).to_numpy(zero_copy_only=False)
    faults = []
    for place in np.flatnonzero(~good).tolist():
        name = operation[place].as_py()
        if name is None:
            faults.append((place, "not a change event: it has no op"))
        elif name in _KEPT or name == _REMOVED:
            faults.append((place, f"a change event of op {name} without {'before' if name == _REMOVED else 'after'}"))
        else:
            faults.append((place, f"a change event of op {name}, which changes no row of a table"))
    return good, tuple(faults)
