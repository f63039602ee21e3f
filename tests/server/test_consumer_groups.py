"""Groups of the consumer protocol (KIP-848) with unmodified librdkafka, while members and brokers come and go."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cluster_processes import OttlaCluster
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupType, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from group_clients import OPTIONS, admin, assigned, produce
from processes import OttlaProcess

from ottla.testing import TestBroker

pytestmark = [pytest.mark.slow]
PATIENT = OPTIONS | {"group.consumer.session.timeout.ms": "45000"}
"""For brokers that are killed: a member that a busy machine holds up for some seconds keeps its partitions."""
SETTINGS = [part for name, value in PATIENT.items() for part in ("--set", f"{name}={value}")]


@contextmanager
def consumers(servers: str, *members: dict[str, Any], topics: list[str]) -> Iterator[list[Consumer]]:
    made = []
    for own in members:
        consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "g",
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
            | own
        )
        consumer.subscribe(topics)
        made.append(consumer)
    try:
        yield made
    finally:
        for consumer in made:
            consumer.close()


def poll_until(polled: list[Consumer], holds: Callable[[list[Any]], object], within_s: float = 300) -> list[Any]:
    """Poll all in turn until a condition on the messages holds; return the messages."""
    end = time.monotonic() + within_s
    messages: list[Any] = []
    while not holds(messages):
        assert time.monotonic() < end, f"not in time; assigned: {[assigned(each) for each in polled]}"
        for consumer in polled:
            message = consumer.poll(0.05)
            if message is not None:
                error = message.error()
                assert error is None or error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART or error.retriable(), error
                if error is None:
                    messages.append(message)
    return messages


def numbers(messages: list[Any]) -> list[int]:
    return sorted(int(message.value()) for message in messages)


def described(client: AdminClient) -> Any:
    return client.describe_consumer_groups(["g"])["g"].result(30)


@pytest.fixture
def broker() -> Iterator[TestBroker]:
    with TestBroker(OPTIONS) as running:
        yield running


def test_members_share_partitions_and_take_over_from_those_that_leave(broker: TestBroker):
    servers = broker.bootstrap_servers
    client = admin(servers, t=4)
    produce(servers, "t", range(40), 4)
    with consumers(servers, {}, {}, topics=["t"]) as (first, second):
        read = poll_until([first, second], lambda _: len(assigned(first)) == len(assigned(second)) == 2)
        assert not assigned(first) & assigned(second)
        group = described(client)
        assert (group.state, group.type, group.partition_assignor) == (
            ConsumerGroupState.STABLE, ConsumerGroupType.CONSUMER, "uniform",
        )  # fmt: skip
        assert {len(member.assignment.topic_partitions) for member in group.members} == {2}
        had = len(read)
        read += poll_until([first, second], lambda more: had + len(more) >= 40)
        first.close()
        poll_until([second], lambda _: len(assigned(second)) == 4)
    assert described(client).state is ConsumerGroupState.EMPTY


def test_commits_are_taken_from_members_and_read_by_the_next(broker: TestBroker):
    servers = broker.bootstrap_servers
    client = admin(servers, t=2)
    produce(servers, "t", range(20), 2)
    with consumers(servers, {}, topics=["t"]) as (first,):
        seen = poll_until([first], lambda read: len(read) == 20)
        first.commit(asynchronous=False)
    produce(servers, "t", range(20, 30), 2)
    with consumers(servers, {}, topics=["t"]) as (second,):
        seen += poll_until([second], lambda read: len(read) == 10)
    assert numbers(seen) == list(range(30)), "nothing twice"
    (listed,) = client.list_consumer_groups().result(30).valid
    assert (listed.group_id, listed.type, listed.state) == ("g", ConsumerGroupType.CONSUMER, ConsumerGroupState.EMPTY)
    client.delete_consumer_groups(["g"])["g"].result(30)
    assert client.list_consumer_groups().result(30).valid == []


def test_a_static_member_keeps_its_partitions_over_a_restart(broker: TestBroker):
    servers = broker.bootstrap_servers
    client = admin(servers, t=4)
    with consumers(servers, {"group.instance.id": "i"}, {}, topics=["t"]) as (static, other):
        poll_until([static, other], lambda _: len(assigned(static)) == len(assigned(other)) == 2)
        before = assigned(static), assigned(other)
        static.close()
        with consumers(servers, {"group.instance.id": "i"}, topics=["t"]) as (back,):
            poll_until([back, other], lambda _: len(assigned(back)) == 2)
            assert (assigned(back), assigned(other)) == before
            assert len(described(client).members) == 2


def test_a_regular_expression_follows_topics_as_they_are_made(broker: TestBroker):
    servers = broker.bootstrap_servers
    client = admin(servers, orders_a=2, other=1)
    with consumers(servers, {}, topics=["^orders_.*"]) as (one,):
        poll_until([one], lambda _: assigned(one) == {("orders_a", 0), ("orders_a", 1)})
        client.create_topics([NewTopic("orders_b", 1, 1)])["orders_b"].result(30)
        poll_until([one], lambda _: ("orders_b", 0) in assigned(one))


def test_new_partitions_are_given_to_members(broker: TestBroker):
    servers = broker.bootstrap_servers
    client = admin(servers, t=1)
    with consumers(servers, {}, {}, topics=["t"]) as (first, second):
        poll_until([first, second], lambda _: len(assigned(first) | assigned(second)) == 1)
        client.create_partitions([NewPartitions("t", 4)])["t"].result(30)
        poll_until([first, second], lambda _: len(assigned(first)) == len(assigned(second)) == 2)


def test_members_and_epochs_outlive_a_broker_that_is_killed(tmp_path: Path):
    broker = OttlaProcess(tmp_path, *SETTINGS)
    with broker:
        servers = broker.bootstrap_servers
        client = admin(servers, t=4)
        with consumers(servers, {}, {}, topics=["t"]) as (first, second):
            both = [first, second]
            poll_until(both, lambda _: len(assigned(first)) == len(assigned(second)) == 2)
            produce(servers, "t", range(40), 4)  # now: a record that is read while partitions move may be read twice
            read = poll_until(both, lambda more: len(more) >= 40)
            before = assigned(first), assigned(second), {member.member_id for member in described(client).members}
            broker.kill()
            broker.start()
            produce(servers, "t", range(40, 80), 4)
            read += poll_until(both, lambda more: len(more) >= 40)
            assert numbers(read) == list(range(80))
            members = {member.member_id for member in described(admin(servers)).members}
            assert (assigned(first), assigned(second), members) == before
            first.commit(asynchronous=False)


def test_a_group_goes_on_when_its_coordinator_is_killed(tmp_path: Path):
    with OttlaCluster(tmp_path, 3, *SETTINGS) as cluster:
        servers = cluster.bootstrap_servers
        client = AdminClient({"bootstrap.servers": servers})
        client.create_topics([NewTopic("t", 4, 3)])["t"].result(30)
        with consumers(servers, {}, {}, topics=["t"]) as (first, second):
            both = [first, second]
            poll_until(both, lambda _: len(assigned(first)) == len(assigned(second)) == 2)
            produce(servers, "t", range(40), 4)  # now: a record that is read while partitions move may be read twice
            read = poll_until(both, lambda more: len(more) >= 40)
            before = assigned(first), assigned(second)
            cluster.brokers[described(client).coordinator.id].kill()
            produce(servers, "t", range(40, 80), 4)
            read += poll_until(both, lambda more: len(more) >= 40)
            assert numbers(read) == list(range(80))
            assert (assigned(first), assigned(second)) == before
            committed = [TopicPartition(topic, index, 20) for topic, index in sorted(assigned(first))]
            first.commit(offsets=committed, asynchronous=False)
            assert [each.offset for each in second.committed(committed, timeout=30)] == [20, 20]
