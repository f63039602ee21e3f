"""Debezium's change events as rows: columns `before`, `after` and `op`, also below `payload`, become the row itself.

Pure, in Arrow, on the columns that JSON values were read into.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.lake.columns.event_keys import Mask, with_record_keys
from ottla.lake.columns.evolution import conform, union
from ottla.lake.columns.json_columns import DELETED, EVENT_TIME, UNCHANGED, column_names
from ottla.lake.columns.unchanged import marks_of, unchanged

_KEPT, _REMOVED = ("c", "u", "r"), "d"
RECORD_COLUMNS = ("key", "headers", "partition", "offset", "timestamp", EVENT_TIME)


@dataclass(frozen=True, slots=True)
class Unwrapped:
    """Rows for a staged file, and the events that are none: the place in the given rows, and why."""

    rows: pa.Table
    faults: tuple[tuple[int, str], ...]


def _named(names: Sequence[str]) -> dict[str, str]:
    return dict(zip(names, column_names(names), strict=True))


def unwrap_envelopes(
    rows: pa.Table,
    flattened: Callable[[pa.Table], pa.Table] = lambda state: state,
    named: Callable[[Sequence[str]], Mapping[str, str]] = _named,
    key: Sequence[str] = (),
    typed: Callable[[pa.Table], tuple[pa.Table, dict[int, str]]] = lambda state: (state, {}),
    unavailable: str = "",
) -> Unwrapped:
    """The state that each event leaves (`after`), for a deletion the last one (`before`), beside the record's columns.

    `flattened` makes the columns of a state, `named` their names in the table. `key` names the fields of its key: a
    deletion without them, as of a table without a replica identity, has those of its record's key. `typed` makes the
    values what the events' schema says. `unavailable` is the text in place of values that did not change: the column
    UNCHANGED names those that have no place for it.

    A record without a value, as Debezium sends one after a deletion, becomes a delete of its key's columns, all null,
    which a keyed table passes over where its key is a field.
    """
    record = rows.select([name for name in RECORD_COLUMNS if name in rows.column_names])
    operation, before, after = _parts(rows)
    removes = pc.fill_null(pc.equal(operation, _REMOVED), False)
    empty = _empty(rows)
    whole = _state(before, after, removes)
    state = flattened(whole)
    faults = _check(operation, removes, empty, after)
    if "key" in record.column_names:
        state, lacking = with_record_keys(state, record.column("key"), key, _mask(removes))
        faults |= lacking
    masks = _unchanged_members(whole, flattened, unavailable)
    state, others = _typed(state, typed, unavailable, masks)
    faults = others | faults
    good = np.ones(rows.num_rows, dtype=np.bool_)
    good[list(faults)] = False
    own = named(state.schema.names)
    columns = {own[name]: column for name, column in zip(state.schema.names, state.columns, strict=True)}
    columns |= dict(zip(record.column_names, record.columns, strict=True))
    columns[DELETED] = pc.or_(removes, empty)
    if unavailable:
        columns[UNCHANGED] = marks_of({own[name]: mask for name, mask in masks.items()}, rows.num_rows)
    return Unwrapped(pa.table(columns).filter(pa.array(good)), tuple(sorted(faults.items())))


def _unchanged_members(state: pa.Table, flattened: Callable[[pa.Table], pa.Table], unavailable: str) -> dict[str, Mask]:
    """By flat column, the rows in which the object around it is the placeholder, as of an hstore."""
    masks: dict[str, Mask] = {}
    for field in state.schema if unavailable else ():
        if not pa.types.is_struct(field.type) or not (mask := unchanged(state.column(field.name), unavailable)).any():
            continue
        members = flattened(state.select([field.name])).column_names
        masks |= dict.fromkeys(members if members != [field.name] else (), mask)
    return masks


def _typed(
    state: pa.Table,
    typed: Callable[[pa.Table], tuple[pa.Table, dict[int, str]]],
    unavailable: str,
    masks: dict[str, Mask],
) -> tuple[pa.Table, dict[int, str]]:
    """The values as their schema says; a placeholder for which a type has no place is null, and among the masks."""
    given = {name: unchanged(state.column(name), unavailable) for name in state.column_names} if unavailable else {}
    given = {name: mask for name, mask in given.items() if mask.any()}
    blank = state
    for name, mask in given.items():
        place, column = state.column_names.index(name), state.column(name)
        blank = blank.set_column(place, name, pc.if_else(pa.array(mask), pa.scalar(None, column.type), column))
    made, faults = typed(blank)
    for name, mask in given.items():
        place = state.column_names.index(name)
        if made.schema.field(place).type == state.schema.field(place).type:
            made = made.set_column(place, name, state.column(name))
        else:
            masks[name] = mask
    return made, faults


def state_schema(columns: pa.Schema) -> pa.Schema:
    """The fields of the states inside events of these columns; CannotWiden where no type holds those of all states."""
    _, before, after = _parts(columns.empty_table())
    return union(*(pa.schema(list(part.type)) for part in (after, before)))


def _parts(rows: pa.Table) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Each row's op, before and after: those below `payload` where that has an op, else the row's own."""
    own = {name: _column(rows, name) for name in ("op", "before", "after")}
    place = rows.schema.get_field_index("payload")
    if place < 0 or not pa.types.is_struct(rows.schema.field(place).type):
        return own["op"], own["before"], own["after"]
    payload = rows.column("payload").combine_chunks()
    inner = pa.table({"_place": pa.nulls(len(payload))} | _members(payload))
    wrapped = {name: _column(inner, name) for name in own}
    inside = pc.and_(pc.is_valid(payload), pc.or_(pc.is_valid(wrapped["op"]), pc.is_null(own["op"])))
    states = [_chosen(inside, wrapped[name], own[name]) for name in ("before", "after")]
    return pc.if_else(inside, wrapped["op"], own["op"]), states[0], states[1]


def _column(rows: pa.Table, name: str) -> pa.Array:
    """The column op, before or after; nulls where there is none, or one of another kind."""
    fits = pa.types.is_string if name == "op" else pa.types.is_struct
    if name in rows.column_names and fits(rows.schema.field(name).type):
        return rows.column(name).combine_chunks()
    return pa.nulls(rows.num_rows, pa.string() if name == "op" else pa.struct([]))


def _chosen(mask: pa.Array, one: pa.Array, other: pa.Array) -> pa.Array:
    """One object or the other, by row, with the members of both."""
    schema = union(*(pa.schema(list(part.type)) for part in (one, other)))
    valid = pc.if_else(mask, pc.is_valid(one), pc.is_valid(other))
    if not schema.names:
        return pa.array([{} if each else None for each in valid.to_pylist()], pa.struct([]))
    tables = [
        conform(pa.table({"_place": pa.nulls(len(part))} | _members(part)), schema).combine_chunks()
        for part in (one, other)
    ]
    columns = [_whole(pc.if_else(mask, tables[0].column(name), tables[1].column(name))) for name in schema.names]
    return pa.StructArray.from_arrays(columns, fields=list(schema), mask=pc.invert(valid))


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.nulls(0, column.type)])


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


def _check(operation: pa.Array, removes: pa.Array, empty: pa.Array, after: pa.Array) -> dict[int, str]:
    """The rows that are no events, each with the reason."""
    keeps = pc.fill_null(pc.is_in(operation, pa.array(_KEPT)), False)
    good = pc.or_(pc.or_(pc.and_(keeps, pc.is_valid(after)), removes), empty)
    faults = {}
    for place in np.flatnonzero(~_mask(good)).tolist():
        name = operation[place].as_py()
        if name is None:
            faults[place] = "not a change event: it has no op"
        elif name in _KEPT:
            faults[place] = f"a change event of op {name} without after"
        else:
            faults[place] = f"a change event of op {name}, which changes no row of a table"
    return faults


def _mask(values: pa.Array) -> Mask:
    return np.array(values.to_numpy(zero_copy_only=False), dtype=np.bool_)
