"""The client's half of a fetch session: partitions sent again, partitions forgotten, new sessions."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.consume.fetch_session import FetchSession, WantedPartition
from ottla.kernel.ids import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def want(offset: int, topic_id: bytes = b"i" * 16) -> WantedPartition:
    return WantedPartition(topic_id, offset, 0, 1000)


def test_a_new_session_names_everything_and_later_requests_the_difference() -> None:
    session = FetchSession()
    assert session.next({A: want(0), B: want(0)}) == (0, 0, {A: want(0), B: want(0)}, {})
    session.answered(42)
    assert session.next({A: want(5), B: want(0)}) == (42, 1, {A: want(5)}, {})
    session.answered(42)
    assert session.next({A: want(5)}) == (42, 2, {}, {B: b"i" * 16})


def test_a_broker_that_keeps_no_session_is_asked_in_full_each_time() -> None:
    session = FetchSession()
    session.next({A: want(0)})
    session.answered(0)
    assert session.next({A: want(1)}) == (0, 0, {A: want(1)}, {})


def test_after_a_failure_the_session_begins_anew() -> None:
    session = FetchSession()
    session.next({A: want(0)})
    session.answered(42)
    session.failed()
    assert session.next({A: want(0)}) == (0, 0, {A: want(0)}, {})


def test_a_recreated_topic_is_forgotten_under_its_old_id() -> None:
    session = FetchSession()
    session.next({A: want(0)})
    session.answered(42)
    fresh = want(0, b"j" * 16)
    assert session.next({A: fresh}) == (42, 1, {A: fresh}, {A: b"i" * 16})


WISHES = st.lists(st.dictionaries(st.sampled_from([A, B, TopicPartition("u", 0)]), st.integers(0, 3)), max_size=8)


@settings(max_examples=100, deadline=None)
@given(rounds=WISHES)
def test_the_broker_always_ends_up_knowing_exactly_what_is_wanted(rounds: list[dict[TopicPartition, int]]) -> None:
    session, broker = FetchSession(), {}
    for wishes in rounds:
        wanted = {partition: want(offset) for partition, offset in wishes.items()}
        request = session.next(wanted)
        if request.epoch == 0:
            broker = {}
        for partition in request.forgotten:
            broker.pop(partition)
        broker.update(request.partitions)
        assert broker == wanted
        session.answered(7)
