"""Read records' values: as bytes, as text, or as columns from JSON objects or schemas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from ottla.formats.decoder import Decoder, Evolution
from ottla.formats.evolution import aliases, described, widened
from ottla.formats.faults import Unresolvable
from ottla.formats.renames import Renames
from ottla.formats.wire import VALUE_HEADER
from ottla.formats.writer import WriterSchema
from ottla.lake import json_columns
from ottla.lake.flat import check_flat, check_plain, flat_arrays, flat_fields, kept_fields
from ottla.lake.json_columns import Block, column_names
from ottla.lake.renaming import TopicRenames
from ottla.lake.shape import Shape
from ottla.lake.stores.base import LakeRefused
from ottla.lake.tables import table_column_names
from ottla.lake.tables.envelopes import state_schema
from ottla.lake.tables.evolution import conform
from ottla.lake.tables.types import held_type
from ottla.lake.types import EMPTY, Misfit, Rule, check_limits, merge_schemas
from ottla.spark.arrow import header_values, row_schema
from ottla.spark.registry_client import registry

KINDS = ("bytes", "text", "json", "avro", "protobuf", "json-schema")
"""`json` makes columns of the fields in objects, `json-schema` of those in a schema."""
WITH_SCHEMA = ("avro", "protobuf", "json-schema")


@dataclass(frozen=True, slots=True)
class ValueKind:
    """The way in which values are read; picklable, for executors."""

    kind: str = "bytes"
    rule: Rule = field(default_factory=Rule)
    urls: tuple[str, ...] = ()
    """URLs of schema registries: each value begins with the id of its schema."""
    schema: str = ""
    """The schema of all values, where they have no such prefix."""
    message: str = ""
    """The name of a message in a Protobuf file; empty for the first."""
    only: frozenset[str] = frozenset()
    """The fields that become columns; all if none is named."""
    without: frozenset[str] = frozenset()
    """The fields that do not become columns."""
    flatten: str = ""
    """The separator between names with `--flatten`; empty without."""
    renames: TopicRenames = field(default_factory=TopicRenames)
    fixed: frozenset[str] = frozenset()
    """Columns that keep their names: the lake is divided or filtered by them, or they are its key."""

    plain: frozenset[str] = frozenset()
    """Columns that hold no objects or arrays: the lake is divided by them, or they are its key."""
    events: bool = False
    """True if values are change events, whose states are the rows."""

    def kept(self, schema: pa.Schema) -> pa.Schema:
        """The columns that are wanted of these; one that was renamed also by its former names."""
        if not self.only and not self.without:
            return schema
        if self.flatten:
            return kept_fields(schema, self.flatten, self.only, self.without)
        named = [(each, {each.name, *aliases(each)}) for each in schema]
        fields = [each for each, names in named if (not self.only or names & self.only) and not names & self.without]
        return schema if len(fields) == len(schema) else pa.schema(fields, metadata=schema.metadata)

    def check(self, schema: pa.Schema) -> None:
        """Misfit where these columns make no table."""
        check_limits(schema)
        check_flat(schema, self.flatten)
        check_plain(schema, self.flatten, self.plain)
        if self.events:
            _check_states(schema, self.flatten)

    def allow(self, schema: pa.Schema) -> None:
        """Unresolvable where the columns of a schema make no table."""
        kept = self.kept(schema)
        try:
            self.check(kept)
            merge_schemas(EMPTY, kept, Rule())
        except Misfit as fault:
            raise Unresolvable(str(fault)) from fault

    @property
    def fetched(self) -> tuple[str, ...]:
        """The columns of records that tell a value's columns."""
        return ("value", "headers") if self.urls else ("value",)

    def read(self, reader: ValueReader, batch: pa.RecordBatch, schema: pa.Schema) -> Block:
        """The values of a batch of records, read by a reader of this kind."""
        headers = batch.column("headers") if self.urls else None
        return reader.read(batch.column("value"), schema, headers)

    def reader(self, topic: str) -> ValueReader:
        """A reader for one topic in one process; it learns schemas as it goes."""
        return ValueReader(self, self.renames.of(topic))

    def merged(self, topic: str, one: pa.Schema, other: pa.Schema) -> pa.Schema:
        """The columns of both; Misfit where one column cannot hold the values of both."""
        try:
            if self.kind == "json":
                return self.renames.of(topic).columns(merge_schemas(one, other, self.rule))
            return widened(one, other, self.stays)
        except Unresolvable as fault:
            raise Misfit(str(fault)) from fault

    def renamed(self, topic: str, columns: pa.Schema) -> pa.Schema:
        """The columns of a topic under their present names; LakeRefused if the lake has both columns of a rename."""
        try:
            return self.renames.of(topic).columns(columns)
        except Unresolvable as fault:
            raise LakeRefused(
                f"--rename: topic {topic} has columns of both names already ({fault}); their rows cannot be put "
                f"together. Leave the rename, or load into another directory"
            ) from fault

    def stays(self, path: tuple[str, ...]) -> bool:
        """True if the field at a path keeps its name, whichever name schemas give it."""
        name = (self.flatten or ".").join(path)
        return any(each == name or each.startswith(f"{name}{self.flatten or '.'}") for each in self.fixed)


def _check_states(schema: pa.Schema, separator: str) -> None:
    """Misfit where the states before and after an event make no columns together."""
    try:
        state = state_schema(schema)
    except LakeRefused as fault:
        raise Misfit(str(fault)) from fault
    merge_schemas(EMPTY, state, Rule())
    check_flat(state, separator)


class ValueReader:
    """Reads blocks of one topic's values into columns."""

    def __init__(self, kind: ValueKind, renames: Renames | None = None) -> None:
        self._kind = kind
        self._renames = renames or Renames()
        self._decoder: Decoder | None = None

    def read(self, values: pa.Array, schema: pa.Schema, headers: pa.Array | None = None) -> Block:
        """The columns of the rows that could be read, and the types that the schema lacks for them.

        The records' headers may name the schemas of values, see `ValueKind.fetched`. A column that is not wanted any
        more, and stands in the schema since earlier rounds, is null.
        """
        kept = self._kind.kept(schema)
        block = self._read(values, kept, headers)
        if kept.names == schema.names and kept.equals(schema):
            return block
        if block.table is None:
            block.wanted = self._both(schema, block.wanted)
        else:
            block.table, block.wanted = conform(block.table, schema), schema
        return block

    def _both(self, schema: pa.Schema, wanted: pa.Schema) -> pa.Schema:
        """The columns of both, of which the second are wider."""
        if self._kind.kind == "json":
            return self._renames.columns(merge_schemas(schema, wanted, self._kind.rule))
        return widened(schema, wanted, self._kind.stays)

    def _read(self, values: pa.Array, schema: pa.Schema, headers: pa.Array | None) -> Block:
        if self._kind.kind == "json":
            return self._read_json(values, schema)
        named = None if headers is None or not self._kind.urls else header_values(headers, VALUE_HEADER)
        decoded = self._of(schema).decode(values, named)
        wanted = self._kind.kept(decoded.wanted)
        if same_columns(wanted, schema):
            table = decoded.table if schema.names else json_columns.no_columns(int(decoded.good.sum()))
            return Block(table, decoded.good, decoded.faults, schema)
        return Block(None, decoded.good, decoded.faults, wanted)

    def _read_json(self, values: pa.Array, schema: pa.Schema) -> Block:
        kind = self._kind
        rules = json_columns.ColumnRules(
            kind.rule, lambda found: kind.kept(self._renames.columns(found)), kind.check, self._renames
        )
        block = json_columns.decode(values, schema, rules)
        if block.table is None:
            block.wanted = self._renames.columns(block.wanted)
        return block

    def _of(self, schema: pa.Schema) -> Decoder:
        """The decoder into these columns; without any yet it takes those of the values."""
        wanted = schema if schema.names else None
        target = self._decoder.target if self._decoder is not None else None
        if self._decoder is None or (target is None) != (wanted is None) or not same_columns(target, wanted):
            self._decoder = self._made(wanted)
        return self._decoder

    def _made(self, target: pa.Schema | None) -> Decoder:
        kind = "json" if self._kind.kind == "json-schema" else self._kind.kind
        if kind == "text":
            return Decoder("text")
        message, evolution = (
            self._kind.message,
            Evolution(self._renames, self._kind.stays, self._kind.allow, exact=True),
        )
        if self._kind.schema:
            given = WriterSchema(kind.upper(), self._kind.schema)
            return Decoder(kind, target=target, bare=given, message=message, evolution=evolution)
        return Decoder(kind, registry(self._kind.urls).schema, target, message=message, evolution=evolution)


def same_columns(one: pa.Schema | None, other: pa.Schema | None) -> bool:
    """True if columns are the same, with the names and defaults that are noted in them."""
    return one is other or (one is not None and other is not None and bool(one.equals(other, check_metadata=True)))


TEXT_COLUMNS = pa.schema([("value", pa.string())])
RECORD = ("headers", "partition", "offset", "timestamp")


def own_names(names: Sequence[str], shape: Shape) -> dict[str, str]:
    """The names that the columns of values have in the lake: none of the record's own, none that a table refuses."""
    own = list(names) if shape.values == "text" else column_names(names)
    return dict(zip(names, own if shape.format == "parquet" else table_column_names(own), strict=True))


def lake_columns(columns: pa.Schema, shape: Shape) -> dict[str, pa.Field]:
    """The lake's column of each field, of a type that its format has; with `--flatten` members are columns, too."""
    fields = flat_fields(columns, shape.taken_apart)
    names = own_names([each.name for each in fields], shape)
    return {
        each.name: described(
            pa.field(names[each.name], held_type(each.type, shape.format)),
            aliases=tuple(own_names([former], shape)[former] for former in each.formers),
        )
        for each in fields
    }


def row_columns(columns: pa.Schema | None, shape: Shape) -> pa.Schema:
    """The columns of whole rows: the record's own around those of its value."""
    if columns is None:
        return row_schema(("key", "value", *RECORD))
    return pa.schema([*row_schema(("key",)), *lake_columns(columns, shape).values(), *row_schema(RECORD)])


def lake_table(values: pa.Table, shape: Shape) -> pa.Table:
    """Values as the lake's columns."""
    if not values.column_names:
        return values
    columns = lake_columns(values.schema, shape).values()
    table = pa.table(flat_arrays(values, shape.taken_apart), [column.name for column in columns])
    return conform(table, pa.schema([(column.name, column.type) for column in columns]))
