"""A table's columns become those of the next round: new ones, and those that must be rewritten in older files.

Pure. A type widens by `_widens_to`; each other change of a type is refused by a sentence.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

import pyarrow as pa

from ottla.formats.arrays import refilled
from ottla.formats.columns import alike, leaf_pairs
from ottla.formats.evolution import INTEGERS, wider_number
from ottla.stores.base import LakeRefused


class CannotWiden(LakeRefused):
    """A column's older values cannot become those of its wider type; `column` names it, `topic` its table."""

    def __init__(self, column: str, sentence: str, topic: str = "") -> None:
        super().__init__(sentence)
        self.column = column
        self.topic = topic


@dataclass(frozen=True, slots=True)
class Evolution:
    """The columns after a round, beside those before it."""

    schema: pa.Schema
    added: tuple[str, ...]
    """Top-level columns that are new or have new members; files that lack them read null."""
    widened: tuple[str, ...]
    """Top-level columns that hold a type which widened: older files must be rewritten."""


def evolve(held: pa.Schema, wanted: pa.Schema) -> Evolution:
    """Merge a round's columns into a table's."""
    fields = {field.name: plain_type(field.type) for field in held}
    added, widened = [], []
    for field in wanted:
        before, after = fields.get(field.name), plain_type(field.type)
        merged = after if before is None else _merged(before, after, field.name)
        fields[field.name] = merged
        if before is None or _members(merged) != _members(before):
            added.append(field.name)
        if before is not None and any(narrow != wide for _, narrow, wide in leaf_pairs(before, merged)):
            widened.append(field.name)
    return Evolution(pa.schema(list(fields.items())), tuple(added), tuple(widened))


def union(one: pa.Schema, other: pa.Schema) -> pa.Schema:
    """The columns of both, each in the wider of its two types."""
    fields = {field.name: plain_type(field.type) for field in one}
    for field in other:
        kind, known = plain_type(field.type), fields.get(field.name)
        if known is None:
            fields[field.name] = kind
            continue
        try:
            fields[field.name] = _merged(known, kind, field.name)
        except CannotWiden:
            fields[field.name] = _merged(kind, known, field.name)
    return pa.schema(list(fields.items()))


def plain_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, plain_type(field.type)) for field in schema])


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type without the differences between writers: large or viewed text, a list's field name, an encoding."""
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(plain_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, plain_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    return kind


def conform(rows: pa.Table, schema: pa.Schema, rounded: Container[str] = ()) -> pa.Table:
    """The rows with exactly these columns: cast where the type is wider, null where there is none.

    In `rounded` columns a whole number that a double does not hold becomes the nearest one that it does.
    """
    columns = []
    for field in schema:
        if (place := rows.schema.get_field_index(field.name)) < 0:
            columns.append(pa.nulls(rows.num_rows, field.type))
            continue
        safe = field.name not in rounded
        pieces = [_conform(piece, field.type, field.name, safe=safe) for piece in rows.column(place).chunks]
        columns.append(pa.chunked_array(pieces, field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def _conform(array: pa.Array, kind: pa.DataType, name: str, *, safe: bool = True) -> pa.Array:
    if array.type == kind:
        return array
    if pa.types.is_struct(kind) and pa.types.is_struct(array.type):
        members = []
        for field in kind:
            place = array.type.get_field_index(field.name)
            members.append(
                pa.nulls(len(array), field.type)
                if place < 0
                else _conform(array.field(place), field.type, f"{name}.{field.name}", safe=safe)
            )
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=array.is_null())
    if alike(kind, array.type):
        return refilled(array, kind, lambda held, to, step: _conform(held, to.type, f"{name}{step}", safe=safe))
    if pa.types.is_decimal(array.type) and pa.types.is_string(kind):
        return pa.array([None if value is None else f"{value:f}" for value in array.to_pylist()], kind)
    try:
        return array.cast(kind, safe=safe or not pa.types.is_floating(kind))
    except pa.ArrowInvalid as fault:
        raise CannotWiden(name, f"column {name} cannot become {kind} without loss: {fault}") from None


def _merged(before: pa.DataType, after: pa.DataType, name: str) -> pa.DataType:
    if before == after:
        return before
    if pa.types.is_struct(before) and pa.types.is_struct(after):
        members = {field.name: field.type for field in before}
        for field in after:
            known = members.get(field.name)
            inner = f"{name}.{field.name}"
            members[field.name] = field.type if known is None else _merged(known, field.type, inner)
        return pa.struct(list(members.items()))
    if pa.types.is_list(before) and pa.types.is_list(after):
        return pa.list_(_merged(before.value_type, after.value_type, f"{name}[]"))
    if pa.types.is_map(before) and pa.types.is_map(after) and before.key_type == after.key_type:
        return pa.map_(before.key_type, _merged(before.item_type, after.item_type, f"{name}[]"))
    if _widens_to(before, after):
        return after
    raise CannotWiden(
        name,
        f"column {name} is {_text(before)} in the table and {_text(after)} in the round; "
        "a table widens integers to longer ones, to float, double, decimal or text, float to double, and decimals to "
        "longer ones or to text",
    )


def _widens_to(before: pa.DataType, after: pa.DataType) -> bool:
    """True if a number becomes a wider one, or an integer or a decimal becomes text."""
    exact = before in INTEGERS or pa.types.is_decimal(before)
    return wider_number(before, after) or (exact and bool(pa.types.is_string(after)))


def _members(kind: pa.DataType) -> tuple[object, ...]:
    """The names inside a type, at all depths."""
    if pa.types.is_struct(kind):
        return tuple((field.name, _members(field.type)) for field in kind)
    if pa.types.is_map(kind):
        return ("[]", _members(kind.item_type))
    return ("[]", _members(kind.value_type)) if pa.types.is_list(kind) else ()


def _text(kind: pa.DataType) -> str:
    return "an object" if pa.types.is_struct(kind) else "a list" if pa.types.is_list(kind) else str(kind)
