"""Rows of a keyed table on their way into staged files: deletes marked, change events unwrapped, rows without a key
told apart. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from ottla.formats.evolution import described
from ottla.lake.columns.envelopes import state_schema, unwrap_envelopes
from ottla.lake.columns.event_types import Kinds, kinds_in
from ottla.lake.columns.event_values import typed
from ottla.lake.columns.flat import flat_fields, flat_table
from ottla.lake.columns.json_columns import DELETED, UNCHANGED
from ottla.lake.columns.shape import LakeShape
from ottla.lake.columns.values import lake_columns, own_names, row_columns
from ottla.lake.tables.keyed import keyless
from ottla.rows.arrow import indices

Faults = list[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class Changed:
    """The rows for a staged file, the place of each among the given ones, and the places of faults with reasons."""

    rows: pa.Table
    places: np.ndarray
    faults: Faults


def changes(
    rows: pa.Table, tombstones: np.ndarray, shape: LakeShape, key: tuple[str, ...], kinds: Kinds | None = None
) -> Changed:
    """Rows as changes by key, without those that cannot be changes. `kinds` are those of fields of change events.

    A record without a value deletes its key; if the key is a field, such a record has no key, and the table passes over
    it.
    """
    faults: Faults = []
    places = np.arange(rows.num_rows)
    if shape.debezium:
        unwrapped = unwrap_envelopes(
            rows,
            partial(flat_table, separator=shape.flatten),
            partial(own_names, shape=shape),
            shape.key,
            partial(typed, kinds=kinds or {}, times_as_numbers=shape.format == "delta"),
            shape.unavailable,
        )
        faults = list(unwrapped.faults)
        rows, places = unwrapped.rows, np.delete(places, [place for place, _ in faults])
    else:
        rows = rows.append_column(DELETED, pa.array(tombstones))
    missing = [name for name in key if name not in rows.column_names]
    lacking = np.ones(rows.num_rows, dtype=np.bool_) if missing else _true(keyless(rows, key))
    refused = lacking & ~_true(rows.column(DELETED))
    faults += [(int(place), f"no key: {', '.join(shape.key)}") for place in places[refused].tolist()]
    if refused.any():
        rows, places = rows.take(indices(np.flatnonzero(~refused))), places[~refused]
    return Changed(rows, places, sorted(faults))


def row_names(columns: pa.Schema | None, shape: LakeShape) -> dict[str, str]:
    """The column of each field of a row, where values make these columns: of the state that a change event leaves."""
    if columns is None:
        return {}
    if not shape.debezium:
        return {name: column.name for name, column in lake_columns(columns, shape).items()}
    return _state_names(row_columns(columns, shape), shape)


def key_columns(names: dict[str, str], shape: LakeShape) -> tuple[str, ...]:
    """The columns of the key, given those of all fields: the record's own, or fields that may not have come yet."""
    if not shape.columns:
        return shape.key
    return tuple(
        "key" if each == "key" else names.get(each) or own_names([*names, each], shape)[each] for each in shape.key
    )


def staged_schema(columns: pa.Schema, shape: LakeShape) -> pa.Schema:
    """The table's columns, given those of the files that hold whole change events."""
    if not shape.debezium:
        return columns
    flattened, named = partial(flat_table, separator=shape.flatten), partial(own_names, shape=shape)
    made = partial(typed, kinds=kinds_in(columns), times_as_numbers=shape.format == "delta")
    rows = unwrap_envelopes(columns.empty_table(), flattened, named, typed=made).rows.schema
    formers = _formers(columns, shape)
    held = _state_names(columns, shape)
    divides = () if shape.whole_rows else shape.layout.fields
    left_out = {DELETED, UNCHANGED, *(held[name] for name in divides if name in held)}
    return pa.schema(
        [described(each, aliases=formers.get(each.name, ())) for each in rows if each.name not in left_out]
    )


def _state_names(columns: pa.Schema, shape: LakeShape) -> dict[str, str]:
    """The column of each field of the states inside events of these columns."""
    return own_names([each.name for each in flat_fields(state_schema(columns), shape.flatten)], shape)


def _formers(columns: pa.Schema, shape: LakeShape) -> dict[str, tuple[str, ...]]:
    """The former names of the columns of rows, as the states inside change events have them."""
    parts = [columns, *(pa.schema(list(each.type)) for each in columns if each.name == "payload" and _is_object(each))]
    states = [each for part in parts for each in part if each.name in ("before", "after") and _is_object(each)]
    found: dict[str, tuple[str, ...]] = {}
    for state in states:
        fields = flat_fields(pa.schema(list(state.type)), shape.flatten)
        own = own_names([each.name for each in fields], shape)
        for each in fields:
            formers = [own_names([former], shape)[former] for former in each.formers]
            found[own[each.name]] = tuple(dict.fromkeys((*found.get(own[each.name], ()), *formers)))
    return found


def _is_object(field: pa.Field) -> bool:
    return bool(pa.types.is_struct(field.type))


def _true(column: pa.ChunkedArray) -> np.ndarray:
    return np.array(column.to_pylist(), dtype=np.bool_)
