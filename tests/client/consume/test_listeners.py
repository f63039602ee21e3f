"""Listeners of a group's member: what they may still do, and what happens when they raise."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ottla.client.blocking.admin import Admin
from ottla.client.blocking.cluster import Cluster
from ottla.client.blocking.consumer import Consumer
from ottla.client.blocking.producer import Producer
from ottla.client.consume.settings import ConsumerSettings
from ottla.kernel.ids import TopicPartition


def a_topic(bootstrap: str, topic: str) -> None:
    """Two partitions with one record each."""
    with Admin(bootstrap) as admin:
        admin.create_topic(topic, partitions=2)
    with Producer(bootstrap) as producer:
        for partition in (0, 1):
            producer.produce(topic, "x", partition=partition)


def settings(group: str) -> ConsumerSettings:
    return ConsumerSettings(
        group_id=group, auto_offset_reset="earliest", enable_auto_commit=False, heartbeat_interval_ms=50
    )


@contextmanager
def another_member(bootstrap: str, name: str) -> Iterator[Consumer]:
    """A member of the group that polls in a thread of its own."""
    ended = threading.Event()
    with Consumer(bootstrap, consumer=settings(name)) as consumer:
        consumer.subscribe([name])

        def read() -> None:
            while not ended.is_set():
                consumer.poll(50)

        thread = threading.Thread(target=read)
        thread.start()
        try:
            yield consumer
        finally:
            ended.set()
            thread.join()


def test_on_revoke_may_commit_while_the_consumer_closes(ours: str, name: str) -> None:
    a_topic(ours, name)
    consumer = Consumer(ours, consumer=settings(name))
    consumer.subscribe([name], on_revoke=lambda _: consumer.commit())
    consumer.poll(60_000)
    with another_member(ours, name):
        while len(consumer.assignment) != 1:
            consumer.poll(50)
        (held,) = consumer.assignment
        while consumer.position(held) != 1:
            consumer.poll(50)
        consumer.close()
    with Cluster(ours) as cluster:
        assert cluster.committed_offsets(name)[held].offset == 1


def test_a_listener_that_raises_does_not_keep_partitions_from_others(ours: str, name: str) -> None:
    a_topic(ours, name)

    def refuse(_: list[TopicPartition]) -> None:
        raise OSError("the listener failed")

    consumer = Consumer(ours, consumer=settings(name))
    consumer.subscribe([name], on_revoke=refuse)
    consumer.poll(60_000)
    with another_member(ours, name) as other:
        with pytest.raises(OSError, match="the listener failed"):
            while True:
                consumer.poll(50)
        while len(consumer.assignment) != 1 or len(other.assignment) != 1:
            consumer.poll(50)
        assert consumer.assignment != other.assignment
        with pytest.raises(OSError, match="the listener failed"):
            consumer.close()
        while len(other.assignment) != 2:
            threading.Event().wait(0.01)
