"""The blocking producer: what `flush` waits for."""

from __future__ import annotations

import threading

import pytest

from ottla.client.blocking.producer import Producer
from ottla.client.errors import RequestTimedOut


def test_flush_returns_once_every_on_delivery_has_been_called(ours: str, name: str) -> None:
    told: list[object] = []
    begun, may_end = threading.Event(), threading.Event()

    def slow(outcome: object) -> None:
        begun.set()
        assert may_end.wait(60)
        told.append(outcome)

    with Producer(ours) as producer:
        producer.produce(name, "cat", on_delivery=slow)
        assert begun.wait(60)
        with pytest.raises(RequestTimedOut):
            producer.flush(timeout=0.05)
        may_end.set()
        producer.flush(timeout=60)
        assert len(told) == 1


def test_an_on_delivery_may_flush(ours: str, name: str) -> None:
    flushed: list[object] = []

    with Producer(ours) as producer:

        def flush(outcome: object) -> None:
            producer.flush(timeout=60)
            flushed.append(outcome)

        producer.produce(name, "cat", on_delivery=flush)
        producer.flush(timeout=60)
        assert len(flushed) == 1


def test_flush_does_not_wait_for_what_is_produced_meanwhile(ours: str, name: str) -> None:
    ended = threading.Event()

    with Producer(ours) as producer:

        def produce_another(outcome: object) -> None:
            if not ended.is_set():
                producer.produce(name, "dog", on_delivery=produce_another)

        delivery = producer.produce(name, "cat", on_delivery=produce_another)
        producer.flush(timeout=60)
        assert delivery.done
        ended.set()


def test_an_on_delivery_that_flushes_does_not_wait_for_what_it_produced(ours: str, name: str) -> None:
    with Producer(ours) as producer:
        deliveries = []

        def produce_and_flush(outcome: object) -> None:
            deliveries.append(producer.produce(name, "dog"))
            producer.flush(timeout=60)

        producer.produce(name, "cat", on_delivery=produce_and_flush)
        producer.flush(timeout=60)
        deliveries[0].result(60)
