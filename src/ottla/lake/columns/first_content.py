"""Empty JSON arrays and objects before the first one with content: null, however records fall into rounds. Pure.

An array or object makes a column once a value in it shows a type. In a round of its own an earlier empty one is null,
as it has no column yet; read together with later ones it would be empty. So the tasks of a round note where each new
column's content begins, and read again what lies before.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.formats.arrays import Numbers, numbers, valid, whole
from ottla.formats.columns import parts, places
from ottla.lake.columns.evolution import conform
from ottla.lake.columns.exact import ITEM, Path, type_at
from ottla.lake.columns.json_columns import rows_of_nulls

Place = tuple[int, int]
"""A record's partition and offset: records of one round count in this order."""
NOWHERE: Place = (1 << 31, 0)
"""Behind all records: no row has content."""
Firsts = Mapping[Path, Place | None]
"""The place of the first content of each array and object that the lake lacks; None where it is not known yet."""


@dataclass(slots=True)
class Seen:
    """The places where one task found the first content of each array and object, and the first empty one before it."""

    content: dict[Path, Place] = field(default_factory=dict)
    empty: dict[Path, Place] = field(default_factory=dict)

    def add(self, rows: pa.Table, partition: int, offsets: Numbers, firsts: Firsts) -> None:
        """Look at the next rows, for the arrays and objects of which nothing is known."""
        for path in (each for each, place in firsts.items() if place is None and each not in self.content):
            array, holders = _at(rows, path)
            begin = _first_with_content(array, holders)
            if begin is not None:
                self.content[path] = (partition, int(offsets[begin]))
            there = holders[valid(array)]
            if there.size and (begin is None or there[0] < begin):
                self.empty.setdefault(path, (partition, int(offsets[there[0]])))

    def is_early(self, firsts: Mapping[Path, Place]) -> bool:
        """True if some array or object here was empty before the first one with content."""
        return any(place < firsts[path] for path, place in self.empty.items())


def new_parts(columns: pa.Schema, known: pa.Schema) -> list[Path]:
    """The arrays and objects of these columns that the known ones lack."""
    return [path for path, kind in places(columns, ITEM) if parts(kind) and type_at(known, path) is None]


def first_places(paths: Iterable[Path], seen: Iterable[Seen]) -> dict[Path, Place]:
    """The place of the first content of each path, over all tasks."""
    found = list(seen)
    return {path: min((each.content.get(path, NOWHERE) for each in found), default=NOWHERE) for path in paths}


def withheld(rows: pa.Table, partition: int, offsets: Numbers, firsts: Firsts) -> pa.Table:
    """The rows with null for arrays and objects of which no content had come yet."""
    begins = {path: _rows_before(place, partition, offsets) for path, place in firsts.items() if place is not None}
    if not any(begins.values()):
        return rows
    pieces = []
    for begin, end in itertools.pairwise(sorted({0, len(offsets), *begins.values()})):
        absent = {path for path, first in begins.items() if first >= end}
        narrow, piece = pa.schema(_without(rows.schema, absent)), rows.slice(begin, end - begin)
        held = conform(piece, narrow) if narrow.names else rows_of_nulls(rows.schema, len(piece))
        pieces.append(conform(held, rows.schema))
    return pa.concat_tables(pieces)


def _rows_before(place: Place, partition: int, offsets: Numbers) -> int:
    if place[0] == partition:
        return int(np.searchsorted(offsets, place[1]))
    return len(offsets) if place[0] > partition else 0


def _at(rows: pa.Table, path: Path) -> tuple[pa.Array, Numbers]:
    """All values at a path, each with the number of its row."""
    array, holders = whole(rows.column(path[0])), np.arange(rows.num_rows)
    for step in path[1:]:
        array, holders = _inside(array, holders)[0 if step == ITEM else array.type.get_field_index(step)]
    return array, holders


def _inside(array: pa.Array, holders: Numbers) -> list[tuple[pa.Array, Numbers]]:
    """The items of lists, or the members of structs, each with the number of its row."""
    if pa.types.is_struct(array.type):
        return [(member, holders) for member in array.flatten()]
    return [(array.flatten(), holders[numbers(pc.list_parent_indices(array), np.int64)])]


def _first_with_content(array: pa.Array, holders: Numbers) -> int | None:
    """The first row with a value that is no array or object."""
    if not parts(array.type):
        there = holders[valid(array)]
        return int(there[0]) if there.size else None
    found = [_first_with_content(*each) for each in _inside(array, holders)]
    return min((row for row in found if row is not None), default=None)


def _without(fields: Iterable[pa.Field], absent: set[Path], path: Path = ()) -> list[pa.Field]:
    kept = [each for each in fields if (*path, each.name) not in absent]
    return [each.with_type(_narrowed(each.type, absent, (*path, each.name))) for each in kept]


def _narrowed(kind: pa.DataType, absent: set[Path], path: Path) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct(_without(kind, absent, path))
    if pa.types.is_list(kind):
        return pa.list_(_narrowed(kind.value_type, absent, (*path, ITEM)))
    return kind
