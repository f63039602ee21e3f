"""Transformations of headers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.connect.checks import distinct, non_empty_list, non_null, one_of
from ottla.connect.config_def import ConfigDef, Importance, Option, Type
from ottla.connect.data import Schema, Struct, struct
from ottla.connect.errors import ConfigException, DataException
from ottla.connect.records import ConnectRecord, Header
from ottla.connect.transforms.sides import (
    REPLACE_NULL,
    Copying,
    Plans,
    Sided,
    basics,
    require_map,
    require_struct,
)
from ottla.connect.values import parse_text

_HIGH = Importance.HIGH


class DropHeaders:
    """Drops all headers of these names."""

    OPTIONS = ConfigDef(
        Option("headers", Type.LIST, importance=_HIGH, check=distinct(may_be_empty=False), doc="Headers to drop.")
    )

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._names = frozenset(self.OPTIONS.parse(given)["headers"])

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """The record with the other headers."""
        return record.with_headers(tuple(header for header in record.headers if header.key not in self._names))


class InsertHeader:
    """Adds a header with a fixed value."""

    OPTIONS = ConfigDef(
        Option("header", Type.STRING, importance=_HIGH, check=non_null, doc="The header's name."),
        Option("value.literal", Type.STRING, importance=_HIGH, check=non_null,
               doc="The value. It is read as Connect reads headers: 1 is a number, [1,2] an array."),
    )  # fmt: skip

    def __init__(self, given: Mapping[str, Any]) -> None:
        options = self.OPTIONS.parse(given)
        literal = parse_text(options["value.literal"])
        if literal.value == {}:
            raise ConfigException.of(
                "value.literal", options["value.literal"], "a map without entries has no type; add one, or use []"
            )
        self._header = Header(options["header"], literal.schema, literal.value)

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """The record with the header behind its own."""
        return record.with_headers((*record.headers, self._header))


class HeaderFrom(Sided):
    """Copies or moves fields into headers."""

    OPTIONS = ConfigDef(
        Option("fields", Type.LIST, importance=_HIGH, check=non_empty_list, doc="The fields."),
        Option("headers", Type.LIST, importance=_HIGH, check=non_empty_list,
               doc="The headers, as many as fields and in their order."),
        Option("operation", Type.STRING, importance=_HIGH, check=one_of("move", "copy"),
               doc="move: the fields are dropped; copy: they stay."),
        REPLACE_NULL,
    )  # fmt: skip
    PASSES_NULL = False

    def configure(self, options: dict[str, Any]) -> None:
        """Pair the fields with the headers."""
        fields, headers = options["fields"], options["headers"]
        if len(fields) != len(headers):
            raise ConfigException("'fields' config must have the same number of elements as 'headers' config.")
        self._pairs: list[tuple[str, str]] = list(zip(fields, headers, strict=True))
        self._moved = frozenset(fields) if options["operation"] == "move" else frozenset()
        self._purpose = f"header {options['operation']}"
        self._fill = options["replace.null.with.default"]
        self._plans = Plans(self._plan)

    def without_schema(self, record: ConnectRecord, value: Any) -> ConnectRecord:
        """The map without what was moved; a field that is not there gives a null header."""
        whole = require_map(value, self._purpose)
        headers = [Header(header, None, whole.get(field)) for field, header in self._pairs]
        kept = {name: item for name, item in whole.items() if name not in self._moved}
        return self.side.put(record, None, kept).with_headers((*record.headers, *headers))

    def with_schema(self, record: ConnectRecord, schema: Schema, value: Any) -> ConnectRecord:
        """The struct without what was moved. Each field must be one of the schema's."""
        whole = require_struct(value, schema, self._purpose)
        updated, copying = self._plans.of(schema)
        if self._moved:
            value = Struct(updated, copying.values(whole))
        headers = []
        for field, header in self._pairs:
            member = schema.field(field)
            if member is None:
                raise DataException(f"Field does not exist: {field}")
            item = whole.get(field) if self._fill else whole.values[member.index]
            headers.append(Header(header, member.schema, item))
        return self.side.put(record, updated, value).with_headers((*record.headers, *headers))

    def _plan(self, schema: Schema) -> tuple[Schema, Copying]:
        kept = [member for member in schema.fields if member.name not in self._moved]
        if not self._moved:
            return schema, Copying(schema, (), fill=False)
        updated = struct(((member.name, member.schema) for member in kept), **basics(schema))
        return updated, Copying(schema, tuple(zip(kept, updated.members, strict=True)), fill=self._fill)
