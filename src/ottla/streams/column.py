"""Keys or values of many records: as Python has them, as an Arrow array, or both, each made when it is asked for.

pyarrow is loaded with the first array: topologies of plain functions do without it.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from itertools import compress
from typing import Any

from ottla.streams.errors import SerdeError
from ottla.streams.serdes import Serde

TYPES = {
    "text": "string", "bytes": "binary", "int16": "int64", "int32": "int64", "int64": "int64",
    "float32": "float64", "float64": "float64",
}  # fmt: skip
"""The types of columns by the names of serdes; numbers have the widest one, as Python's own have no end."""
_BYTES = {"text", "bytes"}


class ValueColumn:
    """Give it what there is: a list, which is the truth then, or an array whose values Python has the same."""

    def __init__(self, listed: Sequence[Any] | None = None, array: Any = None) -> None:
        self._listed, self._array = listed, array

    @staticmethod
    def of_bytes(serde: Serde, datas: list[bytes | None]) -> ValueColumn | None:
        """The column of what topics hold; None where the serde cannot read them together."""
        if serde.name not in _BYTES:
            return None
        arrow = importlib.import_module("pyarrow")
        try:
            return ValueColumn(array=arrow.array(datas, arrow.binary()).cast(TYPES[serde.name]))
        except arrow.ArrowInvalid:
            return None

    def __len__(self) -> int:
        return len(self._array if self._listed is None else self._listed)

    def listed(self) -> Sequence[Any]:
        """The values as Python has them."""
        if self._listed is None:
            self._listed = self._array.to_pylist()
        return self._listed

    def array(self, kind: Any) -> Any:
        """The values as an array of a type, or of its name; ValueError for a value that is not of the type."""
        arrow = importlib.import_module("pyarrow")
        wanted = arrow.type_for_alias(kind) if isinstance(kind, str) else kind
        if self._array is not None and self._array.type == wanted:
            return self._array
        try:
            return arrow.array(self.listed(), wanted)
        except arrow.ArrowException as fault:
            problem = f"not {wanted}: {fault}; name the type that fits, @vectorised(key=…, value=…)"
            raise ValueError(problem) from fault

    def chosen(self, mask: Any) -> ValueColumn:
        """The values where an array of truth has true."""
        if self._listed is None:
            return ValueColumn(array=self._array.filter(mask))
        return ValueColumn(list(compress(self._listed, mask.to_pylist())))


def tried(serde: Serde, datas: Sequence[bytes | None]) -> list[Any]:
    """The values of many; a SerdeError stands in the place of one that is not of the serde."""
    if serde.read_all is not None:
        return serde.from_bytes_of(list(datas))
    return [_tried(serde, data) for data in datas]


def _tried(serde: Serde, data: bytes | None) -> Any:
    try:
        return serde.from_bytes(data)
    except SerdeError as error:
        return error
