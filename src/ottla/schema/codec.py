"""Encoders and decoders, compiled per class and version at their first use and kept.

The only metaprogramming in the tree: `decoding.py` and `encoding.py` write the source, it is compiled here and
registered with `linecache`, so that a traceback shows its lines.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any, TypeVar, cast

from ottla.kernel.seams import Buffer
from ottla.schema.decoding import DecoderWriter
from ottla.schema.encoding import EncoderWriter
from ottla.schema.message import schema_of
from ottla.schema.varints import MalformedMessage

__all__ = ["MalformedMessage", "decode", "decoder", "encode", "encoder"]

M = TypeVar("M")

_decoders: dict[tuple[type, int], Callable[[memoryview, int], tuple[Any, int]]] = {}
_encoders: dict[tuple[type, int], Callable[[Any, bytearray], None]] = {}


def decoder(cls: type[M], version: int) -> Callable[[memoryview, int], tuple[M, int]]:
    """`decode(view, position)` for a message or a struct: the message, and the position of the byte after it.

    Raises MalformedMessage on anything that is wrong. No count is believed that the rest of the view cannot hold.
    Unknown tagged fields are skipped.
    """
    known = _decoders.get((cls, version))
    if known is None:
        known = _decoders[cls, version] = _compile("decode", DecoderWriter(cls, _checked(cls, version)))
    return known


def encoder(cls: type[M], version: int) -> Callable[[M, bytearray], None]:
    """`encode(message, out)` for a message or a struct: appends its bytes.

    Fields that the version lacks are left out. Raises MalformedMessage, with `out` as it was, for a value that the
    version cannot carry: null where it may not be, a number out of range, a string of more than 32,767 bytes.
    """
    known = _encoders.get((cls, version))
    if known is None:
        known = _encoders[cls, version] = _compile("encode", EncoderWriter(cls, _checked(cls, version)))
    return known


def encode(message: object, version: int) -> bytes:
    """The bytes of one message by itself."""
    out = bytearray()
    encoder(type(message), version)(message, out)
    return bytes(out)


def decode(cls: type[M], version: int, data: Buffer) -> M:
    """The message that the bytes hold; MalformedMessage where bytes are left over."""
    message, position = decoder(cls, version)(memoryview(data), 0)
    if position != len(data):
        raise MalformedMessage(f"{cls.__name__} v{version}: {len(data) - position} bytes too many")
    return message


def _checked(cls: type, version: int) -> int:
    """The version; ValueError where the message has no such version."""
    versions = schema_of(cls).versions
    if versions is None or not versions[0] <= version <= versions[1]:
        raise ValueError(f"{cls.__name__} has no version {version}")
    return version


def _compile(name: str, writer: DecoderWriter | EncoderWriter) -> Callable[..., Any]:
    source = writer.write()
    filename = f"<ottla {name} {writer.title}>"
    exec(compile(source, filename, "exec"), writer.names)
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    return cast("Callable[..., Any]", writer.names[name])
