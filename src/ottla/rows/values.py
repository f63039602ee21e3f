"""Typed values: batches of records with their values decoded into columns of given types."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ottla.client.registry_client import registry
from ottla.formats.wire import VALUE_HEADER
from ottla.rows.arrow import header_values
from ottla.rows.selection import HEADERS
from ottla.rows.value_options import VALUE, VALUE_ERROR, ValueOptions

if TYPE_CHECKING:
    from ottla.formats.decoder import Decoder

MOST_DECODERS = 16


class BadValue(ValueError):
    """A value could not be read, and the query must fail then."""


_decoders: dict[tuple[ValueOptions, bytes], Decoder] = {}


def decoder(options: ValueOptions, wanted: pa.DataType) -> Decoder:
    """This process's decoder for values of this type: it knows the schemas that it has seen."""
    mine = (options, pa.schema([pa.field(VALUE, wanted)]).serialize().to_pybytes())  # with notes, unlike its hash
    found = _decoders.get(mine)
    if found is None:
        while len(_decoders) >= MOST_DECODERS:
            del _decoders[next(iter(_decoders))]
        found = _decoders[mine] = _made(options, wanted)
    return found


def _made(options: ValueOptions, wanted: pa.DataType) -> Decoder:
    from ottla.formats.decoder import Decoder, row_schema
    from ottla.formats.writer import WriterSchema

    if options.kind == "text":
        return Decoder("text")
    target = pa.schema(list(wanted)) if pa.types.is_struct(wanted) else row_schema(wanted)
    if options.urls:
        return Decoder(options.kind, registry(options.urls).schema, target, message=options.message)
    given = WriterSchema(options.kind.upper(), options.schema)
    return Decoder(options.kind, target=target, bare=given, message=options.message)


def typed(
    batch: pa.RecordBatch, options: ValueOptions, wanted: pa.DataType, columns: tuple[str, ...], place: str
) -> pa.RecordBatch:
    """The batch with its values decoded to this type, and of these columns.

    It must have the columns `value`, `offset` and, with a registry, `headers`.
    """
    headers = header_values(batch.column(HEADERS), VALUE_HEADER) if options.urls else None
    decoded = decoder(options, wanted).decode(batch.column(VALUE), headers)
    if decoded.faults and not options.permissive:
        row, reason = decoded.faults[0]
        raise BadValue(
            f"{place}, offset {batch.column('offset')[row].as_py()}: {reason}. Option 'value.mode' permissive gives a "
            f"null value and the reason in the column {VALUE_ERROR}."
        )
    values = decoded.values if pa.types.is_struct(wanted) else decoded.values.field(0)
    if decoded.faults:
        rows = np.cumsum(decoded.good) - 1
        values = values.take(pa.array(rows, mask=~decoded.good))
    made = {VALUE: values}
    if VALUE_ERROR in columns:
        reasons = dict(decoded.faults)
        made[VALUE_ERROR] = pa.array([reasons.get(row) for row in range(batch.num_rows)], pa.string())
    return pa.RecordBatch.from_arrays(
        [made[name] if name in made else batch.column(name) for name in columns], list(columns)
    )
