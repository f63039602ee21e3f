"""Reads of a broker by a test: all records of a topic, and conditions that become true after a while."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from ottla.client.blocking.consumer import Consumer
from ottla.client.errors import ClientError, refused
from ottla.client.model import LATEST, ConsumedRecord, IsolationLevel
from ottla.kernel.errors import ApiError
from ottla.kernel.ids import TopicPartition

T = TypeVar("T")
_PAUSE_S = 0.01
_POLL_MS = 200
_READ_MS = 2_000


def read_topic(
    bootstrap: str, topic: str, *, at_least: int, isolation_level: IsolationLevel | str, timeout: float
) -> list[ConsumedRecord]:
    """All records of a topic, by partition and offset; TimeoutError where there are fewer than `at_least` by then."""
    deadline = time.monotonic() + timeout
    with Consumer(bootstrap, isolation_level=isolation_level, auto_offset_reset="earliest") as consumer:
        found: list[ConsumedRecord] = []
        while True:
            _assign_all(consumer, topic)
            found += _read_to_end(consumer, deadline)
            if len(found) >= at_least:
                return sorted(found, key=lambda record: (record.partition, record.offset))
            found += consumer.poll(_POLL_MS)
            if time.monotonic() >= deadline and len(found) < at_least:
                raise TimeoutError(f"topic {topic!r} has {len(found)} of {at_least} records after {timeout} s")


def _assign_all(consumer: Consumer, topic: str) -> None:
    """Read all partitions that the topic has by now; those that were read before go on where they were."""
    cluster = consumer.cluster
    cluster.refresh([topic])
    view = cluster.plan.metadata.topics[topic]
    if not view.error:
        consumer.assign([TopicPartition(topic, index) for index in view.partitions])
    elif not view.error.retriable:
        raise refused(view.error, f"topic {topic!r}")


def _read_to_end(consumer: Consumer, deadline: float) -> list[ConsumedRecord]:
    """The records up to where the log ends now, as the isolation level shows it."""
    isolation: IsolationLevel = consumer.core.settings.fetch.isolation_level
    ends = consumer.cluster.list_offsets(sorted(consumer.assignment), LATEST, isolation)
    found: list[ConsumedRecord] = []
    while any(consumer.position(partition) < end.offset for partition, end in ends.items()):
        came = consumer.poll(_READ_MS)
        if not came and time.monotonic() >= deadline:
            raise TimeoutError(
                f"{len(found)} records were read, and there are more: the broker did not send them in time"
            )
        found += came
    return found


def wait_for(condition: Callable[[], T], timeout: float, what: str | None) -> T:
    """The condition's value as soon as it is true; TimeoutError tells what it returned or raised last."""
    deadline = time.monotonic() + timeout
    while True:
        fault: Exception | None = None
        found: object = None
        try:
            found = value = condition()
            if value:
                return value
        except (AssertionError, ApiError, ClientError) as error:
            fault = error
        if time.monotonic() >= deadline:
            last = f"it last raised {type(fault).__name__}: {fault}" if fault is not None else f"it was {found!r}"
            raise TimeoutError(f"{what or 'the condition'} did not become true within {timeout} s; {last}") from fault
        time.sleep(_PAUSE_S)
