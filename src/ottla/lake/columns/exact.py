"""Whole numbers beyond 2**53, which a double cannot hold: which columns have some is noted in their schema. Pure.

Such a column never becomes `double`, and a `double` column never takes such a number. So a type that widens changes no
digit, and whether a value loads follows from the schema alone, however the records fell into rounds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from ottla.formats.arrays import leaves
from ottla.formats.columns import places
from ottla.formats.evolution import aliases
from ottla.formats.json_numbers import LARGEST
from ottla.formats.renames import Renames

EXACT = b"ottla.exact"
ITEM = "[]"
"""The step of a path from an array to its items."""

Path = tuple[str, ...]


def noted(schema: pa.Schema) -> frozenset[Path]:
    """The paths of the columns that hold whole numbers beyond 2**53."""
    text = (schema.metadata or {}).get(EXACT)
    return frozenset() if text is None else frozenset(tuple(path) for path in json.loads(text))


def with_notes(schema: pa.Schema, paths: Iterable[Path]) -> pa.Schema:
    """The schema with just these notes; its other metadata stays."""
    known = {name: text for name, text in (schema.metadata or {}).items() if name != EXACT}
    if found := sorted(set(paths)):
        known[EXACT] = json.dumps(found).encode()
    return schema.with_metadata(known or None)


def pruned(schema: pa.Schema) -> pa.Schema:
    """The schema without notes of columns that it lacks: no value would be read into its columns with them."""
    paths = noted(schema)
    return with_notes(schema, (path for path in paths if type_at(schema, path) is not None)) if paths else schema


def below(schema: pa.Schema, place: Path) -> frozenset[Path]:
    """The notes of the members of an object."""
    return frozenset(path[len(place) :] for path in noted(schema) if path[: len(place)] == place)


def renamed(schema: pa.Schema, renames: Renames) -> pa.Schema:
    """The schema under new names, its notes too."""
    columns, paths = renames.columns(schema), noted(schema)
    return with_notes(columns, (_renamed(path, renames) for path in paths)) if paths and renames else columns


def type_at(columns: pa.Schema | pa.DataType, path: Path) -> pa.DataType | None:
    """The type of a column, or of a member inside it; None where there is none."""
    found = found_at(columns, path)
    return None if found is None else found[1]


def found_at(columns: pa.Schema | pa.DataType, path: Path) -> tuple[Path, pa.DataType] | None:
    """The present path and the type of a column that may have been renamed since; None where there is none."""
    kind = pa.struct(list(columns)) if isinstance(columns, pa.Schema) else columns
    steps: Path = ()
    for step in path:
        name = step
        if step == ITEM and (pa.types.is_list(kind) or pa.types.is_map(kind)):
            kind = kind.value_type if pa.types.is_list(kind) else kind.item_type
        elif pa.types.is_struct(kind) and (member := _member(kind, step)) is not None:
            name, kind = member.name, member.type
        else:
            return None
        steps = (*steps, name)
    return steps, kind


def _member(kind: pa.DataType, name: str) -> pa.Field | None:
    place = kind.get_field_index(name)
    return kind.field(place) if place >= 0 else next((each for each in kind if name in aliases(each)), None)


def kept_whole(held: pa.Schema, wanted: pa.Schema, column: str) -> pa.Schema | None:
    """The columns as they are, where one that would become `double` is noted to hold numbers that no double can.

    `column` names it as a table does; where no field has this name, all that would become `double` are noted. None
    where there is none.
    """
    found = becoming_double(held, wanted)
    named = [path for path in found if ".".join(path).replace(f".{ITEM}", ITEM) == column]
    return with_notes(held, [*noted(held), *(named or found)]) if found else None


def becoming_double(held: pa.Schema, wanted: pa.Schema) -> list[Path]:
    """The paths of whole numbers that are to become doubles."""
    paths = [path for path, _ in places(held, ITEM) if type_at(held, path) == pa.int64()]
    return [path for path in paths if type_at(wanted, path) == pa.float64()]


def in_table(table: pa.Table) -> set[Path]:
    """The paths of a table's columns with such numbers."""
    found = (each for name in table.column_names for each in leaves(table.column(name), (name,)))
    return {path for path, leaf in found if pa.types.is_int64(leaf.type) and _beyond(leaf)}


def in_value(value: object, path: Path = ()) -> Iterator[Path]:
    """The paths of a JSON value with such numbers."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield from in_value(member, (*path, name))
    elif isinstance(value, list):
        for item in value:
            yield from in_value(item, (*path, ITEM))
    elif isinstance(value, int) and not -LARGEST <= value <= LARGEST:
        yield path


def _beyond(array: pa.Array) -> bool:
    ends = pc.min_max(array)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    return low is not None and bool(low < -LARGEST or high > LARGEST)


def _renamed(path: Path, renames: Renames) -> Path:
    steps: list[str] = []
    for step in path:
        names = renames.at(tuple(each for each in steps if each != ITEM))
        steps.append(step if step == ITEM else names.get(step, step))
    return tuple(steps)
