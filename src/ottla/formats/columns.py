"""Walks over Arrow types: the fields inside a type, all places below columns, the leaves of two types. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

Path = tuple[str, ...]


def is_list(kind: pa.DataType) -> bool:
    """True for lists of either size."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def alike(one: pa.DataType, other: pa.DataType) -> bool:
    """True if both are structs, both lists or both maps."""
    return any(each(one) and each(other) for each in (pa.types.is_struct, is_list, pa.types.is_map))


def parts(kind: pa.DataType, item: str = "") -> list[tuple[str, pa.Field]]:
    """The fields inside a type, each with its step: a member's name, `element` of a list, `key` and `value` of a map.

    `item` stands in place of `element` and `value`, where it is given.
    """
    if pa.types.is_struct(kind):
        return [(field.name, field) for field in kind]
    if is_list(kind):
        return [(item or "element", kind.value_field)]
    return [("key", kind.key_field), (item or "value", kind.item_field)] if pa.types.is_map(kind) else []


def places(fields: Iterable[pa.Field], item: str = "") -> Iterator[tuple[Path, pa.DataType]]:
    """The path and the type of each column and of all inside it, by the steps of `parts`."""
    for field in fields:
        yield from _places((field.name,), field.type, item)


def _places(path: Path, kind: pa.DataType, item: str) -> Iterator[tuple[Path, pa.DataType]]:
    yield path, kind
    for step, field in parts(kind, item):
        yield from _places((*path, step), field.type, item)


def leaf_pairs(
    one: pa.DataType, other: pa.DataType, path: Path = ()
) -> Iterator[tuple[Path, pa.DataType, pa.DataType]]:
    """The leaves of a type, each with its path and what another type, which has all its members, has there."""
    if not alike(one, other):
        yield path, one, other
        return
    found = dict(parts(other))
    for step, field in parts(one):
        yield from leaf_pairs(field.type, found[step].type, (*path, step))


def with_leaves(kind: pa.DataType, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """The type with another one for each leaf; names and notes of its fields stay, and a large list becomes a list."""
    made = [field.with_type(with_leaves(field.type, leaf)) for _, field in parts(kind)]
    if pa.types.is_struct(kind):
        return pa.struct(made)
    if is_list(kind):
        return pa.list_(*made)
    return pa.map_(*made, keys_sorted=kind.keys_sorted) if pa.types.is_map(kind) else leaf(kind)


def with_plain_leaves(kind: pa.DataType) -> pa.DataType:
    """The type with binary and string for their large kinds, at any depth."""
    return with_leaves(kind, _plain)


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(kind) else kind
