"""The types of the Kafka protocol, as fields of messages name them.

Whether a string or an array is written in the compact form follows from the version, so it is not a part of the type.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from ottla.kernel.seams import Buffer

T = TypeVar("T")


class Type(Generic[T]):
    """The values of a field; `name` is Kafka's name for the type, `default` what an unset field holds."""

    __slots__ = ("default", "name")

    def __init__(self, name: str, default: T | None) -> None:
        self.name = name
        self.default = default

    def __repr__(self) -> str:
        return self.name


class Fixed(Type[T]):
    """A type of always the same size; `code` is its letter for `struct`."""

    __slots__ = ("code", "size")

    def __init__(self, name: str, code: str, size: int, default: T) -> None:
        super().__init__(name, default)
        self.code = code
        self.size = size


class Text(Type[str]):
    """UTF-8 behind a length of two bytes (or a varint)."""

    __slots__ = ()


class Blob(Type[T]):
    """Bytes behind a length of four bytes (or a varint); `as_view` ones are handed out without a copy."""

    __slots__ = ("as_view",)

    def __init__(self, name: str, default: T | None, *, as_view: bool) -> None:
        super().__init__(name, default)
        self.as_view = as_view


class Array(Type[list[T]]):
    """A count and as many elements: `Array(Int32)`, `Array(TopicProduceData)`."""

    __slots__ = ("element",)

    def __init__(self, element: Type[T] | type[T]) -> None:
        self.name = "[]" + (element.name if isinstance(element, Type) else element.__name__)
        self.default = None
        self.element = element


Bool = Fixed("bool", "?", 1, False)
Int8 = Fixed("int8", "b", 1, 0)
Int16 = Fixed("int16", "h", 2, 0)
Uint16 = Fixed("uint16", "H", 2, 0)
Int32 = Fixed("int32", "i", 4, 0)
Uint32 = Fixed("uint32", "I", 4, 0)
Int64 = Fixed("int64", "q", 8, 0)
Float64 = Fixed("float64", "d", 8, 0.0)
Uuid = Fixed("uuid", "16s", 16, bytes(16))
"""16 raw bytes; sixteen zeros stand for none."""
String = Text("string", "")
Bytes = Blob("bytes", b"", as_view=False)
Records: Blob[Buffer] = Blob("records", None, as_view=True)
"""A memoryview into the frame after decoding, any buffer for encoding."""
