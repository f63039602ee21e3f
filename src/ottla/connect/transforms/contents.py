"""Transformations that put values into fields, mask them, and name schemas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from ottla.connect import data
from ottla.connect.checks import distinct, non_empty_text
from ottla.connect.config_def import ConfigDef, Importance, Option, Type
from ottla.connect.data import BITS, Instant, Schema, Struct, java_class, struct
from ottla.connect.data import Type as Kind
from ottla.connect.errors import ConfigException, DataException
from ottla.connect.java.text import float32, parse_decimal, whole
from ottla.connect.records import ConnectRecord, SinkRecord
from ottla.connect.transforms.sides import (
    REPLACE_NULL,
    Copying,
    Plans,
    Sided,
    basics,
    require_map,
    require_struct,
)


def _offset(record: ConnectRecord) -> int:
    if not isinstance(record, SinkRecord):
        raise DataException(
            "Offset insertion is only supported for sink connectors, record is of type: class "
            "org.apache.kafka.connect.source.SourceRecord"
        )
    return record.offset


_SOURCES: Final[dict[str, tuple[Schema, Callable[[ConnectRecord], Any]]]] = {
    "topic.field": (data.STRING, lambda record: record.topic),
    "partition.field": (data.INT32, lambda record: record.partition),
    "offset.field": (data.INT64, _offset),
    "timestamp.field": (data.TIMESTAMP_SCHEMA, lambda record: record.timestamp),
}
"""The parts of a record that can become fields, in the order in which they are added."""


@dataclass(frozen=True, slots=True)
class Inserted:
    """A field to add: its name, whether it may be missing, and where its value comes from."""

    name: str
    schema: Schema
    value: Callable[[ConnectRecord], Any]


class InsertField(Sided):
    """Adds fields from the record's place and time, and one with a fixed text."""

    OPTIONS = ConfigDef(
        Option("topic.field", Type.STRING, None, doc="Field for the topic; `!` behind it: required, `?`: optional."),
        Option("partition.field", Type.STRING, None, doc="Field for the partition; `!` and `?` as above."),
        Option("offset.field", Type.STRING, None, doc="Field for the offset, with sinks alone; `!` and `?` as above."),
        Option("timestamp.field", Type.STRING, None, doc="Field for the timestamp; `!` and `?` as above."),
        Option("static.field", Type.STRING, None, doc="Field for the fixed text; `!` and `?` as above."),
        Option("static.value", Type.STRING, None, doc="The fixed text."),
        REPLACE_NULL,
    )
    PURPOSE = "field insertion"

    def configure(self, options: dict[str, Any]) -> None:
        """Take the names of the fields."""
        static = options["static.value"]
        sources = {**_SOURCES, "static.field": (data.STRING, lambda record: static)}
        self._inserted = [
            _inserted(options[option], schema, value)
            for option, (schema, value) in sources.items()
            if options[option] is not None
        ]
        if not self._inserted:
            raise ConfigException("No field insertion configured")
        if options["static.field"] is not None and static is None:
            reason = f"No value specified for static field: {options['static.field']}"
            raise ConfigException.of("static.value", static, reason)
        self._fill = options["replace.null.with.default"]
        self._plans = Plans(self._plan)

    def without_schema(self, record: ConnectRecord, value: Any) -> ConnectRecord:
        """The map with the fields; a part that the record lacks adds none."""
        made = dict(require_map(value, self.PURPOSE))
        for each in self._inserted:
            item = each.value(record)
            if item is not None or each.value is _offset:
                made[each.name] = item
        return self.side.put(record, None, made)

    def with_schema(self, record: ConnectRecord, schema: Schema, value: Any) -> ConnectRecord:
        """The struct with the fields behind its own."""
        whole = require_struct(value, schema, self.PURPOSE)
        updated, copying = self._plans.of(whole.schema)
        values = copying.values(whole)
        for each in self._inserted:
            item = each.value(record)
            values.append(Instant(item) if item is not None and each.schema.name == data.TIMESTAMP else item)
        return self.side.put(record, updated, Struct(updated, values))

    def _plan(self, schema: Schema) -> tuple[Schema, Copying]:
        old = [(member.name, member.schema) for member in schema.fields]
        updated = struct([*old, *((each.name, each.schema) for each in self._inserted)], **basics(schema))
        same = tuple(zip(schema.members, updated.members[: len(old)], strict=True))
        return updated, Copying(schema, same, fill=self._fill)


def _inserted(name: str, schema: Schema, value: Callable[[ConnectRecord], Any]) -> Inserted:
    if name.endswith(("!", "?")):
        return Inserted(name[:-1], schema.but(optional=name.endswith("?")), value)
    return Inserted(name, schema.but(optional=True), value)


class MaskField(Sided):
    """Puts an empty value, or a replacement, in the place of fields' values. A null stays."""

    OPTIONS = ConfigDef(
        Option("fields", Type.LIST, importance=Importance.HIGH, check=distinct(may_be_empty=False),
               doc="Fields to mask."),
        Option("replacement", Type.STRING, None, Importance.LOW, check=non_empty_text,
               doc="The value to put there, for numbers and text."),
        REPLACE_NULL,
    )  # fmt: skip
    PASSES_NULL = False
    PURPOSE = "mask fields"

    def configure(self, options: dict[str, Any]) -> None:
        """Take the fields."""
        self._fields: frozenset[str] = frozenset(options["fields"])
        self._replacement: str | None = options["replacement"]
        self._fill = options["replace.null.with.default"]
        self._plans = Plans(
            lambda schema: (
                [member for member in schema.members if member.name in self._fields],
                Copying(schema, tuple((member, member) for member in schema.members), fill=self._fill),
            )
        )

    def without_schema(self, record: ConnectRecord, value: Any) -> ConnectRecord:
        """The map with its fields masked; a field that is not there is null then."""
        made = dict(require_map(value, self.PURPOSE))
        for name in self._fields:
            made[name] = self._masked(made.get(name), None)
        return self.side.put(record, None, made)

    def with_schema(self, record: ConnectRecord, schema: Schema, value: Any) -> ConnectRecord:
        """The struct with its fields masked."""
        whole = require_struct(value, schema, self.PURPOSE)
        masked, copying = self._plans.of(whole.schema)
        values = copying.values(whole)
        for member in masked:
            values[member.index] = self._masked(values[member.index], member.schema)
        return self.side.put(record, schema, Struct(whole.schema, values))

    def _masked(self, value: Any, schema: Schema | None) -> Any:
        if value is None:
            return None
        if self._replacement is not None:
            return _replaced(value, schema, self._replacement)
        for kind, empty in _EMPTY.items():
            if isinstance(value, kind):
                return empty() if callable(empty) else empty
        raise DataException(f"Cannot mask value of type: class {java_class(value, schema)}")


_EMPTY: Final[dict[type, Any]] = {
    bool: False, int: 0, float: 0.0, Decimal: Decimal(0), Instant: Instant(0), str: "", list: list, dict: dict,
}  # fmt: skip


def _replaced(value: Any, schema: Schema | None, text: str) -> Any:
    """The replacement as a value of the same class."""
    if isinstance(value, str):
        return text
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise DataException(f"Cannot mask value of type class {java_class(value, schema)} with custom replacement.")
    kind = data.inferred(value) if schema is None else schema.type
    try:
        number = parse_decimal(text)
    except ValueError:
        raise DataException(f"Unable to convert {text} (class java.lang.String) to a number") from None
    if isinstance(value, Decimal):
        return number
    if kind is None:
        return int(number)
    if kind in BITS:
        return whole(number, BITS[kind])
    return float32(float(number)) if kind is Kind.FLOAT32 else float(number)


class SetSchemaMetadata(Sided):
    """Gives the schema another name or version."""

    OPTIONS = ConfigDef(
        Option("schema.name", Type.STRING, None, Importance.HIGH, "The name."),
        Option("schema.version", Type.INT, None, Importance.HIGH, "The version."),
        REPLACE_NULL,
    )
    PASSES_NULL = False

    def configure(self, options: dict[str, Any]) -> None:
        """Take the name and the version."""
        named = {"name": options["schema.name"], "version": options["schema.version"]}
        self._parts = {part: value for part, value in named.items() if value is not None}
        self._fill = options["replace.null.with.default"]
        self._plans = Plans(self._plan)

    def without_schema(self, record: ConnectRecord, value: Any) -> ConnectRecord:
        """Only a null needs no schema."""
        if value is None:
            return record
        raise DataException("Schema required for [updating schema metadata]")

    def with_schema(self, record: ConnectRecord, schema: Schema, value: Any) -> ConnectRecord:
        """The same value under the other schema."""
        updated, copying = self._plans.of(schema)
        if type(value) is Struct:
            value = Struct(updated, copying.values(value))
        return self.side.put(record, updated, value)

    def _plan(self, schema: Schema) -> tuple[Schema, Copying]:
        same = tuple((member, member) for member in schema.fields)
        return schema.but(**self._parts), Copying(schema, same, fill=self._fill)
