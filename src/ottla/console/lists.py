"""Long lists a page at a time: filtered by text, sorted by a column, cut. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.config.option import nearest
from ottla.console.view import PageQuery, wrong

PARAMETERS = ("q", "sort", "page")
PAGE_ROWS = 50
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Listing:
    """One page of a list, and what was asked for."""

    rows: list[Row]
    total: int
    found: int
    page: int
    pages: int
    q: str
    sort: str


def listing(rows: Sequence[Row], query: PageQuery, columns: Sequence[str], *, size: int = PAGE_ROWS) -> Listing:
    """The page that is asked for; `sort` is a column, with - before it from the greatest down.

    `q` is looked for in the first column, whatever its case. A page beyond the last is refused.
    """
    sort, q = query.text("sort", columns[0]), query.text("q")
    column = sort.removeprefix("-")
    if column not in columns:
        raise wrong(f"sort={sort!r}: there are {', '.join(columns)}{nearest(column, columns)}")
    found = [row for row in rows if q.lower() in str(row[columns[0]]).lower()] if q else list(rows)
    known = [row for row in found if row[column] is not None]
    known.sort(key=lambda row: str(row[columns[0]]))
    known.sort(key=lambda row: row[column], reverse=sort.startswith("-"))
    known += [row for row in found if row[column] is None]
    pages = max(1, -(-len(known) // size))
    page = query.count("page", 1, least=1, most=pages)
    return Listing(known[(page - 1) * size : page * size], len(rows), len(known), page, pages, q, sort)
