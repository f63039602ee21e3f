"""Read records' values: as bytes, text, or columns by what JSON holds or by what schemas say."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from ottla.formats.decoder import Decoder
from ottla.formats.evolution import widened
from ottla.formats.faults import Unresolvable
from ottla.formats.writer import WriterSchema
from ottla.lake import json_columns
from ottla.lake.json_columns import Block, column_names
from ottla.lake.shape import Shape
from ottla.lake.stores.base import LakeRefused
from ottla.lake.tables import table_column_names
from ottla.lake.types import EMPTY, Misfit, Rule, check_limits, merge_schemas
from ottla.spark.registry_client import registry

KINDS = ("bytes", "text", "json", "avro", "protobuf", "json-schema")
"""`json` makes columns of what it finds in objects, `json-schema` of what a schema says."""
WITH_SCHEMA = ("avro", "protobuf", "json-schema")


@dataclass(frozen=True, slots=True)
class ValueKind:
    """How values are read; picklable, for executors."""

    kind: str = "bytes"
    rule: Rule = field(default_factory=Rule)
    urls: tuple[str, ...] = ()
    """URLs of schema registries: each value begins with the id of its schema."""
    schema: str = ""
    """The schema of all values, where they have no such prefix."""
    message: str = ""
    """Which message of a Protobuf file; the first otherwise."""
    only: frozenset[str] = frozenset()
    """The fields that become columns; all where none is named."""
    without: frozenset[str] = frozenset()
    """Fields that become none."""

    def kept(self, schema: pa.Schema) -> pa.Schema:
        """The columns that are wanted of these."""
        fields = [f for f in schema if (not self.only or f.name in self.only) and f.name not in self.without]
        return schema if len(fields) == len(schema) else pa.schema(fields, metadata=schema.metadata)

    def reader(self) -> ValueReader:
        """A reader for one topic in one process; it learns schemas as it goes."""
        return ValueReader(self)

    def merged(self, one: pa.Schema, other: pa.Schema) -> pa.Schema:
        """The columns of both; Misfit where one column cannot hold the values of both."""
        if self.kind == "json":
            return merge_schemas(one, other, self.rule)
        try:
            return widened(one, other)
        except Unresolvable as fault:
            raise Misfit(str(fault)) from fault


class ValueReader:
    """Reads blocks of one topic's values into columns."""

    def __init__(self, kind: ValueKind) -> None:
        self._kind = kind
        self._decoder: Decoder | None = None

    def read(self, values: pa.Array, schema: pa.Schema) -> Block:
        """The columns of the rows that could be read, and what the schema lacks for all of them."""
        if self._kind.kind == "json":
            return json_columns.decode(values, schema, self._kind.rule, self._kind.kept)
        decoded = self._of(schema).decode(values)
        wanted = self._kind.kept(decoded.wanted)
        if wanted.equals(schema):
            table = decoded.table if schema.names else json_columns.no_columns(int(decoded.good.sum()))
            return Block(table, decoded.good, decoded.faults, schema)
        try:
            check_limits(wanted)
            merge_schemas(EMPTY, wanted, Rule())
        except Misfit as fault:
            raise LakeRefused(f"a schema of the values makes no columns of a lake: {fault}") from fault
        return Block(None, decoded.good, decoded.faults, wanted)

    def _of(self, schema: pa.Schema) -> Decoder:
        """The decoder into these columns; without any yet it takes those of the values."""
        wanted = schema if schema.names else None
        if self._decoder is None or not _same(self._decoder.target, wanted):
            self._decoder = self._made(wanted)
        return self._decoder

    def _made(self, target: pa.Schema | None) -> Decoder:
        kind = "json" if self._kind.kind == "json-schema" else self._kind.kind
        if kind == "text":
            return Decoder("text")
        if self._kind.schema:
            given = WriterSchema(kind.upper(), self._kind.schema)
            return Decoder(kind, target=target, bare=given, message=self._kind.message)
        return Decoder(kind, registry(self._kind.urls).schema, target, message=self._kind.message)


def _same(one: pa.Schema | None, other: pa.Schema | None) -> bool:
    return one is other or (one is not None and other is not None and bool(one.equals(other)))


TEXT_COLUMNS = pa.schema([("value", pa.string())])


def own_names(columns: pa.Schema, shape: Shape) -> list[str]:
    """The names that the columns of values have in the lake: none of the record's own, none that a table refuses."""
    names = list(columns.names) if shape.values == "text" else column_names(columns)
    return names if shape.format == "parquet" else table_column_names(names)
