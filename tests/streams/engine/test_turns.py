"""Topics take turns by the time of their first record, and as Java's heap has it where times are equal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.streams.engine.turns import TopicTurns


@given(times=st.lists(st.integers(0, 9), max_size=12))
def test_the_earliest_first_record_is_next(times: list[int]) -> None:
    turns = TopicTurns()
    for at, time in enumerate(times):
        turns.offer(time, str(at))
    order = [times[int(turns.next())] for _ in times]
    assert order == sorted(times)
    assert not turns


def test_equal_times_come_in_the_order_of_javas_heap_and_not_in_that_of_arrival() -> None:
    """The order is what `java.util.PriorityQueue` gives for the same offers and polls."""
    turns = TopicTurns()
    for topic in "abcd":
        turns.offer(1, topic)
    assert [turns.next() for _ in "abcd"] == list("adcb")
