"""The filter `--where`: an SQL expression over one row decides whether the row is loaded.

polars parses the expression and evaluates it over whole Arrow tables. An expression must give true, false or null for
each row by that row alone, so that what is loaded does not depend on how records fell into rounds and tasks.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from polars.exceptions import PanicException, PolarsError

from ottla.rows.arrow import header_values, null_mask
from ottla.stores.base import LakeRefused

HEADER = "header."
"""A column of this prefix and a header's name is the text of the last header of that name."""
RECORD_NAMES = frozenset({"key", "headers", "partition", "offset", "timestamp"})
_MATCHES = "__matches"
_CLOCK = re.compile(r"\b(now|today|(current|local)_?(date|time|timestamp))\b", re.IGNORECASE)
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"")

# The parts of an expression as polars names them, as far as each takes one row and nothing else.
_INNER = {
    "BinaryExpr": ("left", "right"),
    "Cast": ("expr",),
    "Ternary": ("predicate", "truthy", "falsy"),
}
_FUNCTIONS = frozenset(
    {"Abs", "Coalesce", "MaxHorizontal", "MinHorizontal", "Round", "RoundSF", "Floor", "Ceil", "Pow", "Sign", "Negate"}
    | {"Log", "Log1p", "Exp", "Trigonometry", "Atan2", "FillNull", "Bitwise"}
    | {"TemporalExpr", "ListExpr", "ArrayExpr", "BinaryExpr"}
)
_FAMILIES = {
    "Boolean": frozenset(
        {"IsNull", "IsNotNull", "IsFinite", "IsInfinite", "IsNan", "IsNotNan", "Not", "IsIn", "IsBetween"}
        | {"AllHorizontal", "AnyHorizontal"}
    ),
    "StructExpr": frozenset({"FieldByName"}),
    "Sql": frozenset({"IsIn", "Binary", "Round", "ToFloat"}),
}

Names = dict[str, "Names"]
"""The columns that an expression names, each with the members of it that are named."""
Faults = list[tuple[int, str]]


class RowFilter:
    """One expression, parsed; LakeRefused where it cannot be a filter."""

    def __init__(self, text: str) -> None:
        self._text = text
        try:
            self._expression = pl.sql_expr(text)
        except (PolarsError, PanicException) as fault:
            raise self._refused(_first_line(fault)) from None
        if clock := _CLOCK.search(_QUOTED.sub("", text)):
            raise self._refused(f"{clock[0]} gives another answer each time that a record is read")
        self._names: Names = {}
        for path in self._paths(_tree(self._expression)):
            _note(self._names, path)
        if not self._names:
            raise self._refused("it names no field")

    @property
    def paths(self) -> list[tuple[str, ...]]:
        """The columns and members that the expression names."""
        return list(_flat(self._names))

    def check(self, columns: pa.Schema) -> None:
        """LakeRefused where rows of these columns have no answer: a wrong type, or something else than true or false.

        Columns that are not there are null.
        """
        rows = pa.table([pa.nulls(1, each.type) for each in columns], schema=columns)
        try:
            answer = self._answers(rows)
        except (PolarsError, PanicException, pa.ArrowException) as fault:
            raise self._refused(_first_line(fault)) from None
        if answer.dtype not in (pl.Boolean, pl.Null):
            raise self._refused(f"a condition gives true or false, and this gives {answer.dtype}")

    def absent(self, columns: Iterable[pa.Schema]) -> list[str]:
        """The named fields that none of these schemas has."""
        missing = {path for path in _flat(self._names) if path[0] not in RECORD_NAMES and not _is_header(path[0])}
        for schema in columns:
            missing = {path for path in missing if not _has(pa.struct(list(schema)), path)}
        return sorted(".".join(path) for path in missing)

    def matches(self, rows: pa.Table) -> tuple[np.ndarray[Any, np.dtype[np.bool_]], Faults]:
        """Masks of the rows that match and of those that fail, with the reason. Null counts as no match."""
        found = np.zeros(rows.num_rows, dtype=np.bool_)
        faults: Faults = []
        spans = [(0, rows.num_rows)] if rows.num_rows else []
        while spans:
            start, end = spans.pop()
            try:
                answer = self._answers(rows.slice(start, end - start)).fill_null(value=False)
                found[start:end] = answer.to_numpy()
            except (PolarsError, PanicException, pa.ArrowException) as fault:
                if end - start == 1:
                    faults.append((start, f"--where cannot be evaluated: {_first_line(fault)}"))
                    continue
                middle = (start + end) // 2
                spans += [(middle, end), (start, middle)]
        return found, faults

    def _answers(self, rows: pa.Table) -> pl.Series:
        columns = {name: _column(rows, name, inner) for name, inner in self._names.items()}
        frame = pl.from_arrow(pa.table(columns))
        assert isinstance(frame, pl.DataFrame)
        return frame.with_columns(self._expression.alias(_MATCHES)).get_column(_MATCHES)

    def _paths(self, node: Any) -> Iterator[tuple[str, ...]]:
        """The columns and members that a part of the expression reads."""
        kind: str = next(iter(node)) if isinstance(node, dict) else str(node)
        content: Any = node[kind] if isinstance(node, dict) else None
        if kind == "Column":
            yield (str(content),)
        elif kind in _INNER:
            for part in _INNER[kind]:
                yield from self._paths(content[part])
        elif kind == "Function":
            yield from self._arguments(content)
        elif kind != "Literal":
            raise self._refused("it must say of one row, by that row alone, whether it is loaded")

    def _arguments(self, call: Any) -> Iterator[tuple[str, ...]]:
        function = call["function"]
        family: str = next(iter(function)) if isinstance(function, dict) else str(function)
        detail: Any = function[family] if isinstance(function, dict) else None
        inner = next(iter(detail)) if isinstance(detail, dict) else detail
        known = family in _FUNCTIONS or inner in _FAMILIES.get(family, ())
        if not known and not (family == "StringExpr" and inner != "ConcatVertical"):
            raise self._refused("it must say of one row, by that row alone, whether it is loaded")
        if family == "StructExpr":
            for path in self._paths(call["input"][0]):
                yield (*path, str(detail["FieldByName"]))
            return
        for part in call["input"]:
            yield from self._paths(part)

    def _refused(self, why: str) -> LakeRefused:
        return LakeRefused(f"--where {self._text}: {why}")


def _tree(expression: pl.Expr) -> Any:
    """An expression as polars writes it down. That form may change with polars: parts not known here are refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return json.loads(expression.meta.serialize(format="json"))


def _note(names: Names, path: tuple[str, ...]) -> None:
    for name in path:
        names = names.setdefault(name, {})


def _flat(names: Names, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, inner in names.items():
        if inner:
            yield from _flat(inner, (*before, name))
        else:
            yield (*before, name)


def _is_header(name: str) -> bool:
    return name.startswith(HEADER)


def _has(kind: pa.DataType, path: tuple[str, ...]) -> bool:
    for name in path:
        if not pa.types.is_struct(kind) or kind.get_field_index(name) < 0:
            return False
        kind = kind.field(kind.get_field_index(name)).type
    return True


def _column(rows: pa.Table, name: str, inner: Names) -> pa.Array:
    """A column as expressions see it: headers by name, times in UTC without a zone, null where it is not there."""
    if _is_header(name):
        return _texts(header_values(_whole(rows.column("headers")), name.removeprefix(HEADER)))
    if name not in rows.column_names:
        return pa.nulls(rows.num_rows, _null_type(inner))
    array = _whole(rows.column(name))
    return _with_members(array.cast(_zoneless(array.type)), inner)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)


def _texts(values: pa.Array) -> pa.Array:
    """Bytes as text; null where they are none."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_text(value) for value in values.to_pylist()], pa.string())


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _null_type(inner: Names) -> pa.DataType:
    return pa.struct([(name, _null_type(below)) for name, below in inner.items()]) if inner else pa.null()


def _with_members(array: pa.Array, inner: Names) -> pa.Array:
    """An object with all members that are named; those that it lacks are null."""
    if not inner or not pa.types.is_struct(array.type):
        return array
    fields = list(array.type)
    members = {each.name: _with_members(array.field(each.name), inner.get(each.name, {})) for each in fields}
    for name in inner:
        if name not in members:
            members[name] = pa.nulls(len(array), _null_type(inner[name]))
    return pa.StructArray.from_arrays(
        list(members.values()), list(members), mask=pa.array(null_mask(array)) if array.null_count else None
    )


def _zoneless(kind: pa.DataType) -> pa.DataType:
    """The type with times in UTC, but without saying so: an expression's literals have no zone."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp(kind.unit)
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(_zoneless(each.type)) for each in kind])
    if pa.types.is_list(kind):
        return pa.list_(_zoneless(kind.value_type))
    return kind


def _first_line(fault: BaseException) -> str:
    return (str(fault).strip() or type(fault).__name__).splitlines()[0]
