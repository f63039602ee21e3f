"""The schemas of one table's events, and rows from the database as their values. Pure; the form is Debezium's."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla.connect import data
from ottla.connect.data import Schema, Struct, Type, struct
from ottla.connect.errors import ConfigException, DataException
from ottla.connect.plugins.capture.pgoutput import UNCHANGED, Row
from ottla.connect.plugins.capture.tables import Column, Selection, Table, adjusted, topic_of
from ottla.connect.plugins.capture.types import Codec, Read

BLOCK: Final = struct(
    [("id", data.STRING), ("total_order", data.INT64), ("data_collection_order", data.INT64)],
    name="event.block", version=1, optional=True,
)  # fmt: skip
"""The schema of an event's place in its transaction."""
_LONG: Final = data.INT64.but(optional=True)
_MASKS: Final = (
    ("mask.with", re.compile(r"column\.mask\.with\.(\d+)\.chars")),
    ("truncate", re.compile(r"column\.truncate\.to\.(\d+)\.chars")),
    ("hash", re.compile(r"column\.mask\.hash\.v2\.([^.]+)\.with\.salt\.(.+)")),
)


@dataclass(frozen=True, slots=True)
class Product:
    """A database, as far as the form of its events depends on it."""

    source: Schema
    """The schema of `source`."""
    codec_of: Callable[[Any, int, Mapping[str, Any]], Codec | None]
    """The codec of a type with its modifier, None for one that Connect has no form for."""
    default_of: Callable[[Column, Codec], Any]
    texts: frozenset[str]
    """The types whose values `column.mask…` changes."""
    builtin: re.Pattern[str]
    """The schemas of the server itself."""


@dataclass(frozen=True, slots=True)
class Mask:
    """A change of a text column's values, and how the schema says so."""

    apply: Callable[[str], str]
    parameters: Mapping[str, str]


class NullInRequired(Exception):
    """A row has a null where the catalog says that none may be: the column got its NOT NULL later."""

    def __init__(self, column: str) -> None:
        super().__init__(column)
        self.column = column


@dataclass(frozen=True, slots=True)
class _Place:
    """A captured column: its codec, and where its text stands in a row."""

    column: Column
    codec: Codec
    schema: Schema
    read: Read
    unavailable: Any
    index: int


class Shapes:
    """Makes the shape of each table by a configuration."""

    def __init__(self, options: Mapping[str, Any], given: Mapping[str, str], product: Product) -> None:
        """`given` is the whole configuration: the options that name columns have names of any number."""
        self.options, self.product = options, product
        self.selection = Selection(options, product.builtin)
        self._masks = _masks_of(given)
        text = options["unavailable.value.placeholder"]
        self._unavailable = bytes.fromhex(text[4:]) if text.startswith("hex:") else text.encode()

    def mask(self, full_name: str) -> Mask | None:
        """The change of a text column's values, None where they stay."""
        return next((mask for pattern, mask in self._masks if pattern.fullmatch(full_name)), None)

    def unavailable(self, codec: Codec) -> Any:
        """The value in place of one that was not sent, None for a type that has none."""
        schema = codec.schema
        if schema.type is Type.STRING:
            return self._unavailable.decode("utf-8", "replace")
        if schema.type is Type.BYTES and schema.name is None:
            return self._unavailable
        if schema.type is Type.ARRAY and schema.value is not None:
            if schema.value.type is Type.STRING:
                return [self._unavailable.decode("utf-8", "replace")]
            if schema.value.type in (Type.INT32, Type.INT64, Type.INT16) and schema.value.name is None:
                return list(self._unavailable)
        if schema.type is Type.MAP:
            text = self._unavailable.decode("utf-8", "replace")
            return {text: text}
        return None

    def of(self, table: Table) -> Shape:
        """The shape of a table."""
        return Shape(table, self)


class Shape:
    """One table's schemas. `without` names the columns that are left out because their type has no form."""

    def __init__(self, table: Table, shapes: Shapes) -> None:
        options = shapes.options
        self.table, self._shapes = table, shapes
        self.topic = topic_of(options["topic.prefix"], table, options["topic.delimiter"])
        self.without: list[tuple[str, str]] = []
        self.refused: dict[str, str] = {}
        """The columns that had a value which Connect cannot hold, and why; each is told once."""
        self._name = adjusted(self.topic, options["schema.name.adjustment.mode"])
        self._fields = options["field.name.adjustment.mode"]
        self._places = self._captured(shapes)
        pairs = [(adjusted(each.column.name, self._fields), each.schema) for each in self._places]
        self.value = struct(pairs, name=f"{self._name}.Value", optional=True)
        self.envelope = struct(
            [("before", self.value), ("after", self.value), ("source", shapes.product.source), ("transaction", BLOCK),
             ("op", data.STRING), ("ts_ms", _LONG), ("ts_us", _LONG), ("ts_ns", _LONG)],
            name=f"{self._name}.Envelope", version=2,
        )  # fmt: skip
        self._keys = self._key_indexes()
        members = [self.value.fields[index] for index in self._keys]
        self.key = struct([(each.name, each.schema) for each in members], name=f"{self._name}.Key") if members else None

    def _captured(self, shapes: Shapes) -> list[_Place]:
        wanted = set(shapes.selection.key(self.table))
        places = []
        for index, column in enumerate(self.table.columns):
            if column.name not in wanted and not shapes.selection.column(self.table, column.name):
                continue
            codec = shapes.product.codec_of(column.kind, column.modifier, shapes.options)
            if codec is None:
                self.without.append((column.name, column.kind.name))
                continue
            mask = (
                shapes.mask(f"{self.table.full_name}.{column.name}")
                if column.kind.name in shapes.product.texts
                else None
            )
            if mask is not None:
                codec = Codec(codec.schema.but(parameters=mask.parameters), mask.apply, codec.zero)
            schema = _schema(column, codec, shapes.product)
            places.append(_Place(column, codec, schema, codec.reading(schema), shapes.unavailable(codec), index))
        return places

    def _key_indexes(self) -> list[int]:
        at = {each.column.name: index for index, each in enumerate(self._places)}
        names = self._shapes.selection.key(self.table)
        if lacking := [each for each in names if each not in at]:
            raise ConfigException(
                f"the table {self.table.full_name} has no column {', '.join(lacking)} that can be a key: "
                "see message.key.columns"
            )
        return [at[each] for each in names]

    def row(self, values: Sequence[Any], fallback: Sequence[Any] | None = None) -> Struct:
        """A whole row of a table. `fallback` is the row before, for values that were not sent again."""
        return Struct(self.value, [self._value(each, values, fallback) for each in self._places])

    def key_row(self, values: Row) -> Struct:
        """A row of which the identity alone is known. A column that must not be null has its default or zero."""
        found = []
        for place, member in zip(self._places, self.value.members, strict=True):
            text = values[place.index]
            value = None if text is None or text is UNCHANGED else place.read(text)
            if value is None and not member.schema.optional:
                value = place.codec.zero if member.schema.default is None else member.schema.default
            found.append(value)
        return Struct(self.value, found)

    def key_of(self, row: Struct) -> Struct | None:
        """The key of a row, None for a table without one."""
        return None if self.key is None else Struct(self.key, [row.values[index] for index in self._keys])

    def knows_key(self, values: Row) -> bool:
        """True if an identity has all columns of the key. If not, that is told once."""
        indexes = [self._places[each].index for each in self._keys]
        if all(isinstance(values[each], str) for each in indexes):
            return True
        self.refused.setdefault("", "a change does not say the key of the row before, since the replica identity of "
                                "the table is not its key: set REPLICA IDENTITY FULL")  # fmt: skip
        return False

    def _value(self, place: _Place, values: Sequence[Any], fallback: Sequence[Any] | None) -> Any:
        value = values[place.index]
        if value is UNCHANGED and fallback is not None:
            value = fallback[place.index]
        if value is not None and value is not UNCHANGED:
            return self._read(place, value)
        if value is UNCHANGED and place.unavailable is not None:
            return place.unavailable
        if value is UNCHANGED:
            self.refused.setdefault(place.column.name, "a value that was not sent again (TOAST) is written as null: "
                                    "set REPLICA IDENTITY FULL on the table")  # fmt: skip
        return self._null(place)

    def _read(self, place: _Place, text: Any) -> Any:
        try:
            return place.read(text)
        except (ValueError, ArithmeticError) as fault:
            if not place.column.optional:
                raise DataException(f"the column {self.table.full_name}.{place.column.name}: {fault}") from fault
            self.refused.setdefault(place.column.name, f"written as null: {fault}")
            return None

    def _null(self, place: _Place) -> None:
        if not place.column.optional:
            raise NullInRequired(place.column.name)


def _schema(column: Column, codec: Codec, product: Product) -> Schema:
    schema = codec.schema.but(optional=column.optional)
    default = product.default_of(column, codec)
    return schema if default is None else schema.but(default=default)


def _masks_of(given: Mapping[str, str]) -> list[tuple[re.Pattern[str], Mask]]:
    found = []
    for name, columns in given.items():
        for kind, form in _MASKS:
            if parts := form.fullmatch(name):
                mask = _mask(kind, *parts.groups())
                found += [(re.compile(each.strip(), re.IGNORECASE), mask) for each in columns.split(",")]
    return found


def _mask(kind: str, first: str, salt: str = "") -> Mask:
    if kind == "mask.with":
        return Mask(lambda _: "*" * int(first), {"masked": "true"})
    if kind == "truncate":
        return Mask(lambda text: text[: int(first)], {"truncateLength": first})
    algorithm = first.replace("-", "").lower()
    if algorithm not in hashlib.algorithms_available:
        raise ConfigException(f"column.mask.hash.v2.{first}: the algorithm is unknown; SHA-256 is known")
    return Mask(lambda text: hashlib.new(algorithm, salt.encode() + text.encode()).hexdigest(), {"masked": "true"})
