"""Values of a console by schemas: objects to payloads with the id of their schema, and payloads to objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from ottla.formats.decoder import Reader, Schemas, reader_of
from ottla.formats.encoder import writer_of
from ottla.formats.evolution import UNION_MEMBER
from ottla.formats.faults import BadPayload, SchemaFault, UnknownSchema
from ottla.formats.fitting import fitting
from ottla.formats.wire import MAGIC, SchemaName, cut
from ottla.formats.writer import WriterSchema

__all__ = ["BadPayload", "SchemaFault", "UnknownSchema", "ValueDecoder", "ValueEncoder", "WriterSchema"]


class ValueEncoder:
    """Writes objects as payloads of one schema."""

    def __init__(self, schema: WriterSchema, schema_id: int, *, text: bool) -> None:
        """`text`: fields are text that stands for numbers and truth values, as in CSV; SchemaFault for the schema."""
        self._prefix = bytes([MAGIC]) + schema_id.to_bytes(4, "big")
        self._write = _json_writer(schema, text=text) if schema.kind == "JSON" else _writer(schema, text=text)

    def encode(self, fields: dict[str, Any], as_json: Callable[[object], bytes]) -> bytes:
        """The payload behind its prefix; BadPayload where the object does not fit. `as_json` writes an object."""
        return self._prefix + self._write(fields, as_json)


Write = Callable[[dict[str, Any], Callable[[object], bytes]], bytes]


def _writer(schema: WriterSchema, *, text: bool) -> Write:
    writer = writer_of(schema)
    fit = fitting(writer.type, text=text)
    return lambda fields, _: writer.write(fit(fields, "value"))


def _json_writer(schema: WriterSchema, *, text: bool) -> Write:
    """JSON stays as it is, and is held against all that its schema says."""
    from ottla.formats.json_schema import JsonReader

    reader = JsonReader(schema, validate=True)
    fit = fitting(reader.type, text=True) if text else None

    def write(fields: dict[str, Any], as_json: Callable[[object], bytes]) -> bytes:
        made = (
            fields if fit is None else {name: each for name, each in fit(fields, "value").items() if each is not None}
        )
        payload = as_json(made)
        for _, reason in reader.read(pa.array([payload], pa.binary())).faults:
            raise BadPayload(reason)
        return payload

    return write


class ValueDecoder:
    """Reads values by the schemas that they name."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._readers: dict[SchemaName, Reader] = {}

    def decode(self, values: Sequence[bytes | None], headers: Sequence[bytes | None]) -> list[Any]:
        """An object for each value, None for null, a BadPayload where it cannot be read.

        `headers`: the header of each record that names a schema, None where the value itself does.
        """
        parts = cut(pa.array(values, pa.binary()), pa.array(headers, pa.binary()))
        found: list[Any] = [None] * len(values)
        for row, reason in parts.faults:
            found[row] = BadPayload(reason)
        for group in parts.groups:
            try:
                block = self._reader(group.schema).read(group.payloads)
            except (SchemaFault, UnknownSchema) as fault:
                for row in group.rows.tolist():
                    found[row] = BadPayload(f"schema {group.schema}: {fault}")
                continue
            rows = group.rows
            for at, reason in block.faults:
                found[int(rows[at])] = BadPayload(reason)
            for row, one in zip(rows[block.good].tolist(), block.array, strict=True):
                found[row] = _object(one)
        return found

    def _reader(self, name: SchemaName) -> Reader:
        found = self._readers.get(name)
        if found is None:
            schema = self._schemas(name)
            found = self._readers[name] = reader_of(schema.kind.lower(), schema)
        return found


def _object(value: pa.Scalar) -> Any:
    """The value in Python; a BadPayload for one that Python lacks, such as a day after the year 9999."""
    try:
        return unwrapped(value.as_py(maps_as_pydicts="strict"))
    except (OverflowError, ValueError, KeyError) as fault:
        return BadPayload(f"a value that cannot be shown: {fault}")


def unwrapped(value: Any) -> Any:
    """The value with unions as the branch that is there."""
    if isinstance(value, list):
        return [unwrapped(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value and all(name.startswith(UNION_MEMBER) for name in value):
        return next((unwrapped(each) for each in value.values() if each is not None), None)
    return {name: unwrapped(each) for name, each in value.items()}
