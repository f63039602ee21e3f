"""Events into topics at full speed. Comes from flights.py; the next doors are lake.py and query.py."""

from __future__ import annotations

import time
from collections.abc import Iterable

from ottla.client.blocking_admin import Admin
from ottla.client.blocking_producer import Producer
from ottla.demo.flights import Events


def create_topics(address: str, topics: Iterable[Events]) -> None:
    """With retention.ms=-1: the events are years old and would be deleted at the first look otherwise."""
    with Admin(address) as admin:
        for events in topics:
            admin.create_topic(events.topic, events.partitions, configs={"retention.ms": "-1"})


def produce(address: str, topics: Iterable[Events]) -> float:
    """Send everything, idempotent and acks=all, and wait for every acknowledgement; records a second."""
    begin, records = time.monotonic(), 0
    with Producer(address) as producer:
        deliveries = []
        for events in topics:
            for key, value, at_ms in zip(events.keys, events.values, events.times_ms, strict=True):
                deliveries.append(producer.produce(events.topic, value, key, timestamp=at_ms))
            records += len(events.values)
        producer.flush()
        for delivery in deliveries:
            delivery.result(0)
    return records / (time.monotonic() - begin)
