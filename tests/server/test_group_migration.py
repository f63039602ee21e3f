"""Consumers of confluent-kafka are rolled from the classic protocol to that of KIP-848 and back, one at a time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient
from tests.server.test_consumer_groups import OPTIONS, admin, assigned, produce

from ottla.testing import TestBroker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
CLASSIC: dict[str, Any] = {"group.protocol": "classic", "heartbeat.interval.ms": 200, "session.timeout.ms": 10_000}
MODERN: dict[str, Any] = {"group.protocol": "consumer"}
PARTITIONS = 4


class Members:
    """The members of one group. Each commits every record before it takes the next."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.living: list[Consumer] = []
        self.read: Counter[int] = Counter()
        self.commit_failed: set[int] = set()

    def start(self, options: dict[str, Any]) -> Consumer:
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "g",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
            | options
        )
        consumer.subscribe(["t"])
        self.living.append(consumer)
        return consumer

    def stop(self, consumer: Consumer) -> None:
        self.living.remove(consumer)
        consumer.close()

    def poll_until(self, holds: Callable[[], bool], within_s: float = 90) -> None:
        end = time.monotonic() + within_s
        while not holds():
            assert time.monotonic() < end, [assigned(each) for each in self.living]
            for consumer in self.living:
                message = consumer.poll(0.02)
                if message is None:
                    continue
                assert message.error() is None or message.error().retriable(), message.error()
                if message.error() is None:
                    self._take(consumer, message)

    def _take(self, consumer: Consumer, message: Any) -> None:
        number = int(message.value())
        self.read[number] += 1
        try:
            consumer.commit(message, asynchronous=False)
        except KafkaException:
            self.commit_failed.add(number)

    def share_all(self) -> bool:
        """Whether each has some partitions and all have all, none of them twice."""
        parts = [assigned(each) for each in self.living]
        return all(parts) and sum(map(len, parts)) == PARTITIONS == len(set().union(*parts))


@pytest.fixture
def members() -> Iterator[Members]:
    with TestBroker(OPTIONS) as broker:
        made = Members(broker.bootstrap_servers)
        try:
            yield made
        finally:
            for consumer in list(made.living):
                made.stop(consumer)


def kind(client: AdminClient) -> str:
    (listed,) = client.list_consumer_groups().result(30).valid
    return str(listed.type.name)


@pytest.mark.parametrize("strategy", ["range,roundrobin", "cooperative-sticky"])
def test_a_group_is_rolled_to_the_consumer_protocol_and_back_without_a_stop(members: Members, strategy: str):
    servers = members.servers
    client = admin(servers, t=PARTITIONS)
    classic = CLASSIC | {"partition.assignment.strategy": strategy}
    group = [members.start(classic), members.start(classic)]
    seen = []
    changes = [(None, classic), (0, MODERN), (1, MODERN), (0, classic), (1, classic)]
    for step, (place, options) in enumerate(changes):
        produce(servers, "t", range(40 * step, 40 * step + 40), PARTITIONS)
        if place is not None:
            members.stop(group[place])
            group[place] = members.start(options)
        members.poll_until(lambda: members.share_all() and members.read.keys() >= {*range(40 * len(seen) + 40)})
        seen.append(kind(client))
    assert seen == ["CLASSIC", "CONSUMER", "CONSUMER", "CONSUMER", "CLASSIC"]
    assert sorted(members.read) == list(range(40 * len(changes))), "none is lost"
    twice = {number for number, times in members.read.items() if times > 1}
    assert twice <= members.commit_failed, "none is read again once it is committed"
