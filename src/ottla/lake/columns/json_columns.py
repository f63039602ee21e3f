"""Turns JSON values into columns: many at a time by Arrow's parser (json_parser.py), and one by one where that fails.

Fields that the schema does not know yet, and types that it is too narrow for, are reported, so that the schema can be
widened before anything of the round is visible. types.py says what widens to what.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ottla.formats.renames import Renames
from ottla.lake.columns.evolution import conform
from ottla.lake.columns.exact import in_table, in_value, with_notes
from ottla.lake.columns.json_parser import Mask, Stumble, parse_objects, parse_texts
from ottla.lake.columns.json_rows import placed, read_object, type_of
from ottla.lake.columns.types import (
    EMPTY,
    Misfit,
    Rule,
    check_levels,
    check_limits,
    merge_schemas,
    same_types,
    usable_schema,
)

EVENT_TIME, DELETED, GROUP = "_ottla_event_time", "_ottla_deleted", "_ottla_group"
UNCHANGED = "_ottla_unchanged"
"""Columns of rows on their way: the event time, whether a row deletes its key, the partition that it belongs to, and
the names of columns that keep the value of the row before.
"""
RESERVED = frozenset(
    {"key", "value", "headers", "partition", "offset", "timestamp", "topic", "date", "month", "hour"}
    | {EVENT_TIME, DELETED, GROUP, UNCHANGED}
)
"""Names that the record itself, the folders of the lake, and rows on their way use; a field of that name gets `value_`
before it."""

SMALL_BLOCK = 32
"""Rows that are read one by one where they cannot be read together."""
_NO_TEXT = "not JSON that can be a column: an escape out of range"
FEW = 2
"""If fewer rows of a small block come before a fault, many rows have faults: the rest is read one by one."""


@dataclass(slots=True)
class JsonBlock:
    """The columns of the rows that could be read, which rows those are, and why others could not.

    `wanted` is the schema that all rows need; where it is not the one given, `table` is None.
    """

    table: pa.Table | None
    good: Mask
    faults: list[tuple[int, str]]
    wanted: pa.Schema
    misfits: bool = False
    """True if a value was refused for its type: another order of values could have refused another one."""
    written: tuple[tuple[int, pa.Schema], ...] = ()
    """The first row of each schema of values, with its columns."""


def pack_schema(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize().to_pybytes()).decode("ascii")


def unpack_schema(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def column_names(names: Sequence[str]) -> list[str]:
    """The columns' names in the lake: a reserved name, and one that an earlier field's column has, is prefixed.

    Fields stand in the order in which they came, so that a later one never takes an earlier one's column.
    """
    taken: set[str] = set(RESERVED)
    found = []
    for name in names:
        own = name
        while own.casefold() in taken:
            own = f"value_{own}"
        taken.add(own.casefold())
        found.append(own)
    return found


@dataclass(frozen=True, slots=True)
class ColumnRules:
    """Rules by which the fields of objects become columns."""

    rule: Rule = field(default_factory=Rule)
    kept: Callable[[pa.Schema], pa.Schema] = lambda found: found
    """Leaves fields out."""
    check: Callable[[pa.Schema, pa.Schema], None] = lambda wanted, before: check_limits(wanted)
    """Raises Misfit for columns that make no table, or that the columns before cannot become."""
    renames: Renames = field(default_factory=Renames)
    order_counts: Callable[[pa.Schema, pa.Schema], bool] = lambda wanted, before: False
    """True if it counts which of the values came first that made these columns of those before."""


def decode(values: pa.Array, schema: pa.Schema, rules: ColumnRules | None = None) -> JsonBlock:
    """Read one JSON object per value, in order; null values are rows of nulls."""
    reading = _Reading(schema, rules or ColumnRules())
    reading.take(values, 0)
    good = np.ones(len(values), dtype=np.bool_)
    good[[row for row, _ in reading.faults]] = False
    table = None
    if same_types(reading.wanted, schema):
        whole = schema.names and reading.tables
        table = pa.concat_tables(reading.tables) if whole else rows_of_nulls(schema, int(good.sum()))
    wanted = schema if table is not None else reading.wanted
    return JsonBlock(table, good, sorted(reading.faults), wanted, reading.misfits)


@dataclass(slots=True)
class _Reading:
    """One block under way: rows between faults together, single rows where Arrow does not take them."""

    schema: pa.Schema
    rules: ColumnRules
    tables: list[pa.Table] = field(default_factory=list)
    faults: list[tuple[int, str]] = field(default_factory=list)
    misfits: bool = False
    wanted: pa.Schema = EMPTY

    def __post_init__(self) -> None:
        self.wanted = self.schema

    def take(self, values: pa.Array, first: int) -> None:
        """The rows of these values; the first has the number `first`."""
        at, most = 0, len(values)
        while at < len(values):
            part = values.slice(at, most)
            try:
                self._together(part)
            except Stumble as stumble:
                row = stumble.row
                if row is None or row >= len(part) or (row < FEW and len(part) <= 2 * SMALL_BLOCK):
                    self._take_apart(part, first + at)
                else:
                    self.take(part.slice(0, row), first + at)
                    self._one_by_one(part.slice(row, 1), first + at + row)
                    part = part.slice(0, row + 1)
                    most = max(SMALL_BLOCK, row)
            at += len(part)
            most *= 2

    def _take_apart(self, values: pa.Array, first: int) -> None:
        """Rows of which some, unknown ones, cannot be read."""
        middle = len(values) // 2
        if len(values) <= SMALL_BLOCK:
            self._one_by_one(values, first)
        else:
            self.take(values.slice(0, middle), first)
            self.take(values.slice(middle), first + middle)

    def _together(self, rows: pa.Array) -> None:
        """Have Arrow's parser read all rows; Stumble where it does not, or something of it is in doubt."""
        values = rows.drop_null()
        if not len(values):
            self.tables.append(rows_of_nulls(self.schema, len(rows)))
            return
        try:
            table, wanted = self._parsed(values)
        except Stumble as stumble:
            if stumble.row is None or len(values) == len(rows) or stumble.row >= len(values):
                raise
            raise Stumble(int(np.flatnonzero(np.asarray(rows.is_valid()))[stumble.row])) from None
        if table is not None:
            self.tables.append(table if not rows.null_count else _with_nulls(table, rows))
        self.wanted = wanted

    def _parsed(self, values: pa.Array) -> tuple[pa.Table | None, pa.Schema]:
        """The values as a table, and the columns that all need so far; None for a table that lacks some of them."""
        parsed = parse_objects(values, self.wanted, self.rules.renames)
        try:
            check_levels(parsed.schema)  # even if a member below shows no type, and so makes no column
            found = with_notes(usable_schema(parsed.schema), in_table(parsed))
            wanted = merge_schemas(self.wanted, self.rules.kept(found), self.rules.rule)
            self.rules.check(wanted, self.wanted)
        except Misfit:
            raise Stumble from None
        if self.rules.order_counts(wanted, self.wanted):
            raise Stumble
        return (_shaped(parsed, self.schema) if same_types(wanted, self.schema) else None), wanted

    def _one_by_one(self, values: pa.Array, first: int) -> None:
        lines = []
        for row, value in enumerate(values.to_pylist()):
            try:
                document = {} if value is None else self.rules.renames.document(read_object(value))
                found = with_notes(usable_schema(type_of(document, self.rules.rule)), in_value(document))
                found = self.rules.kept(found)
                _check_text(document, found)
                wanted = merge_schemas(self.wanted, found, self.rules.rule)
                if wanted is not self.wanted and not wanted.equals(self.wanted):
                    self.rules.check(wanted, self.wanted)
            except Misfit as fault:
                self.misfits = True
                self.faults.append((first + row, str(fault)))
            except ValueError as fault:
                self.faults.append((first + row, str(fault)))
            else:
                self.wanted = wanted
                lines.append((row, document))
        if same_types(self.wanted, self.schema):
            self.tables.append(self._table(lines, first))

    def _table(self, lines: list[tuple[int, dict[str, object]]], first: int) -> pa.Table:
        """The documents as columns. Arrow reads their text again, so that both ways give the same values."""
        whole = pa.struct(list(self.schema))
        texts = [(row, json.dumps(placed(document, whole)).encode()) for row, document in lines]
        kept = [text for _, text in texts]
        try:
            table = self._parsed_again(kept)
        except Stumble:
            kept = []
            for row, text in texts:
                try:
                    self._parsed_again([text])
                except Stumble:
                    self.faults.append((first + row, _NO_TEXT))
                else:
                    kept.append(text)
            table = self._parsed_again(kept)
        return _shaped(table, self.schema)

    def _parsed_again(self, texts: list[bytes]) -> pa.Table:
        if not texts or not self.schema.names:
            return rows_of_nulls(self.schema, len(texts))
        return parse_texts(texts, self.schema)


def _check_text(document: dict[str, object], columns: pa.Schema) -> None:
    """ValueError where a text cannot be a column's: it must not make columns before it is refused."""
    try:
        json.dumps(placed(document, pa.struct(list(columns))), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError(_NO_TEXT) from None


def _with_nulls(table: pa.Table, rows: pa.Array) -> pa.Table:
    """The table of the values that are there as one of all rows: a row of nulls for each that has no value."""
    there = np.asarray(rows.is_valid())
    return table.take(pa.array(np.cumsum(there) - 1, mask=~there))


def _shaped(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with just the schema's columns, and inside them just its members."""
    return conform(table, schema) if schema.names else rows_of_nulls(schema, table.num_rows)


def rows_of_nulls(schema: pa.Schema, rows: int) -> pa.Table:
    if schema.names:
        return pa.table([pa.nulls(rows, each.type) for each in schema], schema=schema)
    return no_columns(rows)


def no_columns(rows: int) -> pa.Table:
    """A table of rows alone."""
    return pa.table({"": pa.nulls(rows)}).select([])
