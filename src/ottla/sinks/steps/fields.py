"""Steps that keep, rename, lift, wrap and add members of values. Pure.

`plain` values had no schema: JSON without one. There a field that is not known may be missing; a schema names all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from ottla.connect.transforms.field_path import FieldPath
from ottla.connect.transforms.fields import renames_of
from ottla.formats.arrays import from_numbers, numbers, valid
from ottla.lake.columns.types import Misfit, text_of
from ottla.rows.arrow import TYPES, repeated
from ottla.sinks.steps.rows import SteppedRows, ValueMember, members, object_of

_NO_TIME_US: Final = -1_000
"""The timestamp of a record without one."""


class ReplaceFieldStep:
    """Keeps, drops and renames members."""

    keeps_nulls: ClassVar[bool] = True

    def __init__(self, options: Mapping[str, Any], *, plain: bool) -> None:
        self._exclude, self._include = frozenset(options["exclude"]), frozenset(options["include"])
        self._renames = renames_of(options["renames"])

    def change(self, rows: SteppedRows) -> None:
        """Change all values."""
        found = rows.members("ReplaceField")
        if found is None:
            return
        kept = [each for each in found if self._keeps(each.field.name)]
        rows.put([self._renamed(each) for each in kept], "ReplaceField")

    def _keeps(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)

    def _renamed(self, member: ValueMember) -> ValueMember:
        name = self._renames.get(member.field.name)
        return member if name is None else ValueMember(member.field.with_name(name), member.values)


class FlattenStep:
    """Lifts the members of objects to the top, their names joined."""

    keeps_nulls: ClassVar[bool] = True

    def __init__(self, options: Mapping[str, Any], *, plain: bool) -> None:
        self._delimiter: str = options["delimiter"]
        self._plain = plain

    def change(self, rows: SteppedRows) -> None:
        """Change all values."""
        found = rows.members("Flatten")
        if found is not None:
            lifted = list(self._lifted(found, ""))
            for each in lifted if self._plain else ():
                if pa.types.is_temporal(each.field.type):
                    rows.refuse(valid(each.values), f"Flatten: {each.field.name} is a time, which needs a schema")
            rows.put(lifted, "Flatten")

    def _lifted(self, found: list[ValueMember], before: str) -> Iterator[ValueMember]:
        for each in found:
            name = f"{before}{self._delimiter}{each.field.name}" if before else each.field.name
            if pa.types.is_struct(each.field.type):
                yield from self._lifted(members(each.values), name)
            elif pa.types.is_map(each.field.type):
                raise Misfit(f"Flatten transformation does not support MAP for record with schemas (for field {name}).")
            elif before:
                yield ValueMember(pa.field(name, each.field.type), each.values)
            else:
                yield each


class HoistFieldStep:
    """Puts the whole value into a member of its own; so a null becomes an object with a null in it."""

    keeps_nulls: ClassVar[bool] = False

    def __init__(self, options: Mapping[str, Any], *, plain: bool) -> None:
        self._field: str = options["field"]

    def change(self, rows: SteppedRows) -> None:
        """Change all values."""
        member = ValueMember(pa.field(self._field, rows.value.type), rows.value)
        rows.value = object_of([member], len(rows), None, "HoistField")


class ExtractFieldStep:
    """Puts one member in the place of the whole value."""

    keeps_nulls: ClassVar[bool] = True

    def __init__(self, options: Mapping[str, Any], *, plain: bool) -> None:
        self._path = FieldPath(options["field"], nested=options["field.syntax.version"].upper() == "V2")
        self._plain = plain

    def change(self, rows: SteppedRows) -> None:
        """Change all values."""
        value = rows.value
        for level, step in enumerate(self._path.steps):
            kind = value.type
            if pa.types.is_null(kind):
                break
            if not pa.types.is_struct(kind):
                if not (level and self._plain):
                    raise Misfit(f"ExtractField: {self._path.text} leads into values that are {text_of(kind)}")
                rows.refuse(np.asarray(value.is_valid()), f"ExtractField: {self._path.text} leads into {text_of(kind)}")
                value = pa.nulls(len(rows))
                break
            place = kind.get_field_index(step)
            if place < 0 and not self._plain and kind.num_fields:  # without a member no record has a value yet
                raise Misfit(f"ExtractField: Unknown field: {self._path.text}")
            value = pa.nulls(len(rows)) if place < 0 else value.flatten()[place]
        rows.value = value


class InsertFieldStep:
    """Adds members from the record's place and time, and one with a fixed text."""

    keeps_nulls: ClassVar[bool] = True

    def __init__(self, options: Mapping[str, Any], *, plain: bool) -> None:
        self._plain = plain
        self._static: str | None = options["static.value"]
        makers: dict[str, Callable[[SteppedRows], pa.Array]] = {
            "topic.field": lambda rows: repeated(rows.topic.encode(), len(rows)),
            "partition.field": lambda rows: rows.records.column("partition"),
            "offset.field": lambda rows: rows.records.column("offset"),
            "timestamp.field": self._times,
            "static.field": lambda rows: repeated((self._static or "").encode(), len(rows)),
        }
        named = ((options[option], make) for option, make in makers.items())
        self._added = [(name[:-1] if name.endswith(("!", "?")) else name, make) for name, make in named if name]

    def change(self, rows: SteppedRows) -> None:
        """Change all values. A plain object takes a member of the same name over, as far as there is a value for it."""
        found = rows.members("InsertField")
        if found is None:
            return
        for name, make in self._added:
            made = make(rows)
            held = next((at for at, each in enumerate(found) if each.field.name == name), None)
            if held is None or not self._plain:
                found.append(ValueMember(pa.field(name, made.type), made))
            elif not made.null_count:
                found[held] = ValueMember(pa.field(name, made.type), made)
            else:
                raise Misfit(f"InsertField: there is a field {name} already, and some records have no timestamp")
        rows.put(found, "InsertField")

    def _times(self, rows: SteppedRows) -> pa.Array:
        """The records' times, in milliseconds where values have no schema."""
        times = numbers(rows.records.column("timestamp"), np.int64)
        present = times != _NO_TIME_US
        if self._plain:
            return from_numbers(pa.int64(), times // 1000, present)
        return from_numbers(TYPES["timestamp"], times // 1000 * 1000, present)
