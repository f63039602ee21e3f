"""One payload of an Avro schema at a time: strict, with a reason for what is wrong, and for every schema.

avro_blocks.py is ten times as fast and leaves to this reader the payloads and the schemas that it cannot judge.
Stricter than fastavro, which reads past the end for a negative length and takes the union's branch -1 for the last.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any

from ottla.formats.avro_schema import (
    MISSING,
    ArraySchema,
    Enum,
    FixedSchema,
    Map,
    Node,
    Primitive,
    RecordField,
    RecordSchema,
    Union,
    is_empty,
    is_null,
)
from ottla.formats.avro_types import arrow_type, only_branch, place
from ottla.formats.faults import BadPayload

MOST_EMPTY_ITEMS = 1 << 16
"""Items of no bytes in one list; a greater count is taken for damage, as nothing else in the payload bounds it."""
_FLOAT, _DOUBLE = Struct("<f"), Struct("<d")

Read = Callable[[bytes, int], tuple[Any, int]]


class RowReader:
    """Reads single payloads of one schema into plain values."""

    def __init__(self, node: Node) -> None:
        self._read = _reader(node)

    def read(self, payload: bytes) -> Any:
        """The plain value, or `BadPayload`."""
        value, end = self._read(payload, 0)
        if end != len(payload):
            raise BadPayload(f"{len(payload) - end} bytes behind the end of the value")
        return value


def plain_default(node: Node, default: Any) -> Any:
    """A field's default, as it stands in the schema's JSON, as a plain value."""
    try:
        return _plain(node, default)
    except (TypeError, ValueError, AttributeError, KeyError) as fault:
        raise BadPayload(f"{default!r} is not a default of its type: {fault}") from None


def _plain(node: Node, value: Any) -> Any:
    if arrow_type(node) is None:
        return None
    match node:
        case Primitive(kind="bytes") | FixedSchema():
            return value.encode("latin-1")
        case Primitive(kind="string"):
            return str(value)
        case Primitive(kind="boolean"):
            return bool(value)
        case Primitive(kind="int" | "long"):
            return int(value)
        case Primitive(kind="float" | "double"):
            return float(value)
        case Enum():
            return node.symbols.index(value)
        case RecordSchema():
            return {place(at): _plain(field.node, _given(field, value)) for at, field in enumerate(node.fields)}
        case ArraySchema():
            return [_plain(node.items, item) for item in value]
        case Map():
            return [{"k": key, "v": _plain(node.values, item)} for key, item in value.items()]
        case Union():
            return _plain_branch(node, value)
    return None


def _given(field: RecordField, value: Any) -> Any:
    found = value.get(field.name, field.default)
    if found is MISSING:
        raise ValueError(f"it lacks the field {field.name}")
    return found


def _plain_branch(node: Union, value: Any) -> Any:
    """The first branch that the default fits; Avro 1.12 has it be any, before it was the first."""
    for at, branch in enumerate(node.branches):
        if is_null(branch) and value is None:
            return None
        if not is_null(branch) and _kind_fits(branch, value):
            found = _plain(branch, value)
            return found if only_branch(node) is not None else {place(at): found}
    raise ValueError("no branch of the union fits")


def _kind_fits(node: Node, value: Any) -> bool:
    match node:
        case Primitive(kind="boolean"):
            return isinstance(value, bool)
        case Primitive(kind="int" | "long"):
            return isinstance(value, int) and not isinstance(value, bool)
        case Primitive(kind="float" | "double"):
            return isinstance(value, int | float) and not isinstance(value, bool)
        case RecordSchema() | Map():
            return isinstance(value, dict)
        case ArraySchema():
            return isinstance(value, list)
        case Enum():
            return value in node.symbols
    return isinstance(value, str)


def _reader(node: Node) -> Read:
    if arrow_type(node) is None and not is_null(node):
        return _unseen(_any_reader(node))
    return _any_reader(node)


def _unseen(reader: Read) -> Read:
    """Reads what has no place in columns."""

    def read(data: bytes, at: int) -> tuple[None, int]:
        return None, reader(data, at)[1]

    return read


def _any_reader(node: Node) -> Read:
    match node:
        case Primitive():
            return _PRIMITIVES[node.kind]
        case FixedSchema():
            return _fixed(node.size)
        case Enum():
            return _enum(node)
        case RecordSchema():
            return _record(node)
        case ArraySchema():
            return _items(_reader(node.items), empty=is_empty(node.items))
        case Map():
            return _map(_reader(node.values))
    return _union(node)


def _null(data: bytes, at: int) -> tuple[None, int]:
    return None, at


def _boolean(data: bytes, at: int) -> tuple[bool, int]:
    if at >= len(data) or data[at] > 1:
        raise BadPayload("it ends inside a boolean" if at >= len(data) else f"a boolean of the byte {data[at]}")
    return data[at] == 1, at + 1


def _long(data: bytes, at: int) -> tuple[int, int]:
    try:
        byte = data[at]
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), at + 1
        coded, shift = byte & 0x7F, 7
        while True:
            at += 1
            byte = data[at]
            coded |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                raise BadPayload("a number of more than ten bytes")
    except IndexError:
        raise BadPayload("it ends inside a number") from None
    if coded >> 64:
        raise BadPayload("a number of more than 64 bits")
    return (coded >> 1) ^ -(coded & 1), at + 1


def _int(data: bytes, at: int) -> tuple[int, int]:
    value, at = _long(data, at)
    if not -(1 << 31) <= value < 1 << 31:
        raise BadPayload(f"{value} where an int of 32 bits is expected")
    return value, at


def _float(data: bytes, at: int) -> tuple[float, int]:
    if at + 4 > len(data):
        raise BadPayload("it ends inside a float")
    return _FLOAT.unpack_from(data, at)[0], at + 4


def _double(data: bytes, at: int) -> tuple[float, int]:
    if at + 8 > len(data):
        raise BadPayload("it ends inside a double")
    return _DOUBLE.unpack_from(data, at)[0], at + 8


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _long(data, at)
    if size < 0 or size > len(data) - at:
        raise BadPayload(f"a length of {size} where {len(data) - at} bytes are left")
    return data[at : at + size], at + size


def _string(data: bytes, at: int) -> tuple[str, int]:
    text, at = _bytes(data, at)
    try:
        return text.decode(), at
    except UnicodeDecodeError as fault:
        raise BadPayload(f"a string that is not UTF-8: {fault}") from None


_PRIMITIVES: dict[str, Read] = {
    "null": _null,
    "boolean": _boolean,
    "int": _int,
    "long": _long,
    "float": _float,
    "double": _double,
    "bytes": _bytes,
    "string": _string,
}


def _fixed(size: int) -> Read:
    def read(data: bytes, at: int) -> tuple[bytes, int]:
        if at + size > len(data):
            raise BadPayload(f"it ends inside a fixed of {size} bytes")
        return data[at : at + size], at + size

    return read


def _enum(node: Enum) -> Read:
    def read(data: bytes, at: int) -> tuple[int, int]:
        index, at = _long(data, at)
        if not 0 <= index < len(node.symbols):
            raise BadPayload(f"index {index} of the enum {node.name}, which has {len(node.symbols)} symbols")
        return index, at

    return read


def _record(node: RecordSchema) -> Read:
    fields = [(place(at), field.name, _reader(field.node)) for at, field in enumerate(node.fields)]

    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        values = {}
        for plain_name, name, reader in fields:
            try:
                values[plain_name], at = reader(data, at)
            except BadPayload as fault:
                raise BadPayload(f"field {name}: {fault}") from None
        return values, at

    return read


def _items(item: Read, *, empty: bool) -> Read:
    def read(data: bytes, at: int) -> tuple[list[Any], int]:
        found: list[Any] = []
        total = 0
        while True:
            count, at = _long(data, at)
            if not count:
                return found, at
            end = -1
            if count < 0:
                size, at = _long(data, at)
                if size < 0:
                    raise BadPayload(f"a block of a list with a size of {size} bytes")
                count, end = -count, at + size
            total += count
            if empty and total > MOST_EMPTY_ITEMS:
                raise BadPayload(f"a list of {count} items without bytes")
            for _ in range(0 if empty else count):  # items without bytes have no place in columns
                value, at = item(data, at)
                found.append(value)
            if end >= 0 and at != end:
                raise BadPayload("a block of a list is not as long as it says")

    return read


def _map(value: Read) -> Read:
    def entry(data: bytes, at: int) -> tuple[tuple[str, Any], int]:
        key, at = _string(data, at)
        found, at = value(data, at)
        return (key, found), at

    entries = _items(entry, empty=False)

    def read(data: bytes, at: int) -> tuple[list[dict[str, Any]], int]:
        found, at = entries(data, at)
        return [{"k": key, "v": item} for key, item in dict(found).items()], at

    return read


def _union(node: Union) -> Read:
    readers = [_reader(branch) for branch in node.branches]
    single = only_branch(node) is not None
    null = next((at for at, branch in enumerate(node.branches) if is_null(branch)), -1)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        index, at = _long(data, at)
        if not 0 <= index < len(readers):
            raise BadPayload(f"branch {index} of a union of {len(readers)}")
        value, at = readers[index](data, at)
        return (value if single or index == null else {place(index): value}), at

    return read
