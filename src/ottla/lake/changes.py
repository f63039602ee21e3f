"""Rows of a keyed table on their way into staged files: deletes marked, change events unwrapped, rows without a key
told apart. Pure.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa

from ottla.formats.evolution import described
from ottla.lake.flat import flat_fields, flat_table
from ottla.lake.json_columns import column_names
from ottla.lake.shape import Shape
from ottla.lake.tables.envelopes import unwrap_envelopes
from ottla.lake.tables.keyed import DELETED, keyless
from ottla.spark.arrow import indices

Faults = list[tuple[int, str]]


def changes(rows: pa.Table, tombstones: np.ndarray, shape: Shape) -> tuple[pa.Table, Faults]:
    """The rows for a staged file, and the places of those that cannot be changes, with reasons.

    A record without a value deletes its key; if the key is a field, such a record has no key, and the table passes over
    it.
    """
    faults: Faults = []
    places = np.arange(rows.num_rows)
    key = shape.key
    if shape.debezium:
        unwrapped = unwrap_envelopes(rows, partial(flat_table, separator=shape.flatten))
        faults = list(unwrapped.faults)
        rows, places = unwrapped.rows, np.delete(places, [place for place, _ in faults])
    else:
        rows = rows.append_column(DELETED, pa.array(tombstones))
    missing = [name for name in key if name not in rows.column_names]
    lacking = np.ones(rows.num_rows, dtype=np.bool_) if missing else _true(keyless(rows, key))
    refused = lacking & ~_true(rows.column(DELETED))
    faults += [(int(place), f"no key: {', '.join(key)}") for place in places[refused].tolist()]
    kept = rows if not refused.any() else rows.take(indices(np.flatnonzero(~refused)))
    return kept, sorted(faults)


def staged_schema(columns: pa.Schema, shape: Shape) -> pa.Schema:
    """The table's columns, given those of the files that hold whole change events."""
    if not shape.debezium:
        return columns
    rows = unwrap_envelopes(columns.empty_table(), partial(flat_table, separator=shape.flatten)).rows.schema
    formers = _formers(columns, shape.flatten)
    return pa.schema([described(each, aliases=formers.get(each.name, ())) for each in rows if each.name != DELETED])


def _formers(columns: pa.Schema, separator: str) -> dict[str, tuple[str, ...]]:
    """The former names of the columns of rows, as the states inside change events have them."""
    parts = [columns, *(pa.schema(list(each.type)) for each in columns if each.name == "payload" and _is_object(each))]
    states = [each for part in parts for each in part if each.name in ("before", "after") and _is_object(each)]
    found: dict[str, tuple[str, ...]] = {}
    for state in states:
        fields = flat_fields(pa.schema(list(state.type)), separator)
        for each, own in zip(fields, column_names([each.name for each in fields]), strict=True):
            formers = [name for former in each.formers for name in column_names([former])]
            found[own] = tuple(dict.fromkeys((*found.get(own, ()), *formers)))
    return found


def _is_object(field: pa.Field) -> bool:
    return bool(pa.types.is_struct(field.type))


def _true(column: pa.ChunkedArray) -> np.ndarray:
    return np.array(column.to_pylist(), dtype=np.bool_)
