"""`--flatten`: members of objects as columns of their own, `address.zip` as `address_zip`; arrays and maps stay. Pure.

The lake's state keeps columns as values have them, in objects. They are taken apart on their way into files, so that
types widen, and members come, as they do without this option.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from ottla.lake.types import Misfit


def flat_fields(columns: pa.Schema, separator: str) -> list[tuple[str, pa.DataType]]:
    """Name and type of each column; without a separator the columns as they are."""
    if not separator:
        return [(field.name, field.type) for field in columns]
    return [(separator.join(path), kind) for path, kind in _leaves(columns)]


def flat_arrays(columns: pa.Table, separator: str) -> list[pa.Array | pa.ChunkedArray]:
    """The columns of a table in the order of `flat_fields`. A member of an object that is null is null."""
    if not separator:
        return list(columns.columns)
    return [array for column in columns.columns for array in _parts(_whole(column))]


def flat_table(columns: pa.Table, separator: str) -> pa.Table:
    """A table with each member of an object as a column."""
    if not separator:
        return columns
    names = [name for name, _ in flat_fields(columns.schema, separator)]
    return pa.Table.from_arrays(flat_arrays(columns, separator), names)


def check_flat(columns: pa.Schema, separator: str) -> None:
    """Misfit where two members, or a member and a field, would be columns of one name, or differ in case alone."""
    if not separator:
        return
    taken: dict[str, str] = {}
    for path, _ in _leaves(columns):
        dotted = ".".join(path)
        other = taken.setdefault(separator.join(path).casefold(), dotted)
        if other != dotted:
            raise Misfit(f"field {dotted}: --flatten makes {separator.join(path)} of it, as of {other}")


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
        mine = chosen or name in only
        if name in without:
            continue
        if pa.types.is_struct(field.type):
            if inner := _kept(field.type, f"{name}{separator}", separator, wanted, chosen=mine):
                kept.append(field.with_type(pa.struct(inner)))
        elif mine:
            kept.append(field)
    return kept


def _leaves(
    columns: pa.Schema | pa.DataType, before: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], pa.DataType]]:
    for field in columns:
        path = (*before, field.name)
        if pa.types.is_struct(field.type):
            yield from _leaves(field.type, path)
        else:
            yield path, field.type


def _parts(array: pa.Array) -> Iterator[pa.Array]:
    if not pa.types.is_struct(array.type):
        yield array
        return
    for member in array.flatten():
        yield from _parts(member)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)
