"""Topologies give what Kafka's own TopologyTestDriver gives: the same text, and the same records in the same order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.streams.campaign.at_random import differences
from tests.streams.differences import MEASURED, Measured, different
from tests.streams.oracle import MISSING, Oracle, Refused, Row
from tests.streams.programs import Program
from tests.streams.topologies import TOPOLOGIES, built, pair, plus, read_by

from ottla.streams import TEXT, StreamsBuilder, Topology, TopologyError, TopologyTest

pytestmark = pytest.mark.skipif(MISSING, reason="Apache Kafka's jars are not here: those of Streams")


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    """Kafka's test driver."""
    started = Oracle(tmp_path_factory.mktemp("oracle"))
    yield started
    started.close()


ROWS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from(["k", "j", "k", None]),
        st.sampled_from(["1", "2", "12", "3", None]),
        st.integers(0, 60) | st.integers(0, 12),
    ),
    max_size=25,
)


FAILS_WITHOUT_KEY = ("grace_left", "grace_named")
"""Left joins with grace: Kafka 4.3.1 ends at a record of the stream without a key."""


def ours(name: str, rows: list[Row]) -> list[list[Any]]:
    """The records that our engine writes for the same input."""
    return written(built(name), rows)


def written(topology: Topology, rows: Sequence[Row]) -> list[list[Any]]:
    """The records that a topology writes to `out`."""
    test = TopologyTest(topology)
    for row in rows:
        test.pipe_input(*row)
    return [[record.key, record.value, record.timestamp] for record in test.read_outputs("out")]


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_a_topology_is_described_as_kafka_describes_it(oracle: Oracle, name: str) -> None:
    assert built(name).describe() == oracle.ask(name, [])["describe"]


@pytest.mark.parametrize("name", TOPOLOGIES)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS)
def test_a_topology_writes_what_kafkas_driver_writes(oracle: Oracle, name: str, rows: list[Row]) -> None:
    topics = read_by(built(name))
    rows = [row for row in rows if row[0] in topics and not (name in FAILS_WITHOUT_KEY and row[1] is None)]
    assert ours(name, rows) == oracle.ask(name, rows)["outputs"]


@pytest.mark.parametrize("name", FAILS_WITHOUT_KEY)
def test_a_record_without_a_key_is_joined_with_nothing_where_kafkas_join_with_grace_fails(
    oracle: Oracle, name: str
) -> None:
    rows: list[Row] = [("a", None, "1", 7)]
    with pytest.raises(Refused, match="NullPointerException: key cannot be null"):
        oracle.ask(name, rows)
    assert ours(name, rows) == [[None, "1,null", 7]]


@pytest.mark.parametrize("each", MEASURED, ids=lambda each: each.name)
def test_a_difference_is_the_one_that_the_page_tells(oracle: Oracle, each: Measured) -> None:
    assert written(different(each.name), each.rows) == each.ours
    assert oracle.ask(each.name, list(each.rows))["outputs"] == each.kafkas


def grace(history_ms: int | None, grace_ms: int, *, store: str | None = None) -> Topology:
    """A join with grace; `store` keeps the rows of an operation between the table and the join."""
    builder = StreamsBuilder(key=TEXT, value=TEXT)
    table = builder.table("b", history_ms=history_ms)
    builder.stream("a").join(table.map_values(plus, store=store) if store else table, pair, grace_ms=grace_ms).to("out")
    return builder.build()


@pytest.mark.parametrize(
    ("name", "build", "ours_says", "kafka_says"),
    [
        ("grace_unversioned", lambda: grace(None, 5), "needs a versioned table", "KTable must be versioned"),
        ("grace_kept", lambda: grace(20, 5, store="kept"), "needs a versioned table", "KTable must be versioned"),
        ("grace_too_long", lambda: grace(20, 21), "longer than the table's history_ms=20", "History retention must be"),
    ],
)  # fmt: skip
def test_a_grace_that_kafka_refuses_is_refused(
    oracle: Oracle, name: str, build: Callable[[], Topology], ours_says: str, kafka_says: str
) -> None:
    with pytest.raises(Refused, match=kafka_says):
        oracle.ask(name, [])
    with pytest.raises(TopologyError, match=ours_says):
        build()


BOTH: dict[str, tuple[Callable[[StreamsBuilder], object], str, str]] = {
    "topic_and_pattern": (
        lambda b: (b.stream("a"), b.stream(re.compile("[ab]"))),
        r"the topic a is read twice \(KSTREAM-SOURCE-0000000000, and KSTREAM-SOURCE-0000000001 by the pattern \[ab\]\)",
        "will match a topic that has already been registered by another source",
    ),
    "pattern_and_table": (
        lambda b: (b.stream(re.compile("[ab]")), b.table("a")),
        "the topic a is read twice",
        "matches a Pattern already registered by another source",
    ),
}


@pytest.mark.parametrize("name", BOTH)
def test_a_topic_that_two_sources_would_read_is_refused_as_kafka_refuses_it(oracle: Oracle, name: str) -> None:
    build, ours_says, kafka_says = BOTH[name]
    with pytest.raises(Refused, match=kafka_says):
        oracle.ask(name, [])
    builder = StreamsBuilder(key=TEXT, value=TEXT)
    build(builder)
    with pytest.raises(TopologyError, match=ours_says):
        builder.build()


DIFFERED: dict[str, tuple[Program, list[Row]]] = {
    "a repartition of records without a key": (
        [("stream", 0, [], "a"), ("repartition", 0, [0], ""), ("to", 0, [1], "out")],
        [("a", None, "1", 7), ("a", "k", "1", 8)],
    ),
    "a left join of a repartitioned stream without keys": (
        [("stream", 0, [], "a"), ("stream", 0, [], "b"), ("repartition", 0, [0], ""), ("repartition", 0, [1], ""),
         ("streams", 2, [2, 3], ""), ("to", 0, [4], "out")],
        [("a", None, "3", 8), ("b", None, "2", 9), ("b", "k", "1", 9), ("a", "k", "1", 30)],
    ),
    "a filter behind an aggregate": (
        [("table", 0, [], "b"), ("table_group", 0, [0], ""), ("table_filter", 0, [1], ""), ("to_stream", 0, [2], ""),
         ("to", 0, [3], "out")],
        [("b", "j", "3", 37), ("b", "j", "1", 38), ("b", "j", "2", 39)],
    ),
    "a filter behind a join and one behind suppress": (
        [("table", 0, [], "a"), ("table", 0, [], "b"), ("tables", 0, [0, 1], ""), ("table_filter", 0, [2], ""),
         ("time_limit", 0, [0], ""), ("table_filter", 0, [4], ""), ("to_stream", 0, [3], ""), ("to_stream", 0, [5], ""),
         ("to", 0, [6], "out1"), ("to", 0, [7], "out2")],
        [("a", "k", "3", 1), ("b", "k", "3", 2), ("b", "k", None, 3), ("a", "j", "3", 60), ("a", "k", "3", 90),
         ("b", "k", "1", 91)],
    ),
    "a left join behind other operations on a repartitioned stream": (
        [("stream", 0, [], "a"), ("repartition", 4, [0], ""), ("select_key", 5, [1], ""), ("streams", 3, [2, 0], ""),
         ("repartition", 0, [3], ""), ("to", 0, [4], "out")],
        [("a", "j", "1", 55), ("a", None, "2", 7)],
    ),
    "two joins of a stream with other keys": (
        [("stream", 0, [], "a"), ("table", 0, [], "b"), ("table", 0, [], "c"), ("map", 0, [0], ""),
         ("stream_table", 0, [3, 1], ""), ("stream_table", 1, [3, 2], ""),
         ("to", 0, [4], "out1"), ("to", 0, [5], "out2")],
        [("b", "1", "3", 1), ("a", "k", "1", 2), ("c", "1", "2", 3), ("a", "k", "1", 4)],
    ),
    "three topics whose first records have one time": (
        [("stream", 0, [], "c"), ("flat_map", 1, [0], ""), ("aggregate", 7, [1], ""), ("reduce", 4, [1], ""),
         ("stream_table", 2, [1, 2], ""), ("to_stream", 0, [3], ""), ("to", 0, [5], "out1"), ("to", 0, [4], "out2"),
         ("aggregate", 6, [0], ""), ("to_stream", 0, [8], ""), ("to", 0, [9], "out3")],
        [("c", "j", "12", 30)],
    ),
    "joins with a table behind suppress": (
        [("table", 0, [], "a"), ("table", 0, [], "b"), ("stream", 0, [], "c"), ("time_limit", 0, [0], ""),
         ("tables", 2, [3, 3], ""), ("tables", 1, [1, 3], ""), ("stream_table", 1, [2, 3], ""),
         ("to_stream", 0, [4], ""), ("to_stream", 0, [5], ""),
         ("to", 0, [7], "out1"), ("to", 0, [8], "out2"), ("to", 0, [6], "out3")],
        [("a", "k", "1", 1), ("c", "k", "x", 2), ("a", "j", "2", 30), ("b", "k", "3", 31), ("a", "k", None, 32),
         ("a", "k", "12", 33), ("b", "k", "2", 34), ("c", "k", "y", 35), ("a", "j", "3", 60), ("c", "k", "z", 61)],
    ),
    "a stream merged with itself": (
        [("stream", 0, [], "a"), ("merge", 0, [0, 0], ""), ("to", 0, [1], "out")],
        [("a", "k", "1", 8)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERED)
def test_a_topology_that_once_differed_gives_what_kafkas_driver_gives(oracle: Oracle, name: str) -> None:
    program, rows = DIFFERED[name]
    assert oracle.ask(program, rows)["outputs"]
    assert differences(program, rows, 1, oracle.ask) == []
