"""The formats of files: records in, one file's content out, held in memory up to a limit and on disk beyond it."""

from __future__ import annotations

import gzip
import hashlib
import json
import tempfile
import zlib
from collections.abc import Callable, Mapping
from typing import IO, Any, Final, Protocol

from ottla.connect.converters.avro_codec import Write, writer
from ottla.connect.converters.avro_schema import avro_schema
from ottla.connect.converters.json import JsonConverter
from ottla.connect.data import Schema, Struct
from ottla.connect.errors import DataException
from ottla.connect.java.text import text
from ottla.connect.records import SinkRecord
from ottla.formats.avro_tree import parse_avro
from ottla.formats.compatibility import InvalidSchema

_BLOCK_BYTES: Final = 64_000
_IN_MEMORY: Final = 1 << 20
"""A file that is larger while it is made lies in the directory for temporary files."""


class FileEncoder(Protocol):
    """Makes the content of one file."""

    def add(self, record: SinkRecord) -> None:
        """Take a record; DataException, and nothing taken, where the format has no place for its value."""

    def content(self) -> IO[bytes]:
        """The whole content, at its beginning. No record is added afterwards."""


Format = Callable[[Schema | None], FileEncoder]
"""Begins a file for records of one schema; DataException where the format cannot have such records."""


def spool() -> IO[bytes]:
    """A file for content that is not finished."""
    return tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)


class LineFile:
    """One piece of bytes after the other, perhaps packed by gzip."""

    def __init__(self, piece: Callable[[SinkRecord], bytes], level: int | None = None) -> None:
        """`level` is that of gzip, None for content that is not packed."""
        self._piece, self._spool = piece, spool()
        # Without a time and a name in it, the same records give the same file.
        self._out: Any = self._spool
        if level is not None:
            self._out = gzip.GzipFile("", "wb", level, self._spool, mtime=0)

    def add(self, record: SinkRecord) -> None:
        self._out.write(self._piece(record))

    def content(self) -> IO[bytes]:
        if self._out is not self._spool:
            self._out.close()
        self._spool.seek(0)
        return self._spool


def json_line(decimals: str) -> Callable[[SinkRecord], bytes]:
    """The value as JSON, and the end of a line."""
    converter = JsonConverter({"schemas.enable": "false", "converter.type": "value", "decimal.format": decimals})

    def piece(record: SinkRecord) -> bytes:
        made = converter.from_connect(record.topic, record.value_schema, record.value)
        return (b"null" if made is None else made) + b"\n"

    return piece


def text_line(record: SinkRecord) -> bytes:
    """The value as Java prints it, and the end of a line."""
    return (text(record.value, record.value_schema) + "\n").encode()


def raw(separator: bytes) -> Callable[[SinkRecord], bytes]:
    """The bytes of the value, and a separator."""

    def piece(record: SinkRecord) -> bytes:
        if not isinstance(record.value, bytes):
            raise DataException("ByteArrayFormat takes bytes: set value.converter to the ByteArrayConverter")
        return record.value + separator

    return piece


def _snappy(block: bytes) -> bytes:
    from cramjam import snappy

    return bytes(snappy.compress_raw(block)) + zlib.crc32(block).to_bytes(4, "big")


def _deflate(block: bytes) -> bytes:
    packing = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packing.compress(block) + packing.flush()


AVRO_CODECS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "null": bytes, "deflate": _deflate, "snappy": _snappy,
}  # fmt: skip


class Avro:
    """An Avro object container file, in the blocks of Avro's specification 1.12."""

    def __init__(self, schema: Schema | None, codec: str) -> None:
        if schema is None:
            raise DataException("AvroFormat takes records with schemas: use a converter with schemas, or JsonFormat")
        declared = json.dumps(avro_schema(schema), separators=(",", ":"))
        self._write = _writer(declared)
        self._pack = AVRO_CODECS[codec]
        self._spool, self._block, self._count = spool(), bytearray(), 0
        self._sync = hashlib.md5(declared.encode(), usedforsecurity=False).digest()
        meta = {"avro.codec": codec, "avro.schema": declared}
        parts = bytearray(b"Obj\x01") + _long(len(meta))
        for name, value in meta.items():
            parts += _long(len(name)) + name.encode() + _long(len(value.encode())) + value.encode()
        self._spool.write(bytes(parts) + _long(0) + self._sync)

    def add(self, record: SinkRecord) -> None:
        made = bytearray()
        self._write(record.value, made)
        self._block += made
        self._count += 1
        if len(self._block) >= _BLOCK_BYTES:
            self._end_block()

    def content(self) -> IO[bytes]:
        self._end_block()
        self._spool.seek(0)
        return self._spool

    def _end_block(self) -> None:
        if self._count:
            packed = self._pack(bytes(self._block))
            self._spool.write(_long(self._count) + _long(len(packed)) + packed + self._sync)
        self._block, self._count = bytearray(), 0


def _writer(declared: str) -> Write:
    try:
        return writer(parse_avro(declared).root)
    except InvalidSchema as fault:
        raise DataException(f"the value's schema is not valid in Avro: {fault}") from fault


def _long(number: int) -> bytes:
    """A whole number, not below 0, in Avro's variable length."""
    number, out = number << 1, bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes((number,))


class Parquet:
    """A Parquet file with a column for each field."""

    def __init__(self, schema: Schema | None, codec: str) -> None:
        from ottla.sinks.files.columns import ParquetColumns

        if schema is None or not schema.members:
            raise DataException("ParquetFormat takes structs with a schema: use a converter with schemas")
        self._columns, self._spool = ParquetColumns(schema, codec), spool()

    def add(self, record: SinkRecord) -> None:
        if not isinstance(record.value, Struct):
            raise DataException("ParquetFormat takes structs, and the value is null")
        self._columns.add(record.value, self._spool)

    def content(self) -> IO[bytes]:
        self._columns.finish(self._spool)
        self._spool.seek(0)
        return self._spool
