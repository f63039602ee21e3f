"""One JSON value by itself: its object and the type that it shows, or the reason why it cannot be a row."""

from __future__ import annotations

import json
import math
from typing import Any

import pyarrow as pa

from ottla.lake.columns.json_parser import MOST_BYTES, depth
from ottla.lake.columns.types import MOST_LEVELS, Misfit, Rule, merge, usable

_SCALARS = {type(None): pa.null(), bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
_INT64 = range(-(1 << 63), 1 << 63)


def read_object(value: bytes) -> dict[str, object]:
    """The object that a value is; ValueError says why it is none that can be columns."""
    if len(value) > MOST_BYTES:
        raise ValueError(f"a value of {len(value):,} bytes; at most {MOST_BYTES:,} can be columns")
    if depth(value) > MOST_LEVELS:
        raise ValueError(f"nested deeper than {MOST_LEVELS} levels")
    try:
        document = json.loads(value, parse_constant=_refuse_constant, parse_int=_whole, parse_float=_real)
    except ValueError as fault:
        raise ValueError(str(fault) if isinstance(fault, _Refused) else f"not JSON: {fault}") from None
    if not isinstance(document, dict):
        raise ValueError(f"a JSON {_kind(document)}, not an object")
    return document


class _Refused(ValueError):
    """Well-formed, or nearly, but no value of a column."""


def _refuse_constant(name: str) -> object:
    raise _Refused(f"not JSON: {name} is not a number")


def _whole(text: str) -> int:
    if len(text) > 20 or (number := int(text)) not in _INT64:
        raise _Refused(f"a number too big: {text[:40]} has more than 64 bits")
    return number


def _real(text: str) -> float:
    if math.isinf(number := float(text)):
        raise _Refused(f"a number too big: {text[:40]} is beyond a double")
    return number


def placed(value: Any, kind: pa.DataType) -> object:
    """The part of a value that its column can hold; numbers as text where the column holds text."""
    if isinstance(value, dict) and pa.types.is_struct(kind):
        types = {each.name: each.type for each in kind}
        return {name: placed(member, types[name]) for name, member in value.items() if name in types}
    if isinstance(value, list) and pa.types.is_list(kind):
        return [placed(item, kind.value_type) for item in value]
    if isinstance(value, dict | list):
        return None  # a value that shows no type, e.g. an empty one: it fits every column, and adds nothing there
    if isinstance(value, int) and not isinstance(value, bool) and pa.types.is_string(kind):
        return str(value)
    return value


def type_of(value: object, rule: Rule) -> pa.DataType:
    """A value's type; Misfit where members of an array, or two spellings of a name, do not go together."""
    if isinstance(value, dict):
        members: dict[str, pa.DataType] = {}
        spelled: dict[str, str] = {}
        for name, member in value.items():
            kind = usable(type_of(member, rule))
            if kind is None:  # a field that shows no type makes no column, and so collides with none
                continue
            if (known := spelled.setdefault(name.casefold(), name)) != name:
                raise Misfit(f"field {name}: its name differs from {known} only in case")
            members[name] = merge(pa.null(), kind, rule, name)
        return pa.struct(list(members.items()))
    if isinstance(value, list):
        item = pa.null()
        for element in value:
            item = merge(item, type_of(element, rule), rule, "[]")
        return pa.list_(item)
    return _SCALARS[type(value)]


def _kind(value: object) -> str:
    return {list: "array", str: "string", bool: "boolean", type(None): "null"}.get(type(value), "number")
