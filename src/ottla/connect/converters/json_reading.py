"""Values of JSON as JsonConverter reads it: one function for each schema, made once."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from ottla.connect.converters.json_schema import INSTANTS, scale_of
from ottla.connect.data import BITS, DATE, DAY_MS, DECIMAL, TIME, Instant, Schema, Struct, Type
from ottla.connect.errors import DataException
from ottla.connect.java.text import float32, scaled, wrapped

Read = Callable[[Any], Any]
"""Makes the value that plain JSON stands for."""

MOST_NESTED: Final = 200
"""Deeper JSON is refused when it is read: every step on its way would need as many calls."""
FAILED: Final = "Converting byte[] to Kafka Connect data failed due to serialization error: "
_NODES: Final = {
    type(None): "NULL", bool: "BOOLEAN", int: "NUMBER", float: "NUMBER", Decimal: "NUMBER", str: "STRING",
    list: "ARRAY", dict: "OBJECT",
}  # fmt: skip


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


_DECODER: Final = json.JSONDecoder(parse_float=Decimal, parse_constant=_no_constant)


def loaded(content: bytes) -> Any:
    """Plain JSON: numbers with a point or an exponent are decimals."""
    try:
        return _DECODER.decode(content.decode(json.detect_encoding(content), "surrogatepass"))
    except (ValueError, RecursionError) as fault:
        raise DataException(FAILED + str(fault)) from None


_START: Final = re.compile(rb'[ \t\r\n]*{[ \t\r\n]*"schema"[ \t\r\n]*:[ \t\r\n]*')
_BEHIND: Final = re.compile(r'[ \t\r\n]*,[ \t\r\n]*"payload"[ \t\r\n]*:[ \t\r\n]*')


class EnvelopeHeads:
    """The schemas that came beside the last value of each topic.

    Most values of a topic begin with the same bytes, `{"schema":…,"payload":`, of which only the first is read.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._heads: dict[str, tuple[bytes, Schema | None]] = {}

    def opened(self, topic: str, content: bytes) -> tuple[Schema | None, Any] | None:
        """The schema and the plain payload of a value that begins as the topic's last one did."""
        head, schema = self._heads.get(topic, (b"", None))
        if not head or not content.startswith(head) or not content.endswith(b"}"):
            return None
        try:
            return schema, _DECODER.decode(content[len(head) : -1].decode("utf-8", "surrogatepass"))
        except (ValueError, RecursionError):
            return None  # more than a payload, or none: whoever reads all of it says what is wrong

    def note(self, topic: str, content: bytes, schema: Schema | None) -> None:
        """Remember how a value began whose envelope had this schema."""
        start = _START.match(content)
        if start is None:
            return
        text = content.decode("utf-8", "surrogatepass")
        _, end = _DECODER.raw_decode(text, start.end())
        behind = _BEHIND.match(text, end)
        if behind is None:
            return
        if topic not in self._heads and len(self._heads) >= self._most:
            self._heads.clear()
        self._heads[topic] = text[: behind.end()].encode("utf-8", "surrogatepass"), schema
        if self.opened(topic, content) is None:  # another schema may follow
            del self._heads[topic]


def reader(schema: Schema | None, *, fill: bool) -> Read:
    """Reads the values of a schema. `fill`: a null is read as its field's default."""
    if schema is None:
        return _schemaless
    read, default = _present(schema, fill=fill), schema.default if fill else None
    if default is not None or schema.optional:
        return lambda node: read(node) if node is not None else default

    def required(node: Any) -> Any:
        if node is None:
            raise DataException(f"Invalid null value for required {schema.type.name} field")
        return read(node)

    return required


def _present(schema: Schema, *, fill: bool) -> Read:
    """Reads the values of a schema that are not null."""
    if schema.name == DECIMAL:
        return lambda node: _decimal(schema, node)
    if schema.name in INSTANTS:
        return _instant(schema)
    match schema.type:
        case Type.ARRAY:
            item = reader(schema.value, fill=fill)
            return lambda node: [item(each) for each in node] if isinstance(node, list) else []
        case Type.MAP:
            return _map(schema, fill=fill)
        case Type.STRUCT:
            return _struct(schema, fill=fill)
    return _READERS[schema.type]


def _struct(schema: Schema, *, fill: bool) -> Read:
    members = [(each.name, reader(each.schema, fill=fill)) for each in schema.members]

    def read(node: Any) -> Struct:
        if not isinstance(node, dict):
            raise DataException(f"Structs should be encoded as JSON objects, but found {_NODES[type(node)]}")
        get = node.get
        return Struct(schema, [of(get(name)) for name, of in members])

    return read


def _map(schema: Schema, *, fill: bool) -> Read:
    key, value = reader(schema.key, fill=fill), reader(schema.value, fill=fill)

    def of_object(node: Any) -> dict[Any, Any]:
        if not isinstance(node, dict):
            found = _NODES[type(node)]
            raise DataException(f"Maps with string fields should be encoded as JSON objects, but found {found}")
        return {name: value(item) for name, item in node.items()}

    def of_pairs(node: Any) -> dict[Any, Any]:
        if not isinstance(node, list):
            found = _NODES[type(node)]
            raise DataException(
                f"Maps with non-string fields should be encoded as JSON array of tuples, but found {found}"
            )
        for entry in node:
            if not isinstance(entry, list):
                raise DataException(f"Found invalid map entry instead of array tuple: {_NODES[type(entry)]}")
            if len(entry) != 2:
                raise DataException(f"Found invalid map entry, expected length 2 but found :{len(entry)}")
        return {key(one): value(item) for one, item in node}

    return of_object if schema.key is not None and schema.key.type is Type.STRING else of_pairs


def _schemaless(node: Any, depth: int = 0) -> Any:
    """JSON as it is: whole numbers are Java's Long, all others Double."""
    if depth > MOST_NESTED:
        raise DataException(f"{FAILED}arrays and objects are nested more than {MOST_NESTED} deep")
    match node:
        case bool() | str() | None:
            return node
        case int():
            return wrapped(node, 64)
        case Decimal() | float():
            return float(node)
        case list():
            return [_schemaless(item, depth + 1) for item in node]
    return {key: _schemaless(item, depth + 1) for key, item in node.items()}


def _whole(bits: int) -> Read:
    """Reads a number as Jackson does: anything else counts as zero there, and is refused here."""

    low, high = -(1 << bits - 1), 1 << bits - 1

    def read(node: Any) -> int:
        if type(node) is int and low <= node < high:
            return node
        if isinstance(node, bool) or not isinstance(node, int | Decimal | float):
            raise DataException(f"Expected a number, but found {_NODES[type(node)]}")
        return wrapped(int(node), bits)

    return read


def _float(node: Any) -> float:
    if type(node) is Decimal:
        return float(node)
    if node in ("NaN", "Infinity", "-Infinity"):
        return float(node)
    if isinstance(node, bool) or not isinstance(node, int | Decimal | float):
        raise DataException(f"Expected a number, but found {_NODES[type(node)]}")
    return float(node)


def _exactly(kind: type, noun: str) -> Read:
    def read(node: Any) -> Any:
        if type(node) is not kind:
            raise DataException(f"Expected {noun}, but found {_NODES[type(node)]}")
        return node

    return read


def _bytes(node: Any) -> bytes:
    try:
        return base64.b64decode(_exactly(str, "bytes in base64")(node), validate=True)
    except binascii.Error:
        raise DataException("Invalid bytes field") from None


_READERS: Final[dict[Type, Read]] = {
    **{kind: _whole(bits) for kind, bits in BITS.items()},
    Type.FLOAT32: lambda node: float32(_float(node)),
    Type.FLOAT64: _float,
    Type.BOOLEAN: _exactly(bool, "a boolean"),
    Type.STRING: _exactly(str, "text"),
    Type.BYTES: _bytes,
}


def _instant(schema: Schema) -> Read:
    whole = _READERS[schema.type]

    def read(node: Any) -> Instant:
        number = whole(node)
        if schema.name == TIME and not 0 <= number <= DAY_MS:
            raise DataException("Time values must use number of milliseconds greater than 0 and less than 86400000")
        return Instant(number * DAY_MS if schema.name == DATE else number)

    return read


def _decimal(schema: Schema, node: Any) -> Decimal:
    """A decimal from a number as it is written, or from base64."""
    if isinstance(node, int | Decimal) and not isinstance(node, bool):
        return Decimal(node)
    if isinstance(node, float):
        return Decimal(repr(node))
    if not isinstance(node, str):
        of = _NODES[type(node)]
        raise DataException(
            f"Invalid type for Decimal, underlying representation should be numeric or bytes but was {of}"
        )
    return scaled(int.from_bytes(_bytes(node), "big", signed=True), scale_of(schema))
