"""Transformations that move, drop, rename and lift fields."""

from __future__ import annotations

from typing import Any

from ottla.connect import data
from ottla.connect.checks import distinct, one_of
from ottla.connect.config_def import ConfigDef, Importance, Option, Type
from ottla.connect.data import Schema, Struct, struct, validate
from ottla.connect.errors import ConfigException, DataException, UnknownField
from ottla.connect.records import ConnectRecord
from ottla.connect.transforms.field_path import FieldPath
from ottla.connect.transforms.sides import (
    REPLACE_NULL,
    Copying,
    Plans,
    RecordSide,
    Sided,
    basics,
    require_map,
    require_struct,
)


class ExtractField(Sided):
    """Puts one field in the place of the whole value."""

    OPTIONS = ConfigDef(
        Option("field", Type.STRING, doc="The field to take."),
        REPLACE_NULL,
        Option(
            "field.syntax.version",
            Type.STRING,
            "V1",
            Importance.HIGH,
            "V1: the field's name. V2: a path, in which dots lead into structs and maps, and back-ticks quote.",
            one_of("V1", "V2", any_case=True),
        ),
    )
    PASSES_NULL = False
    PURPOSE = "field extraction"

    def configure(self, options: dict[str, Any]) -> None:
        """Read the path."""
        self._path = FieldPath(options["field"], nested=options["field.syntax.version"].upper() == "V2")
        self._fill = options["replace.null.with.default"]

    def without_schema(self, record: ConnectRecord, value: Any) -> ConnectRecord:
        """The field's value, null where there is none."""
        found = None if value is None else self._path.in_map(require_map(value, self.PURPOSE))
        return self.side.put(record, None, found)

    def with_schema(self, record: ConnectRecord, schema: Schema, value: Any) -> ConnectRecord:
        """The field's value with its schema."""
        whole = None if value is None else require_struct(value, schema, self.PURPOSE)
        of = self._path.schema(schema)
        if of is None:
            raise UnknownField(f"Unknown field: {self._path.text}")
        return self.side.put(record, of, None if whole is None else self._path.in_struct(whole, fill=self._fill))


class HoistField(Sided):
    """Puts the whole value into a field of its own."""

    OPTIONS = ConfigDef(Option("field", Type.STRING, doc="The field that takes the value."))
    PASSES_NULL = False

    def configure(self, options: dict[str, Any]) -> None:
        """Take the name."""
        self._field = options["field"]
        self._schemas = Plans(lambda schema: struct([(self._field, schema)]))

    def without_schema(self, record: ConnectRecord, value: Any) -> ConnectRecord:
        """A map of the one field."""
        return self.side.put(record, None, {self._field: value})

    def with_schema(self, record: ConnectRecord, schema: Schema, value: Any) -> ConnectRecord:
        """A struct of the one field."""
        updated = self._schemas.of(schema)
        if value is None:
            validate(schema, value, self._field)
        return self.side.put(record, updated, Struct(updated, [value]))


def renames_of(mappings: list[str]) -> dict[str, str]:
    """The pairs of `renames`."""
    found = {}
    for mapping in mappings:
        parts = mapping.rstrip(":").split(":")
        if len(parts) != 2:
            raise ConfigException.of("renames", mappings, f"Invalid rename mapping: {mapping}")
        found[parts[0]] = parts[1]
    return found


class ReplaceField(Sided):
    """Keeps, drops and renames fields."""

    OPTIONS = ConfigDef(
        Option("exclude", Type.LIST, [], check=distinct(may_be_empty=True), doc="Fields to drop; beats `include`."),
        Option("include", Type.LIST, [], check=distinct(may_be_empty=True), doc="Fields to keep; none: all of them."),
        Option("renames", Type.LIST, [], check=lambda _, value: _refused(value), doc="Pairs of old:new names."),
        REPLACE_NULL,
    )
    PURPOSE = "field replacement"

    def configure(self, options: dict[str, Any]) -> None:
        """Take the names."""
        self._exclude, self._include = frozenset(options["exclude"]), frozenset(options["include"])
        self._renames = renames_of(options["renames"])
        self._fill = options["replace.null.with.default"]
        self._plans = Plans(self._plan)

    def _keeps(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)

    def without_schema(self, record: ConnectRecord, value: Any) -> ConnectRecord:
        """The map with the kept fields, renamed."""
        kept = {
            self._renames.get(name, name): item
            for name, item in require_map(value, self.PURPOSE).items()
            if self._keeps(name)
        }
        return self.side.put(record, None, kept)

    def with_schema(self, record: ConnectRecord, schema: Schema, value: Any) -> ConnectRecord:
        """The struct with the kept fields, renamed."""
        whole = require_struct(value, schema, self.PURPOSE)
        updated, copying = self._plans.of(whole.schema)
        return self.side.put(record, updated, Struct(updated, copying.values(whole)))

    def _plan(self, schema: Schema) -> tuple[Schema, Copying]:
        kept = [member for member in schema.members if self._keeps(member.name)]
        updated = struct(((self._renames.get(each.name, each.name), each.schema) for each in kept), **basics(schema))
        return updated, Copying(schema, tuple(zip(kept, updated.members, strict=True)), fill=self._fill)


def _refused(mappings: list[str] | None) -> None:
    """Raise for a pair that cannot be read."""
    renames_of(mappings or [])


class ValueToKey:
    """Makes the key of fields of the value."""

    OPTIONS = ConfigDef(
        Option("fields", Type.LIST, importance=Importance.HIGH, check=distinct(may_be_empty=False),
               doc="Fields of the value that make up the key."),
        REPLACE_NULL,
    )  # fmt: skip
    PURPOSE = "copying fields from value to key"

    def __init__(self, given: Any) -> None:
        options = self.OPTIONS.parse(given)
        self._fields: list[str] = options["fields"]
        self._fill = options["replace.null.with.default"]
        self._plans = Plans(self._plan)

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """The record with the fields as its key."""
        schema, value = RecordSide.VALUE.of(record)
        if schema is None:
            whole = require_map(value, self.PURPOSE)
            return record.with_key(None, {name: whole.get(name) for name in self._fields})
        of = require_struct(value, schema, self.PURPOSE)
        updated, copying = self._plans.of(of.schema)
        return record.with_key(updated, Struct(updated, copying.values(of)))

    def _plan(self, schema: Schema) -> tuple[Schema, Copying]:
        chosen = []
        for name in self._fields:
            member = schema.field(name)
            if member is None:
                raise DataException(f"Field does not exist: {name}")
            chosen.append(member)
        updated = struct((member.name, member.schema) for member in chosen)
        return updated, Copying(schema, tuple(zip(chosen, updated.members, strict=True)), fill=self._fill)


class Flatten(Sided):
    """Lifts the fields of structs and maps to the top, their names joined."""

    OPTIONS = ConfigDef(Option("delimiter", Type.STRING, ".", doc="The text between the names of a path."))
    PURPOSE = "flattening"

    def configure(self, options: dict[str, Any]) -> None:
        """Take the delimiter."""
        self._delimiter = options["delimiter"]
        self._plans = Plans(self._plan)

    def _joined(self, prefix: str, name: str) -> str:
        return f"{prefix}{self._delimiter}{name}" if prefix else name

    def without_schema(self, record: ConnectRecord, value: Any) -> ConnectRecord:
        """A map of the leaves. Arrays stay whole, empty maps leave nothing."""
        made: dict[str, Any] = {}
        self._lift(require_map(value, self.PURPOSE), "", made)
        return self.side.put(record, None, made)

    def _lift(self, value: dict[Any, Any], prefix: str, made: dict[str, Any]) -> None:
        for name, item in value.items():
            path = self._joined(prefix, name)
            if type(item) is dict:
                self._lift(item, path, made)
            elif item is not None and data.inferred(item) is None:
                raise DataException(
                    f"Flatten transformation was passed a value of type class {data.java_class(item)} which is not "
                    "supported by Connect's data API"
                )
            elif type(item) is Struct:
                raise DataException(
                    f"Flatten transformation does not support class {data.java_class(item)} for record without "
                    f"schemas (for field {path})."
                )
            else:
                made[path] = item

    def with_schema(self, record: ConnectRecord, schema: Schema, value: Any) -> ConnectRecord:
        """A struct of the leaves."""
        whole = require_struct(value, schema, self.PURPOSE)
        updated, paths = self._plans.of(whole.schema)
        values = [_at(whole, path) for path in paths]
        for member, item in zip(updated.members, values, strict=True):
            if item is None:
                validate(member.schema, item, member.name)
        return self.side.put(record, updated, Struct(updated, values))

    def _plan(self, schema: Schema) -> tuple[Schema, list[tuple[int, ...]]]:
        leaves: list[tuple[str, Schema]] = []
        paths: list[tuple[int, ...]] = []
        self._walk(schema, "", (), (leaves, paths), optional=schema.optional, default=schema.default)
        return struct(leaves, **basics(schema)), paths

    def _walk(
        self, schema: Schema, prefix: str, path: tuple[int, ...],
        made: tuple[list[tuple[str, Schema]], list[tuple[int, ...]]], *, optional: bool, default: Struct | None,
    ) -> None:  # fmt: skip
        """Collect the leaves. One below an optional struct may be missing, and takes its default from above."""
        for member in schema.members:
            name = self._joined(prefix, member.name)
            missing = optional or member.schema.optional
            own = member.schema.default
            if own is None and default is not None:
                own = default.get(member.name)
            if member.schema.type is data.Type.STRUCT:
                self._walk(member.schema, name, (*path, member.index), made, optional=missing, default=own)
                continue
            if member.schema.type is data.Type.MAP:
                raise DataException(
                    f"Flatten transformation does not support MAP for record with schemas (for field {name})."
                )
            made[0].append((name, member.schema.but(optional=missing, default=own)))
            made[1].append((*path, member.index))


def _at(whole: Struct, path: tuple[int, ...]) -> Any:
    """The value of a leaf, with defaults on the way; null below a struct that is null."""
    for index in path:
        if whole is None:
            return None
        value = whole.values[index]
        whole = whole.schema.members[index].schema.default if value is None else value
    return whole
