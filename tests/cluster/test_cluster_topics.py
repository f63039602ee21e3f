"""Creating, deleting and growing topics: names, numbers, assignments, and the resulting entries."""

from __future__ import annotations

import pytest
from clusters import Decisions, a_cluster, create, register, topic_id

from ottla.cluster.broker_commands import FenceBroker
from ottla.cluster.commands import CreatePartitions, CreateTopic, DeleteTopic
from ottla.cluster.topics import MAX_NAME_LENGTH, name_error
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicId
from ottla.metadata.entries import ENTRY_LIMIT, PartitionsCreated, TopicCreated, TopicReady, encode_entry


def test_a_new_topic_is_visible_with_its_last_entry_only():
    decisions = a_cluster(1)
    entries = decisions.ask(create("orders", 3))
    assert [type(entry) for entry in entries] == [TopicCreated, PartitionsCreated, TopicReady]
    for entry in entries[:-1]:
        decisions.state.apply(decisions.state.version + 1, entry)
        assert decisions.state.topic("orders") is None
        assert decisions.state.topic_by_id(topic_id("orders")) is None
    decisions.state.apply(decisions.state.version + 1, entries[-1])
    assert len(decisions.state.topic("orders").partitions) == 3


def test_a_topic_of_many_partitions_is_several_entries_each_within_the_limit():
    decisions = a_cluster(1, 2, 3)
    entries = decisions.do(create("wide", 10_000, 3))
    assert len(entries) > 5
    assert all(len(encode_entry(entry, broker_epoch=1, sequence=1)) <= ENTRY_LIMIT for entry in entries)
    assert len(decisions.state.topic("wide").partitions) == 10_000


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("x" * (MAX_NAME_LENGTH + 1), "is longer than the max allowed length 249"),
        ("a b", "one or more characters other than ASCII alphanumerics"),
        ("tøpic", "one or more characters other than ASCII alphanumerics"),
        ("new\n", "one or more characters other than ASCII alphanumerics"),
    ],
)
def test_a_name_that_kafka_refuses_is_refused(name, wrong):
    refused = a_cluster(1).refused(create(name))
    assert refused.code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert wrong in refused.message


def test_a_name_of_every_allowed_kind_of_letter_is_taken():
    assert name_error("aZ09._-") is None
    assert name_error("x" * MAX_NAME_LENGTH) is None


def test_a_name_that_is_there_cannot_be_taken_again():
    decisions = a_cluster(1)
    decisions.do(create("orders"))
    again = CreateTopic("orders", TopicId(b"another id......"), 1, 1)
    assert decisions.refused(again).code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_names_that_differ_in_dots_and_underscores_alone_collide():
    decisions = a_cluster(1)
    decisions.do(create("a.b_c"))
    refused = decisions.refused(create("a_b.c"))
    assert refused.code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert refused.message == "Topic 'a_b.c' collides with existing topic: a.b_c"


@pytest.mark.parametrize(
    ("partitions", "replicas", "code"),
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS),
        (-1, 1, ErrorCode.INVALID_PARTITIONS),
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 3, ErrorCode.INVALID_REPLICATION_FACTOR),
        (10_001, 1, ErrorCode.POLICY_VIOLATION),
    ],
)
def test_impossible_numbers_are_refused(partitions, replicas, code):
    assert a_cluster(1, 2).refused(create("orders", partitions, replicas)).code == code


def test_an_internal_topic_starts_with_as_many_replicas_as_there_are_brokers():
    decisions = a_cluster(1, 2)
    decisions.do(create("offsets", 2, 3)._replace(as_far_as_possible=True))
    assert [set(one.replicas) for one in decisions.state.topic("offsets").partitions] == [{1, 2}, {1, 2}]


def test_a_fenced_broker_gets_no_new_replica_while_others_suffice():
    decisions = a_cluster(1, 2)
    decisions.do(FenceBroker(2, decisions.epoch(2)))
    decisions.do(create("orders", 6))
    assert {one.replicas for one in decisions.state.topic("orders").partitions} == {(1,)}


def test_a_topic_that_needs_every_broker_is_created_while_one_is_away_and_not_in_sync():
    decisions = a_cluster(1, 2, 3)
    decisions.do(FenceBroker(2, decisions.epoch(2)))
    decisions.do(create("orders", 6, 3))
    for partition in decisions.state.topic("orders").partitions:
        assert sorted(partition.replicas) == [1, 2, 3]
        assert partition.replicas[2] == 2, "who is away is preferred last"
        assert sorted(partition.in_sync) == [1, 3]
        assert partition.leader == partition.replicas[0]
    refused = decisions.refused(create("more", 1, 4))
    assert refused.code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert refused.message.endswith("because only 3 broker(s) are registered.")


def test_partitions_are_added_while_a_broker_is_away():
    decisions = a_cluster(1, 2, 3)
    decisions.do(create("orders", 1, 3))
    decisions.do(FenceBroker(3, decisions.epoch(3)))
    decisions.do(CreatePartitions("orders", 3))
    assert [sorted(one.in_sync) for one in decisions.state.topic("orders").partitions[1:]] == [[1, 2], [1, 2]]


def manual(*replicas: tuple[int, ...], partitions: int = -1, factor: int = -1) -> CreateTopic:
    return CreateTopic("manual", topic_id("manual"), partitions, factor, assignment=replicas)


def test_replicas_that_the_client_chose_are_taken_in_its_order():
    decisions = a_cluster(1, 2, 3)
    decisions.do(manual((3, 1), (2, 3)))
    one, two = decisions.state.topic("manual").partitions
    assert (one.replicas, one.leader, one.in_sync) == ((3, 1), 3, (3, 1))
    assert (two.replicas, two.leader) == ((2, 3), 2)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (manual((1,), partitions=1), ErrorCode.INVALID_REQUEST),
        (manual((1,), factor=1), ErrorCode.INVALID_REQUEST),
        (manual((1, 9)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (manual((1, 1)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (manual(()), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (manual((1, 2), (1,)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_an_assignment_that_contradicts_itself_is_refused(command, code):
    assert a_cluster(1, 2).refused(command).code == code


def test_an_assigned_broker_that_is_fenced_is_a_replica_but_not_in_sync():
    decisions = a_cluster(1, 2)
    decisions.do(FenceBroker(2, decisions.epoch(2)))
    decisions.do(manual((2, 1)))
    partition = decisions.partition("manual")
    assert (partition.replicas, partition.in_sync, partition.leader) == ((2, 1), (1,), 1)
    only_fenced = manual((2,))._replace(name="other", topic_id=topic_id("other"))
    assert decisions.refused(only_fenced).code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_topic_keeps_the_options_it_was_created_with():
    decisions = a_cluster(1)
    decisions.do(create("orders", cleanup_policy="compact"))
    assert decisions.state.topic("orders").configs == {"cleanup.policy": "compact"}


def test_options_too_large_for_one_entry_are_refused():
    refused = a_cluster(1).refused(create("orders", follower="x" * ENTRY_LIMIT))
    assert refused.code == ErrorCode.INVALID_CONFIG


def test_a_deleted_topic_is_gone_and_its_name_free_for_another_id():
    decisions = a_cluster(1)
    decisions.do(create("orders", 2))
    decisions.do(DeleteTopic("orders", topic_id("orders")))
    assert decisions.state.topic("orders") is None
    assert decisions.refused(DeleteTopic("orders", topic_id("orders"))).code == ErrorCode.UNKNOWN_TOPIC_ID
    decisions.do(CreateTopic("orders", TopicId(b"a later id......"), 1, 1))
    assert decisions.state.topic("orders").topic_id == b"a later id......"


def test_partitions_are_added_after_those_that_are_there():
    decisions = a_cluster(1, 2)
    decisions.do(create("orders", 2, 2))
    decisions.do(CreatePartitions("orders", 5))
    partitions = decisions.state.topic("orders").partitions
    assert [one.partition for one in partitions] == [0, 1, 2, 3, 4]
    assert all(len(one.replicas) == 2 for one in partitions)


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        (CreatePartitions("orders", 2), ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partition(s)."),
        (
            CreatePartitions("orders", 1),
            ErrorCode.INVALID_PARTITIONS,
            "The topic orders currently has 2 partition(s); 1 would not be an increase.",
        ),
        (CreatePartitions("missing", 1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "does not host"),
        (CreatePartitions("orders", 4, ((1, 2),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "only 1 assignment(s)"),
        (CreatePartitions("orders", 3, ((1,),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "not consistent"),
    ],
)
def test_partitions_that_cannot_be_added_are_refused(command, code, message):
    decisions = a_cluster(1, 2)
    decisions.do(create("orders", 2, 2))
    refused = decisions.refused(command)
    assert refused.code == code
    assert message in refused.message


def placed(decisions: Decisions, name: str) -> list[tuple[int, ...]]:
    return [one.replicas for one in decisions.state.topic(name).partitions]


def test_no_host_has_two_replicas_while_another_has_room():
    decisions = Decisions()
    for number in range(1, 7):
        decisions.do(register(number, host=f"machine{number % 3}"))
    decisions.do(create("orders", 30, 3))
    for replicas in placed(decisions, "orders"):
        assert {number % 3 for number in replicas} == {0, 1, 2}


def test_replicas_are_spread_over_racks():
    decisions = Decisions()
    for number, rack in ((1, "a"), (2, "a"), (3, "a"), (4, "b")):
        decisions.do(register(number, rack=rack))
    decisions.do(create("orders", 12, 2))
    for replicas in placed(decisions, "orders"):
        assert 4 in replicas


def test_leaders_and_replicas_are_spread_evenly():
    decisions = a_cluster(1, 2, 3, 4)
    for number in range(10):
        decisions.do(create(f"topic{number}", 4, 2))
    everything = [replicas for number in range(10) for replicas in placed(decisions, f"topic{number}")]
    leaders = [sum(replicas[0] == number for replicas in everything) for number in (1, 2, 3, 4)]
    held = [sum(number in replicas for replicas in everything) for number in (1, 2, 3, 4)]
    assert max(leaders) - min(leaders) <= 1
    assert max(held) - min(held) <= 8


def test_small_topics_do_not_pile_up_on_the_first_broker():
    """Each is decided on an empty cluster, like topics that are created in one append."""
    firsts = set()
    for number in range(20):
        decisions = a_cluster(1, 2, 3)
        topic = CreateTopic(f"t{number}", TopicId(bytes([number * 37 % 256]) * 16), 1, 1)
        decisions.do(topic)
        firsts.add(decisions.partition(topic.name).leader)
    assert firsts == {1, 2, 3}


def test_a_broker_that_joins_late_leads_the_next_small_topics():
    decisions = a_cluster(1)
    decisions.do(create("old", 10))
    decisions.do(register(2))
    for number in range(10):
        decisions.do(create(f"new{number}"))
    assert all(placed(decisions, f"new{number}") == [(2,)] for number in range(10))


def test_the_partitions_of_a_topic_are_led_by_all_brokers_although_one_joined_late():
    decisions = a_cluster(1, 2)
    decisions.do(create("old", 30, 2))
    decisions.do(register(3))
    decisions.do(create("new", 6, 2))
    leaders = [replicas[0] for replicas in placed(decisions, "new")]
    assert sorted(leaders) == [1, 1, 2, 2, 3, 3]
    held = [number for replicas in placed(decisions, "new") for number in replicas]
    assert sorted(held) == [1] * 4 + [2] * 4 + [3] * 4


def test_partitions_that_are_added_are_led_by_those_who_lead_few_of_the_topic():
    decisions = a_cluster(1)
    decisions.do(create("old", 4))
    decisions.do(create("orders", 2))
    decisions.do(register(2))
    decisions.do(CreatePartitions("orders", 4))
    assert placed(decisions, "orders") == [(1,), (1,), (2,), (2,)]
