"""Assignors give each partition to one subscribed member, evenly, and move few of them."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.consume.assignors import ASSIGNORS, COOPERATIVE_STICKY, RANGE, ROUNDROBIN, STICKY, Assignment
from ottla.client.consume.group_protocol import MemberSubscription
from ottla.kernel.ids import TopicPartition as P

COUNTS = st.dictionaries(st.sampled_from("abc"), st.integers(0, 7), min_size=1)
MEMBERS = st.dictionaries(st.sampled_from(["m1", "m2", "m3", "m4"]), st.sets(st.sampled_from("abc")), min_size=1).map(
    lambda wants: {member: MemberSubscription(tuple(sorted(topics))) for member, topics in wants.items()}
)


def holding(
    members: dict[str, MemberSubscription], assignment: Assignment, generation: int = 1
) -> dict[str, MemberSubscription]:
    """The members after they have taken this assignment."""
    return {
        member: MemberSubscription(subscription.topics, owned=tuple(assignment.get(member, ())), generation=generation)
        for member, subscription in members.items()
    }


@settings(max_examples=100, deadline=None)
@given(counts=COUNTS, members=MEMBERS, name=st.sampled_from(sorted(ASSIGNORS)))
def test_every_wanted_partition_goes_to_exactly_one_member_that_wants_it(
    counts: dict[str, int], members: dict[str, MemberSubscription], name: str
) -> None:
    assignment = ASSIGNORS[name].assign(counts, members)
    assert set(assignment) == set(members)
    given_out = Counter(partition for partitions in assignment.values() for partition in partitions)
    wanted = {topic for subscription in members.values() for topic in subscription.topics}
    assert given_out == Counter(P(topic, number) for topic in wanted for number in range(counts.get(topic, 0)))
    for member, partitions in assignment.items():
        assert {partition.topic for partition in partitions} <= set(members[member].topics)


def test_range_gives_consecutive_partitions_and_the_rest_to_the_first() -> None:
    members = {name: MemberSubscription(("a", "b")) for name in ("m2", "m1")}
    assert RANGE.assign({"a": 3, "b": 3}, members) == {
        "m1": [P("a", 0), P("a", 1), P("b", 0), P("b", 1)],
        "m2": [P("a", 2), P("b", 2)],
    }


def test_static_members_come_first_whatever_their_member_id() -> None:
    members = {"m1": MemberSubscription(("a",)), "m2": MemberSubscription(("a",), instance_id="i")}
    assert RANGE.assign({"a": 1}, members) == {"m1": [], "m2": [P("a", 0)]}


def test_roundrobin_deals_out_all_topics_in_turn_and_skips_who_does_not_want() -> None:
    members = {"m1": MemberSubscription(("a", "b")), "m2": MemberSubscription(("a",))}
    assert ROUNDROBIN.assign({"a": 3, "b": 1}, members) == {"m1": [P("a", 0), P("a", 2), P("b", 0)], "m2": [P("a", 1)]}


@settings(max_examples=100, deadline=None)
@given(count=st.integers(0, 30), members=st.integers(1, 6), gone=st.integers(0, 5))
def test_sticky_is_even_and_moves_only_what_it_must(count: int, members: int, gone: int) -> None:
    group = {f"m{number}": MemberSubscription(("a",)) for number in range(members)}
    before = STICKY.assign({"a": count}, group)
    sizes = [len(partitions) for partitions in before.values()]
    assert max(sizes) - min(sizes) <= 1
    if members > 1:
        left = dict(sorted(group.items())[: max(1, members - 1 - gone % members)])
        after = STICKY.assign({"a": count}, holding(left, before))
        for member, partitions in before.items():
            if member in left:
                assert set(partitions) <= set(after[member]), "a member that stays keeps what it has"


def test_sticky_gives_a_newcomer_its_share_and_leaves_the_rest_alone() -> None:
    group = {f"m{number}": MemberSubscription(("a",)) for number in range(2)}
    before = STICKY.assign({"a": 6}, group)
    joined = holding(group, before) | {"new": MemberSubscription(("a",))}
    after = STICKY.assign({"a": 6}, joined)
    assert sorted(len(partitions) for partitions in after.values()) == [2, 2, 2]
    assert sum(len(set(before[member]) - set(after[member])) for member in before) == 2


def test_of_two_that_claim_a_partition_the_later_generation_keeps_it() -> None:
    members = {
        "old": MemberSubscription(("a",), owned=(P("a", 0),), generation=3),
        "young": MemberSubscription(("a",), owned=(P("a", 0),), generation=4),
    }
    assert STICKY.assign({"a": 1}, members) == {"old": [], "young": [P("a", 0)]}


@settings(max_examples=60, deadline=None)
@given(count=st.integers(0, 20), first=st.integers(1, 4), second=st.integers(1, 5))
def test_cooperative_members_first_let_go_and_then_receive(count: int, first: int, second: int) -> None:
    """No partition ever has two owners, and two rounds are enough."""
    group = {f"m{number}": MemberSubscription(("a",)) for number in range(first)}
    held = COOPERATIVE_STICKY.assign({"a": count}, group)
    grown = holding(group, held) | {f"n{number}": MemberSubscription(("a",)) for number in range(second)}
    round_one = COOPERATIVE_STICKY.assign({"a": count}, grown)
    for member, partitions in round_one.items():
        for partition in partitions:
            owners = [other for other in held if partition in held[other]]
            assert owners in ([], [member])
    round_two = COOPERATIVE_STICKY.assign({"a": count}, holding(grown, round_one, generation=2))
    assert sum(len(partitions) for partitions in round_two.values()) == count
    sizes = [len(partitions) for partitions in round_two.values()]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("name", ["sticky"])
def test_the_sticky_user_data_carries_what_was_owned(name: str) -> None:
    assignor = ASSIGNORS[name]
    group = {f"m{number}": MemberSubscription(("a",)) for number in range(3)}
    before = assignor.assign({"a": 9}, group)
    told = {
        member: MemberSubscription(("a",), user_data=assignor.user_data(tuple(before[member]), 1)) for member in group
    }
    assert assignor.assign({"a": 9}, told) == before
