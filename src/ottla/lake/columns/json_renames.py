"""Reads JSON values whose fields were renamed, in blocks: parsed under all names, then merged into one column. Pure."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from ottla.formats.renames import Path, Renames


def with_old_names(kind: pa.DataType, renames: Renames, place: Path = ()) -> pa.DataType:
    """The type with each renamed field under its old names too, so that those are parsed as the new one's type."""
    if pa.types.is_list(kind):
        return pa.list_(with_old_names(kind.value_type, renames, place))
    if not pa.types.is_struct(kind):
        return kind
    members = {each.name: with_old_names(each.type, renames, (*place, each.name)) for each in kind}
    for old, new in renames.at(place).items():
        if new in members and old not in members:
            members[old] = members[new]
    return pa.struct(list(members.items()))


def under_new_names(array: pa.Array | pa.ChunkedArray, renames: Renames, place: Path = ()) -> pa.Array | None:
    """The values with each field under its new name; None where a value has one under two names, or in two types."""
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.nulls(0, array.type)
    if pa.types.is_list(array.type):
        inside = under_new_names(array.values, renames, place)
        return None if inside is None else pa.ListArray.from_arrays(array.offsets, inside, mask=array.is_null())
    if not pa.types.is_struct(array.type):
        return array
    names, found = renames.at(place), dict[str, pa.Array]()
    for at, each in enumerate(array.type):
        new = names.get(each.name, each.name)
        member = under_new_names(array.field(at), renames, (*place, new))
        if member is not None and new in found:
            member = _together(found[new], member)
        if member is None:
            return None
        found[new] = member
    if not found:
        return array
    return pa.StructArray.from_arrays(list(found.values()), list(found), mask=array.is_null())


def _together(one: pa.Array, other: pa.Array) -> pa.Array | None:
    """Two columns of one field; None where both have a value of a row, or their types differ."""
    if other.null_count == len(other):
        return one
    if one.null_count == len(one):
        return other
    if one.type != other.type or pc.any(pc.and_(pc.is_valid(one), pc.is_valid(other))).as_py():
        return None
    return pc.if_else(pc.is_valid(one), one, other)
