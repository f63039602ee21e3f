"""Questions to stores: what each kind can be asked, and what the answers are."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from ottla.streams import (
    INT64,
    TEXT,
    JoinWindows,
    SessionWindows,
    StreamsBuilder,
    TimeWindows,
    Topology,
    TopologyError,
    TopologyTest,
    Windowed,
)
from ottla.streams.queries import Age, Query, Row, answer, checked, found, key_of, plain
from ottla.streams.served import query_of


def counts() -> Topology:
    builder = StreamsBuilder(value=TEXT)
    grouped = builder.stream("a").group_by_key()
    grouped.count(store="all")
    grouped.windowed_by(TimeWindows(10, grace_ms=100)).count(store="windows")
    grouped.windowed_by(SessionWindows(5, grace_ms=100)).count(store="sessions")
    return builder.build()


def asked(store: str, query: Query) -> list[tuple[Any, Any]]:
    test = TopologyTest(counts())
    for key, time in (("kim", 1), ("kit", 2), ("kim", 14), ("lee", 30), ("kim", 16)):
        test.pipe_input("a", key, "x", time)
    rows, more = found([test.store(store)], query)
    assert not more
    return [(row.key, row.value) for row in rows]


def test_keys_are_asked_alone_by_range_and_by_prefix() -> None:
    assert asked("all", Query(key="kim")) == [("kim", 3)]
    assert asked("all", Query(key="nobody")) == []
    assert asked("all", Query(first="kit")) == [("kit", 1), ("lee", 1)]
    assert asked("all", Query(first="kim", last="kit")) == [("kim", 3), ("kit", 1)]
    assert asked("all", Query(prefix="ki")) == [("kim", 3), ("kit", 1)]


def test_windows_are_asked_by_key_and_by_time() -> None:
    assert asked("windows", Query(key="kim")) == [(Windowed("kim", 0, 10), 1), (Windowed("kim", 10, 20), 2)]
    assert asked("windows", Query(since_ms=10)) == [(Windowed("kim", 10, 20), 2), (Windowed("lee", 30, 40), 1)]
    assert asked("windows", Query(key="kim", until_ms=9)) == [(Windowed("kim", 0, 10), 1)]


def test_sessions_are_asked_by_key_and_by_time() -> None:
    assert asked("sessions", Query(key="kim")) == [(Windowed("kim", 1, 1), 1), (Windowed("kim", 14, 16), 2)]
    assert asked("sessions", Query(since_ms=15, until_ms=20)) == [(Windowed("kim", 14, 16), 2)]


def test_an_answer_says_that_there_is_more_which_partitions_were_asked_and_how_old_it_is() -> None:
    test = TopologyTest(counts())
    for key in "abc":
        test.pipe_input("a", key, "x", 1)
    given = answer("all", [(1, test.store("all"))], Query(limit=2), 3, Age(7, 99))
    assert (given.rows, given.more) == ((Row("a", 1, 1), Row("b", 1, 1)), True)
    assert given.plain() == {
        "store": "all",
        "rows": [{"key": "a", "value": 1, "timestamp": 1}, {"key": "b", "value": 1, "timestamp": 1}],
        "more": True, "partitions": [1], "of": 3, "age": {"lag": 7, "as_of_ms": 99},
    }  # fmt: skip
    session = answer("sessions", [(0, test.store("sessions"))], Query(key="a"), 1, Age(0, 0))
    assert session.plain()["rows"] == [{"key": "a", "window": {"start": 1, "end": 1}, "value": 1, "timestamp": 1}]


@pytest.mark.parametrize(
    ("store", "query", "says"),
    [
        ("all", Query(since_ms=1), "has no windows"),
        ("windows", Query(prefix="a"), "has windows"),
        ("sessions", Query(first="a"), "has windows"),
        ("all", Query(key="a", prefix="a"), "exclude each other"),
        ("all", Query(limit=0), "the least is 1"),
    ],
)
def test_a_question_that_a_store_cannot_answer_is_refused(store: str, query: Query, says: str) -> None:
    with pytest.raises(TopologyError, match=says):
        asked(store, query)


def test_a_store_that_there_is_not_and_one_without_rows_are_refused_by_name() -> None:
    with pytest.raises(TopologyError, match="no store windos; did you mean windows"):
        checked(counts(), "windos")
    builder = StreamsBuilder()
    one, two = builder.stream("a"), builder.stream("b")
    one.join(two, lambda a, b: [a, b], windows=JoinWindows.of(5), store="both").to("c")
    with pytest.raises(TopologyError, match="wait in a join"):
        checked(builder.build(), "both-this-join-store")


def test_keys_and_times_are_read_from_text_by_the_store_s_serde() -> None:
    builder = StreamsBuilder(key=INT64, value=TEXT)
    builder.stream("a").group_by_key().windowed_by(TimeWindows(10)).count(store="windows")
    store = checked(builder.build(), "windows")
    assert query_of(store, {"key": "7", "since": "1970-01-01T00:00:01Z", "until": "2000", "limit": "5"}) == Query(
        key=7, since_ms=1000, until_ms=2000, limit=5
    )
    with pytest.raises(TopologyError, match="'seven' is not a key of the serde int64"):
        key_of(INT64, "seven")
    with pytest.raises(TopologyError, match="is not a key of the serde int64"):
        key_of(INT64, "7.5")
    with pytest.raises(TopologyError, match="write -1h for so long ago"):
        query_of(store, {"since": "1h"})


def test_values_that_json_lacks_are_shown_as_text() -> None:
    assert plain({"b": b"ok", "x": b"\xff\x00", "d": date(2026, 1, 2), "l": (1, [None])}) == {
        "b": "ok", "x": "ff00", "d": "2026-01-02", "l": [1, [None]],
    }  # fmt: skip
