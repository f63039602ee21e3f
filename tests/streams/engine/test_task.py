"""The engine's promises to those who run it in batches: cuts, restarts and order do not change what comes out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.streams.batches import ROWS, inputs, written
from tests.streams.topologies import TOPOLOGIES, built, read_by

from ottla.client import ApiError, ErrorCode
from ottla.streams import TEXT, ProcessingError, Record, StreamsBuilder, Topology, TopologyError
from ottla.streams.connection import told_partitions
from ottla.streams.engine.task import Task
from ottla.streams.on_error import chosen
from ottla.streams.stores.disk import StoreDatabase
from ottla.streams.values import Input, Place

NAMES = [
    "group_count",
    "hopping",
    "sliding",
    "session",
    "tables_outer",
    "streams_outer",
    "window_count_suppress",
    "versioned_stream",
    "grace_left",
]


@pytest.mark.parametrize("name", NAMES)
@given(rows=ROWS, cut=st.integers(0, 20))
def test_a_task_restored_from_its_changes_goes_on_as_if_it_had_never_stopped(
    name: str, rows: list[Any], cut: int
) -> None:
    topology = built(name)
    records = inputs(rows, read_by(topology))
    whole = Task(topology)
    expected = written([whole.run(0, records[:cut]), whole.run(1, records[cut:])])
    first = Task(topology)
    before = first.run(0, records[:cut])
    second = Task(built(name))
    second.restore(before.changes)
    assert written([before, second.run(1, records[cut:])]) == expected


@pytest.mark.parametrize("name", sorted(TOPOLOGIES))
@settings(max_examples=8)
@given(rows=ROWS, cut=st.integers(0, 20))
def test_stores_on_disk_give_the_results_and_the_changes_of_stores_in_memory(
    name: str, rows: list[Any], cut: int
) -> None:
    topology = built(name)
    records = inputs(rows, read_by(topology))
    memory, disk = Task(topology), Task(topology, rows=StoreDatabase(recent_rows=2))
    for batch, part in enumerate((records[:cut], records[cut:])):
        expected, found = memory.run(batch, part), disk.run(batch, part)
        assert found == expected
        assert [list(entries) for entries in found.changes.values()] == [*map(list, expected.changes.values())]
    assert {name: len(store) for name, store in disk.stores.items()} == {n: len(s) for n, s in memory.stores.items()}


@given(rows=ROWS, seed=st.randoms(use_true_random=False))
def test_the_order_in_which_a_batch_arrives_does_not_matter(rows: list[Any], seed: Any) -> None:
    topology = built("tables_outer")
    records = inputs(rows, read_by(topology))
    shuffled = list(records)
    seed.shuffle(shuffled)
    assert Task(topology).run(0, shuffled) == Task(topology).run(0, records)


def test_sub_topologies_run_one_after_the_other_give_what_they_give_together() -> None:
    topology = built("group_count")
    records = inputs([("a", "k", value, at) for at, value in enumerate("1221121")], topology.topics())
    first = Task(topology, sub_topologies=[0]).run(0, records)
    assert {output.topic for output in first.outputs} == {"KSTREAM-AGGREGATE-STATE-STORE-0000000002-repartition"}
    second = [
        Input(Place(o.topic, 0, at), o.key, o.value, o.timestamp, o.headers) for at, o in enumerate(first.outputs)
    ]
    results = Task(topology, sub_topologies=[1]).run(0, second)
    assert written([results]) == written([Task(topology).run(0, records)])


class EveryTen:
    """Sends the stream time whenever ten milliseconds of it have passed."""

    def init(self, context: Any) -> None:
        context.schedule(10, lambda time: context.forward(Record("now", str(time), time)))

    def process(self, record: Record) -> None:
        pass


def test_a_punctuation_of_stream_time_keeps_its_pace_over_a_restart() -> None:
    def topology() -> Topology:
        builder = StreamsBuilder(value=TEXT)
        builder.stream("a").process(EveryTen).to("out")
        return builder.build()

    def at(time: int) -> Input:
        return Input(Place("a", 0, time), b"k", b"1", time)

    first, second = Task(topology()), Task(topology())
    before = first.run(0, [at(3), at(12)])
    second.restore(before.changes)
    after = second.run(1, [at(15), at(21)])
    assert [output.value for output in (*before.outputs, *after.outputs)] == [b"3", b"12", b"21"]


def test_a_batch_names_the_entries_that_it_changed_and_no_others() -> None:
    task = Task(built("reduce"))
    task.run(0, [Input(Place("a", 0, 0), b"k", b"1", 5)])
    assert task.run(1, [Input(Place("a", 0, 1), b"j", b"2", 6)]).changes["kept"] == {(b"j",): (b"2", 6)}


def test_a_function_that_fails_names_its_node_and_the_records_place() -> None:
    builder = StreamsBuilder(value=TEXT)
    builder.stream("a").map_values(int).foreach(print)
    task = Task(builder.build())
    with pytest.raises(
        ProcessingError, match=r"KSTREAM-MAPVALUES-0000000001 failed for the record at a-3@7: ValueError"
    ):
        task.feed(Input(Place("a", 3, 7), b"k", b"x", 0))


def test_bytes_that_the_serde_cannot_read_name_the_records_place() -> None:
    builder = StreamsBuilder()
    builder.stream("a").foreach(print)
    with pytest.raises(ProcessingError, match=r"cannot read the record at a-0@4: the serde json cannot read"):
        Task(builder.build()).feed(Input(Place("a", 0, 4), b"k", b"{", 0))


def test_the_partitions_of_a_topic_are_asked_for_once_a_batch_and_the_run_ends_where_they_are_not_told() -> None:
    builder = StreamsBuilder(key=TEXT, value=TEXT)
    builder.stream("a").to("out", partitioner=lambda key, value, count: count - 1)
    counts = [3, 5]
    task = Task(builder.build(), partitions_of=lambda topic: counts.pop(0), on_error=chosen("skip"))
    records = [Input(Place("a", 0, at), b"k", b"v", 0) for at in range(2)]
    assert [output.partition for batch in range(2) for output in task.run(batch, records).outputs] == [2, 2, 4, 4]

    def refuse(topic: str) -> int:
        with told_partitions(topic):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"topic {topic}")

    with pytest.raises(ProcessingError, match=r"the number of partitions of out: .*TOPIC_AUTHORIZATION_FAILED"):
        Task(builder.build(), partitions_of=refuse, on_error=chosen("skip")).run(0, records)


def test_a_topic_that_is_not_read_is_refused_with_the_nearest_one() -> None:
    builder = StreamsBuilder()
    builder.stream("orders").foreach(print)
    with pytest.raises(TopologyError, match="does not read the topic order; did you mean orders"):
        Task(builder.build()).feed(Input(Place("order", 0, 0), None, None, 0))


def test_every_topology_can_be_built_twice_alike() -> None:
    for name in TOPOLOGIES:
        assert built(name).describe() == built(name).describe()
