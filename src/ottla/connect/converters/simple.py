"""Converters of single primitive types: text, bytes, numbers, booleans; and the one of headers."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping
from struct import Struct as Packing
from typing import Any, ClassVar, Final

from ottla.connect import data
from ottla.connect.checks import understood
from ottla.connect.config_def import ConfigDef, Importance, Option, Width
from ottla.connect.config_def import Type as Kind
from ottla.connect.converters.common import CONVERTER_TYPE
from ottla.connect.data import Schema, Type, java_class
from ottla.connect.errors import DataException
from ottla.connect.java.text import float32, text
from ottla.connect.records import SchemaAndValue
from ottla.connect.values import parse_text, to_text


def _known_encoding(name: str) -> codecs.CodecInfo:
    try:
        return codecs.lookup(name)
    except LookupError:
        raise ValueError(f"the encoding {name} is not known") from None


class StringConverter:
    """Any value as text. Bytes are read as text without more ado."""

    OPTIONS = ConfigDef(
        CONVERTER_TYPE,
        Option("converter.encoding", Kind.STRING, "UTF-8", Importance.HIGH, "The encoding of the text.",
               understood(_known_encoding), width=Width.MEDIUM, display="Encoding"),
    )  # fmt: skip

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._encoding = codecs.lookup(self.OPTIONS.parse(given)["converter.encoding"]).name

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """The text of a value, in Java's words for all that is no text."""
        if value is None:
            return None
        return (value if isinstance(value, str) else text(value, schema)).encode(self._encoding, "replace")

    def to_connect(self, topic: str, content: bytes | None) -> SchemaAndValue:
        """The text; what is none in this encoding becomes U+FFFD, as in Kafka."""
        decoded = None if content is None else content.decode(self._encoding, "replace")
        return SchemaAndValue(data.OPTIONAL_STRING, decoded)


class ByteArrayConverter:
    """Bytes as they are."""

    OPTIONS = ConfigDef(CONVERTER_TYPE)
    SCHEMA: ClassVar[Schema] = Schema(Type.BYTES, optional=True)

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.OPTIONS.parse(given)

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """The bytes themselves."""
        if schema is not None and schema.type is not Type.BYTES:
            raise DataException(f"Invalid schema type for ByteArrayConverter: {schema.type.name}")
        if value is not None and not isinstance(value, bytes):
            raise DataException(f"ByteArrayConverter is not compatible with objects of type class {java_class(value)}")
        return value

    def to_connect(self, topic: str, content: bytes | None) -> SchemaAndValue:
        """The bytes themselves."""
        return SchemaAndValue(self.SCHEMA, content)


class NumberConverter:
    """Numbers of one type, in Kafka's bytes."""

    OPTIONS = ConfigDef(CONVERTER_TYPE)

    def __init__(self, name: str, kind: Type, packing: Packing, given: Mapping[str, Any]) -> None:
        self.OPTIONS.parse(given)
        self._name, self._packing = name, packing
        self._schema = Schema(kind, optional=True)

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """The bytes of a number of this type; others are refused."""
        if value is None:
            return None
        try:
            data.validate(self._schema, value)
        except DataException:
            given = java_class(value, schema)
            raise DataException(
                f"Failed to serialize to {self._name}: Can't convert value of class {given} to {self._name}"
            ) from None
        return self._packing.pack(value)

    def to_connect(self, topic: str, content: bytes | None) -> SchemaAndValue:
        """The number of so many bytes."""
        if content is None:
            return SchemaAndValue(self._schema, None)
        if len(content) != self._packing.size:
            raise DataException(
                f"Failed to deserialize {self._name}: Size of data received by {self._name}Deserializer is not "
                f"{self._packing.size}"
            )
        number = self._packing.unpack(content)[0]
        return SchemaAndValue(self._schema, float32(number) if self._schema.type is Type.FLOAT32 else number)


class BooleanConverter:
    """A boolean in one byte."""

    OPTIONS = ConfigDef(CONVERTER_TYPE)
    SCHEMA: ClassVar[Schema] = Schema(Type.BOOLEAN, optional=True)

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.OPTIONS.parse(given)

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """One byte, 1 or 0."""
        if schema is not None and schema.type is not Type.BOOLEAN:
            raise DataException(f"Invalid schema type for BooleanConverter: {schema.type.name}")
        if value is None:
            return None
        if not isinstance(value, bool):
            raise DataException(f"BooleanConverter is not compatible with objects of type class {java_class(value)}")
        return b"\x01" if value else b"\x00"

    def to_connect(self, topic: str, content: bytes | None) -> SchemaAndValue:
        """The boolean of one byte."""
        if content not in (None, b"\x00", b"\x01"):
            raise DataException(f"Failed to deserialize boolean: {len(content or b'')} bytes that are not one 0 or 1")
        return SchemaAndValue(self.SCHEMA, None if content is None else content == b"\x01")


class SimpleHeaderConverter:
    """Headers as text, from which numbers, times, arrays and maps are recognised again."""

    OPTIONS = ConfigDef()

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.OPTIONS.parse(given)

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """The text of a header's value."""
        written = to_text(value, schema)
        return None if written is None else written.encode("utf-8", "replace")

    def to_connect(self, topic: str, content: bytes | None) -> SchemaAndValue:
        """The value that the text stands for; bytes that are no text stay bytes."""
        if content is None:
            return SchemaAndValue(None, None)
        try:
            decoded = content.decode()
        except UnicodeDecodeError:
            return SchemaAndValue(data.BYTES, content)
        return SchemaAndValue(data.STRING, decoded) if not decoded else parse_text(decoded)


_NUMBERS: Final = {
    "Short": (Type.INT16, ">h"), "Integer": (Type.INT32, ">i"), "Long": (Type.INT64, ">q"),
    "Float": (Type.FLOAT32, ">f"), "Double": (Type.FLOAT64, ">d"),
}  # fmt: skip


def _number(name: str) -> Callable[[Mapping[str, Any]], NumberConverter]:
    kind, layout = _NUMBERS[name]
    return lambda given: NumberConverter(name, kind, Packing(layout), given)


NUMBERS: Final = {f"{name}Converter": _number(name) for name in _NUMBERS}
"""Makers of the converters of numbers, by class."""
