"""Stores on disk do what stores in memory do, call by call, and say what to do where the disk fails."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.streams import TEXT, TopologyError
from ottla.streams.stores import (
    JoinStore,
    KeyValueStore,
    OrderedStore,
    SessionStore,
    Store,
    VersionedStore,
    WindowStore,
)
from ottla.streams.stores.disk import StoreDatabase, database
from ottla.streams.stores.memory import FRESH, SortedKeys
from ottla.streams.values import Windowed

KEYS = st.sampled_from(["", "a", "ab", "abc", "b"])
TIMES = st.integers(0, 40)
VALUES = st.sampled_from(["", "1", "22"])
MAYBE = VALUES | st.none()
SPANS = st.tuples(TIMES, TIMES).map(sorted)
RECENT_ROWS = 3
"""So few rows are kept in memory that most calls meet the table."""


def calls(**named: st.SearchStrategy[tuple[Any, ...]]) -> st.SearchStrategy[list[tuple[str, tuple[Any, ...]]]]:
    """Lists of calls: a method's name and its arguments."""
    return st.lists(st.one_of(*(st.tuples(st.just(name), arguments) for name, arguments in named.items())), max_size=30)


def said(store: Any, name: str, arguments: tuple[Any, ...]) -> Any:
    """The answer of a call, and the records that the store has left out."""
    answer = getattr(store, name)(*arguments)
    return list(answer) if hasattr(answer, "__next__") else answer, getattr(store, "expired", 0)


def check_alike(make: Callable[[], Store], wanted: list[tuple[str, tuple[Any, ...]]]) -> None:
    memory, disk = make(), make()
    disk.keep_in(StoreDatabase(recent_rows=RECENT_ROWS))
    for name, arguments in wanted:
        assert said(disk, name, arguments) == said(memory, name, arguments), name
    assert list(disk.changes.take().items()) == list(memory.changes.take().items())
    assert sorted(disk.entries()) == sorted(memory.entries())
    assert len(disk) == len(memory)
    again = make()
    again.keep_in(StoreDatabase(recent_rows=RECENT_ROWS))
    for key, entry in disk.entries():
        again.restore(key, entry)
    assert sorted(again.entries()) == sorted(memory.entries())


@settings(max_examples=50)
@given(
    calls(
        get=st.tuples(KEYS), put=st.tuples(KEYS, MAYBE, TIMES), range=st.tuples(KEYS | st.none(), KEYS | st.none()),
        prefix=st.tuples(KEYS.map(str.encode)), all=st.just(()), __len__=st.just(()),
    )
)  # fmt: skip
def test_values_by_key_are_alike_in_memory_and_on_disk(wanted: list[Any]) -> None:
    check_alike(lambda: KeyValueStore("s", TEXT, TEXT), wanted)


@settings(max_examples=50)
@given(
    calls(
        fetch=st.tuples(KEYS, TIMES), put=st.tuples(KEYS, MAYBE, TIMES, TIMES), all=st.just(()),
        within=st.tuples(KEYS, SPANS).map(lambda one: (one[0], *one[1])), all_within=SPANS.map(tuple),
    )
)  # fmt: skip
def test_windows_are_alike_in_memory_and_on_disk(wanted: list[Any]) -> None:
    check_alike(lambda: WindowStore("s", TEXT, TEXT, 5, 12), wanted)


@settings(max_examples=50)
@given(calls(add=st.tuples(KEYS, MAYBE, TIMES), within=st.tuples(KEYS, SPANS).map(lambda one: (one[0], *one[1]))))
def test_records_of_joins_are_alike_in_memory_and_on_disk(wanted: list[Any]) -> None:
    check_alike(lambda: JoinStore("s", TEXT, TEXT, 12), wanted)


SESSIONS = st.tuples(KEYS, SPANS).map(lambda one: Windowed(one[0], *one[1]))


@settings(max_examples=50)
@given(
    calls(
        find=st.tuples(KEYS, TIMES, TIMES), get=st.tuples(SESSIONS), put=st.tuples(SESSIONS, MAYBE),
        ended_within=SPANS.map(tuple), all=st.just(()),
    )
)  # fmt: skip
def test_sessions_are_alike_in_memory_and_on_disk(wanted: list[Any]) -> None:
    check_alike(lambda: SessionStore("s", TEXT, TEXT, 12), wanted)


@settings(max_examples=50)
@given(
    calls(
        get=st.tuples(KEYS, TIMES | st.none()), put=st.tuples(KEYS, MAYBE, TIMES),
        prefix=st.tuples(KEYS.map(str.encode)), range=st.tuples(KEYS | st.none(), KEYS | st.none()),
    )
)  # fmt: skip
def test_versions_are_alike_in_memory_and_on_disk(wanted: list[Any]) -> None:
    check_alike(lambda: VersionedStore("s", TEXT, TEXT, 12), wanted)


BYTES = KEYS.map(str.encode)


@settings(max_examples=50)
@given(
    calls(
        put=st.tuples(TIMES, BYTES, VALUES.map(str.encode)), get=st.tuples(BYTES), remove=st.tuples(BYTES),
        oldest=st.just(()), in_order=st.just(()),
    )
)  # fmt: skip
def test_rows_that_wait_are_alike_in_memory_and_on_disk(wanted: list[Any]) -> None:
    check_alike(lambda: OrderedStore("s", "text to text"), wanted)


@pytest.mark.parametrize("on_disk", [False, True])
def test_the_row_that_a_walk_gave_last_may_be_removed(on_disk: bool) -> None:
    store = OrderedStore("s", "text to text")
    if on_disk:
        store.keep_in(StoreDatabase(recent_rows=RECENT_ROWS))
    for number in range(1_000):
        store.put(number // 3, b"%d" % number, b"")
    seen = []
    for time, key, _ in store.in_order():
        seen.append(time)
        if time % 2:
            store.remove(key)
    assert seen == [number // 3 for number in range(1_000)]
    assert {time for time, _, _ in store.in_order()} == set(range(0, 334, 2))


def test_large_values_do_not_stay_in_memory() -> None:
    store = KeyValueStore("s", TEXT, TEXT)
    store.keep_in(StoreDatabase())
    tracemalloc.start()
    try:
        for number in range(60):
            store.put(str(number), "x" * 1_000_000, 0)
            store.changes.take()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 30_000_000
    assert [stamped and len(stamped.value) for stamped in map(store.get, ("0", "59"))] == [1_000_000] * 2


def files_without_names() -> set[str]:
    """The files that SQLite has open and has deleted."""
    opened = map(os.path.realpath, Path("/proc/self/fd").iterdir())
    return {name for name in opened if "etilqs" in name and name.endswith(" (deleted)")}


def test_rows_go_to_a_file_that_ends_with_the_process() -> None:
    before = files_without_names()
    kept = StoreDatabase(recent_rows=RECENT_ROWS)
    kept.run("PRAGMA cache_size = 10")
    store = KeyValueStore("s", TEXT, TEXT)
    store.keep_in(kept)
    for number in range(1_000):
        store.put(str(number), "x" * 1_000, 0)
    assert len(files_without_names() - before) == 1
    kept.close()


def test_a_disk_that_fails_is_said_with_the_place_of_the_stores() -> None:
    kept = StoreDatabase()
    store = KeyValueStore("s", TEXT, TEXT)
    store.keep_in(kept)
    kept.run("PRAGMA max_page_count = 8")
    with pytest.raises(TopologyError, match=r"database or disk is full.*SQLITE_TMPDIR"):
        for number in range(10_000):
            store.put(str(number), "x" * 100, 0)
            if number % 100 == 0:
                len(store)


def test_a_place_for_stores_that_is_not_known_is_refused() -> None:
    assert database("memory") is None
    with pytest.raises(TopologyError, match=r"stores='disc' is not known; did you mean disk"):
        database("disc")


def test_sorted_keys_take_in_keys_that_come_and_leave_out_keys_that_go() -> None:
    rows: dict[bytes, int] = {}
    keys = SortedKeys(rows)
    for number in range(2 * FRESH + 10):
        key = b"%06d" % (number * 7919 % 10_000)
        rows[key] = number
        keys.add(key)
    del rows[b"000000"]
    assert keys.between(None, None) == sorted(rows)
    assert keys.between(b"001000", b"001999") == [key for key in sorted(rows) if key[:3] == b"001"]
