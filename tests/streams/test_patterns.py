"""Topics by a pattern: the ones that it matches, what is refused, and how it is shown."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from ottla.streams import TEXT, StreamsBuilder, Topology, TopologyError, TopologyTest, difference
from ottla.streams.difference import Shape, shape
from ottla.streams.layout import layout
from ottla.streams.patterns import bound, subscription


@dataclass
class View:
    is_internal: bool = False


def orders(*more: str, pattern: str = "orders-.*") -> Topology:
    builder = StreamsBuilder(key=TEXT, value=TEXT)
    counted = builder.stream(re.compile(pattern), name="orders").group_by_key().count(store="counts")
    counted.to_stream().map_values(str).to("out")
    for other in more:
        builder.stream(re.compile(other)).to("other")
    return builder.build()


def test_a_test_takes_every_topic_that_matches_as_a_whole_and_names_the_pattern_for_others() -> None:
    test = TopologyTest(orders())
    for topic in ("orders-eu", "orders-us", "orders-eu"):
        test.pipe_input(topic, "k", "v", 0)
    assert test.read_records("out") == [("k", "1"), ("k", "2"), ("k", "3")]
    with pytest.raises(TopologyError, match=r"does not read the topic order-eu; did you mean orders-eu\?"):
        test.pipe_input("order-eu", "k", "v", 0)
    with pytest.raises(TopologyError, match=r"does not read the topic my-orders-; .*orders-"):
        test.pipe_input("my-orders-", "k", "v", 0)


def test_a_result_that_is_written_to_a_topic_that_matches_is_read_again() -> None:
    builder = StreamsBuilder(key=TEXT, value=TEXT)
    builder.stream(re.compile("step-.")).filter(lambda _, v: v < "3").map_values(lambda v: str(int(v) + 1)).to(
        lambda record: f"step-{record.value}"
    )
    test = TopologyTest(builder.build())
    test.pipe_input("step-0", "k", "0", 5)
    assert [test.read_records(f"step-{at}") for at in range(4)] == [[], [("k", "1")], [("k", "2")], [("k", "3")]]


def test_a_pattern_is_bound_to_the_topics_of_a_cluster_but_not_to_internal_ones() -> None:
    known = {"orders-b": View(), "orders-a": View(), "orders-internal": View(is_internal=True), "other": View()}
    found = bound(orders(), known)
    assert found.topics() == ("orders-a", "orders-b")
    assert found.describe() == orders().describe()
    plan = layout(found, "app", dict.fromkeys(found.topics(), 3))
    assert (plan.tasks, plan.read()) == ({0: 3}, {"orders-a": "orders-a", "orders-b": "orders-b"})
    with pytest.raises(TopologyError, match="orders-a has 3, orders-b has 2"):
        layout(found, "app", {"orders-a": 3, "orders-b": 2})


def test_a_pattern_that_matches_nothing_and_a_topic_that_two_match_are_refused() -> None:
    with pytest.raises(TopologyError, match=r"no topic matches orders-\.\* \(orders\): make the first one"):
        bound(orders(), {"order": View()})
    both = orders("[a-z]+-eu")
    with pytest.raises(TopologyError, match=r"the topic orders-eu matches both orders-\.\* and \[a-z\]\+-eu"):
        bound(both, {"orders-eu": View(), "orders-us": View(), "bills-eu": View()})
    with pytest.raises(TopologyError, match="the topic orders-eu matches both"):
        TopologyTest(both).pipe_input("orders-eu", "k", "v", 0)
    with pytest.raises(TopologyError, match=r"the pattern orders-\.\* is read twice \(orders, KSTREAM-SOURCE-"):
        orders("orders-.*")
    assert bound(both, {"orders-us": View(), "bills-eu": View()}).topics() == ("orders-us", "bills-eu")


@pytest.mark.parametrize("pattern", [re.compile("a", re.IGNORECASE), re.compile(b"a"), re.compile("(?i)a")])
def test_a_pattern_of_bytes_or_with_flags_is_refused(pattern: re.Pattern[str]) -> None:
    with pytest.raises(TopologyError, match="must be text and have no flags"):
        StreamsBuilder().stream(pattern)


def test_one_pattern_subscribes_to_all_that_is_read_from_outside_but_global_tables() -> None:
    builder = StreamsBuilder(key=TEXT, value=TEXT)
    named = builder.stream(["a.b", "c"]).select_key(lambda _, v: v)
    named.join(builder.global_table("names"), max, table_key=max).group_by_key().count()
    assert subscription(builder.build()) is None
    builder.stream(re.compile("x|y")).to("out")
    one = subscription(builder.build())
    assert one is not None
    read = [name for name in ("a.b", "aXb", "c", "x", "y", "xy", "names") if re.fullmatch(one, name)]
    assert read == ["a.b", "c", "x", "y"]


def test_a_change_of_patterns_is_told_and_state_written_before_patterns_were_known_is_read() -> None:
    builder = StreamsBuilder(key=TEXT, value=TEXT)
    counted = builder.stream("orders-eu", name="orders").group_by_key().count(store="counts")
    counted.to_stream().map_values(str).to("out")
    before = builder.build()
    assert difference(before, orders()) == difference(shape(before), shape(orders()))
    assert difference(before, orders()).breaking == ()
    assert difference(before, orders()).harmless == ("the topics that match orders-.* are read now",)
    assert difference(orders(), before).harmless == (
        "the topic orders-eu is read now",
        "the pattern orders-.* is gone: topics that it alone matched are read no more",
    )  # fmt: skip
    written = shape(before).to_json()
    del written["patterns"]
    assert Shape.from_json(written) == shape(before)
    assert Shape.from_json(shape(orders()).to_json()) == shape(orders())
    more = bound(orders(), {"orders-eu": View(), "orders-us": View()})
    assert difference(bound(orders(), {"orders-eu": View()}), more).harmless == ("the topic orders-us is read now",)
