"""The one door for reading: values of records in, rows of one Arrow schema out, a reason for each row that is bad.

Schemas are found by a function that the caller gives; how a schema becomes columns is a matter of avro.py,
protobuf.py and json_schema.py, and how one schema's columns become another's of evolution.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from ottla.formats.arrays import Mask, valid
from ottla.formats.evolution import Stays, check, converted, widened
from ottla.formats.faults import SchemaFault, UnknownSchema, Unresolvable
from ottla.formats.iso_times import Nanoseconds, check_calendar
from ottla.formats.renames import Renames
from ottla.formats.rows import ValueBlock
from ottla.formats.wire import Cut, Faults, PayloadGroup, Rows, SchemaName, cut
from ottla.formats.writer import WriterSchema

KINDS: Final = ("avro", "protobuf", "json", "text", "binary")
TYPED: Final = ("avro", "protobuf", "json")
BARE: Final = -1
"""Stands for the schema of values without a prefix."""
VALUE = "value"
"""The column of values that have no fields."""

Schemas = Callable[[SchemaName], WriterSchema]
"""Finds the schema of an id or GUID; raises `UnknownSchema` where there is none."""


class Reader(Protocol):
    """Reads payloads of one writer's schema."""

    @property
    def type(self) -> pa.DataType:
        """The type of the values."""

    def read(self, payloads: pa.Array) -> ValueBlock:
        """All payloads, none of them null."""


@dataclass(frozen=True, slots=True)
class DecodedValues:
    """The rows that could be read, in their order.

    `values` are structs of the target's fields; null stands for a record without a value, which is good. `wanted` is
    the target with what the writers' schemas of these rows have beyond it: where it is another schema, decode again
    with it to lose nothing.
    """

    values: pa.StructArray
    good: Mask
    faults: list[tuple[int, str]]
    wanted: pa.Schema
    misfits: bool = False
    """True if a row is bad since its type, or its value, has no place in a column: an earlier row made the column."""
    firsts: tuple[int, ...] = ()
    written: tuple[tuple[int, pa.Schema], ...] = ()
    """The first row of each schema that could be read, with its columns."""
    """The first row of each writer's schema, in order."""

    @property
    def table(self) -> pa.Table:
        """The good rows as columns; a record without a value is a row of nulls."""
        fields = list(self.values.type)
        if not fields:
            return pa.table({}).select([])
        return pa.Table.from_arrays(self.values.flatten(), schema=pa.schema(fields))


@dataclass(frozen=True, slots=True)
class SchemaGrowth:
    """The growth of a decoder's columns by the schemas that it meets."""

    renames: Renames = field(default_factory=Renames)
    stays: Stays = lambda path: False
    """Fields that keep their name though a schema has another one for them."""
    allow: Callable[[pa.Schema, pa.Schema | None], None] = lambda wanted, before: None
    """Raises `Unresolvable` for columns that those before cannot become: a schema that leads to them is not read."""
    exact: bool = False
    """True if a row is bad whose value a column cannot hold: digits beyond microseconds or 2**53, years beyond 9999."""
    held: Callable[[pa.Schema], pa.Schema] = lambda columns: columns
    """Makes the columns of one schema those that are held of it."""
    nanoseconds: Nanoseconds = "cut"
    """The treatment of a time with digits beyond microseconds."""


class Decoder:
    """Reads values of one kind into one schema. Keeps what it learnt about each schema id: make one and use it long.

    Without a target the rows have what all schemas among them have together. With `bare`, values are payloads of that
    schema without a prefix. `message` names the message to read of Protobuf files with several; else the first is.
    `evolution` says how `wanted` grows.
    """

    def __init__(
        self,
        kind: str,
        schemas: Schemas | None = None,
        target: pa.Schema | None = None,
        *,
        bare: WriterSchema | None = None,
        message: str = "",
        validate: bool = False,
        evolution: SchemaGrowth | None = None,
    ) -> None:
        if kind not in KINDS:
            raise ValueError(f"values of the kind '{kind}': there are {', '.join(KINDS)}")
        if kind in TYPED and schemas is None and bare is None:
            raise ValueError(f"{kind} values need a schema or a registry")
        if kind not in TYPED:
            target = pa.schema([(VALUE, pa.string() if kind == "text" else pa.binary())])
        self.kind = kind
        self.target = target
        self._schemas = schemas
        self._bare = bare
        self._message = message
        self._validate = validate
        self._evolution = evolution or SchemaGrowth()
        self._known: dict[SchemaName, _Known] = {}

    def decode(self, values: pa.Array, headers: pa.Array | None = None) -> DecodedValues:
        """Read a binary column; each row is good or has its reason among the faults.

        `headers` are the rows' headers that name a schema, null where the value itself has it before its payload.
        """
        if self.kind not in TYPED:
            return self._plain(values)
        parts = self._cut(values, headers)
        faults = list(parts.faults)
        read: list[tuple[Rows, pa.Schema, pa.Array]] = []
        written: list[tuple[int, pa.Schema]] = []
        wanted, misfits = self.target, False
        groups = sorted(parts.groups, key=lambda group: int(group.rows[0]))
        for group in groups:
            known = self._of(group.schema)
            reason = known.reason
            if known.columns is not None:
                wanted, why = self._taken_up(wanted, known.columns)
                reason = f"{known.named} cannot be read: {why}" if why else reason
            if known.reader is None or reason:
                faults += [(row, reason) for row in group.rows.tolist()]
                misfits = misfits or known.columns is not None
                continue
            written.append((int(group.rows[0]), known.schema))
            block = known.reader.read(group.payloads)
            rows = group.rows
            faults += [(int(rows[at]), reason) for at, reason in block.faults]
            read.append((rows[block.good], known.schema, block.array))
        wanted = wanted if wanted is not None else pa.schema([])
        target = pa.struct(list(wanted if self.target is None else self.target))
        pieces = [(parts.nulls, pa.nulls(len(parts.nulls), target))]
        unread = len(faults)
        for rows, source, array in read:
            pieces.append(_fitted(rows, _row(array), pa.struct(list(source)), target, faults, self._evolution))
        made = _gathered(len(values), pieces, faults, wanted)
        firsts = tuple(int(group.rows[0]) for group in groups)
        return replace(made, misfits=misfits or len(faults) > unread, firsts=firsts, written=tuple(written))

    def _taken_up(self, wanted: pa.Schema | None, found: pa.Schema) -> tuple[pa.Schema | None, str]:
        """The wanted columns with those of a writer's schema, and why that schema adds none where it may not."""
        wider = _widened(wanted, found, self._evolution.stays)
        if wanted is not None and wider.equals(wanted):
            return wider, ""
        try:
            self._evolution.allow(wider, wanted)
        except Unresolvable as fault:
            return wanted, str(fault)
        return wider, ""

    def _cut(self, values: pa.Array, headers: pa.Array | None) -> Cut:
        if self._bare is None:
            return cut(values, headers)
        present = valid(values)
        rows = np.flatnonzero(present)
        groups = (PayloadGroup(BARE, rows, values.drop_null()),) if len(rows) else ()
        return Cut(groups, np.flatnonzero(~present), [])

    def _plain(self, values: pa.Array) -> DecodedValues:
        assert self.target is not None
        target = pa.struct(list(self.target))
        faults: Faults = []
        rows = np.arange(len(values))
        whole = pa.StructArray.from_arrays([values], [VALUE])
        pieces = [_fitted(rows, whole, whole.type, target, faults, SchemaGrowth())]
        return _gathered(len(values), pieces, faults, self.target)

    def _of(self, schema: SchemaName) -> _Known:
        """All that is known of a schema."""
        found = self._known.get(schema)
        if found is None:
            named = "the schema" if schema == BARE else f"schema {schema}"
            try:
                writer = self._bare if self._bare is not None else self._find(schema)
            except UnknownSchema as fault:
                return _Known(named, None, None, f"{named} is not known: {fault}")  # not kept: it may be registered yet
            found = self._known[schema] = self._judge(named, writer)
        return found

    def _judge(self, named: str, writer: WriterSchema) -> _Known:
        try:
            reader = reader_of(
                self.kind,
                writer,
                message=self._message,
                framed=self._bare is None,
                validate=self._validate,
                exact=self._evolution.exact,
                nanoseconds=self._evolution.nanoseconds,
            )
        except SchemaFault as fault:
            return _Known(named, None, None, f"{named} cannot be read: {fault}")
        schema = row_schema(reader.type)
        try:
            columns = self._evolution.held(self._evolution.renames.columns(schema))
        except Unresolvable as fault:
            return _Known(named, None, None, f"{named} cannot be read: {fault}")
        try:
            if self.target is not None:
                check(pa.struct(list(schema)), pa.struct(list(self.target)))
        except Unresolvable as fault:
            why = f"{named} cannot be read: {fault}; start again to take up newer types"
            return _Known(named, None, schema, why, columns)
        return _Known(named, reader, schema, "", columns)

    def _find(self, schema: SchemaName) -> WriterSchema:
        assert self._schemas is not None
        return self._schemas(schema)


@dataclass(frozen=True, slots=True)
class _Known:
    """A schema's reader, or why there is none; its columns where it has some."""

    named: str
    reader: Reader | None
    schema: pa.Schema | None
    reason: str = ""
    columns: pa.Schema | None = None
    """Its columns under their new names."""


def reader_of(
    kind: str,
    writer: WriterSchema,
    *,
    message: str = "",
    framed: bool = True,
    validate: bool = False,
    exact: bool = False,
    nanoseconds: Nanoseconds = "cut",
) -> Reader:
    """The reader for a schema, or `SchemaFault`.

    `message` names one of a Protobuf file's messages, which is the first otherwise; `framed` payloads say which it is.
    `validate` holds JSON values against all that their schema says, not only against their columns' types. `exact`
    refuses a number whose column would drop digits of it; `nanoseconds` says what becomes of such a time.
    """
    if writer.kind.lower() != kind:
        raise SchemaFault(f"it is of the kind {writer.kind}, not {kind.upper()}")
    if kind == "avro":
        from ottla.formats.avro import AvroReader

        return AvroReader(writer)
    if kind == "protobuf":
        from ottla.formats.protobuf import ProtobufReader

        return ProtobufReader(writer, message=message, framed=framed, nanoseconds=nanoseconds)
    from ottla.formats.json_schema import JsonReader

    return JsonReader(writer, validate=validate, exact=exact, nanoseconds=nanoseconds)


def arrow_schema(writer: WriterSchema, *, message: str = "") -> pa.Schema:
    """The columns of a schema, or `SchemaFault`."""
    return row_schema(reader_of(writer.kind.lower(), writer, message=message).type)


def row_schema(kind: pa.DataType) -> pa.Schema:
    """The columns of values: a record's fields, or one column for what has no fields."""
    return pa.schema(list(kind) if pa.types.is_struct(kind) else [pa.field(VALUE, kind)])


def _row(array: pa.Array) -> pa.Array:
    if pa.types.is_struct(array.type):
        return array
    return pa.StructArray.from_arrays([array], [VALUE])


def _widened(wanted: pa.Schema | None, found: pa.Schema, stays: Stays) -> pa.Schema:
    if wanted is None:
        return found
    try:
        return widened(wanted, found, stays)
    except Unresolvable:
        return wanted


def _fitted(
    rows: Rows, array: pa.Array, source: pa.DataType, target: pa.DataType, faults: Faults, evolution: SchemaGrowth
) -> tuple[Rows, pa.Array]:
    """The rows that fit the target, as its type; the others are added to the faults."""
    try:
        check(source, target)
        return rows, _converted(array, target, source, evolution)
    except Unresolvable as fault:
        faults += [(row, str(fault)) for row in rows.tolist()]
        return rows[:0], pa.nulls(0, target)
    except pa.ArrowInvalid:
        pass
    kept, arrays = [], [pa.nulls(0, target)]
    for at, row in enumerate(rows.tolist()):
        try:
            arrays.append(_converted(array.slice(at, 1), target, source, evolution))
            kept.append(at)
        except pa.ArrowInvalid as fault:
            faults.append((row, str(fault)))
    return rows[np.array(kept, dtype=np.int64)], pa.concat_arrays(arrays)


def _converted(array: pa.Array, target: pa.DataType, source: pa.DataType, evolution: SchemaGrowth) -> pa.Array:
    found = converted(array, target, source, exact=evolution.nanoseconds != "cut")
    if evolution.exact:
        check_calendar(found)
    return found


def _gathered(count: int, pieces: list[tuple[Rows, pa.Array]], faults: Faults, wanted: pa.Schema) -> DecodedValues:
    """All pieces in the order of their rows."""
    good = np.zeros(count, dtype=np.bool_)
    used = [piece for piece in pieces if len(piece[0])] or pieces[:1]
    rows = np.concatenate([rows for rows, _ in used])
    good[rows] = True
    values = used[0][1]
    if len(used) > 1:
        values = pa.concat_arrays([array for _, array in used]).take(pa.array(np.argsort(rows)))
    return DecodedValues(values, good, sorted(faults), wanted)
