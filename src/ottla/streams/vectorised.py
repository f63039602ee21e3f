"""Functions on Arrow columns of many records, for operations of streams that look at one record at a time."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, overload

from ottla.streams.column import TYPES, ValueColumn
from ottla.streams.engine.together import BatchRows, Together
from ottla.streams.errors import TopologyError
from ottla.streams.naming import nearest
from ottla.streams.serdes import Serde

OPERATIONS = ("filter", "filter_not", "group_by", "map", "map_values", "select_key")


@dataclass(frozen=True, slots=True)
class Vectorised:
    """A function that takes columns and returns columns; `key` and `value` are their types, else the serdes say."""

    function: Callable[..., Any]
    key: Any = None
    value: Any = None

    @property
    def name(self) -> str:
        """The function's name."""
        return getattr(self.function, "__name__", repr(self.function))

    def __call__(self, *_: Any) -> Any:
        """Refuse an operation that calls its function with single records."""
        raise TopologyError(
            f"{self.name} is vectorised, and this operation calls its function with single records: "
            f"{', '.join(OPERATIONS)} of a stream take columns"
        )


@overload
def vectorised(function: Callable[..., Any], *, key: Any = None, value: Any = None) -> Vectorised: ...
@overload
def vectorised(*, key: Any = None, value: Any = None) -> Callable[[Callable[..., Any]], Vectorised]: ...
def vectorised(function: Callable[..., Any] | None = None, *, key: Any = None, value: Any = None) -> Any:
    """Mark a function that takes Arrow columns in place of keys and values, and returns a column as long.

    Each row of the result may depend on the same row of the columns alone: how many records come together is not said.
    `key` and `value` are pyarrow types, needed where the serde (JSON, Avro) has none.

    @vectorised
    def loud(values):
        return pyarrow.compute.utf8_upper(values)

    stream.map_values(loud)
    """
    if function is None:
        return lambda function: Vectorised(function, key, value)
    return Vectorised(function, key, value)


def together(operation: str, chosen: Vectorised, key: Serde, value: Serde) -> Callable[[], Together]:
    """Makes the processor of an operation whose function takes columns; TopologyError where a type is missing."""
    function = _Function(operation, chosen, None if operation == "map_values" else _type_of("key", chosen.key, key),
                         _type_of("value", chosen.value, value))  # fmt: skip
    apply = {
        "filter": function.keep,
        "filter_not": function.leave_out,
        "map": function.pairs,
        "map_values": function.values,
        "select_key": function.keys,
    }[operation]
    return lambda: Together(apply)


@dataclass(frozen=True, slots=True)
class _Function:
    """A vectorised function with the types of its columns, which are pyarrow's or their names."""

    operation: str
    chosen: Vectorised
    key: Any
    value: Any

    def keep(self, rows: BatchRows) -> BatchRows:
        """The rows for which the result is true; a null is not."""
        return rows.chosen(self._holds(rows))

    def leave_out(self, rows: BatchRows) -> BatchRows:
        """The rows for which the result is not true."""
        compute = importlib.import_module("pyarrow.compute")
        return rows.chosen(compute.invert(compute.fill_null(self._holds(rows), False)))

    def values(self, rows: BatchRows) -> BatchRows:
        """Every key with the result."""
        made = self._checked(self.chosen.function(rows.values.array(self.value)), rows)
        return BatchRows(rows.at, rows.keys, ValueColumn(array=made))

    def keys(self, rows: BatchRows) -> BatchRows:
        """The result as keys of the values."""
        return BatchRows(rows.at, ValueColumn(array=self._checked(self._result(rows), rows)), rows.values)

    def pairs(self, rows: BatchRows) -> BatchRows:
        """The two columns of the result."""
        result = self._result(rows)
        if not isinstance(result, tuple | list) or len(result) != 2:
            raise TopologyError(f"{self.chosen.name} returned {_kind(result)}: map takes a pair of columns")
        return BatchRows(rows.at, *(ValueColumn(array=self._checked(column, rows)) for column in result))

    def _holds(self, rows: BatchRows) -> Any:
        result = self._checked(self._result(rows), rows)
        if str(result.type) != "bool":
            raise TopologyError(f"{self.chosen.name} returned {result.type}: {self.operation} takes a column of bool")
        return result

    def _result(self, rows: BatchRows) -> Any:
        return self.chosen.function(rows.keys.array(self.key), rows.values.array(self.value))

    def _checked(self, column: Any, rows: BatchRows) -> Any:
        """A column of the result, which must have a row for each record."""
        arrow = importlib.import_module("pyarrow")
        if isinstance(column, arrow.ChunkedArray):
            column = column.combine_chunks()
        if not isinstance(column, arrow.Array):
            raise TopologyError(f"{self.chosen.name} returned {_kind(column)}: {self.operation} takes Arrow columns")
        if len(column) != len(rows.at):
            raise TopologyError(
                f"{self.chosen.name} returned {len(column)} rows for {len(rows.at)} records: one for each"
            )
        return column


def _type_of(which: str, given: Any, serde: Serde) -> Any:
    if given is None and serde.name not in TYPES:
        raise TopologyError(f"the serde {serde.name} has no type of column: name it, @vectorised({which}=pyarrow.…)")
    if isinstance(given, str):
        raise TopologyError(f"@vectorised({which}={given!r}) is no pyarrow type{nearest(given, TYPES.values())}")
    return TYPES[serde.name] if given is None else given


def _kind(result: Any) -> str:
    return f"a {type(result).__module__.partition('.')[0]} {type(result).__name__}"
