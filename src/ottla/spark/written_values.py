"""Typed values of the sink: which schema they are written by, settled on the driver; and the writing, on executors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.types import DataType

from ottla.client.registry_client import registry
from ottla.formats.writer import WriterSchema
from ottla.rows.value_options import VALUE, WITH_SCHEMA, ValueOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.formats.encoder import Encoder

MOST_ENCODERS = 16


@dataclass(frozen=True, slots=True)
class WrittenBy:
    """The schema of a sink's values; without an id they have no prefix."""

    schema: WriterSchema
    schema_id: int | None
    message: str = ""


def settled(options: ValueOptions, kind: DataType, topic: str | None) -> WrittenBy | None:
    """The schema for values of this type; None where they are written as they are. ValueError where none will do."""
    if options.kind not in WITH_SCHEMA:
        return None
    from ottla.formats.encoder import Encoder
    from ottla.formats.faults import SchemaFault, Unresolvable
    from ottla.spark.value_types import arrow_type

    columns = arrow_type(kind)
    try:
        found = _found(options, columns, topic)
        Encoder(found.schema, found.schema_id, message=found.message).check(columns)
    except (SchemaFault, Unresolvable) as fault:
        raise ValueError(f"The column {VALUE} cannot be written as {options.kind}: {fault}") from fault
    return found


def _found(options: ValueOptions, columns: pa.DataType, topic: str | None) -> WrittenBy:
    from ottla.formats.encoder import derived
    from ottla.formats.faults import UnknownSchema

    given = WriterSchema(options.kind.upper(), options.schema) if options.schema else None
    if not options.urls:
        assert given is not None, "value_options wants a schema where there is no registry"
        return WrittenBy(given, None, options.message)
    subject = options.subject or (f"{topic}-value" if topic is not None else "")
    if not subject:
        raise ValueError("Typed values need option 'topic', or option 'value.subject' to name their schema's subject")
    client = registry(options.urls)
    if given is None:
        try:
            latest = client.latest(subject)
            return WrittenBy(latest.schema, latest.schema_id, options.message)
        except UnknownSchema:
            given = derived(options.kind, columns)
    return WrittenBy(given, client.register(subject, given), options.message)


_encoders: dict[WrittenBy, Encoder] = {}


def written(batch: pa.RecordBatch, by: WrittenBy) -> pa.RecordBatch:
    """The batch with its values as payloads."""
    from ottla.formats.encoder import Encoder

    encoder = _encoders.get(by)
    if encoder is None:
        while len(_encoders) >= MOST_ENCODERS:
            del _encoders[next(iter(_encoders))]
        encoder = _encoders[by] = Encoder(by.schema, by.schema_id, message=by.message)
    place = batch.schema.get_field_index(VALUE)
    return batch.set_column(place, VALUE, encoder.encode(batch.column(place)))
