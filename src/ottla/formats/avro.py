"""Avro payloads of one writer's schema as one Arrow array, in blocks where that is sound, else row by row.

A bad payload costs only itself: a block that fails is halved until the payloads around the bad one are read.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ottla.formats.avro_blocks import BlockReader, why_not
from ottla.formats.avro_columns import finished
from ottla.formats.avro_rows import RowReader, plain_default
from ottla.formats.avro_schema import MISSING, ArraySchema, Map, Node, RecordField, RecordSchema, Union, parse
from ottla.formats.avro_types import arrow_type, members, only_branch, plain_type
from ottla.formats.evolution import described
from ottla.formats.faults import BadPayload, SchemaFault
from ottla.formats.rows import ValueBlock
from ottla.formats.writer import WriterSchema

BLOCK_ROWS = 1 << 16
ROWS_ALONE = 32
"""A failed block of no more rows is read row by row."""
MOST_FAILURES = 12
"""After so many failed blocks in one call, rows are read alone: halving would cost more than it saves."""


class AvroReader:
    """Reads payloads of one writer's schema."""

    def __init__(self, writer: WriterSchema) -> None:
        self.node = parse(writer.text, writer.references)
        if arrow_type(self.node) is None:
            raise SchemaFault("the Avro schema has no field that could be a column")
        self.type = evolving_type(self.node)
        self.why_slow = why_not(self.node)
        self._blocks = None if self.why_slow else BlockReader(self.node)
        self._rows = RowReader(self.node)
        self._plain = plain_type(self.node)

    def read(self, payloads: pa.Array) -> ValueBlock:
        """All payloads (none of them null); an array of those that are good."""
        good = np.ones(len(payloads), dtype=np.bool_)
        faults: list[tuple[int, str]] = []
        arrays: list[pa.Array] = []
        failures = 0
        spans = [(start, min(start + BLOCK_ROWS, len(payloads))) for start in range(0, len(payloads), BLOCK_ROWS)]
        spans.reverse()
        while spans:
            start, end = spans.pop()
            if self._blocks is None or end - start <= ROWS_ALONE or failures >= MOST_FAILURES:
                arrays.append(self._alone(payloads.slice(start, end - start), start, good, faults))
                continue
            try:
                arrays.append(finished(self.node, self._blocks.read(payloads.slice(start, end - start))))
            except BadPayload:
                failures += 1
                middle = (start + end) // 2
                spans += [(middle, end), (start, middle)]
        kind = arrow_type(self.node)
        return ValueBlock(pa.concat_arrays(arrays) if arrays else pa.nulls(0, kind), good, sorted(faults))

    def _alone(self, payloads: pa.Array, first: int, good: np.ndarray, faults: list[tuple[int, str]]) -> pa.Array:
        values, rows = [], []
        for row, payload in enumerate(payloads.to_pylist(), first):
            try:
                values.append(self._rows.read(payload))
                rows.append(row)
            except BadPayload as fault:
                good[row] = False
                faults.append((row, f"not of its Avro schema: {fault}"))
        try:
            return finished(self.node, pa.array(values, self._plain))
        except BadPayload:
            return self._each(values, rows, good, faults)

    def _each(self, values: list[object], rows: list[int], good: np.ndarray, faults: list[tuple[int, str]]) -> pa.Array:
        """Convert the values one by one, as one of them has no place in its column."""
        arrays = [pa.nulls(0, arrow_type(self.node))]
        for row, value in zip(rows, values, strict=True):
            try:
                arrays.append(finished(self.node, pa.array([value], self._plain)))
            except BadPayload as fault:
                good[row] = False
                faults.append((row, f"not of its Avro schema: {fault}"))
        return pa.concat_arrays(arrays)


def evolving_type(node: Node) -> pa.DataType:
    """The column's type; its fields carry their aliases and defaults, for readers that need them (evolution.py)."""
    match node:
        case RecordSchema():
            fields = [_field(field) for field in node.fields if arrow_type(field.node) is not None]
            return pa.struct(fields)
        case ArraySchema():
            return pa.list_(evolving_type(node.items))
        case Map():
            return pa.map_(pa.string(), pa.null() if arrow_type(node.values) is None else evolving_type(node.values))
        case Union():
            if (other := only_branch(node)) is not None:
                return evolving_type(other)
            return pa.struct([(name, evolving_type(node.branches[at])) for name, _, at in members(node)])
    return arrow_type(node)


def _field(field: RecordField) -> pa.Field:
    default = None
    if field.default is not MISSING and field.default is not None:
        try:
            plain = pa.array([plain_default(field.node, field.default)], plain_type(field.node))
            default = finished(field.node, plain)
        except (BadPayload, pa.ArrowInvalid, pa.ArrowTypeError) as fault:
            raise SchemaFault(f"the default of the Avro field {field.name}: {fault}") from None
    column = pa.field(field.name, evolving_type(field.node))
    return described(column, aliases=field.aliases, default=default, meaning=field.meaning)
