"""Unsigned varints and unknown tagged fields: the parts of the wire format that need a loop."""

from __future__ import annotations

MOST_ELEMENTS = 25_000
"""The most elements of one request, all its arrays together: its decoding and its handler are one turn of the loop."""

MOST_TAGS = 1000
"""More tagged fields in one struct than this are taken for an attack."""


class MalformedMessage(ValueError):
    """Bytes that are not the message they claim to be, or a message that cannot be put into bytes."""


def read_varint(view: memoryview, position: int) -> tuple[int, int]:
    """An unsigned varint of at most five bytes and 32 bits, and the position after it; IndexError at the end."""
    byte = view[position]
    if byte < 0x80:
        return byte, position + 1
    value = byte & 0x7F
    for shift in (7, 14, 21, 28):
        position += 1
        byte = view[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, position + 1
    raise MalformedMessage("a varint is longer than 32 bits")


def put_varint(out: bytearray, value: int) -> None:
    """Append an unsigned varint."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def skip_tags(view: memoryview, position: int) -> int:
    """The position after a block of tagged fields of which none is known. Their tags ascend (KIP-482)."""
    count, position = read_varint(view, position)
    if count > MOST_TAGS:
        raise MalformedMessage(f"{count} tagged fields")
    limit, last = len(view), -1
    for _ in range(count):
        tag, position = read_varint(view, position)
        if tag <= last:
            raise MalformedMessage(f"tagged field {tag} comes after {last}")
        last = tag
        size, position = read_varint(view, position)
        position += size
        if position > limit:
            raise MalformedMessage("a tagged field runs past the end")
    return position
