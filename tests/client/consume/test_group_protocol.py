"""Subscriptions and assignments as bytes, compared with kafka-python's reading of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.consume.group_protocol import (
    MemberSubscription,
    decode_assignment,
    decode_sticky_data,
    decode_subscription,
    encode_assignment,
    encode_sticky_data,
    encode_subscription,
)
from ottla.client.errors import ProtocolViolation
from ottla.kernel.ids import TopicPartition

PARTITIONS = st.sets(
    st.builds(TopicPartition, st.text("abc-", min_size=1, max_size=4), st.integers(0, 9)), max_size=8
).map(lambda found: tuple(sorted(found)))
SUBSCRIPTIONS = st.builds(
    MemberSubscription,
    topics=st.lists(st.text(max_size=8), max_size=4).map(tuple),
    user_data=st.none() | st.binary(max_size=10),
    owned=PARTITIONS,
    generation=st.integers(-1, 2**31 - 1),
    rack=st.none() | st.text(max_size=5),
)


@settings(max_examples=100, deadline=None)
@given(subscription=SUBSCRIPTIONS)
def test_a_subscription_comes_back_as_it_was(subscription: MemberSubscription) -> None:
    assert decode_subscription(encode_subscription(subscription)) == subscription


@settings(max_examples=100, deadline=None)
@given(partitions=PARTITIONS, generation=st.integers(-1, 100))
def test_assignments_and_sticky_data_come_back_as_they_were(
    partitions: tuple[TopicPartition, ...], generation: int
) -> None:
    assert decode_assignment(encode_assignment(partitions)) == partitions
    assert decode_sticky_data(encode_sticky_data(partitions, generation)) == (partitions, generation)


@settings(max_examples=200, deadline=None)
@given(content=st.binary(max_size=40))
def test_other_peoples_garbage_is_a_violation_and_nothing_else(content: bytes) -> None:
    for decode in (decode_subscription, decode_assignment):
        try:
            decode(content)
        except ProtocolViolation:
            continue
    decode_sticky_data(content)


def test_a_count_that_the_bytes_cannot_hold_is_refused_before_anything_is_made() -> None:
    with pytest.raises(ProtocolViolation, match="claim more"):
        decode_subscription(b"\0\1" + (2**31 - 1).to_bytes(4, "big"))


def test_an_old_subscription_has_nothing_owned() -> None:
    old = b"\0\0" + b"\0\0\0\1" + b"\0\1a" + b"\xff\xff\xff\xff"
    assert decode_subscription(old, "i") == MemberSubscription(("a",), instance_id="i")


def test_no_bytes_are_no_assignment() -> None:
    assert decode_assignment(b"") == ()
