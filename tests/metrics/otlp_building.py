"""Metrics of OTLP, written by hand."""

from __future__ import annotations

import struct


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def part(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def pair(number: int, key: str, value: bytes) -> bytes:
    return part(number, part(1, key.encode()) + part(2, value))


def gauge(name: str, value: float, *pairs: bytes) -> bytes:
    point = b"".join(pairs) + varint(4 << 3 | 1) + struct.pack("<d", value)
    return part(2, part(1, name.encode()) + part(5, part(1, point)))


def sums(name: str, value: int, *, temporality: int, monotonic: bool = True) -> bytes:
    point = varint(6 << 3 | 1) + struct.pack("<q", value)
    held = part(1, point) + varint(2 << 3) + varint(temporality) + varint(3 << 3) + varint(monotonic)
    return part(2, part(1, name.encode()) + part(7, held))


def pushed(*metrics: bytes, resource: bytes = b"") -> memoryview:
    return memoryview(part(1, part(1, resource) + part(2, b"".join(metrics))))
