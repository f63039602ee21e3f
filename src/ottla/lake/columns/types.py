"""Decides what type a column of JSON values gets when a value of another type comes, and which values are refused.

Pure. Types only widen, so a value that once fitted a column always will, and one that never fitted never will: whether
a value loads does not depend on where one round ends and the next begins.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from ottla.lake.columns.exact import ITEM, found_at, noted, type_at, with_notes

EMPTY = pa.schema([])

MOST_LEVELS = 32
"""Objects and arrays inside one another; Parquet's readers give up not far above."""
MOST_FIELDS = 2_000
"""Fields of a topic's values, nested ones counted: records with made-up names would widen a table for ever."""

INT64 = pa.int64()
DOUBLE = pa.float64()
TEXT = pa.string()
_TOO_LARGE = "whole numbers beyond 2**53, which a double cannot hold"


@dataclass(frozen=True, slots=True)
class Rule:
    """The user's choices about types."""

    numbers_as_text: bool = False
    """True if a whole number and a text in one field make a column of text; else the second type is refused."""


class Misfit(Exception):
    """A value's type has no place in its column; the sentence says why."""


def merge_schemas(one: pa.Schema, other: pa.Schema, rule: Rule) -> pa.Schema:
    """The columns of both; Misfit where a column cannot hold the values of both."""
    merged = merge(_struct(one), _struct(other), rule)
    return with_notes_of_both(pa.schema(list(merged), metadata=one.metadata), one, other)


def with_notes_of_both(merged: pa.Schema, one: pa.Schema, other: pa.Schema) -> pa.Schema:
    """The columns of both with the notes of both; Misfit where a column would be double that is noted in one."""
    paths = noted(one) | noted(other)
    if not paths:
        return merged
    kinds = dict(filter(None, (found_at(merged, path) for path in paths)))
    for path in sorted(path for path, kind in kinds.items() if kind == DOUBLE):
        name = ".".join(path).replace(f".{ITEM}", ITEM)
        if type_at(one, path) == INT64:
            raise Misfit(f"field {name}: double where the column holds {_TOO_LARGE}")
        raise Misfit(f"field {name}: {_TOO_LARGE}, where the column holds double")
    return with_notes(merged, (path for path, kind in kinds.items() if kind == INT64))


def same_types(one: pa.Schema, other: pa.Schema) -> bool:
    """True if two schemas have the same columns, with the same notes of numbers that no double can hold."""
    return bool(one.equals(other)) and noted(one) == noted(other)


def merge(column: pa.DataType, found: pa.DataType, rule: Rule, name: str = "") -> pa.DataType:
    """The type that holds both; Misfit where there is none."""
    if column.equals(found) or pa.types.is_null(found):
        return column
    if pa.types.is_null(column):
        return _checked(found, rule, name)
    if pa.types.is_struct(column) and pa.types.is_struct(found):
        return _merge_members(column, found, rule, name)
    if pa.types.is_list(column) and pa.types.is_list(found):
        return pa.list_(merge(column.value_type, found.value_type, rule, name))
    pair = {column, found}
    if pair == {INT64, DOUBLE}:
        return DOUBLE
    if pair == {INT64, TEXT} and rule.numbers_as_text:
        return TEXT
    raise Misfit(f"field {name}: {text_of(found)} where the column holds {text_of(column)}")


def _merge_members(column: pa.DataType, found: pa.DataType, rule: Rule, name: str) -> pa.DataType:
    members = {field.name: field.type for field in column}
    spelled = {each.casefold(): each for each in members}
    for field in found:
        path = f"{name}.{field.name}" if name else field.name
        known = spelled.setdefault(field.name.casefold(), field.name)
        if known != field.name:
            raise Misfit(f"field {path}: its name differs from {known} only in case")
        members[field.name] = merge(members.get(field.name, pa.null()), field.type, rule, path)
    return pa.struct(list(members.items()))


def _checked(found: pa.DataType, rule: Rule, name: str) -> pa.DataType:
    """A new column's type; Misfit where two of its members differ only in case."""
    if pa.types.is_struct(found):
        return _merge_members(pa.struct([]), found, rule, name)
    return pa.list_(_checked(found.value_type, rule, name)) if pa.types.is_list(found) else found


def usable(kind: pa.DataType) -> pa.DataType | None:
    """The type as a column's: None where no value has shown one yet, text where Arrow guessed a time."""
    if pa.types.is_null(kind):
        return None
    if pa.types.is_temporal(kind):
        return TEXT
    if pa.types.is_list(kind):
        item = usable(kind.value_type)
        return None if item is None else pa.list_(item)
    if pa.types.is_struct(kind):
        members = [(field.name, kept) for field in kind if (kept := usable(field.type)) is not None]
        return pa.struct(members) if members else None
    return kind


def usable_schema(found: Iterable[pa.Field]) -> pa.Schema:
    """The columns among these fields: those of which some value has shown a type."""
    return pa.schema([(field.name, kept) for field in found if (kept := usable(field.type)) is not None])


def check_limits(schema: pa.Schema) -> None:
    """Misfit where a schema is deeper or wider than tables can be."""
    check_levels(schema)
    if fields(_struct(schema)) > MOST_FIELDS:
        raise Misfit(f"more than {MOST_FIELDS} fields in the topic's values")


def check_levels(schema: pa.Schema) -> None:
    """Misfit where a schema is deeper than tables can be."""
    if levels(_struct(schema)) > MOST_LEVELS:
        raise Misfit(f"nested deeper than {MOST_LEVELS} levels")


def levels(kind: pa.DataType) -> int:
    """The depth of objects and arrays in one another; a scalar has none."""
    if pa.types.is_struct(kind):
        return 1 + max((levels(field.type) for field in kind), default=0)
    return 1 + levels(kind.value_type) if pa.types.is_list(kind) else 0


def fields(kind: pa.DataType) -> int:
    """Named members, at any depth."""
    if pa.types.is_struct(kind):
        return sum(1 + fields(field.type) for field in kind)
    return fields(kind.value_type) if pa.types.is_list(kind) else 0


def text_of(kind: pa.DataType) -> str:
    """A type in a JSON user's words."""
    return "object" if pa.types.is_struct(kind) else "array" if pa.types.is_list(kind) else str(kind)


def _struct(schema: pa.Schema) -> pa.DataType:
    return pa.struct(list(schema))
