"""Values that a change event leaves out since they did not change: they are taken from the row before. Pure, in Arrow.

PostgreSQL keeps large values apart (TOAST) and does not log those that an update left alone. Debezium sends a
placeholder in their place: its text, in Base64 for bytes, the bytes one by one in arrays of numbers, a UUID made of it
in arrays of UUIDs, and as the only key of an hstore.
"""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.lake.columns.json_columns import DELETED, UNCHANGED

ALONE = "_ottla_alone"
"""True for a row that follows the deletion of its key: an older row of the table is not the row before."""
_RECORD = frozenset({"key", "headers", "partition", "offset", "timestamp", UNCHANGED})

Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]


def unchanged(column: pa.Array | pa.ChunkedArray, text: str) -> Mask:
    """A mask of the values that are the placeholder of this text."""
    whole = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) and column.num_chunks else column
    if not len(whole):
        return np.zeros(0, dtype=np.bool_)
    return _true(_unchanged(whole, text))


def value_columns(rows: pa.Table, key: Sequence[str]) -> list[str]:
    """The columns that may hold the placeholder."""
    return [name for name in rows.column_names if name not in _RECORD and name not in key]


def filled(rows: pa.Table, group: Sequence[str], order: Sequence[str], key: Sequence[str], text: str) -> pa.Table:
    """The rows, in which each placeholder is the value of the row before in its group, where a group has one."""
    masks = lacking_values(rows, key, text)
    if not any(mask.any() for mask in masks.values()):
        return rows
    sorting = pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in (*group, *order)])
    rows, places = rows.take(sorting), np.arange(rows.num_rows)
    starts = np.maximum.accumulate(np.where(_first(rows, group), places, 0))
    deleted, alone = _true(rows.column(DELETED)), _true(rows.column(ALONE))
    gone = np.maximum.accumulate(np.where(deleted | alone, places, -1))
    alone |= np.concatenate([[-1], gone[:-1]]) >= starts
    left: dict[str, Mask] = {}
    for name in [name for name, mask in masks.items() if mask.any()]:
        lacking = masks[name][sorting.to_numpy()] & ~deleted
        source = np.maximum.accumulate(np.where(lacking, -1, places))
        found = lacking & (source >= starts) & ~deleted[source]
        column = rows.column(name).take(pa.array(np.where(found, source, places)))
        rows = rows.set_column(rows.column_names.index(name), name, column)
        left[name] = lacking & ~found
    return _marked(rows.set_column(rows.column_names.index(ALONE), ALONE, pa.array(alone)), left)


def pending(rows: pa.Table, key: Sequence[str], text: str) -> dict[str, Mask]:
    """By column, the rows whose value is still to be taken from the table's row of the same key."""
    if not text or ALONE not in rows.column_names:
        return {}
    takes = ~(_true(rows.column(DELETED)) | _true(rows.column(ALONE)))
    masks = {name: mask & takes for name, mask in lacking_values(rows, key, text).items()}
    return {name: mask for name, mask in masks.items() if mask.any()}


def restored(rows: pa.Table, masks: dict[str, Mask], places: np.ndarray, older: pa.Table) -> pa.Table:
    """The rows with values of older ones, which belong to the rows at these places, where the masks ask for them."""
    for name, mask in masks.items():
        wanted = np.flatnonzero(mask[places])
        chosen = np.arange(rows.num_rows)
        chosen[places[wanted]] = rows.num_rows + wanted
        column = rows.column(name)
        both = pa.chunked_array([*column.chunks, *older.column(name).chunks], column.type)
        rows = rows.set_column(rows.column_names.index(name), name, both.take(pa.array(chosen)))
        marks = marked(rows, name)
        marks[places[wanted]] = False
        rows = _marked(rows, {name: marks})
    return rows


def lacking_values(rows: pa.Table, key: Sequence[str], text: str) -> dict[str, Mask]:
    """By column, the rows that keep the value of the row before: by the placeholder, or where it has no place."""
    return {name: unchanged(rows.column(name), text) | marked(rows, name) for name in value_columns(rows, key)}


def marked(rows: pa.Table, name: str) -> Mask:
    """A mask of the rows whose UNCHANGED names this column."""
    if UNCHANGED not in rows.column_names or rows.column(UNCHANGED).null_count == rows.num_rows:
        return np.zeros(rows.num_rows, dtype=np.bool_)
    return np.array([name in (names or ()) for names in rows.column(UNCHANGED).to_pylist()], dtype=np.bool_)


def marks_of(masks: Mapping[str, Mask], rows: int) -> pa.Array:
    """The column UNCHANGED of rows, given the masks of the columns that have no place for the placeholder."""
    found: list[list[str] | None] = [None] * rows
    for name, mask in masks.items():
        for row in np.flatnonzero(mask).tolist():
            found[row] = [*(found[row] or ()), name]
    return pa.array(found, pa.list_(pa.string()))


def _marked(rows: pa.Table, masks: Mapping[str, Mask]) -> pa.Table:
    """The rows with marks of these columns that are those of the masks, where there were marks."""
    if UNCHANGED not in rows.column_names or rows.column(UNCHANGED).null_count == rows.num_rows:
        return rows
    names = {name for each in rows.column(UNCHANGED).to_pylist() for name in each or ()}
    marks = {name: marked(rows, name) & masks.get(name, np.True_) for name in names}
    return rows.set_column(rows.column_names.index(UNCHANGED), UNCHANGED, marks_of(marks, rows.num_rows))


def _unchanged(values: pa.Array, text: str) -> pa.Array:
    kind = values.type
    if pa.types.is_string(kind):
        return pc.is_in(values, pa.array([text, base64.b64encode(text.encode()).decode()]))
    if pa.types.is_binary(kind):
        return pc.is_in(values, pa.array([text.encode()], kind))
    if pa.types.is_list(kind):
        return _unchanged_list(values, text)
    if pa.types.is_struct(kind) and kind.get_field_index(text) >= 0:
        return pc.and_(pc.is_valid(values), pc.is_valid(values.field(kind.get_field_index(text))))
    if pa.types.is_map(kind) and pa.types.is_string(kind.key_type):
        return pa.array([each is not None and [name for name, _ in each] == [text] for each in values.to_pylist()])
    return pa.repeat(False, len(values))


def _unchanged_list(values: pa.Array, text: str) -> pa.Array:
    item, lengths = values.type.value_type, pc.fill_null(pc.list_value_length(values), 0)
    code = list(text.encode())
    numbers = pa.types.is_integer(item) or pa.types.is_floating(item)
    found = _true(pc.equal(lengths, len(code) if numbers else 1)).copy()
    if not numbers and not pa.types.is_string(item) and not pa.types.is_binary(item):
        return pa.repeat(False, len(values))
    named = uuid.UUID(bytes=hashlib.md5(text.encode(), usedforsecurity=False).digest(), version=3)
    for row in np.flatnonzero(found).tolist():
        held = values[row].as_py()
        if numbers:
            found[row] = held == code
        else:
            found[row] = held[0] == str(named) or bool(_unchanged(pa.array(held, item), text)[0].as_py())
    return pa.array(found)


def _first(rows: pa.Table, group: Sequence[str]) -> Mask:
    """A mask of the first row of each group, of sorted rows."""
    first = np.zeros(rows.num_rows, dtype=np.bool_)
    first[:1] = True
    for name in group:
        column = rows.column(name)
        first[1:] |= _true(pc.not_equal(column.slice(1), column.slice(0, rows.num_rows - 1)))
    return first


def _true(mask: pa.Array | pa.ChunkedArray) -> Mask:
    if isinstance(mask, pa.ChunkedArray):
        mask = mask.combine_chunks()
    return np.array(pc.fill_null(mask, False).to_numpy(zero_copy_only=False), dtype=np.bool_)
