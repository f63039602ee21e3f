"""Plans that spread replicas: few moves, no broker left out, racks kept apart."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ottla.client.admin.placement import changes, drained, lagging_of, rebalanced
from ottla.client.model import Broker, PartitionView, TopicView
from ottla.kernel.ids import TopicPartition


def brokers(*numbers: int, racks: dict[int, str] | None = None) -> dict[int, Broker]:
    return {number: Broker(number, "h", number, (racks or {}).get(number)) for number in numbers}


def placed(*replicas: tuple[int, ...]) -> dict[TopicPartition, tuple[int, ...]]:
    return {TopicPartition("t", index): each for index, each in enumerate(replicas)}


def held(placement) -> Counter[int]:
    return Counter(number for replicas in placement.values() for number in replicas)


def preferred(placement) -> Counter[int]:
    return Counter(replicas[0] for replicas in placement.values())


def test_a_broker_is_emptied_where_others_have_room():
    before = placed((1, 2), (2, 3), (3, 1), (1, 3))
    after = drained(before, 3, brokers(1, 2, 3), {})
    assert 3 not in held(after)
    assert preferred(after) == {1: 2, 2: 2}
    assert after[TopicPartition("t", 0)] == (1, 2), "what is not there stays as it is"


def test_a_replica_without_another_place_stays_and_leads_no_more():
    after = drained(placed((3, 1, 2), (1, 3, 2)), 3, brokers(1, 2, 3), {})
    assert all(replicas[-1] == 3 for replicas in after.values())
    assert preferred(after) == {1: 1, 2: 1}


def test_what_stays_is_led_by_a_broker_that_lives():
    """A dead preferred replica cannot be elected: broker 3 would go on leading."""
    after = drained(placed((3, 1, 2)), 3, brokers(2, 3), {})
    assert after == placed((2, 1, 3))
    assert drained(placed((3, 1, 2)), 3, brokers(2, 3, 4), {}, leaders_only=True) == placed((2, 1, 3))


def test_what_stays_is_led_by_a_replica_in_sync():
    """A replica that is out of sync cannot be elected: broker 3 would go on leading."""
    lagging = {TopicPartition("t", 0): {1}}
    assert drained(placed((3, 1, 2)), 3, brokers(1, 2, 3), lagging) == placed((2, 1, 3))
    before = placed((3, 1, 2), (2, 1), (2, 1))
    after = drained(before, 3, brokers(1, 2, 3), lagging, leaders_only=True)
    assert after[TopicPartition("t", 0)] == (2, 1, 3), "though broker 2 leads more than broker 1"


def test_no_replica_out_of_sync_becomes_the_preferred_one():
    before = placed((1, 2), (1, 2), (1, 2), (1, 2))
    everywhere = {place: {2} for place in before}
    assert rebalanced(before, brokers(1, 2), everywhere) == before
    once = {TopicPartition("t", 0): {2}}
    assert preferred(rebalanced(before, brokers(1, 2), once)) == {1: 2, 2: 2}
    assert rebalanced(before, brokers(1, 2), once)[TopicPartition("t", 0)] == (1, 2)


def test_replicas_are_lagging_where_they_are_not_in_sync():
    partitions = {0: PartitionView(0, 1, 0, (1, 2, 3), (1, 3), ()), 1: PartitionView(1, 1, 0, (1, 2), (2, 1), ())}
    assert lagging_of([TopicView("t", bytes(16), False, partitions)]) == {TopicPartition("t", 0): {2}}


def test_leaders_alone_may_be_moved():
    before = placed((3, 1), (1, 3))
    after = drained(before, 3, brokers(1, 2, 3), {}, leaders_only=True)
    assert held(after) == held(before)
    assert preferred(after) == {1: 2}


def test_the_only_replica_of_an_only_broker_stays():
    before = placed((1,))
    assert drained(before, 1, brokers(1), {}) == before


def test_a_new_broker_gets_its_share_by_no_more_moves_than_it_takes():
    before = placed((1, 2), (2, 1), (1, 2), (2, 1), (1, 2), (2, 1))
    after = rebalanced(before, brokers(1, 2, 3), {})
    assert sorted(held(after).values()) == [4, 4, 4]
    assert preferred(after) == {1: 2, 2: 2, 3: 2}
    assert sum(len(set(after[place]) - set(before[place])) for place in before) == 4


def test_what_is_even_stays():
    before = placed((1, 2), (2, 3), (3, 1))
    assert not changes(before, rebalanced(before, brokers(1, 2, 3), {}))


def test_replicas_are_not_brought_together_in_a_rack():
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    before = placed(*[(1, 3)] * 6)
    after = rebalanced(before, brokers(1, 2, 3, 4, racks=racks), {})
    assert held(after) == {1: 3, 2: 3, 3: 3, 4: 3}
    assert all({racks[number] for number in replicas} == {"a", "b"} for replicas in after.values())


@st.composite
def clusters(draw):
    count = draw(st.integers(1, 6))
    factor = draw(st.integers(1, count))
    order = st.permutations(range(1, count + 1)).map(lambda numbers: tuple(numbers[:factor]))
    return count, placed(*draw(st.lists(order, max_size=12)))


@given(clusters())
def test_rebalancing_keeps_every_replica_and_ends_even(cluster):
    count, before = cluster
    after = rebalanced(before, brokers(*range(1, count + 1)), {})
    assert set(after) == set(before)
    assert all(len(set(after[place])) == len(before[place]) for place in before)
    if before:
        shares = [held(after)[number] for number in range(1, count + 1)]
        assert max(shares) - min(shares) <= 1


@given(clusters())
def test_draining_keeps_every_replica_and_leaves_no_leader_that_another_could_be(cluster):
    count, before = cluster
    after = drained(before, 1, brokers(*range(1, count + 1)), {})
    for place, replicas in after.items():
        assert len(set(replicas)) == len(before[place])
        if 1 in replicas:
            assert len(before[place]) == count
            assert replicas[0] != 1 or count == 1
