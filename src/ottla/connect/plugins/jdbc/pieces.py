"""Pieces of a table that are read side by side: each a range of a column of whole numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from sqlalchemy import Engine, Integer, Table, func, select

IDS: Final = 100_000
"""The numbers that a piece spans, where a table has no more than `MOST` such pieces."""
MOST: Final = 64


class TablePiece(NamedTuple):
    """The rows of a table whose key is at or above `low` and below `high`; None is no bound."""

    schema: str | None
    table: str
    key: str | None = None
    low: int | None = None
    high: int | None = None
    last: Mapping[str, Any] | None = None
    """The offset of the last row that counts, in the order of the mode; None: all rows count."""

    def as_text(self) -> str:
        """The piece as an option of a task."""
        return json.dumps(self)

    @classmethod
    def of_text(cls, text: str) -> TablePiece:
        """The piece in an option of a task."""
        return cls(*json.loads(text))


def pieces_of(engine: Engine, found: Table, column: Any = None) -> Iterator[TablePiece]:
    """The pieces of a table, which have all of its rows: the outer ones have no bound outside.

    They are ranges of `column`, where it holds whole numbers and no null, else of a primary key of one whole number.
    """
    keys = list(found.primary_key.columns)
    if column is not None and not column.nullable:
        keys = [column]
    if len(keys) != 1 or not isinstance(keys[0].type, Integer):
        yield TablePiece(found.schema, found.name)
        return
    with engine.connect() as connection:
        low, high = connection.execute(select(func.min(keys[0]), func.max(keys[0]))).one()
    bounds = cuts(low, high) if low is not None else []
    for begin, end in zip([None, *bounds], [*bounds, None], strict=True):
        yield TablePiece(found.schema, found.name, keys[0].name, begin, end)


def cuts(low: int, high: int) -> list[int]:
    """The keys at which pieces between these two begin, without the first. Pure."""
    count = min(MOST, -(-(high - low + 1) // IDS))
    return [low + (high - low + 1) * number // count for number in range(1, count)]
