"""Joins by foreign key over whole batches, as Spark runs them, end with the rows that records one by one end with."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.streams.levels import Levels
from tests.streams.topologies import pair

from ottla.client.produce.partitioners import murmur2_partitioner
from ottla.streams import TEXT, StreamsBuilder, Topology, TopologyTest
from ottla.streams.values import Input, Place

Row = tuple[str, str, str | None, int]
Batches = list[list[Row]]
ROWS = st.one_of(
    st.tuples(st.just("a"), st.sampled_from("xy"), st.sampled_from(["k1", "k2", "j", "lacking", "-", None])),
    st.tuples(st.just("b"), st.sampled_from("kj"), st.sampled_from(["r", "s", None])),
).flatmap(lambda row: st.integers(0, 20).map(lambda time: (*row, time)))
JOINED: list[Row] = [("b", "k", "r", 0), ("a", "x", "k1", 1)]
"""A left row, whose foreign key is its first letter, and the right row."""


def joining(left: bool) -> Topology:
    builder = StreamsBuilder(key=TEXT, value=TEXT)
    table = builder.table("a")
    join = table.left_join_on_foreign_key if left else table.join_on_foreign_key
    join(builder.table("b"), lambda _, v: None if v == "-" else v[0], pair).to_stream().to("out")
    return builder.build()


def in_batches(batches: Batches, *, left: bool, partitions: int) -> dict[str, str]:
    """The joined rows at the end, where each batch goes through the levels of Spark's plan."""
    levels, rows = Levels(joining(left), dict.fromkeys("ab", partitions)), dict[str, str | None]()
    offsets = Counter[tuple[str, int]]()
    for number, batch in enumerate(batches):
        records = []
        for topic, key, value, time in batch:
            at = topic, murmur2_partitioner(key.encode(), (), partitions)
            data = None if value is None else value.encode()
            records.append(Input(Place(*at, offsets[at]), key.encode(), data, time))
            offsets[at] += 1
        for output in levels.run(number, records):
            assert output.key is not None
            rows[output.key.decode()] = None if output.value is None else output.value.decode()
    return {key: value for key, value in rows.items() if value is not None}


def one_by_one(batches: Batches, *, left: bool) -> dict[str, str]:
    """The joined rows at the end, where each record is processed to its end, as in Kafka's driver."""
    test = TopologyTest(joining(left))
    for batch in batches:
        for row in batch:
            test.pipe_input(*row)
    return {key: value for key, value in dict(test.read_records("out")).items() if value is not None}


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("left", [False, True])
@settings(max_examples=200, deadline=None)
@given(batches=st.lists(st.lists(ROWS, max_size=6), max_size=4))
@example([JOINED, [("a", "x", None, 2), ("a", "x", "lacking", 3)]])  # deleted and written again
@example([JOINED, [("a", "x", None, 2), ("a", "x", "-", 3)]])  # the same without a foreign key
@example([JOINED, [("a", "x", "-", 2), ("a", "x", "lacking", 3)]])
@example([JOINED, [("a", "x", "lacking", 2), ("a", "x", "least", 3)]])
@example([JOINED, [("b", "k", None, 2), ("a", "x", "k2", 3)]])  # another left row, and the right row is deleted
@example([JOINED, [("a", "x", "k2", 2), ("b", "k", None, 3), ("b", "k", "s", 1)]])
def test_whole_batches_end_with_the_rows_that_records_one_by_one_end_with(
    left: bool, partitions: int, batches: Batches
) -> None:
    assert in_batches(batches, left=left, partitions=partitions) == one_by_one(batches, left=left)


def test_a_joined_row_does_not_outlive_a_left_row_that_is_deleted_and_written_again_in_one_batch() -> None:
    batches: Batches = [JOINED, [("a", "x", None, 2), ("a", "x", "lacking", 3)]]
    assert in_batches(batches[:1], left=False, partitions=1) == {"x": "k1,r"}
    assert in_batches(batches, left=False, partitions=1) == {}
