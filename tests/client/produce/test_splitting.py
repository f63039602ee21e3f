"""A batch that is too large for its topic is split until its parts fit; every record has its own outcome."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.client.sending import P0, World

from ottla.client import Admin, ApiError, Consumer, ErrorCode, Producer, TopicPartition, aio
from ottla.client.errors import refused
from ottla.client.model import Produced, ProducerIdentity
from ottla.client.produce.accumulator import Accumulator
from ottla.client.produce.settings import ProducerSettings
from ottla.records.batch import Batch


def a_topic_of_small_batches(ours: str, name: str) -> None:
    with Admin(ours) as admin:
        admin.create_topic(name, configs={"max.message.bytes": 2_000})


@pytest.mark.parametrize("idempotent", [True, False])
def test_records_of_a_batch_that_is_too_large_arrive_in_order(ours: str, name: str, idempotent: bool):
    a_topic_of_small_batches(ours, name)
    told: list[Any] = []
    with Producer(ours, linger_ms="1h", enable_idempotence=idempotent) as producer:
        given = [
            producer.produce(name, f"{number:0100}", f"k{number}", headers={"n": str(number)}, on_delivery=told.append)
            for number in range(200)
        ]
        producer.flush(60)
        assert [delivery.result(60).offset for delivery in given] == list(range(200))
        assert [delivered.offset for delivered in told] == list(range(200))
        later = producer.produce(name, "later")
        producer.flush(60)
        assert later.result(60).offset == 200
    found: list[Any] = []
    with Consumer(ours, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(name, 0)])
        while len(found) < 201:
            found += consumer.poll(10_000)
    assert [(each.value, each.key, each.headers) for each in found[:-1]] == [
        (f"{number:0100}".encode(), f"k{number}".encode(), (("n", str(number).encode()),)) for number in range(200)
    ]


def test_one_record_that_does_not_fit_fails_alone(ours: str, name: str):
    a_topic_of_small_batches(ours, name)
    with Producer(ours, linger_ms="1h") as producer:
        given = [producer.produce(name, b"x" * (3_000 if number == 5 else 100)) for number in range(10)]
        producer.flush(60)
        for number, delivery in enumerate(given):
            if number == 5:
                with pytest.raises(ApiError, match="one record of 3070 bytes was refused") as fault:
                    delivery.result(60)
                assert fault.value.code is ErrorCode.MESSAGE_TOO_LARGE
            else:
                assert delivery.result(60).offset == number - (number > 5)


def test_the_asyncio_face_splits_too(ours: str, name: str):
    a_topic_of_small_batches(ours, name)

    async def produce_all() -> list[int]:
        async with aio.Producer(ours, linger_ms="1h") as producer:
            futures = [await producer.produce(name, f"{number:0100}") for number in range(100)]
            await producer.flush()
            return [(await future).offset for future in futures]

    assert asyncio.run(produce_all()) == list(range(100))


def test_a_transaction_with_a_batch_that_is_too_large_commits(ours: str, name: str):
    a_topic_of_small_batches(ours, name)
    with Producer(ours, transactional_id=name) as producer:
        producer.init_transactions()
        with producer.transaction():
            given = [producer.produce(name, f"{number:0100}") for number in range(100)]
        assert [delivery.result(60).offset for delivery in given] == list(range(100))


def test_parts_take_the_sequences_of_the_batch_and_later_batches_are_smaller():
    accumulator = Accumulator(ProducerSettings(linger_ms=0, batch_size=1_000))
    accumulator.identify(P0, ProducerIdentity(7, 0))
    places = [accumulator.append(P0, 5, None, b"x" * 100, [], now_ms=0) for _ in range(5)]
    (batch,) = accumulator.ready(0, flush=True)
    assert Batch(accumulator.frame(batch)).base_sequence == 0
    accumulator.split(batch)
    for sequence, count in ((0, 2), (2, 3)):
        (part,) = accumulator.ready(0)
        frame = Batch(accumulator.frame(part))
        assert (frame.base_sequence, frame.records_count) == (sequence, count)
        assert batch.outcome is None
        accumulator.finish(part, Produced(10 + sequence))
    assert [place.delivered().offset for place in places] == [10, 11, 12, 13, 14]
    assert (batch.outcome, accumulator.waiting_bytes) == (Produced(12), 0)
    for _ in range(5):
        last = accumulator.append(P0, 5, None, b"x" * 100, [], now_ms=0)
    assert last.delta < 4


def test_batches_stay_small_where_the_broker_answers_nothing():
    assert ProducerSettings(acks=0).full_batch_bytes == 16 * 1024
    assert ProducerSettings(acks=0, batch_size="64KiB").full_batch_bytes == 64 * 1024
    assert ProducerSettings(acks=1).full_batch_bytes == ProducerSettings().batch_size == 128 * 1024


def test_a_batch_that_may_be_in_the_log_is_not_split():
    world = World()
    world.know()
    batch = world.accumulator.append(P0, 5, None, b"x", [], now_ms=0).batch
    world.accumulator.append(P0, 5, None, b"x", [], now_ms=0)
    world.fault[1] = refused(ErrorCode.REQUEST_TIMED_OUT, "produce to t-0")
    world.send()
    world.time += 1_000
    world.fault[1] = refused(ErrorCode.MESSAGE_TOO_LARGE, "produce to t-0")
    world.send()
    assert isinstance(batch.outcome, ApiError)
