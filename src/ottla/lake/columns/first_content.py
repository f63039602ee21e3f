"""Values of columns that had not come yet: null, however records fall into rounds. Pure.

A JSON array or object makes a column once a value in it shows a type, and a field that a later schema brings has its
default in values of older schemas. In a round of its own an earlier record has null there; read together with later
ones it would have an empty array, or the default. So the tasks of a round note where each new column begins, and read
again what lies before.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.formats.arrays import Numbers, numbers, valid, whole
from ottla.formats.columns import parts
from ottla.formats.evolution import has_place
from ottla.lake.columns.evolution import conform
from ottla.lake.columns.exact import ITEM, Path, type_at
from ottla.lake.columns.json_columns import rows_of_nulls

Place = tuple[int, int]
"""A record's partition and offset: records of one round count in this order."""
NOWHERE: Place = (1 << 31, 0)
"""Behind all records: the column does not begin."""
Firsts = Mapping[Path, Place | None]
"""The place where each column, or member inside one, begins that the lake lacks; None where it is not known yet."""


@dataclass(slots=True)
class FirstContent:
    """The places where columns begin in one task, and the first value of each before it."""

    begins: dict[Path, Place] = field(default_factory=dict)
    early: dict[Path, Place] = field(default_factory=dict)

    def add(self, rows: pa.Table, partition: int, offsets: Numbers, firsts: Firsts) -> None:
        """Look at the next rows of JSON: an array or object begins with the first value inside it."""
        for path in self._unknown(firsts):
            array, holders = _at(rows, path)
            begin = _first_with_content(array, holders)
            self._note(path, partition, offsets[holders[valid(array)]], None if begin is None else int(offsets[begin]))

    def add_written(
        self,
        rows: pa.Table,
        partition: int,
        offsets: Numbers,
        firsts: Firsts,
        written: Sequence[tuple[int, pa.Schema]],
    ) -> None:
        """Look at the next rows of values with schemas, given the first offset and the columns of each schema."""
        for path in self._unknown(firsts):
            array, holders = _at(rows, path)
            begins = (at for at, columns in written if has_place(rows.schema, columns, path))
            self._note(path, partition, offsets[holders[valid(array)]], min(begins, default=None))

    def _unknown(self, firsts: Firsts) -> list[Path]:
        return [path for path, place in firsts.items() if place is None and path not in self.begins]

    def _note(self, path: Path, partition: int, there: Numbers, begin: int | None) -> None:
        """Note where a column begins, and its first value, of which these rows have one."""
        if begin is not None:
            self.begins[path] = (partition, begin)
        if there.size and (begin is None or there[0] < begin):
            self.early.setdefault(path, (partition, int(there[0])))

    def is_early(self, firsts: Mapping[Path, Place]) -> bool:
        """True if some column has a value here before it begins."""
        return any(place < firsts[path] for path, place in self.early.items())


def new_places(columns: pa.Schema, known: pa.Schema, *, json: bool) -> list[Path]:
    """The columns, and members inside them, that the known ones lack; of JSON arrays and objects alone."""
    found = _places(columns)
    return [path for path, kind in found if (parts(kind) or not json) and type_at(known, path) is None]


def _places(fields: Iterable[pa.Field], path: Path = ()) -> Iterator[tuple[Path, pa.DataType]]:
    """The path and the type of each column and of all inside it but the keys of maps."""
    for each in fields:
        inside = (*path, each.name)
        yield inside, each.type
        if pa.types.is_struct(each.type):
            yield from _places(each.type, inside)
        elif parts(each.type):
            yield from _places([parts(each.type, ITEM)[-1][1].with_name(ITEM)], inside)


def first_places(paths: Iterable[Path], seen: Iterable[FirstContent]) -> dict[Path, Place]:
    """The place where each column begins, over all tasks."""
    found = list(seen)
    return {path: min((each.begins.get(path, NOWHERE) for each in found), default=NOWHERE) for path in paths}


def withheld(rows: pa.Table, partition: int, offsets: Numbers, firsts: Firsts) -> pa.Table:
    """The rows with null for columns that had not begun yet."""
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
        array, holders = _inside(array, holders)[-1 if step == ITEM else array.type.get_field_index(step)]
    return array, holders


def _inside(array: pa.Array, holders: Numbers) -> list[tuple[pa.Array, Numbers]]:
    """The items of lists and maps, or the members of structs, each with the number of its row."""
    if pa.types.is_struct(array.type):
        return [(member, holders) for member in array.flatten()]
    if pa.types.is_map(array.type):
        array = array.cast(pa.list_(pa.struct([array.type.key_field, array.type.item_field])))
        return _inside(*_inside(array, holders)[0])
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
        return pa.list_(kind.value_field.with_type(_narrowed(kind.value_type, absent, (*path, ITEM))))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_field, kind.item_field.with_type(_narrowed(kind.item_type, absent, (*path, ITEM))))
    return kind
