"""The key of a change event that has no state, from the JSON key of its record: a deletion without `before`. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

Mask = np.ndarray[Any, np.dtype[np.bool_]]


def with_record_keys(
    state: pa.Table, keys: pa.ChunkedArray, key: Iterable[str], deletions: Mask
) -> tuple[pa.Table, dict[int, str]]:
    """The states of deletions with the fields of their key from their records' keys, where they lack those.

    Returns the reasons, too, why rows still have no key. A value that its column cannot hold is null: no row has this
    key, and none is deleted.
    """
    names = [name for name in key if name != "key"]
    held = [name for name in names if name in state.column_names]
    lacking = np.zeros(state.num_rows, dtype=np.bool_) if len(held) == len(names) else deletions.copy()
    for name in held:
        lacking |= deletions & ~np.array(state.column(name).is_valid().to_numpy(), dtype=np.bool_)
    rows = np.flatnonzero(lacking).tolist()
    faults: dict[int, str] = {}
    found = {name: state.column(name).to_pylist() for name in held} if rows else {}
    for row in rows:
        document = _document(keys[row].as_py())
        if missing := [name for name in names if document.get(name) is None]:
            faults[row] = f"a change event of op d without before, and without {missing[0]} in its record's JSON key"
        for name, values in found.items():
            values[row] = _value(document.get(name), state.schema.field(name).type)
    for name, values in found.items():
        place, kind = state.schema.get_field_index(name), state.schema.field(name).type
        state = state.set_column(place, name, pa.chunked_array([pa.array(values, kind)], kind))
    return state, faults


def _document(key: bytes | None) -> dict[str, Any]:
    """The object that a record's key is, without the envelope around it; an empty one where it is none."""
    try:
        document = json.loads(key or b"null")
    except ValueError:
        return {}
    if isinstance(document, dict) and "schema" in document and isinstance(document.get("payload"), dict):
        document = document["payload"]
    return document if isinstance(document, dict) else {}


def _value(value: object, kind: pa.DataType) -> object:
    """A field of a key as a value of its column; None where it is none."""
    if value is None or isinstance(value, bool) is not bool(pa.types.is_boolean(kind)):
        return None
    try:
        return pa.scalar(value, kind).as_py()
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return None
