"""Values of records through the readers and writers of columns in `formats`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from ottla.formats.decoder import reader_of
from ottla.formats.encoder import writer_of
from ottla.formats.writer import WriterSchema


def reading(schema: WriterSchema) -> Callable[[list[bytes]], list[Any]]:
    """Reads payloads of a schema; where one cannot be read a ValueError stands in its place."""
    reader = reader_of(schema.kind.lower(), schema, exact=True)

    def read(payloads: list[bytes]) -> list[Any]:
        block = reader.read(pa.array(payloads, pa.binary()))
        values = iter(block.array.to_pylist(maps_as_pydicts="strict"))
        reasons = dict(block.faults)
        return [ValueError(reasons[at]) if at in reasons else next(values) for at in range(len(payloads))]

    return read


def writing(schema: WriterSchema, message: str) -> Callable[[Any], bytes]:
    """Writes payloads of a schema; ValueError for a value of another type, or one with fields beyond the schema's."""
    writer = writer_of(schema, message=message)

    def write(value: Any) -> bytes:
        if misfit := _misfit(value, writer.type):
            raise ValueError(misfit)
        return writer.write(pa.array([value], writer.type).to_pylist()[0])

    return write


def _misfit(value: Any, kind: pa.DataType, at: str = "") -> str:
    """A sentence on what Arrow would drop without a word: a field that the type lacks, the digits of a fraction."""
    if pa.types.is_struct(kind) and isinstance(value, dict):
        types = {field.name: field.type for field in kind}
        if extra := [name for name in value if name not in types]:
            return f"the schema has no place for {at}{extra[0]}"
        inner = ((each, types[name], f"{at}{name}.") for name, each in value.items())
    elif pa.types.is_list(kind) and isinstance(value, list | tuple):
        inner = ((each, kind.value_type, at) for each in value)
    elif pa.types.is_map(kind) and isinstance(value, dict):
        inner = ((each, kind.item_type, at) for each in value.values())
    elif pa.types.is_integer(kind) and isinstance(value, float):
        return f"{at.rstrip('.') or 'the value'} is {value!r}, and its schema has whole numbers there"
    else:
        return ""
    return next((found for each, below, path in inner if (found := _misfit(each, below, path))), "")
