"""Entries of stores as records of changelog topics."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.streams import TEXT
from ottla.streams.changelog import from_record, to_record
from ottla.streams.stores import EntryKey, JoinStore, KeyValueStore, OrderedStore, SessionStore, Store, WindowStore

KEPT = KeyValueStore("s", TEXT, TEXT)
WINDOWS = WindowStore("s", TEXT, TEXT, 10, 100)
SESSIONS = SessionStore("s", TEXT, TEXT, 100)
JOINED = JoinStore("s", TEXT, TEXT, 100)
WAITING = OrderedStore("s", "text to text")


@pytest.mark.parametrize(
    ("store", "key", "entry"),
    [
        (KEPT, (b"k",), (b"v", 7)),
        (KEPT, (b"k",), (b"", 0)),
        (WINDOWS, (b"k", 20), (b"v", 27)),
        (SESSIONS, (b"k", 30, 20), b"v"),
        (JOINED, (b"k", 20), (b"v", b"", b"w")),
        (WAITING, (20, b"k"), b"record"),
    ],
)
def test_an_entry_and_its_deletion_come_back_from_the_changelog(store: Store, key: EntryKey, entry: Any) -> None:
    written = to_record(store, key, entry)
    assert written.timestamp is not None
    assert from_record(store, written.key, written.value, written.timestamp) == (key, entry)
    deleted = to_record(store, key, None)
    assert (deleted.key, deleted.value) == (written.key, None)
    assert from_record(store, deleted.key, None, 99) == (key, None)


def test_window_keys_are_laid_out_as_in_kafkas_changelogs() -> None:
    assert to_record(WINDOWS, (b"k", 20), (b"v", 27)) == (b"k" + (20).to_bytes(8, "big") + bytes(4), b"v", 27)
