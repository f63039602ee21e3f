"""Changed entries of stores as records of a changelog topic, and back; keys and values of rows are laid out as Kafka's.

Pure.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ottla.streams.serdes import LONG, TWO_LONGS, joined, parted
from ottla.streams.stores import EntryKey, JoinStore, KeyValueStore, OrderedStore, SessionStore, Store

SEQUENCE = b"\0\0\0\0"
"""Kafka's number among rows of one window's key; there is one row each."""


class ChangelogRecord(NamedTuple):
    """Key, value and timestamp of a record. A value of None deletes the entry; the caller gives it a timestamp."""

    key: bytes
    value: bytes | None
    timestamp: int | None


def to_record(store: Store, key: EntryKey, entry: Any) -> ChangelogRecord:
    """The record of a changed entry."""
    if isinstance(store, KeyValueStore):
        return ChangelogRecord(key[0], *(entry or (None, None)))
    if isinstance(store, SessionStore):
        data, end, start = key
        return ChangelogRecord(data + TWO_LONGS.pack(end, start), entry, None if entry is None else end)
    if isinstance(store, OrderedStore):
        time, data = key
        return ChangelogRecord(LONG.pack(time) + data, entry, None if entry is None else time)
    data, start = key
    written = data + LONG.pack(start) + SEQUENCE
    if isinstance(store, JoinStore):
        return ChangelogRecord(written, None if entry is None else joined(entry), None if entry is None else start)
    return ChangelogRecord(written, *(entry or (None, None)))


def from_record(store: Store, key: bytes, value: bytes | None, timestamp: int) -> tuple[EntryKey, Any]:
    """The entry of a record."""
    if isinstance(store, KeyValueStore):
        return (key,), None if value is None else (value, timestamp)
    if isinstance(store, SessionStore):
        return (key[:-16], *TWO_LONGS.unpack(key[-16:])), value
    if isinstance(store, OrderedStore):
        return (LONG.unpack(key[:8])[0], key[8:]), value
    start = LONG.unpack(key[-12:-4])[0]
    if value is None:
        return (key[:-12], start), None
    return (key[:-12], start), parted(value) if isinstance(store, JoinStore) else (value, timestamp)
