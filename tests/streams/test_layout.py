"""Tasks and topics of an application, and the topologies that are refused."""

from __future__ import annotations

import pytest

from ottla.streams import StreamsBuilder, TopologyError
from ottla.streams.layout import TIMES, layout


def test_a_repartition_topic_has_as_many_partitions_as_those_who_write_to_it() -> None:
    builder = StreamsBuilder()
    builder.stream("a").group_by(lambda _, v: v).count(store="kept").to_stream().to("b")
    plan = layout(builder.build(), "app", {"a": 3})
    assert (plan.tasks, plan.repartitions) == ({0: 3, 1: 3}, {"kept-repartition": 3})
    assert plan.changelogs == {"kept": 3, TIMES: 3}
    assert plan.read() == {"a": "a", "app-kept-repartition": "kept-repartition"}
    assert plan.changelog("kept") == "app-kept-changelog"


def test_joined_topics_with_different_partitions_are_refused_by_name() -> None:
    builder = StreamsBuilder()
    builder.stream("a").join(builder.table("b"), lambda one, two: [one, two]).to("c")
    with pytest.raises(TopologyError, match="a has 3, b has 2"):
        layout(builder.build(), "app", {"a": 3, "b": 2})


def test_a_global_table_has_no_tasks_and_no_changelog_and_needs_no_equal_partitions() -> None:
    builder = StreamsBuilder()
    rows = builder.global_table("b")
    builder.stream("a").join(rows, lambda one, two: [one, two], table_key=lambda key, _: key).to("c")
    plan = layout(builder.build(), "app", {"a": 2, "b": 3})
    assert (list(plan.tasks.values()), plan.changelogs, plan.read()) == ([2], {TIMES: 2}, {"a": "a"})


def test_global_tables_alone_are_refused() -> None:
    builder = StreamsBuilder()
    builder.global_table("b")
    with pytest.raises(TopologyError, match="read a stream or a table too"):
        layout(builder.build(), "app", {"b": 1})
