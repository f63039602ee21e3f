"""Keys and values of MirrorMaker 2's own records: offset syncs, checkpoints, heartbeats. Pure.

Source: KIP-382; Apache Kafka's OffsetSync, Checkpoint, Heartbeat. An offset sync has no version, the others have 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct, error
from typing import Final, TypeVar

T = TypeVar("T")
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_SYNC: Final = Struct(">qq")
_CHECKPOINT: Final = Struct(">hqq")
_HEARTBEAT: Final = Struct(">hq")


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """The record at offset `upstream` of a source's partition is the one at `downstream` of its mirror."""

    topic: str
    partition: int
    upstream: int
    downstream: int

    def key(self) -> bytes:
        return _text(self.topic) + _INT32.pack(self.partition)

    def value(self) -> bytes:
        return _SYNC.pack(self.upstream, self.downstream)

    @classmethod
    def read(cls, key: bytes, value: bytes) -> OffsetSync:
        """ValueError for bytes that are no offset sync."""

        def parse() -> OffsetSync:
            topic, at = _read_text(key, 0)
            return cls(topic, *_INT32.unpack_from(key, at), *_SYNC.unpack(value))

        return _parsed(parse, "an offset sync")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A group's committed offset in a partition, at the source and translated; `topic` is the mirror's name."""

    group: str
    topic: str
    partition: int
    upstream: int
    downstream: int
    metadata: str = ""

    def key(self) -> bytes:
        return _text(self.group) + _text(self.topic) + _INT32.pack(self.partition)

    def value(self) -> bytes:
        return _CHECKPOINT.pack(0, self.upstream, self.downstream) + _text(self.metadata)

    @classmethod
    def read(cls, key: bytes, value: bytes) -> Checkpoint:
        """ValueError for bytes that are no checkpoint of version 0."""

        def parse() -> Checkpoint:
            group, at = _read_text(key, 0)
            topic, at = _read_text(key, at)
            (partition,) = _INT32.unpack_from(key, at)
            version, upstream, downstream = _CHECKPOINT.unpack_from(value)
            if version:
                raise ValueError(f"version {version}")
            return cls(group, topic, partition, upstream, downstream, _read_text(value, _CHECKPOINT.size)[0])

        return _parsed(parse, "a checkpoint")


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A mirror from `source` to `target` was alive at this time."""

    source: str
    target: str
    timestamp_ms: int

    def key(self) -> bytes:
        return _text(self.source) + _text(self.target)

    def value(self) -> bytes:
        return _HEARTBEAT.pack(0, self.timestamp_ms)

    @classmethod
    def read(cls, key: bytes, value: bytes) -> Heartbeat:
        """ValueError for bytes that are no heartbeat."""

        def parse() -> Heartbeat:
            source, at = _read_text(key, 0)
            return cls(source, _read_text(key, at)[0], _HEARTBEAT.unpack(value)[1])

        return _parsed(parse, "a heartbeat")


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _INT16.pack(len(encoded)) + encoded


def _read_text(buffer: bytes, at: int) -> tuple[str, int]:
    (length,) = _INT16.unpack_from(buffer, at)
    begin = at + _INT16.size
    if length < 0 or begin + length > len(buffer):
        raise ValueError(f"a text of {length} bytes at byte {at}")
    return buffer[begin : begin + length].decode(), begin + length


def _parsed(parse: Callable[[], T], kind: str) -> T:
    try:
        return parse()
    except (error, ValueError) as fault:
        raise ValueError(f"the record is not {kind}: {fault}") from None
