"""`--flatten`: members of objects as columns of their own, `address.zip` as `address_zip`; arrays and maps stay. Pure.

The lake's state keeps columns as values have them, in objects. They are taken apart on their way into files, so that
types widen, and members come, as they do without this option.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from ottla.formats.arrays import whole
from ottla.formats.evolution import aliases
from ottla.lake.columns.types import Misfit, text_of

MOST_FORMERS = 64


@dataclass(frozen=True, slots=True)
class FlatField:
    """One column."""

    name: str
    type: pa.DataType
    formers: tuple[str, ...] = ()
    """The names that it had before its field, or an object around it, was renamed."""


def flat_fields(columns: pa.Schema, separator: str) -> list[FlatField]:
    """All columns; without a separator the fields as they are."""
    if not separator:
        return [FlatField(field.name, field.type, aliases(field)) for field in columns]
    return [_flat_field(path, separator) for path in _leaves(columns)]


def _flat_field(path: tuple[pa.Field, ...], separator: str) -> FlatField:
    names = [separator.join(parts) for parts in itertools.product(*((each.name, *aliases(each)) for each in path))]
    return FlatField(names[0], path[-1].type, tuple(names[1 : MOST_FORMERS + 1]))


def flat_arrays(columns: pa.Table, separator: str) -> list[pa.Array | pa.ChunkedArray]:
    """The columns of a table in the order of `flat_fields`. A member of an object that is null is null."""
    if not separator:
        return list(columns.columns)
    return [array for column in columns.columns for array in _parts(whole(column))]


def flat_table(columns: pa.Table, separator: str) -> pa.Table:
    """A table with each member of an object as a column."""
    if not separator:
        return columns
    names = [each.name for each in flat_fields(columns.schema, separator)]
    return pa.Table.from_arrays(flat_arrays(columns, separator), names)


def check_flat(columns: pa.Schema, separator: str) -> None:
    """Misfit where two members, or a member and a field, would be columns of one name, or differ in case alone."""
    if not separator:
        return
    taken: dict[str, str] = {}
    for path in _leaves(columns):
        names = [field.name for field in path]
        dotted = ".".join(names)
        other = taken.setdefault(separator.join(names).casefold(), dotted)
        if other != dotted:
            raise Misfit(f"field {dotted}: --flatten makes {separator.join(names)} of it, as of {other}")


def check_plain(columns: pa.Schema, separator: str, plain: frozenset[str]) -> None:
    """Misfit where one of these columns holds objects or arrays."""
    for path in _leaves(columns) if plain else ():
        names = [field.name for field in path]
        for length, field in enumerate(path, 1):
            name = separator.join(names[:length]) if separator else ".".join(names[:length])
            if name in plain and pa.types.is_nested(field.type):
                raise Misfit(
                    f"field {name}: {text_of(field.type)} where the lake is divided by it, or has it for a key"
                )


def kept_fields(columns: pa.Schema, separator: str, only: frozenset[str], without: frozenset[str]) -> pa.Schema:
    """The fields that are wanted, by their joined names; the name of an object stands for all its members."""
    kept = _kept(columns, "", separator, (only, without), chosen=not only)
    return pa.schema(kept, metadata=columns.metadata)


def _kept(
    fields: pa.Schema | pa.DataType,
    before: str,
    separator: str,
    wanted: tuple[frozenset[str], frozenset[str]],
    *,
    chosen: bool,
) -> list[pa.Field]:
    only, without = wanted
    kept = []
    for field in fields:
        name = f"{before}{field.name}"
        names = {f"{before}{each}" for each in (field.name, *aliases(field))}
        mine = chosen or bool(names & only)
        if names & without:
            continue
        if pa.types.is_struct(field.type):
            if inner := _kept(field.type, f"{name}{separator}", separator, wanted, chosen=mine):
                kept.append(field.with_type(pa.struct(inner)))
        elif mine:
            kept.append(field)
    return kept


def _leaves(columns: pa.Schema | pa.DataType, before: tuple[pa.Field, ...] = ()) -> Iterator[tuple[pa.Field, ...]]:
    """Each field that is no object, behind the objects around it."""
    for field in columns:
        path = (*before, field)
        if pa.types.is_struct(field.type):
            yield from _leaves(field.type, path)
        else:
            yield path


def _parts(array: pa.Array) -> Iterator[pa.Array]:
    if not pa.types.is_struct(array.type):
        yield array
        return
    for member in array.flatten():
        yield from _parts(member)
