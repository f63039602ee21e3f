"""The one door for writing: an Arrow column in, payloads of one schema out, with the prefix of its id."""

from __future__ import annotations

import json
from typing import Any, Protocol

import pyarrow as pa

from ottla.formats.evolution import check, converted, lacking
from ottla.formats.faults import SchemaFault, Unresolvable
from ottla.formats.wire import framed
from ottla.formats.writer import WriterSchema

NAME = "Value"
"""The name of a derived record or message."""


class ValueWriter(Protocol):
    """Writes values of `type` one by one."""

    type: pa.DataType

    def write(self, value: Any) -> bytes:
        """The payload of one value, or `BadPayload`."""


class Encoder:
    """Writes a column as payloads of one schema. Without an id they have no prefix."""

    def __init__(self, schema: WriterSchema, schema_id: int | None, *, message: str = "") -> None:
        self._writer = writer_of(schema, message=message, framed=schema_id is not None)
        self._id = schema_id

    def check(self, kind: pa.DataType) -> None:
        """Raise `Unresolvable` unless columns of this type can be written without losing any of them."""
        check(kind, self._writer.type)
        if extra := lacking(kind, self._writer.type):
            raise Unresolvable(f"the schema has no place for {', '.join(extra)}")

    def encode(self, values: pa.Array) -> pa.Array:
        """The payloads of a column; null stays null. A value that does not fit raises `BadPayload`."""
        fitting = converted(values, self._writer.type)
        present = values.is_valid().to_pylist()
        payloads = [
            self._writer.write(value) if there else None
            for value, there in zip(fitting.to_pylist(), present, strict=True)
        ]
        return pa.array(payloads, pa.binary()) if self._id is None else framed(self._id, payloads)


def writer_of(schema: WriterSchema, *, message: str = "", framed: bool = True) -> ValueWriter:
    """The writer for a schema, or `SchemaFault`."""
    match schema.kind:
        case "AVRO":
            from ottla.formats.avro_writing import AvroWriter

            return AvroWriter(schema)
        case "PROTOBUF":
            from ottla.formats.protobuf_writing import ProtobufWriter

            return ProtobufWriter(schema, message=message, framed=framed)
        case "JSON":
            from ottla.formats.json_writing import JsonWriter

            return JsonWriter(schema)
    raise SchemaFault(f"schemas of the kind {schema.kind} are not known")


def derived(kind: str, columns: pa.DataType) -> WriterSchema:
    """A schema of the kind for values of this type, or `SchemaFault`."""
    if not pa.types.is_struct(columns):
        raise SchemaFault(f"a schema is derived for structs only, and the value is {columns}")
    match kind:
        case "avro":
            from ottla.formats.avro_writing import derived_schema

            return WriterSchema("AVRO", json.dumps(derived_schema(columns, NAME)))
        case "protobuf":
            from ottla.formats.protobuf_writing import derived_text

            return WriterSchema("PROTOBUF", derived_text(columns, NAME))
    from ottla.formats.json_writing import derived_document

    return WriterSchema("JSON", json.dumps(derived_document(columns)))
