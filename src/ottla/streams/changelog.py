"""Changed entries of stores as records of a changelog topic, and back; keys and values of rows are laid out as Kafka's.

Pure. Entries that hold the user's objects have no such form: `unsupported` names their stores.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from ottla.streams.serdes import LONG, TWO_LONGS
from ottla.streams.stores import EntryKey, JoinStore, KeyValueStore, OrderedStore, SessionStore, Store

SEQUENCE = b"\0\0\0\0"
"""Kafka's number among rows of one window's key; there is one row each."""
_LENGTH = struct.Struct(">i")


class ChangelogRecord(NamedTuple):
    """Key, value and timestamp of a record. A value of None deletes the entry; the caller gives it a timestamp."""

    key: bytes
    value: bytes | None
    timestamp: int | None


def unsupported(store: Store) -> bool:
    """True for a store whose entries cannot be written to a topic."""
    return isinstance(store, OrderedStore)


def to_record(store: Store, key: EntryKey, entry: Any) -> ChangelogRecord:
    """The record of a changed entry."""
    if isinstance(store, KeyValueStore):
        return ChangelogRecord(key[0], *(entry or (None, None)))
    if isinstance(store, SessionStore):
        data, end, start = key
        return ChangelogRecord(data + TWO_LONGS.pack(end, start), entry, None if entry is None else end)
    data, start = key
    written = data + LONG.pack(start) + SEQUENCE
    if isinstance(store, JoinStore):
        values = None if entry is None else b"".join(_LENGTH.pack(len(value)) + value for value in entry)
        return ChangelogRecord(written, values, None if entry is None else start)
    return ChangelogRecord(written, *(entry or (None, None)))


def from_record(store: Store, key: bytes, value: bytes | None, timestamp: int) -> tuple[EntryKey, Any]:
    """The entry of a record."""
    if isinstance(store, KeyValueStore):
        return (key,), None if value is None else (value, timestamp)
    if isinstance(store, SessionStore):
        return (key[:-16], *TWO_LONGS.unpack(key[-16:])), value
    start = LONG.unpack(key[-12:-4])[0]
    if value is None:
        return (key[:-12], start), None
    return (key[:-12], start), tuple(_values(value)) if isinstance(store, JoinStore) else (value, timestamp)


def _values(data: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        found.append(data[at + 4 : at + 4 + length])
        at += 4 + length
    return found
