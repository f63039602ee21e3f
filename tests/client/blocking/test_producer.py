"""The blocking producer: what `flush` waits for."""

from __future__ import annotations

import threading

import pytest

from ottla.client.blocking.producer import Producer
from ottla.client.errors import ClientError, RequestTimedOut
from ottla.client.model import ClientSettings
from ottla.client.produce.settings import ProducerSettings
from ottla.testing import TestBroker


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


def test_an_on_delivery_that_raises_stops_neither_the_others_nor_the_producer(
    ours: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[object] = []

    def refuse(_: object) -> None:
        raise OSError("the callback failed")

    with Producer(ours) as producer:
        for on_delivery in (refuse, told.append):
            producer.produce(name, "cat", partition=0, on_delivery=on_delivery)
        producer.flush(timeout=60)
        assert len(told) == 1
        assert producer.produce(name, "dog").result(60).offset == 2
    assert "the callback failed" in caplog.text


def test_what_an_on_delivery_produces_while_the_producer_closes_is_delivered(ours: str, name: str) -> None:
    deliveries = []
    producer = Producer(ours, producer=ProducerSettings(linger_ms=600_000))
    producer.produce(name, "cat", on_delivery=lambda _: deliveries.append(producer.produce(name, "dog")))
    producer.close(timeout=60)
    assert deliveries[0].result(0).offset == 1


def test_an_on_delivery_may_close_the_producer(ours: str, name: str) -> None:
    ended = threading.Event()
    producer = Producer(ours)

    def close(_: object) -> None:
        producer.close()
        ended.set()

    producer.produce(name, "cat", on_delivery=close)
    assert ended.wait(60)
    with pytest.raises(ClientError, match="closed"):
        producer.produce(name, "dog")


def test_close_ends_in_time_while_the_broker_does_not_answer(name: str) -> None:
    settings = ProducerSettings(request_timeout_ms=600_000, linger_ms=0, buffer_memory=1)
    answering = threading.Event()
    with TestBroker() as broker:
        producer = Producer(broker.bootstrap_servers, producer=settings)
        producer.produce(name, "cat").result(60)
        assert broker._loop is not None
        broker._loop.call_soon_threadsafe(answering.wait)
        late = producer.produce(name, "dog")
        blocked: list[Exception] = []

        def produce_another() -> None:
            try:
                producer.produce(name, "cow")
            except ClientError as fault:
                blocked.append(fault)

        threads = [
            threading.Thread(target=produce_another, daemon=True),
            threading.Thread(target=lambda: producer.close(0.1), daemon=True),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        hung = [thread for thread in threads if thread.is_alive()]
        answering.set()
    assert hung == []
    assert "closed" in str(blocked[0])
    with pytest.raises(RequestTimedOut):
        late.result(0)


def test_a_commit_ends_in_time_while_the_coordinator_does_not_answer(name: str) -> None:
    answering = threading.Event()
    raised: list[Exception] = []
    with TestBroker() as broker:
        settings = ClientSettings(request_timeout_ms=600_000)
        producer = Producer(broker.bootstrap_servers, settings=settings, transactional_id=name)
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce(name, "cat")
        producer.flush(timeout=60)
        assert broker._loop is not None
        broker._loop.call_soon_threadsafe(answering.wait)

        def commit() -> None:
            try:
                producer.commit_transaction(timeout=0.2)
            except RequestTimedOut as late:
                raised.append(late)

        thread = threading.Thread(target=commit, daemon=True)
        thread.start()
        thread.join(10)
        in_time = list(raised)
        answering.set()
        thread.join(60)
        assert len(in_time) == 1
        producer.commit_transaction(timeout=60)
        producer.close()
