"""The levels of topologies: shuffles, and what runs behind each of them."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from tests.streams.topologies import pair

from ottla.streams import TEXT, StreamsBuilder
from ottla.streams.layout import layout
from ottla.streams.on_spark.plan import Plan, planned, starting_offsets


def plan(build: Callable[[StreamsBuilder], object], **counts: int) -> Plan:
    builder = StreamsBuilder(key=TEXT, value=TEXT)
    build(builder)
    topology = builder.build()
    return planned(topology, layout(topology, "app", {topic: counts.get(topic, 2) for topic in topology.topics()}))


def test_a_map_needs_no_shuffle_and_no_state() -> None:
    made = plan(lambda b: b.stream("a").map_values(str.upper).to("out"))
    assert [level.keeps_nothing for level in made.levels] == [True]


def test_a_group_by_is_a_second_level_with_a_task_for_each_partition() -> None:
    made = plan(lambda b: b.stream("a").group_by(lambda _, v: v).count(store="kept"), a=3)
    assert [level.topics for level in made.levels] == [("a",), ("kept-repartition",)]
    assert made.levels[1].buckets == ((1, 0), (1, 1), (1, 2))
    assert [level.keeps_nothing for level in made.levels] == [True, False]


def test_a_table_waits_for_the_rekeyed_stream_that_it_is_joined_with() -> None:
    def build(b: StreamsBuilder) -> None:
        b.stream("a").select_key(lambda _, v: v).join(b.table("b"), pair, name="joined").to("out")

    made = plan(build)
    assert (made.level_of["a"], made.level_of["b"], made.level_of["joined-repartition"]) == (0, 1, 1)


def test_a_foreign_key_join_goes_around_in_three_levels() -> None:
    made = plan(lambda b: b.table("a").join_on_foreign_key(b.table("b"), lambda k, v: v, pair).to_stream().to("out"))
    assert len(made.levels) == 3
    assert (made.level_of["a"], made.level_of["b"]) == (0, 0)
    left = made.part_of["a"]
    assert (left in made.levels[0].first, left in made.levels[2].first) == (True, True)
    assert made.before(left, 5, 2) == (5, 0)
    assert made.before(left, 5, 0) == (4, 2)
    assert made.before(left, 0, 0) is None


@pytest.mark.parametrize("part", [0, 1])
def test_sub_topologies_of_one_level_have_their_own_buckets(part: int) -> None:
    def build(b: StreamsBuilder) -> None:
        b.table("a", store="one").to_stream().to("out")
        b.table("b", store="two").to_stream().to("out2")

    (level,) = plan(build, a=2, b=3).levels
    assert level.buckets[level.first[part]] == (part, 0)
    assert len(level.buckets) == 5


def test_a_new_application_reads_each_topic_from_its_beginning_or_its_end() -> None:
    made = plan(lambda b: (b.stream("a").to("out"), b.stream("b", offset_reset="latest").to("out2")), b=1)
    assert json.loads(starting_offsets(made, ("a", "b"), ("b",))) == {"a": {"0": -2, "1": -2}, "b": {"0": -1}}
    noted = {"a": {"0": 7, "1": 9}, "gone": {"0": 5}}
    assert json.loads(starting_offsets(made, ("a", "b"), (), noted)) == {"a": {"0": 7, "1": 9}, "b": {"0": -2}}
