"""Records as rows of the sink. Records with the same schemas have one shape, which is worked out once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from sqlalchemy import Table

from ottla.connect.data import INT32, INT64, STRING, Schema, Struct, Type
from ottla.connect.errors import DataException
from ottla.connect.plugins.jdbc.columns import value_for
from ottla.connect.plugins.jdbc.tables import ColumnField
from ottla.connect.records import SinkRecord

_KAFKA = ("__connect_topic", "__connect_partition", "__connect_offset")
_MOST_KNOWN = 1000
"""Schemas whose shapes are kept; data without schemas has no shape to keep."""
_AS_THEY_ARE = (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64, Type.BOOLEAN, Type.STRING,
                Type.BYTES)  # fmt: skip
Part = Callable[[SinkRecord], Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Shape:
    """The table and the columns of rows; no more than the key where the rows are deleted."""

    table: str
    fields: tuple[ColumnField, ...]
    deleted: bool


class Row(NamedTuple):
    """A record as a row: its values stand as the fields of its shape do."""

    shape: Shape
    values: Sequence[Any]


class _Plan(NamedTuple):
    """The way rows are taken from records with the same schemas: columns of the joined values of their parts."""

    shape: Shape
    parts: tuple[Part, ...]
    places: tuple[int, ...]
    """For each field its place among the values of all parts."""


class Rows:
    """Makes rows of records by the options of one sink."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._updates = options["insert.mode"] in ("upsert", "update")
        text = options["unavailable.value.placeholder"]
        self._unavailable = [text, text.encode(), [text], list(text.encode())] if text else []
        self._plans: dict[tuple[Any, ...], _Plan] = {}

    def of(self, record: SinkRecord) -> Row:
        """The record's row; DataException where it has none."""
        plan = self._plan(record)
        values: list[Any] = []
        for part in plan.parts:
            values += part(record)
        chosen = [values[place] for place in plan.places]
        if self._updates and self._unavailable and not plan.shape.deleted:
            return self._changed(plan.shape, chosen)
        return Row(plan.shape, chosen)

    def _changed(self, shape: Shape, values: list[Any]) -> Row:
        """The row without columns that hold the placeholder of change capture: they stay as they are."""
        kept = [
            field.is_key or not (isinstance(value, str | bytes | list) and value in self._unavailable)
            for field, value in zip(shape.fields, values, strict=True)
        ]
        if all(kept):
            return Row(shape, values)
        return Row(Shape(shape.table, tuple(compress(shape.fields, kept)), deleted=False), list(compress(values, kept)))

    def _plan(self, record: SinkRecord) -> _Plan:
        key, value = record.key, record.value
        with_schemas = (value is None or isinstance(value, Struct)) and not isinstance(key, dict)
        if not with_schemas:
            return self._planned(record)
        of_key = key.schema if isinstance(key, Struct) else record.key_schema
        schemas = (record.topic, of_key, key is None, None if value is None else value.schema)
        found = self._plans.get(schemas)
        if found is None:
            found = self._planned(record)
            if len(self._plans) >= _MOST_KNOWN:
                self._plans.clear()
            self._plans[schemas] = found
        return found

    def _planned(self, record: SinkRecord) -> _Plan:
        table = self._options["table.name.format"].replace("${topic}", record.topic)
        keys, part, of_key = self._key(record)
        if record.value is None and self._options["delete.enabled"]:
            return _Plan(Shape(table, tuple(keys), deleted=True), (part,), of_key)
        taken = {each.name for each in keys}
        wanted = self._options["fields.whitelist"]
        fields, places = list(keys), list(of_key)
        parts, before = ((part,), 0) if part is _of_value else ((part, _of_value), len(part(record)))
        for place, (name, schema) in enumerate(_fields(record.value, record.value_schema, "value"), before):
            if name not in taken and (not wanted or name in wanted):
                fields.append(ColumnField(name, schema, is_key=False))
                places.append(place)
        return _Plan(Shape(table, tuple(fields), deleted=False), parts, tuple(places))

    def _key(self, record: SinkRecord) -> tuple[list[ColumnField], Part, tuple[int, ...]]:
        """The columns of the key, the part of a record that they are taken from, and their places in it."""
        wanted, mode = self._options["pk.fields"], self._options["pk.mode"]
        if mode == "none":
            return [], _nothing, ()
        if mode == "kafka":
            columns = zip(wanted or _KAFKA, (STRING, INT32, INT64), strict=True)
            return [ColumnField(name, schema, is_key=True) for name, schema in columns], _place, (0, 1, 2)
        part: Part = _of_key
        if mode == "record_value":
            part, found = _of_value, _fields(record.value, record.value_schema, "value")
        elif record.key is None:
            raise DataException("the record has no key, and pk.mode is record_key")
        elif isinstance(record.key, Struct | dict):
            found = _fields(record.key, record.key_schema, "key")
        elif len(wanted) == 1:
            part, found = _whole_key, [(wanted[0], record.key_schema)]
        else:
            raise DataException(f"the key is one value: name its column in pk.fields, not {len(wanted)} of them")
        places = {name: place for place, (name, _) in enumerate(found)}
        if lacking := [each for each in wanted if each not in places]:
            raise DataException(f"the record lacks the fields {', '.join(lacking)} of pk.fields: it has {list(places)}")
        chosen = tuple(places[each] for each in wanted or places)
        return [ColumnField(*found[place], is_key=True) for place in chosen], part, chosen


def bound(shape: Shape, table: Table, zone: ZoneInfo) -> Callable[[Sequence[Any]], dict[str, Any]]:
    """A function that gives a row's values by their names, as the columns of the table take them."""
    names = [each.name for each in shape.fields]
    turned = [
        (place, partial(_turned, table.columns[each.name].type, each, zone))
        for place, each in enumerate(shape.fields)
        if each.schema is None or each.schema.name is not None or each.schema.type not in _AS_THEY_ARE
    ]

    def values_of(row: Sequence[Any]) -> dict[str, Any]:
        made = dict(zip(names, row, strict=True))
        for place, turn in turned:
            made[names[place]] = turn(row[place])
        return made

    return values_of


def _turned(kind: Any, field: ColumnField, zone: ZoneInfo, value: Any) -> Any:
    return value_for(kind, field.schema, value, field.name, zone)


def _fields(value: Any, schema: Schema | None, part: str) -> list[tuple[str, Schema | None]]:
    if isinstance(value, Struct):
        return [(each.name, each.schema) for each in value.schema.members]
    if isinstance(value, dict) and schema is None:
        return [(str(name), None) for name in value]
    what = "null" if value is None else "no structure"
    more = ": set delete.enabled=true, or drop tombstones by a transformation" if value is None else ""
    raise DataException(f"the record's {part} is {what}{more}")


def _of_value(record: SinkRecord) -> Sequence[Any]:
    value = record.value
    return value.filled() if isinstance(value, Struct) else list(value.values())


def _of_key(record: SinkRecord) -> Sequence[Any]:
    key = record.key
    return key.filled() if isinstance(key, Struct) else list(key.values())


def _whole_key(record: SinkRecord) -> Sequence[Any]:
    return (record.key,)


def _place(record: SinkRecord) -> Sequence[Any]:
    return (record.original_topic, record.original_partition, record.offset)


def _nothing(_: SinkRecord) -> Sequence[Any]:
    return ()
