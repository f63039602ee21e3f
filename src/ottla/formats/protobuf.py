"""Protobuf payloads of one writer's schema as one Arrow array; a bad payload costs only its own row.

In Confluent's wire format the path to the message's type in its file stands before the message. Rows of another type
than the one read are faults that name it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.message import DecodeError, Message

from ottla.formats.arrays import Mask
from ottla.formats.faults import BadPayload, SchemaFault
from ottla.formats.iso_times import Nanoseconds
from ottla.formats.protobuf_columns import message_column
from ottla.formats.protoc import compiled, message_at
from ottla.formats.rows import ValueBlock
from ottla.formats.writer import WriterSchema

MOST_PATH = 32


class ProtobufReader:
    """Reads payloads of one writer's schema: of the message named, or of the first in the file."""

    def __init__(
        self, writer: WriterSchema, *, message: str = "", framed: bool = True, nanoseconds: Nanoseconds = "cut"
    ) -> None:
        self._file = compiled(writer)
        self.descriptor = _message(self._file, message)
        column = message_column(self.descriptor, nanoseconds)
        if column is None:
            raise SchemaFault(f"the Protobuf message {self.descriptor.full_name} has no field that could be a column")
        self.type = column.type
        self._build = column.build
        self._class = message_factory.GetMessageClass(self.descriptor)
        self._framed = framed
        self._path = index_path(self.descriptor) if framed else b""
        self._required = _has_required(self.descriptor, set())

    def read(self, payloads: pa.Array) -> ValueBlock:
        """All payloads (none of them null); an array of those that are good."""
        good = np.ones(len(payloads), dtype=np.bool_)
        faults: list[tuple[int, str]] = []
        parsed: list[Message] = []
        rows: list[int] = []
        make, path, skipped = self._class.FromString, self._path, len(self._path)
        for row, payload in enumerate(payloads.to_pylist()):
            try:
                # The common path is compared as bytes; any other, and the long form of [0], is read.
                start = skipped if payload.startswith(path) else self._start(payload)
                parsed.append(self._checked(make(payload[start:])))
                rows.append(row)
            except (DecodeError, BadPayload) as fault:
                good[row] = False
                faults.append((row, f"not of its Protobuf schema: {fault}"))
        try:
            return ValueBlock(self._build(parsed), good, faults)
        except (BadPayload, UnicodeError, pa.ArrowInvalid):
            return self._each(parsed, rows, good, faults)

    def _each(self, parsed: list[Message], rows: list[int], good: Mask, faults: list[tuple[int, str]]) -> ValueBlock:
        """Convert the messages one by one, as one of them has a value without a place in its column."""
        arrays = [pa.nulls(0, self.type)]
        for row, one in zip(rows, parsed, strict=True):
            try:
                arrays.append(self._build([one]))
            except (BadPayload, UnicodeError, pa.ArrowInvalid) as fault:
                good[row] = False
                faults.append((row, f"not of its Protobuf schema: {fault}"))
        return ValueBlock(pa.concat_arrays(arrays), good, sorted(faults))

    def _checked(self, message: Message) -> Message:
        if self._required and not message.IsInitialized():
            missing = ", ".join(message.FindInitializationErrors())
            raise BadPayload(f"required fields are missing: {missing}")
        return message

    def _start(self, payload: bytes) -> int:
        path, start = read_index_path(payload)
        found = message_at(self._file, path)
        if found is None:
            raise BadPayload(f"the schema has no message at {list(path)}")
        if found.full_name != self.descriptor.full_name:
            raise BadPayload(f"a message {found.full_name} where {self.descriptor.full_name} is read")
        return start


def index_path(descriptor: Descriptor) -> bytes:
    """A message type's name in the wire format: the length of its path and the indexes, zig-zag; one zero for [0]."""
    path: list[int] = []
    while descriptor is not None:
        outer = descriptor.containing_type
        siblings = descriptor.file.message_types_by_name.values() if outer is None else outer.nested_types
        path.insert(0, [each.full_name for each in siblings].index(descriptor.full_name))
        descriptor = outer
    return b"\0" if path == [0] else b"".join(_zig_zag(number) for number in (len(path), *path))


def read_index_path(payload: bytes) -> tuple[tuple[int, ...], int]:
    """The path at the start of a payload, and where the message begins."""
    count, at = _number(payload, 0)
    if not count:
        return (0,), at
    if not 0 < count <= MOST_PATH:
        raise BadPayload(f"a path of {count} message indexes")
    path = []
    for _ in range(count):
        index, at = _number(payload, at)
        path.append(index)
    return tuple(path), at


def _message(file: FileDescriptor, name: str) -> Descriptor:
    if not name:
        first = message_at(file, (0,))
        if first is None:
            raise SchemaFault("the Protobuf schema defines no message")
        return first
    short = name.removeprefix(f"{file.package}.") if file.package else name
    found: Descriptor | None = None
    inside = file.message_types_by_name
    for part in short.split("."):
        found = inside.get(part)
        if found is None:
            raise SchemaFault(f"the Protobuf schema has no message {name}; it has {', '.join(sorted(inside))}")
        inside = found.nested_types_by_name
    assert found is not None
    return found


def _has_required(descriptor: Descriptor, seen: set[str]) -> bool:
    if descriptor.full_name in seen:
        return False
    seen.add(descriptor.full_name)
    return any(
        field.is_required or (field.message_type is not None and _has_required(field.message_type, seen))
        for field in descriptor.fields
    )


def _zig_zag(number: int) -> bytes:
    rest, written = number << 1, bytearray()
    while rest > 0x7F:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*written, rest])


def _number(payload: bytes, at: int) -> tuple[int, int]:
    coded = 0
    for shift in range(0, 35, 7):
        if at >= len(payload):
            raise BadPayload("it ends inside the message indexes")
        coded |= (payload[at] & 0x7F) << shift
        at += 1
        if payload[at - 1] < 0x80:
            return (coded >> 1) ^ -(coded & 1), at
    raise BadPayload("a message index of more than five bytes")
