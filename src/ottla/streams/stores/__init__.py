"""Stores: the state of a task, with the list of entries that changed; in memory, or on disk where it is larger."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ottla.streams.stores.kept import Changes, Entry, EntryKey, RowMaker
from ottla.streams.stores.keyed import DELETED, PRESENT, KeyValueStore, VersionedStore
from ottla.streams.stores.timed import JoinStore, SessionStore, WindowStore
from ottla.streams.stores.waiting import OrderedStore

Store = KeyValueStore | WindowStore | JoinStore | SessionStore | OrderedStore | VersionedStore
StoreMaker = Callable[[], Store]
AnyStore = TypeVar("AnyStore", bound=Store)

__all__ = [
    "DELETED", "PRESENT", "AnyStore", "Changes", "Entry", "EntryKey", "JoinStore", "KeyValueStore", "OrderedStore",
    "RowMaker", "SessionStore", "Store", "StoreMaker", "VersionedStore", "WindowStore",
]  # fmt: skip
