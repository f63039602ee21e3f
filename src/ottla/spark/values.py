"""The Spark type of typed values, asked on the driver when a query starts; rows/values.py decodes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql.types import DataType, StringType

from ottla.client.registry_client import registry
from ottla.rows.value_options import ValueOptions

if TYPE_CHECKING:
    from ottla.formats.writer import WriterSchema


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
