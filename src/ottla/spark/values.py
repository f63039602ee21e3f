"""Typed values: which type they have, asked on the driver when a query starts; and batches with them, on executors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql.types import DataType, StringType, StructType

from ottla.client.registry_client import registry
from ottla.rows.selection import HEADERS
from ottla.spark.value_options import VALUE, VALUE_ERROR, ValueOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.formats.decoder import Decoder
    from ottla.formats.writer import WriterSchema

MOST_DECODERS = 16


class BadValue(ValueError):
    """A value could not be read, and the query must fail then."""


def value_type(options: ValueOptions, topics: Callable[[], list[str]]) -> DataType:
    """The type of the column `value` from now on, or ValueError."""
    if options.kind == "text":
        return StringType()
    from ottla.formats.faults import SchemaFault

    found: dict[str, DataType] = {}
    for subject, writer in _schemas(options, topics).items():
        try:
            found[subject] = _type_of(options, writer)
        except (SchemaFault, ValueError) as fault:
            raise ValueError(f"The schema of {subject} cannot be a column: {fault}") from fault
    first, *others = found
    for other in others:
        if found[other] != found[first]:
            raise ValueError(
                f"Subjects {first} and {other} have different schemas: read their topics one by one, or name the "
                "subject that all of them are to be read by in option 'value.subject'"
            )
    return found[first]


def _schemas(options: ValueOptions, topics: Callable[[], list[str]]) -> dict[str, WriterSchema]:
    """The schemas that values are to be read by, under the names to speak of them."""
    from ottla.formats.writer import WriterSchema

    if options.schema:
        return {"option 'value.schema'": WriterSchema(options.kind.upper(), options.schema)}
    subjects = [options.subject] if options.subject else [f"{topic}-value" for topic in topics()]
    if not subjects:
        raise ValueError("No topic is there yet to tell the type of its values: name a subject in 'value.subject'")
    return {subject: latest(options, subject) for subject in subjects}


def latest(options: ValueOptions, subject: str) -> WriterSchema:
    """The latest schema of a subject, or ValueError."""
    from ottla.formats.faults import UnknownSchema

    try:
        return registry(options.urls).latest(subject).schema
    except UnknownSchema as fault:
        raise ValueError(f"The registry has no schema to read the values by: {fault}") from fault


def _type_of(options: ValueOptions, writer: WriterSchema) -> DataType:
    from ottla.formats.decoder import reader_of
    from ottla.spark.value_types import spark_type

    return spark_type(reader_of(options.kind, writer, message=options.message).type)


_decoders: dict[tuple[ValueOptions, str], Decoder] = {}


def decoder(options: ValueOptions, kind: DataType) -> Decoder:
    """This process's decoder for values of this type: it knows the schemas that it has seen."""
    mine = (options, kind.json())
    found = _decoders.get(mine)
    if found is None:
        while len(_decoders) >= MOST_DECODERS:
            del _decoders[next(iter(_decoders))]
        found = _decoders[mine] = _made(options, kind)
    return found


def _made(options: ValueOptions, kind: DataType) -> Decoder:
    import pyarrow as pa

    from ottla.formats.decoder import Decoder, row_schema
    from ottla.formats.writer import WriterSchema
    from ottla.spark.value_types import arrow_type

    if options.kind == "text":
        return Decoder("text")
    wanted = arrow_type(kind)
    target = pa.schema(list(wanted)) if pa.types.is_struct(wanted) else row_schema(wanted)
    if options.urls:
        return Decoder(options.kind, registry(options.urls).schema, target, message=options.message)
    given = WriterSchema(options.kind.upper(), options.schema)
    return Decoder(options.kind, target=target, bare=given, message=options.message)


def typed(
    batch: pa.RecordBatch, options: ValueOptions, kind: DataType, columns: tuple[str, ...], place: str
) -> pa.RecordBatch:
    """The batch with its values decoded, and of these columns.

    It must have the columns `value`, `offset` and, with a registry, `headers`.
    """
    import numpy as np
    import pyarrow as pa

    from ottla.formats.wire import VALUE_HEADER
    from ottla.rows.arrow import header_values

    headers = header_values(batch.column(HEADERS), VALUE_HEADER) if options.urls else None
    decoded = decoder(options, kind).decode(batch.column(VALUE), headers)
    if decoded.faults and not options.permissive:
        row, reason = decoded.faults[0]
        raise BadValue(
            f"{place}, offset {batch.column('offset')[row].as_py()}: {reason}. Option 'value.mode' permissive gives a "
            f"null value and the reason in the column {VALUE_ERROR}."
        )
    values = decoded.values if isinstance(kind, StructType) else decoded.values.field(0)
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
