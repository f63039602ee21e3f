"""AvroConverter: values in Avro, their schema in a registry."""

from __future__ import annotations

import json
from typing import Any

from ottla.connect.converters.avro_codec import reader, writer
from ottla.connect.converters.avro_schema import avro_schema, connect_schema
from ottla.connect.converters.registry import Read, RegistryConverter, Write
from ottla.connect.data import Schema
from ottla.connect.errors import DataException
from ottla.formats.avro_tree import AvroNode, parse_avro
from ottla.formats.compatibility import InvalidSchema
from ottla.formats.writer import WriterSchema


class AvroConverter(RegistryConverter):
    """Writes and reads Avro."""

    KIND = "AVRO"

    def schema_text(self, schema: Schema) -> str:
        """The Avro schema of a Connect schema."""
        return json.dumps(avro_schema(schema), separators=(",", ":"))

    def writer(self, written: WriterSchema, schema: Schema) -> Write:
        """Writes values by an Avro schema."""
        write = writer(_parsed(written))

        def payload(value: Any) -> bytes:
            out = bytearray()
            write(value, out)
            return bytes(out)

        return payload

    def reader(self, written: WriterSchema) -> tuple[Schema, Read]:
        """Reads values of an Avro schema."""
        node = _parsed(written)
        schema = connect_schema(node)
        read = reader(node, schema)

        def value(payload: bytes) -> Any:
            found, end = read(payload, 0)
            if end != len(payload):
                raise DataException(f"{len(payload) - end} bytes behind the end of the Avro value")
            return found

        return schema, value


def _parsed(schema: WriterSchema) -> AvroNode:
    try:
        return parse_avro(schema.text, schema.references).root
    except InvalidSchema as fault:
        raise DataException(f"the Avro schema is not valid: {fault}") from fault
