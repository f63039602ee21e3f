"""A broker that takes connections and answers nothing holds back its own partitions alone."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.client import aio
from ottla.client.blocking.admin import Admin
from ottla.client.blocking.consumer import Consumer
from ottla.client.blocking.producer import Producer
from ottla.client.consume.settings import ConsumerSettings
from ottla.client.core.plan import ClusterPlan
from ottla.client.model import Broker, ClientSettings
from ottla.kernel.ids import TopicPartition

PATIENT = ClientSettings(request_timeout_ms=3_600_000, connect_timeout_ms=3_600_000, api_timeout_ms=3_600_000)
"""So patient that whoever waits for the broker that hangs waits for longer than the test may take."""
EARLIEST = ConsumerSettings(auto_offset_reset="earliest")
HUNG = 99


@pytest.fixture
def hung() -> Iterator[Broker]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield Broker(HUNG, "127.0.0.1", listener.getsockname()[1])


@pytest.fixture
def topic(ours: str, name: str) -> str:
    """Two partitions, of which 0 has a record."""
    with Admin(ours) as admin:
        admin.create_topic(name, partitions=2)
    write(ours, name, "first")
    return name


def write(bootstrap: str, topic: str, value: str) -> None:
    with Producer(bootstrap) as producer:
        producer.produce(topic, value, partition=0)


def have_it_lead(plan: ClusterPlan, hung: Broker, topic: str) -> None:
    """Let all metadata say that the broker which hangs leads partition 1."""
    take = plan.metadata.take

    def taken(*arguments: Any, **named: Any) -> None:
        take(*arguments, **named)
        plan.metadata.brokers[HUNG] = hung
        view = plan.metadata.topics.get(topic)
        if view is not None and 1 in view.partitions:
            led = view.partitions[1]._replace(leader=HUNG, leader_epoch=0)
            plan.metadata.topics[topic] = view._replace(partitions={**view.partitions, 1: led})

    plan.metadata.take = taken  # type: ignore[method-assign]


@pytest.mark.parametrize("sought", [True, False])
def test_records_of_other_brokers_are_delivered(ours: str, topic: str, hung: Broker, sought: bool) -> None:
    """Without an offset of its own for partition 1 the consumer asks the broker for one, else for records."""
    places = [TopicPartition(topic, index) for index in (0, 1)]
    consumer = Consumer(ours, consumer=EARLIEST, settings=PATIENT)
    have_it_lead(consumer.cluster.plan, hung, topic)
    consumer.assign(places)
    if sought:
        consumer.seek(places[1], 0)
    read: list[bytes | None] = []
    for value in ("first", "second", "third"):
        if value != "first":
            write(ours, topic, value)
        while (value.encode()) not in read:
            read += [record.value for record in consumer.poll(1_000)]
    assert read == [b"first", b"second", b"third"]
    consumer.close()


def test_records_of_other_brokers_are_delivered_by_the_asyncio_face(ours: str, topic: str, hung: Broker) -> None:
    async def story() -> list[bytes | None]:
        async with aio.Consumer(ours, consumer=EARLIEST, settings=PATIENT) as consumer:
            have_it_lead(consumer.cluster.plan, hung, topic)
            consumer.assign([TopicPartition(topic, index) for index in (0, 1)])
            read: list[bytes | None] = []
            while len(read) < 1:
                read += [record.value for record in await consumer.poll(1_000)]
            return read

    assert asyncio.run(story()) == [b"first"]
