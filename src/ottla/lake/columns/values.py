"""Read records' values: as bytes, as text, or as columns from JSON objects or schemas."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.client.registry_client import registry
from ottla.formats.columns import with_leaves
from ottla.formats.decoder import Decoder, SchemaGrowth
from ottla.formats.evolution import aliases, described, widened
from ottla.formats.faults import Unresolvable
from ottla.formats.iso_times import FINER, Nanoseconds
from ottla.formats.renames import Renames
from ottla.formats.wire import VALUE_HEADER
from ottla.formats.writer import WriterSchema
from ottla.lake.columns import event_types, exact, json_columns
from ottla.lake.columns.envelopes import state_schema
from ottla.lake.columns.event_types import Envelopes, Kinds
from ottla.lake.columns.events import check_event, event_states
from ottla.lake.columns.evolution import conform
from ottla.lake.columns.flat import FlatField, check_flat, check_plain, flat_arrays, flat_fields, kept_fields
from ottla.lake.columns.held_types import held_type
from ottla.lake.columns.json_columns import JsonBlock, column_names
from ottla.lake.columns.meeting import check_apart, check_paths, met
from ottla.lake.columns.names import table_column_names
from ottla.lake.columns.renaming import TopicRenames
from ottla.lake.columns.shape import LakeShape
from ottla.lake.columns.steps import NO_STEPS, RowSteps
from ottla.lake.columns.types import (
    EMPTY,
    Misfit,
    Rule,
    check_limits,
    merge_schemas,
    text_of,
    with_notes_of_both,
)
from ottla.rows.arrow import header_values, row_schema
from ottla.stores.base import LakeRefused

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
    nanoseconds: Nanoseconds = "refuse"
    """The treatment of times with digits beyond microseconds."""
    fixed: frozenset[str] = frozenset()
    """Columns that keep their names: the lake is divided or filtered by them, or they are its key."""

    plain: frozenset[str] = frozenset()
    """Columns that hold no objects or arrays: the lake is divided by them, or they are its key."""
    events: bool = False
    """True if values are change events, whose states are the rows."""
    format: str = "parquet"
    """The lake's format, whose rules for columns hold."""
    divides: tuple[str, ...] = ()
    """The fields of rows by which the lake is divided."""
    steps: RowSteps = NO_STEPS
    """The steps from values to rows. The columns behind them must make a table."""

    def of(self, topic: str) -> ValueKind:
        """The kind for the values of one topic."""
        return replace(self, steps=self.steps.of(topic)) if self.steps.text else self

    def kept(self, schema: pa.Schema) -> pa.Schema:
        """The columns that are wanted of these; one that was renamed also by its former names."""
        if not self.only and not self.without:
            return schema
        if self.flatten:
            return exact.pruned(kept_fields(schema, self.flatten, self.only, self.without))
        named = [(each, {each.name, *aliases(each)}) for each in schema]
        fields = [each for each, names in named if (not self.only or names & self.only) and not names & self.without]
        return schema if len(fields) == len(schema) else exact.pruned(pa.schema(fields, metadata=schema.metadata))

    def check(self, schema: pa.Schema, before: pa.Schema = EMPTY) -> None:
        """Misfit where these columns make no table, or not the one of the columns before."""
        check_limits(schema)
        columns = self.steps.columns(schema)
        if self.steps.text:
            check_limits(columns)
            merge_schemas(
                EMPTY, columns.remove_metadata(), Rule()
            )  # names inside objects must differ by more than case
        check_flat(columns, self.flatten)
        check_plain(columns, self.flatten, self.plain)
        if self.events:
            _check_states(schema, self.flatten, self.rule if self.kind == "json" else None)
        fields = self._row_fields(schema)
        if self.flatten or self.events or self.steps.text:
            check_apart((each.name for each in fields), table=self.format != "parquet")
        if self.format == "iceberg":
            check_paths(pa.schema([(each.name, each.type) for each in fields]))
        if self.format != "parquet" and self.divides:
            self._check_divided(fields, before)

    def _check_divided(self, fields: list[FlatField], before: pa.Schema) -> None:
        """Misfit where a field that divides a table gets another type: a table's partitions never change theirs."""
        held = {each.name: each.type for each in self._row_fields(before)}
        for each in fields:
            if each.name not in self.divides:
                continue
            kinds = (each.type, held.get(each.name, each.type))
            # Delta's partitions are text anyway: a longer integer has the same text as a shorter one.
            same_text = pa.types.is_string(each.type) or all(map(pa.types.is_integer, kinds))
            if kinds[0] != kinds[1] and not (self.format == "delta" and same_text):
                raise Misfit(
                    f"field {each.name}: {text_of(each.type)} where a table is divided by {text_of(held[each.name])}"
                )

    def meets(self, schema: pa.Schema) -> bool:
        """True if two fields would have columns of one name, so that it counts which of them came first."""
        return met((each.name for each in self._row_fields(schema)), table=self.format != "parquet") is not None

    def order_counts(self, schema: pa.Schema, before: pa.Schema) -> bool:
        """True if new fields' columns would have one name, or if a new field that divides a table may be of two types.

        Values that are read together then do not show what the first of them alone would have made.
        """
        if schema.names != before.names and self.meets(schema):
            return True
        if self.format == "parquet" or not self.divides:
            return False
        held = {each.name for each in self._row_fields(before)}
        new = [each for each in self._row_fields(schema) if each.name in self.divides and each.name not in held]
        return any(pa.types.is_floating(each.type) for each in new)

    def _row_fields(self, schema: pa.Schema) -> list[FlatField]:
        """The fields that make the columns of rows."""
        columns = self.steps.columns(schema)
        return flat_fields(state_schema(columns) if self.events else columns, self.flatten)

    def allow(self, schema: pa.Schema, before: pa.Schema | None) -> None:
        """Unresolvable where the columns of a schema make no table, or those before cannot become them."""
        kept, held = self.kept(schema), EMPTY if before is None else self.kept(before)
        try:
            self.check(kept, held)
            if self.events:
                event_types.check_kinds(kept)
            merge_schemas(EMPTY, kept.remove_metadata(), Rule())
            with_notes_of_both(kept, held, EMPTY)
        except Misfit as fault:
            raise Unresolvable(str(fault)) from fault

    @property
    def fetched(self) -> tuple[str, ...]:
        """The columns of records that tell a value's columns."""
        return ("value", "headers") if self.urls else ("value",)

    def read(self, reader: ValueReader, batch: pa.RecordBatch, schema: pa.Schema) -> JsonBlock:
        """The values of a batch of records, read by a reader of this kind."""
        headers = batch.column("headers") if self.urls else None
        return reader.read(batch.column("value"), schema, headers)

    def reader(self, topic: str) -> ValueReader:
        """A reader for one topic in one process; it learns schemas as it goes."""
        return ValueReader(self.of(topic), self.renames.of(topic))

    def merged(self, topic: str, one: pa.Schema, other: pa.Schema) -> pa.Schema:
        """The columns of both; Misfit where one column cannot hold the values of both."""
        try:
            kind = self.of(topic)
            if self.kind == "json":
                both = exact.renamed(merge_schemas(one, other, self.rule), self.renames.of(topic))
                kind.check(both, one)
                return self._kinds_of_both(both, one, other) if self.events else both
            both = self.widened(one, other)
            kind.check(both, one)
            kind.check(both, other)
            return both
        except Unresolvable as fault:
            raise Misfit(str(fault)) from fault

    def widened(self, one: pa.Schema, other: pa.Schema) -> pa.Schema:
        """The columns of both by the rules of schemas; Misfit or Unresolvable where there are none."""
        return with_notes_of_both(widened(one, other, self.stays), one, other)

    def _kinds_of_both(self, both: pa.Schema, one: pa.Schema, other: pa.Schema) -> pa.Schema:
        """The columns with the kinds of fields that two tasks found; Misfit where it counts which came first."""
        known, found = event_types.noted(one), event_types.noted(other)
        for mine, others, columns in ((known, found, other), (found, known, one)):
            held = state_schema(columns).names
            for name, kind in mine.items():
                if others.get(name, kind) != kind or (name in held and name not in others):
                    raise Misfit(f"field {name}: events with and without a schema in one round")
        return event_types.with_kinds(both, {**found, **known})

    def renamed(self, topic: str, columns: pa.Schema) -> pa.Schema:
        """The columns of a topic under their present names; LakeRefused if the lake has both columns of a rename."""
        try:
            return exact.renamed(columns, self.renames.of(topic))
        except Unresolvable as fault:
            raise LakeRefused(
                f"--rename: topic {topic} has columns of both names already ({fault}); their rows cannot be put "
                f"together. Leave the rename, or load into another directory"
            ) from fault

    def stays(self, path: tuple[str, ...]) -> bool:
        """True if the field at a path keeps its name, whichever name schemas give it."""
        name = (self.flatten or ".").join(path)
        return any(each == name or each.startswith(f"{name}{self.flatten or '.'}") for each in self.fixed)


def _check_states(schema: pa.Schema, separator: str, rule: Rule | None) -> None:
    """Misfit where the parts of change events have other types than those, or make no columns together.

    The states of JSON values go together by the rule for JSON columns.
    """
    check_event(schema)
    try:
        state = state_schema(schema)
    except LakeRefused as fault:
        raise Misfit(str(fault)) from fault
    together = EMPTY
    for part in event_states(schema) if rule is not None else (state,):
        together = merge_schemas(together, part, rule or Rule())
    check_flat(state, separator)


class ValueReader:
    """Reads blocks of one topic's values into columns."""

    def __init__(self, kind: ValueKind, renames: Renames | None = None) -> None:
        self._kind = kind
        self._renames = renames or Renames()
        self._decoder: Decoder | None = None
        self._envelopes = Envelopes()

    def read(self, values: pa.Array, schema: pa.Schema, headers: pa.Array | None = None) -> JsonBlock:
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
            kinds = event_types.noted(block.wanted)
            block.table, block.wanted = conform(block.table, schema), event_types.with_kinds(schema, kinds)
        return block

    def _both(self, schema: pa.Schema, wanted: pa.Schema) -> pa.Schema:
        """The columns of both, of which the second are wider."""
        if self._kind.kind == "json":
            both = exact.renamed(merge_schemas(schema, wanted, self._kind.rule), self._renames)
            return event_types.with_kinds(both, event_types.noted(wanted))
        return self._kind.widened(schema, wanted)

    def _read(self, values: pa.Array, schema: pa.Schema, headers: pa.Array | None) -> JsonBlock:
        if self._kind.kind == "json":
            return self._read_json(values, schema)
        named = None if headers is None or not self._kind.urls else header_values(headers, VALUE_HEADER)
        block, firsts = self._at_once(values, named, schema)
        if block.table is not None or len(firsts) < 2:
            return block
        wanted = self._grown(values, named, schema)
        if self._at_once(values, named, wanted)[0].misfits:
            wanted = schema
            for begin, end in itertools.pairwise((0, *firsts[1:], len(values))):
                part = None if named is None else named.slice(begin, end - begin)
                wanted = self._grown(values.slice(begin, end - begin), part, wanted)
        return JsonBlock(None, block.good, block.faults, wanted, block.misfits)

    def _grown(self, values: pa.Array, named: pa.Array | None, schema: pa.Schema) -> pa.Schema:
        """The columns after all of these values."""
        while (found := self._at_once(values, named, schema)[0]).table is None:
            schema = found.wanted
        return schema

    def _at_once(
        self, values: pa.Array, named: pa.Array | None, schema: pa.Schema
    ) -> tuple[JsonBlock, tuple[int, ...]]:
        """The values by their schemas, and the first row of each schema.

        Numbers beyond 2**53 are noted: their column never becomes double.
        """
        decoded = self._of(schema).decode(values, named)
        wanted = self._kind.kept(decoded.wanted)
        table = None
        if same_columns(wanted, schema):
            table = decoded.table if schema.names else json_columns.no_columns(int(decoded.good.sum()))
            if new := exact.in_table(table) - exact.noted(schema):
                table, wanted = None, exact.with_notes(schema, exact.noted(schema) | new)
        faults = [
            (row, f"{why} (--nanoseconds cut drops them)" if FINER in why else why) for row, why in decoded.faults
        ]
        block = JsonBlock(table, decoded.good, faults, wanted, decoded.misfits, decoded.written)
        return block, decoded.firsts

    def _read_json(self, values: pa.Array, schema: pa.Schema) -> JsonBlock:
        kind = self._kind
        rules = json_columns.ColumnRules(
            kind.rule,
            lambda found: kind.kept(self._renames.columns(found)),
            kind.check,
            self._renames,
            kind.order_counts,
        )
        if not kind.events or not pc.any(pc.match_substring(values, b'"schema"')).as_py():
            return self._decoded(values, schema, rules)
        opened = [self._opened(value) for value in values.to_pylist()]
        values = pa.array([value for value, _ in opened], pa.binary())
        wanted, begin = schema, 0
        for row, (_, kinds) in enumerate(opened):
            if not kinds or not kinds.keys() - event_types.noted(wanted).keys() - set(state_schema(wanted).names):
                continue
            wanted, begin = self._decoded(values.slice(begin, row - begin), wanted, rules).wanted, row
            held = frozenset(state_schema(wanted).names)
            wanted = event_types.with_kinds(wanted, event_types.adopted(event_types.noted(wanted), kinds, held))
        return self._refused(self._decoded(values, wanted, rules), opened, schema)

    def _opened(self, value: bytes | None) -> tuple[bytes | None, Kinds | None]:
        """A value without the schema in its envelope, and what that says of fields, under their new names."""
        payload, kinds = self._envelopes.opened(value)
        if kinds and self._renames:
            names = {**self._renames.at(("payload", "after")), **self._renames.at(("after",))}
            kinds = {names.get(name, name): kind for name, kind in kinds.items()}
        return payload, kinds

    def _refused(
        self, block: JsonBlock, opened: list[tuple[bytes | None, Kinds | None]], schema: pa.Schema
    ) -> JsonBlock:
        """The block without the events whose schema contradicts what is noted of their fields."""
        known, whole = event_types.noted(block.wanted), np.flatnonzero(block.good)
        why = {row: event_types.contradiction(known, kinds) for row, (_, kinds) in enumerate(opened) if kinds}
        wrong = {row: reason for row, reason in why.items() if reason is not None and block.good[row]}
        if wrong:
            block.good[list(wrong)] = False
            block.faults = sorted([*block.faults, *wrong.items()])
            if block.table is not None:
                block.table = block.table.filter(pa.array([row not in wrong for row in whole.tolist()]))
        if known != event_types.noted(schema):
            block.table = None
        return block

    def _decoded(self, values: pa.Array, schema: pa.Schema, rules: json_columns.ColumnRules) -> JsonBlock:
        block = json_columns.decode(values, schema, rules)
        if block.table is None:
            block.wanted = exact.renamed(block.wanted, self._renames)
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
            SchemaGrowth(
                self._renames,
                self._kind.stays,
                self._kind.allow,
                exact=True,
                held=_typed_maps,
                nanoseconds=self._kind.nanoseconds,
            ),
        )
        if self._kind.schema:
            given = WriterSchema(kind.upper(), self._kind.schema)
            return Decoder(kind, target=target, bare=given, message=message, evolution=evolution)
        return Decoder(kind, registry(self._kind.urls).schema, target, message=message, evolution=evolution)


def _typed_maps(columns: pa.Schema) -> pa.Schema:
    """The columns with text for values of maps that can only be null: they keep it whatever a later schema has."""
    return pa.schema(
        [
            each.with_type(with_leaves(each.type, lambda leaf: pa.string() if pa.types.is_null(leaf) else leaf))
            for each in columns
        ],
        metadata=columns.metadata,
    )


def same_columns(one: pa.Schema | None, other: pa.Schema | None) -> bool:
    """True if columns are the same, with the names and defaults that are noted in them."""
    return one is other or (one is not None and other is not None and bool(one.equals(other, check_metadata=True)))


TEXT_COLUMNS = pa.schema([("value", pa.string())])
RECORD = ("headers", "partition", "offset", "timestamp")


def own_names(names: Sequence[str], shape: LakeShape) -> dict[str, str]:
    """The names that the columns of values have in the lake: none of the record's own, none that a table refuses."""
    own = list(names) if shape.values == "text" else column_names(names)
    return dict(zip(names, own if shape.format == "parquet" else table_column_names(own), strict=True))


def columns_of_rows(topic: str, columns: pa.Schema, shape: LakeShape) -> pa.Schema:
    """The columns of a topic's rows, given those of its values."""
    return shape.steps.of(topic).columns(columns)


def lake_columns(columns: pa.Schema, shape: LakeShape) -> dict[str, pa.Field]:
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


def row_columns(columns: pa.Schema | None, shape: LakeShape) -> pa.Schema:
    """The columns of whole rows: the record's own around those of its value."""
    if columns is None:
        return row_schema(("key", "value", *RECORD))
    fields = [*row_schema(("key",)), *lake_columns(columns, shape).values(), *row_schema(RECORD)]
    return pa.schema(fields, metadata=columns.metadata if shape.debezium else None)


def lake_table(values: pa.Table, shape: LakeShape) -> pa.Table:
    """Values as the lake's columns."""
    if not values.column_names:
        return values
    columns = lake_columns(values.schema, shape).values()
    table = pa.table(flat_arrays(values, shape.taken_apart), [column.name for column in columns])
    return conform(table, pa.schema([(column.name, column.type) for column in columns]))
