"""Our own producer, with either face, while one of three real brokers takes connections and answers nothing."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_processes import OttlaCluster
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.client import aio
from ottla.client.blocking.consumer import Consumer
from ottla.client.blocking.producer import Producer
from ottla.client.consume.settings import ConsumerSettings
from ottla.client.errors import RequestTimedOut
from ottla.client.model import LATEST
from ottla.client.produce.settings import ProducerSettings
from ottla.kernel.ids import TopicPartition

IN_TIME_S = 60
"""For everything that must not wait for the broker that hangs. The producer would wait much longer for its answer."""
SETTINGS = ProducerSettings(linger_ms=0, batch_size=200, request_timeout_ms=600_000, delivery_timeout_ms=900_000)
HELD = [f"held {number:03}" for number in range(20)]
FREE = [f"free {number:03}" for number in range(20)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaCluster]:
    folder: Path = tmp_path_factory.mktemp("cluster")
    with OttlaCluster(folder, 3) as running:
        yield running


@pytest.fixture(params=["connected", "not connected"])
def warm(request: pytest.FixtureRequest) -> bool:
    """True if the producer has sent to the broker before it hangs."""
    return bool(request.param == "connected")


@pytest.fixture
def topic(cluster: OttlaCluster, request: pytest.FixtureRequest) -> str:
    """A topic whose partitions 0, 1 and 2 are led by the brokers 1, 2 and 3, without other replicas."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(name, 3, replica_assignment=[[1], [2], [3]])])[name].result(60)
    return name


@contextlib.contextmanager
def hanging(cluster: OttlaCluster) -> Iterator[None]:
    """Stop broker 3 as it is; let it go on at the end."""
    process = cluster.brokers[3].process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def read(cluster: OttlaCluster, topic: str) -> dict[int, list[str]]:
    """The values of each partition, in the order of the log."""
    values: dict[int, list[str]] = {0: [], 1: [], 2: []}
    settings = ConsumerSettings(auto_offset_reset="earliest")
    with Consumer(cluster.bootstrap_servers, consumer=settings) as consumer:
        places = [TopicPartition(topic, index) for index in values]
        consumer.assign(places)
        ends = consumer.cluster.list_offsets(places, LATEST)
        while any(consumer.position(place) < ends[place].offset for place in places):
            for record in consumer.poll(1_000):
                values[record.partition].append((record.value or b"").decode())
    return values


def test_records_for_other_brokers_are_delivered_while_one_hangs(cluster: OttlaCluster, topic: str, warm: bool) -> None:
    begin = ["warm"] if warm else []
    with Producer(cluster.address(1), producer=SETTINGS) as producer:
        for value in begin:
            for partition in range(3):
                producer.produce(topic, value, partition=partition).result(IN_TIME_S)
        with hanging(cluster):
            held = [producer.produce(topic, value, partition=2) for value in HELD]
            for value in FREE:
                for delivery in [producer.produce(topic, value, partition=partition) for partition in (0, 1)]:
                    delivery.result(IN_TIME_S)
            with pytest.raises(RequestTimedOut):
                producer.flush(timeout=0)
            assert not any(delivery.done for delivery in held)
        offsets = [delivery.result(4 * IN_TIME_S).offset for delivery in held]
    assert offsets == list(range(len(begin), len(begin) + len(HELD)))
    assert read(cluster, topic) == {0: begin + FREE, 1: begin + FREE, 2: begin + HELD}


def test_records_of_an_asyncio_producer_are_delivered_while_another_broker_hangs(
    cluster: OttlaCluster, topic: str, warm: bool
) -> None:
    begin = ["warm"] if warm else []

    async def story() -> list[int]:
        async with aio.Producer(cluster.address(1), producer=SETTINGS) as producer:

            async def deliver(value: str, *partitions: int) -> None:
                futures = [await producer.produce(topic, value, partition=partition) for partition in partitions]
                async with asyncio.timeout(IN_TIME_S):
                    await asyncio.gather(*futures)

            for value in begin:
                await deliver(value, 0, 1, 2)
            with hanging(cluster):
                held = [await producer.produce(topic, value, partition=2) for value in HELD]
                for value in FREE:
                    await deliver(value, 0, 1)
                assert not any(future.done() for future in held)
            async with asyncio.timeout(4 * IN_TIME_S):
                return [delivered.offset for delivered in await asyncio.gather(*held)]

    assert asyncio.run(story()) == list(range(len(begin), len(begin) + len(HELD)))
    assert read(cluster, topic) == {0: begin + FREE, 1: begin + FREE, 2: begin + HELD}
