"""Avro's bytes as values of Connect and back, without a detour over plain values."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from struct import Struct as Packing
from struct import error as PackError
from typing import Any, Final

from ottla.connect.converters.avro_schema import branch_name, decimal_bytes, is_entry, others
from ottla.connect.converters.json_schema import scale_of
from ottla.connect.data import DATE, DAY_MS, DECIMAL, TIME, TIMESTAMP, Instant, Schema, Struct, java_class
from ottla.connect.errors import DataException
from ottla.connect.java.text import float32, scaled, unscaled
from ottla.formats.avro_tree import AvroNode

Read = Callable[[bytes, int], tuple[Any, int]]
Write = Callable[[Any, bytearray], None]
_FLOAT, _DOUBLE = Packing("<f"), Packing("<d")
MOST_EMPTY_ITEMS: Final = 1 << 16
"""Items without bytes in one list; a greater count is damage, as nothing else bounds it."""


class BadAvro(DataException):
    """Bytes that are not of their schema."""


def reader(node: AvroNode, schema: Schema) -> Read:
    """Reads values of one Avro type as those of its Connect schema."""
    match node.kind:
        case "union":
            return _read_union(node, schema)
        case "record" | "error":
            members = [reader(each.type, at.schema) for each, at in zip(node.fields, schema.members, strict=True)]
            return lambda data, at: _read_struct(members, schema, data, at)
        case "array" if is_entry(node.items):
            assert node.items is not None
            assert schema.key is not None
            assert schema.value is not None
            key, value = (
                reader(each.type, of) for each, of in zip(node.items.fields, (schema.key, schema.value), strict=True)
            )
            return _read_blocks(lambda data, at: _read_pair(key, value, data, at), dict)
        case "array":
            assert node.items is not None
            assert schema.value is not None
            return _read_blocks(reader(node.items, schema.value), list)
        case "map":
            assert node.items is not None
            assert schema.value is not None
            value = reader(node.items, schema.value)
            return _read_blocks(lambda data, at: _read_pair(_read_string, value, data, at), dict)
    return _read_primitive(node, schema)


def _read_primitive(node: AvroNode, schema: Schema) -> Read:
    match node.kind:
        case "int" | "long" if schema.name in (DATE, TIME, TIMESTAMP):
            unit = DAY_MS if schema.name == DATE else 1
            return lambda data, at: _mapped(lambda number: Instant(number * unit), _read_long(data, at))
        case "int" | "long":
            return _read_long
        case "bytes" | "fixed" if schema.name == DECIMAL:
            raw, scale = _read_raw(node), scale_of(schema)
            return lambda data, at: _mapped(
                lambda content: scaled(int.from_bytes(content, "big", signed=True), scale), raw(data, at)
            )
        case "bytes" | "fixed":
            return _read_raw(node)
        case "enum":
            return lambda data, at: _mapped(lambda index: _picked(node.symbols, index), _read_long(data, at))
    return _READERS[node.kind]


def _mapped(convert: Callable[[Any], Any], read: tuple[Any, int]) -> tuple[Any, int]:
    return convert(read[0]), read[1]


def _picked(choices: Any, index: int) -> Any:
    """One of several by its number; Python's negative indexes would be another."""
    if not 0 <= index < len(choices):
        raise BadAvro(f"there is no branch or symbol {index}")
    return choices[index]


def _read_struct(members: list[Read], schema: Schema, data: bytes, at: int) -> tuple[Struct, int]:
    values = []
    for read in members:
        value, at = read(data, at)
        values.append(value)
    return Struct(schema, values), at


def _read_pair(key: Read, value: Read, data: bytes, at: int) -> tuple[tuple[Any, Any], int]:
    name, at = key(data, at)
    item, at = value(data, at)
    return (name, item), at


def _read_blocks(read: Read, make: Callable[[list[Any]], Any]) -> Read:
    def blocks(data: bytes, at: int) -> tuple[Any, int]:
        items: list[Any] = []
        while True:
            count, at = _read_long(data, at)
            if count == 0:
                return make(items), at
            if count < 0:
                count = -count
                _, at = _read_long(data, at)
            if count > max(len(data) - at, MOST_EMPTY_ITEMS):
                raise BadAvro(f"{count} items in {len(data) - at} bytes")
            for _ in range(count):
                item, at = read(data, at)
                items.append(item)

    return blocks


def _read_union(node: AvroNode, schema: Schema) -> Read:
    branches = others(node)
    if len(branches) == 1:
        readers: list[Read] = [_read_null if each.kind == "null" else reader(each, schema) for each in node.branches]
        return lambda data, at: _in_branch(readers, data, at)
    places = {branch_name(each): index for index, each in enumerate(branches)}
    several: list[Read] = []
    for each in node.branches:
        if each.kind == "null":
            several.append(_read_null)
            continue
        index = places[branch_name(each)]
        inner = reader(each, schema.members[index].schema)
        several.append(lambda data, at, inner=inner, index=index: _mapped(  # type: ignore[misc]
            lambda value: Struct(schema, [value if place == index else None for place in range(len(places))]),
            inner(data, at),
        ))  # fmt: skip
    return lambda data, at: _in_branch(several, data, at)


def _in_branch(readers: list[Read], data: bytes, at: int) -> tuple[Any, int]:
    index, at = _read_long(data, at)
    read: Read = _picked(readers, index)
    return read(data, at)


def _read_long(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise BadAvro("a number breaks off")
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7


def _slice(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    if size < 0 or at + size > len(data):
        raise BadAvro(f"{size} bytes asked for, {len(data) - at} left")
    return data[at : at + size], at + size


def _read_raw(node: AvroNode) -> Read:
    if node.kind == "fixed":
        return lambda data, at: _slice(data, at, node.size)
    return _read_bytes


def _read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _read_long(data, at)
    return _slice(data, at, size)


def _read_string(data: bytes, at: int) -> tuple[str, int]:
    content, at = _read_bytes(data, at)
    try:
        return content.decode(), at
    except UnicodeDecodeError as fault:
        raise BadAvro(f"text that is not UTF-8: {fault}") from None


def _read_boolean(data: bytes, at: int) -> tuple[bool, int]:
    content, at = _slice(data, at, 1)
    if content not in (b"\0", b"\1"):
        raise BadAvro(f"a boolean of the byte {content.hex()}")
    return content == b"\1", at


def _read_packed(packing: Packing) -> Read:
    def read(data: bytes, at: int) -> tuple[float, int]:
        content, at = _slice(data, at, packing.size)
        number = packing.unpack(content)[0]
        return (float32(number) if packing is _FLOAT else number), at

    return read


def _read_null(data: bytes, at: int) -> tuple[None, int]:
    return None, at


_READERS: Final[dict[str, Read]] = {
    "boolean": _read_boolean, "string": _read_string, "float": _read_packed(_FLOAT), "double": _read_packed(_DOUBLE),
}  # fmt: skip


def writer(node: AvroNode) -> Write:
    """Writes values of Connect as one Avro type; `DataException` for a value that is not of it."""
    match node.kind:
        case "union":
            return _write_union(node)
        case "record" | "error":
            return _write_record(node)
        case "array" if is_entry(node.items):
            assert node.items is not None
            key, value = (writer(each.type) for each in node.items.fields)
            return _write_blocks(dict, lambda pair, out: (key(pair[0], out), value(pair[1], out))[0])
        case "array":
            assert node.items is not None
            return _write_blocks(list, writer(node.items))
        case "map":
            assert node.items is not None
            item, text = writer(node.items), _write_text
            return _write_blocks(dict, lambda pair, out: (text(pair[0], out), item(pair[1], out))[0])
        case "int" | "long":
            return lambda value, out: _write_long(_whole(node, value), out)
        case "enum":
            places = {symbol: index for index, symbol in enumerate(node.symbols)}
            return lambda value, out: _write_long(places[value], out) if value in places else _refuse(node, value)
        case "bytes" | "fixed":
            return lambda value, out: _write_raw(node, value, out)
        case "boolean":
            return lambda value, out: out.append(value) if isinstance(value, bool) else _refuse(node, value)
        case "float" | "double":
            packing = _FLOAT if node.kind == "float" else _DOUBLE
            return lambda value, out: _write_packed(node, packing, value, out)
        case "string":
            return _write_text
    return lambda value, out: None if value is None else _refuse(node, value)


def _refuse(node: AvroNode, value: Any) -> None:
    raise DataException(f"A value of class {java_class(value)} is no {node.name or node.kind} of the Avro schema")


def _write_long(number: int, out: bytearray) -> None:
    number = (number << 1) ^ (number >> 63)
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def _whole(node: AvroNode, value: Any) -> int:
    """The number of an int or a long; a time in its unit."""
    bits = 31 if node.kind == "int" else 63
    if isinstance(value, Instant):
        logical = node.properties.get("logicalType")
        value = value.ms // DAY_MS if logical == "date" else value.ms
    if type(value) is not int or not -(1 << bits) <= value < 1 << bits:
        _refuse(node, value)
    number: int = value
    return number


def _write_raw(node: AvroNode, value: Any, out: bytearray) -> None:
    if isinstance(value, Decimal) and node.properties.get("logicalType") == "decimal":
        exponent, scale = value.as_tuple().exponent, node.properties.get("scale", 0)
        if exponent != -scale:
            raise DataException(f"The Avro schema has decimals of the scale {scale}; {value} has another")
        value = decimal_bytes(unscaled(value))
        if node.kind == "fixed" and len(value) <= node.size:
            value = int.from_bytes(value, "big", signed=True).to_bytes(node.size, "big", signed=True)
    if not isinstance(value, bytes) or (node.kind == "fixed" and len(value) != node.size):
        _refuse(node, value)
    if node.kind == "bytes":
        _write_long(len(value), out)
    out += value


def _write_text(value: Any, out: bytearray) -> None:
    if not isinstance(value, str):
        raise DataException(f"A value of class {java_class(value)} is no string of the Avro schema")
    try:
        content = value.encode()
    except UnicodeEncodeError as fault:
        raise DataException(f"text that Avro cannot hold: {fault}") from None
    _write_long(len(content), out)
    out += content


def _write_packed(node: AvroNode, packing: Packing, value: Any, out: bytearray) -> None:
    if not isinstance(value, float):
        _refuse(node, value)
    try:
        out += packing.pack(value)
    except (OverflowError, PackError):
        _refuse(node, value)


def _write_blocks(kind: type[dict[Any, Any]] | type[list[Any]], write: Write) -> Write:
    def blocks(value: Any, out: bytearray) -> None:
        if not isinstance(value, kind):
            raise DataException(f"A value of class {java_class(value)} is no array or map of the Avro schema")
        if value:
            _write_long(len(value), out)
            for item in value.items() if isinstance(value, dict) else value:
                write(item, out)
        out.append(0)

    return blocks


def _write_record(node: AvroNode) -> Write:
    members = [(each.name, writer(each.type)) for each in node.fields]
    names = frozenset(name for name, _ in members)

    def record(value: Any, out: bytearray) -> None:
        if type(value) is not Struct:
            _refuse(node, value)
        places = value.schema.places
        if not places.keys() <= names:
            strange = ", ".join(sorted(places.keys() - names))
            raise DataException(f"The Avro schema {node.name} has no field for {strange}")
        for name, write in members:
            write(value.get(name) if name in places else None, out)

    return record


def _write_union(node: AvroNode) -> Write:
    null = next((index for index, each in enumerate(node.branches) if each.kind == "null"), None)
    branches = [(index, each, writer(each)) for index, each in enumerate(node.branches) if each.kind != "null"]

    def union(value: Any, out: bytearray) -> None:
        if value is None:
            if null is None:
                raise DataException("A null in a field whose Avro schema does not allow it")
            _write_long(null, out)
            return
        index, each, write = branches[0]
        if len(branches) > 1:
            if type(value) is not Struct:
                _refuse(node, value)
            chosen = [branch for branch in branches if value.get(branch_name(branch[1])) is not None]
            if len(chosen) != 1:
                raise DataException(f"A union needs one branch that is not null; {len(chosen)} are")
            index, each, write = chosen[0]
            value = value.get(branch_name(each))
        _write_long(index, out)
        write(value, out)

    return union
