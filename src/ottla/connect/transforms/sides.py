"""A transformation's place in a record, its key or its value, and what it asks of the data there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, ClassVar, Generic, TypeVar

from ottla.connect.config_def import ConfigDef, Option, Type
from ottla.connect.data import Field, Schema, Struct, java_class
from ottla.connect.errors import DataException
from ottla.connect.records import ConnectRecord

MOST_PLANS = 64
"""Schemas whose plans are kept; a topic with more of them is rare."""

REPLACE_NULL = Option(
    "replace.null.with.default",
    Type.BOOLEAN,
    True,
    doc="Take a field's default where the field is null and has one.",
)


class RecordSide(Enum):
    """The part of a record that a transformation changes."""

    KEY = "Key"
    VALUE = "Value"

    def of(self, record: ConnectRecord) -> tuple[Schema | None, Any]:
        """The part's schema and value."""
        if self is RecordSide.VALUE:
            return record.value_schema, record.value
        return record.key_schema, record.key

    def put(self, record: ConnectRecord, schema: Schema | None, value: Any) -> ConnectRecord:
        """The record with another schema and value there."""
        return record.with_value(schema, value) if self is RecordSide.VALUE else record.with_key(schema, value)


class Sided:
    """A transformation of the key or of the value: one way for data without a schema, one for data with it."""

    OPTIONS: ClassVar[ConfigDef]
    PASSES_NULL: ClassVar[bool] = True
    """True if a null stays as it is."""

    def __init__(self, side: RecordSide, given: Mapping[str, Any]) -> None:
        self.side = side
        self.configure(self.OPTIONS.parse(given))

    def configure(self, options: dict[str, Any]) -> None:
        """Take the typed options; raise `ConfigException` for those that contradict each other."""

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """The changed record."""
        schema, value = self.side.of(record)
        if value is None and self.PASSES_NULL:
            return record
        if schema is None:
            return self.without_schema(record, value)
        return self.with_schema(record, schema, value)

    def without_schema(self, record: ConnectRecord, value: Any) -> ConnectRecord:
        """The record with its plain value changed."""
        raise NotImplementedError

    def with_schema(self, record: ConnectRecord, schema: Schema, value: Any) -> ConnectRecord:
        """The record with its value and the value's schema changed."""
        raise NotImplementedError


Plan = TypeVar("Plan")


class Plans(Generic[Plan]):
    """The plan that a transformation makes for each schema, made at its first record."""

    def __init__(self, make: Callable[[Schema], Plan]) -> None:
        self._make = make
        self._plans: dict[Schema, Plan] = {}

    def of(self, schema: Schema) -> Plan:
        """The plan for a schema."""
        plan = self._plans.get(schema)
        if plan is None:
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            plan = self._plans[schema] = self._make(schema)
        return plan


def basics(schema: Schema) -> dict[str, Any]:
    """A schema's name, version, documentation and parameters, for the schema that is made from it."""
    return {"name": schema.name, "version": schema.version, "doc": schema.doc, "parameters": schema.parameters}


def require_map(value: Any, purpose: str) -> dict[Any, Any]:
    """The value, which must be a map."""
    if type(value) is not dict:
        raise DataException(
            f"Only Map objects supported in absence of schema for [{purpose}], found: {java_class(value)}"
        )
    return value


def require_struct(value: Any, schema: Schema, purpose: str) -> Struct:
    """The value, which must be a struct."""
    if type(value) is not Struct:
        raise DataException(f"Only Struct objects supported for [{purpose}], found: {java_class(value, schema)}")
    return value


class Copying:
    """Copies a struct's fields into one of another schema."""

    def __init__(self, source: Schema, fields: tuple[tuple[Field, Field], ...], *, fill: bool) -> None:
        self._places = [old.index for old, _ in fields]
        self._all = self._places == list(range(len(source.members)))
        defaults = dict(source.defaults) if fill else {}
        self._defaults = [(at, defaults[old.index]) for at, (old, _) in enumerate(fields) if old.index in defaults]
        self._required = [(at, new) for at, (_, new) in enumerate(fields) if not new.schema.optional]

    def values(self, struct: Struct) -> list[Any]:
        """The values for the new fields, with defaults in place of nulls where that was asked for."""
        old = struct.values
        values = old.copy() if self._all else [old[place] for place in self._places]
        for at, default in self._defaults:
            if values[at] is None:
                values[at] = default
        for at, field in self._required:
            if values[at] is None:
                missing_value(field)
        return values


def missing_value(field: Field) -> None:
    """Refuse a null in a field that needs a value."""
    raise DataException(
        f'Invalid value: null used for required field: "{field.name}", schema type: {field.schema.type.name}'
    )
