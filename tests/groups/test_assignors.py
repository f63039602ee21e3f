"""The assignors alone: complete, disjoint, balanced, sticky; and exact results for known cases."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.groups.range_assignor import assign_range
from ottla.groups.target_assignment import Assignment, Spec, Subscriber
from ottla.groups.uniform_assignor import assign_uniform

A, B, C = (letter * 16 for letter in (b"a", b"b", b"c"))


def member(member_id: str, *topics: bytes, instance: str | None = None, **target: set[int]) -> Subscriber:
    """A member with its target by the letter of a topic: `a={0, 1}`."""
    held = {letter.encode() * 16: frozenset(indexes) for letter, indexes in target.items()}
    return Subscriber(member_id, instance, frozenset(topics), held)


def spec(partitions: dict[bytes, int], *members: Subscriber) -> Spec:
    return Spec(members, partitions)


def shown(assignment: Assignment) -> dict[str, dict[str, list[int]]]:
    """The assignment by member and letter of a topic."""
    return {
        member_id: {topic[:1].decode(): sorted(indexes) for topic, indexes in sorted(topics.items())}
        for member_id, topics in assignment.items()
    }


# Range


def test_range_gives_runs_and_the_rest_to_the_first():
    members = [member(name, A, B) for name in ("x", "y", "z")]
    assert shown(assign_range(spec({A: 4, B: 2}, *members))) == {
        "x": {"a": [0, 1], "b": [0]},
        "y": {"a": [2], "b": [1]},
        "z": {"a": [3]},
    }


def test_range_takes_static_members_first_by_their_instance_ids():
    members = [member("a", A), member("z", A, instance="i1"), member("y", A, instance="i2")]
    assert shown(assign_range(spec({A: 3}, *members))) == {"a": {"a": [2]}, "z": {"a": [0]}, "y": {"a": [1]}}


def test_range_divides_a_topic_among_its_own_subscribers():
    members = [member("x", A), member("y", A, B), member("z", B)]
    assert shown(assign_range(spec({A: 2, B: 3}, *members))) == {
        "x": {"a": [0]},
        "y": {"a": [1], "b": [0, 1]},
        "z": {"b": [2]},
    }


def test_members_are_ordered_as_java_orders_strings():
    members = [member("\U00010000", A), member("\uffff", A)]
    assert shown(assign_range(spec({A: 2}, *members))) == {"\U00010000": {"a": [0]}, "\uffff": {"a": [1]}}


# Uniform


def test_uniform_keeps_what_members_have_and_moves_only_what_the_new_one_needs():
    members = [member("x", A, a={0, 1, 2}), member("y", A, a={3, 4, 5}), member("z", A)]
    assert shown(assign_uniform(spec({A: 6}, *members))) == {
        "x": {"a": [0, 1]},
        "y": {"a": [3, 4]},
        "z": {"a": [2, 5]},
    }


def test_uniform_leaves_the_extra_partition_where_it_is():
    members = [member("x", A, a={0}), member("y", A, a={1, 2})]
    assert shown(assign_uniform(spec({A: 3}, *members))) == {"x": {"a": [0]}, "y": {"a": [1, 2]}}


def test_uniform_gives_what_a_departed_member_had_to_those_that_stay():
    members = [member("x", A, a={0, 1}), member("y", A, a={4, 5})]
    assert shown(assign_uniform(spec({A: 6}, *members))) == {"x": {"a": [0, 1, 2]}, "y": {"a": [3, 4, 5]}}


def test_uniform_takes_no_partition_twice_where_a_target_was_written_in_part():
    members = [member("x", A, a={0, 1}), member("y", A, a={1, 2})]
    assert shown(assign_uniform(spec({A: 3}, *members))) == {"x": {"a": [0, 1]}, "y": {"a": [2]}}
    others = [member("x", A, a={0, 1}), member("y", A, B, a={1, 2})]
    assert sum(len(topics.get(A, ())) for topics in assign_uniform(spec({A: 3, B: 1}, *others)).values()) == 3


def test_uniform_balances_members_with_different_subscriptions():
    members = [member("x", A), member("y", A, B), member("z", B, C)]
    loads = {name: sum(map(len, topics.values())) for name, topics in assign_uniform(
        spec({A: 2, B: 2, C: 2}, *members)).items()}  # fmt: skip
    assert loads == {"x": 2, "y": 2, "z": 2}


def test_a_topic_that_nobody_reads_and_a_group_without_members_are_no_trouble():
    assert shown(assign_uniform(spec({A: 2}, member("x", B)))) == {"x": {}}
    assert assign_uniform(spec({A: 2})) == {} and assign_range(spec({A: 2})) == {}


TOPICS = (A, B, C, b"d" * 16)
NAMES = [f"m{number}" for number in range(7)]


@st.composite
def groups(draw: st.DrawFn) -> tuple[Spec, Spec]:
    """A group, and the same group after members and topics have changed."""
    alike = draw(st.booleans())
    partitions = {topic: draw(st.integers(1, 9)) for topic in TOPICS}
    everybody = draw(st.frozensets(st.sampled_from(TOPICS), min_size=1))
    wanted = {name: everybody if alike else draw(st.frozensets(st.sampled_from(TOPICS), min_size=1)) for name in NAMES}
    first = draw(st.frozensets(st.sampled_from(NAMES), min_size=1))
    second = draw(st.frozensets(st.sampled_from(NAMES), min_size=1))
    before = Spec(tuple(Subscriber(name, None, wanted[name], {}) for name in sorted(first)), partitions)
    targets = assign_uniform(before)
    grown = {topic: count + draw(st.integers(0, 2)) for topic, count in partitions.items()}
    after = tuple(Subscriber(name, None, wanted[name], targets.get(name, {})) for name in sorted(second))
    return before, Spec(after, grown)


def owners(assignment: Assignment) -> dict[tuple[bytes, int], str]:
    """The member that has each partition; fails if two have the same."""
    found: dict[tuple[bytes, int], str] = {}
    for name, topics in assignment.items():
        for topic, indexes in topics.items():
            for index in indexes:
                assert (topic, index) not in found
                found[topic, index] = name
    return found


@settings(deadline=None, max_examples=300, database=None)
@given(groups())
def test_all_that_is_subscribed_to_is_assigned_once_to_a_subscriber(both: tuple[Spec, Spec]):
    for each in both:
        wanted = frozenset().union(*(subscriber.topics for subscriber in each.subscribers))
        places = {(topic, index) for topic in wanted for index in range(each.partitions[topic])}
        topics = {subscriber.member_id: subscriber.topics for subscriber in each.subscribers}
        for assign in (assign_range, assign_uniform):
            assignment = assign(each)
            assert assignment.keys() == topics.keys()
            found = owners(assignment)
            assert found.keys() == places
            assert all(place[0] in topics[name] for place, name in found.items())


@settings(deadline=None, max_examples=300, database=None)
@given(groups())
def test_uniform_is_balanced_and_moves_no_more_than_that_takes(both: tuple[Spec, Spec]):
    for each in both:
        if not each.homogeneous:
            continue
        assignment = assign_uniform(each)
        loads = Counter({name: sum(map(len, topics.values())) for name, topics in assignment.items()})
        least, most = min(loads.values()), max(loads.values())
        assert most - least <= 1
        kept = {
            subscriber.member_id: sum(
                len(indexes & assignment[subscriber.member_id].get(topic, frozenset()))
                for topic, indexes in subscriber.target.items()
            )
            for subscriber in each.subscribers
        }
        for subscriber in each.subscribers:
            had = sum(len(indexes) for topic, indexes in subscriber.target.items() if topic in subscriber.topics)
            assert kept[subscriber.member_id] >= min(had, least), "it lost what fitted its quota"


@settings(deadline=None, max_examples=300, database=None)
@given(groups())
def test_uniform_leaves_no_move_that_would_balance_better(both: tuple[Spec, Spec]):
    """No partition belongs to a member that has two more than another subscriber of its topic."""
    for each in both:
        assignment = assign_uniform(each)
        loads = {name: sum(map(len, topics.values())) for name, topics in assignment.items()}
        for (topic, _), owner in owners(assignment).items():
            readers = [one.member_id for one in each.subscribers if topic in one.topics]
            assert loads[owner] - min(loads[name] for name in readers) <= 1


@settings(deadline=None, max_examples=200, database=None)
@given(groups())
def test_assigning_again_changes_nothing(both: tuple[Spec, Spec]):
    for each in both:
        for assign in (assign_range, assign_uniform):
            once = assign(each)
            again = Spec(
                tuple(
                    Subscriber(one.member_id, one.instance_id, one.topics, once[one.member_id])
                    for one in each.subscribers
                ),
                each.partitions,
            )
            assert assign(again) == once
