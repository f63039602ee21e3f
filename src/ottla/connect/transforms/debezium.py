"""Debezium's transformation ExtractNewRecordState: a change's row in place of its envelope."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ottla.connect.checks import one_of
from ottla.connect.config_def import ConfigDef, Importance, Option, Type
from ottla.connect.data import OPTIONAL_STRING, Schema, Struct, struct
from ottla.connect.errors import ConfigException, DataException
from ottla.connect.records import ConnectRecord, Header
from ottla.connect.transforms.sides import Plans

_LOW: Final = Importance.LOW
_DELETED: Final = "__deleted"
_ENVELOPE: Final = ".Envelope"


class ExtractNewRecordState:
    """Passes the row after a change on, and for a deletion a tombstone, the row before it, or nothing."""

    OPTIONS = ConfigDef(
        Option("delete.tombstone.handling.mode", Type.STRING, "tombstone", Importance.MEDIUM,
               "Of a deletion: drop drops both records, tombstone keeps the tombstone, rewrite keeps the row before "
               "with __deleted and drops the tombstone, rewrite-with-tombstone keeps both, delete-to-tombstone makes "
               "a tombstone of the deletion.",
               one_of("drop", "tombstone", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone")),
        Option("add.fields", Type.LIST, [], _LOW, "Fields of the envelope to add, as source.lsn or op."),
        Option("add.fields.prefix", Type.STRING, "__", _LOW, "Begins the names of added fields."),
        Option("add.headers", Type.LIST, [], _LOW, "Fields of the envelope to add as headers."),
        Option("add.headers.prefix", Type.STRING, "__", _LOW, "Begins the names of added headers."),
        Option("route.by.field", Type.STRING, "", _LOW, "The field of the row whose value is the topic."),
    )  # fmt: skip

    def __init__(self, given: Mapping[str, Any]) -> None:
        for old in ("drop.tombstones", "delete.handling.mode"):
            if old in given:
                raise ConfigException(f"{old} is gone since Debezium 3: set delete.tombstone.handling.mode")
        options = self.OPTIONS.parse(given)
        self._mode = options["delete.tombstone.handling.mode"]
        self._fields, self._headers = options["add.fields"], options["add.headers"]
        self._field_prefix, self._header_prefix = options["add.fields.prefix"], options["add.headers.prefix"]
        self._route = options["route.by.field"]
        self._plans = Plans(self._plan)

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """The row of a change; a record that is none, a heartbeat for one, passes as it is."""
        if record.value is None:
            return record if self._mode in ("tombstone", "rewrite-with-tombstone") else None
        schema = record.value_schema
        if schema is None or not (schema.name or "").endswith(_ENVELOPE) or not isinstance(record.value, Struct):
            return record
        if record.value.get("op") == "t":
            return None
        after = record.value.get("after")
        if after is None:
            return self._deleted(record)
        return self._made(record, after, deleted="false")

    def _deleted(self, record: ConnectRecord) -> ConnectRecord | None:
        if self._mode in ("drop", "tombstone"):
            return None
        if self._mode == "delete-to-tombstone":
            return self._with_headers(record).with_value(None, None)
        before = record.value.get("before")
        if before is None:
            raise DataException("a deletion without the row before it cannot be rewritten: set REPLICA IDENTITY")
        return self._made(record, before, deleted="true")

    def _made(self, record: ConnectRecord, row: Struct, *, deleted: str) -> ConnectRecord:
        assert record.value_schema is not None
        schema = self._plans.of(record.value_schema)
        added = [self._at(record.value, path)[1] for path in self._fields]
        marks = [deleted] if self._mode.startswith("rewrite") else []
        made = self._with_headers(record).with_value(schema, Struct(schema, [*row.values, *added, *marks]))
        return made.with_topic(str(row.get(self._route))) if self._route else made

    def _with_headers(self, record: ConnectRecord) -> ConnectRecord:
        if not self._headers:
            return record
        found = [(path, *self._at(record.value, path)) for path in self._headers]
        more = tuple(Header(self._name(self._header_prefix, path), schema, value) for path, schema, value in found)
        return record.with_headers((*record.headers, *more))

    def _plan(self, envelope: Schema) -> Schema:
        """The schema of the rows of one envelope, with the added fields behind its own."""
        member = envelope.places["after"]
        pairs = [(each.name, each.schema) for each in member.schema.members]
        for path in self._fields:
            schema = self._schema_at(envelope, path)
            pairs.append((self._name(self._field_prefix, path), schema.but(optional=True)))
        if self._mode.startswith("rewrite"):
            pairs.append((_DELETED, OPTIONAL_STRING))
        parts = {"name": member.schema.name, "version": member.schema.version}
        return struct(pairs, **parts)

    def _name(self, prefix: str, path: str) -> str:
        place, _, new = path.partition(":")
        return prefix + (new or place.replace(".", "_"))

    def _schema_at(self, envelope: Schema, path: str) -> Schema:
        schema = envelope
        for name in path.partition(":")[0].split("."):
            field = schema.field(name)
            if field is None:
                raise DataException(f"the envelope has no field {path}: it has {', '.join(schema.places)}")
            schema = field.schema
        return schema

    def _at(self, value: Struct, path: str) -> tuple[Schema, Any]:
        schema = self._schema_at(value.schema, path)
        found: Any = value
        for name in path.partition(":")[0].split("."):
            found = None if found is None else found.get(name)
        return schema, found
