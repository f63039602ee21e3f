"""Unmodified aiokafka: an asyncio client that uses none of the flexible versions."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
import reaching
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from exchange import BROKERS, CODECS, EPOCH_MS, values


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, 120))


async def create(bootstrap: str, topic: str, partitions: int = 1) -> None:
    admin = AIOKafkaAdminClient(**reaching.aiokafka(bootstrap))
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, partitions, BROKERS)])
    finally:
        await admin.close()


async def produce(bootstrap: str, topic: str, payloads: list[bytes], codec: str = "none") -> list[int]:
    kind = None if codec == "none" else codec
    async with AIOKafkaProducer(
        **reaching.aiokafka(bootstrap), compression_type=kind, enable_idempotence=True, linger_ms=5
    ) as producer:
        sent = [
            await producer.send(topic, payload, partition=0, timestamp_ms=EPOCH_MS + number, headers=[("n", b"1")])
            for number, payload in enumerate(payloads)
        ]
        return [(await each).offset for each in sent]


def consumer_of(bootstrap: str, group: str | None, *topics: str) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        *topics, **reaching.aiokafka(bootstrap), group_id=group, auto_offset_reset="earliest", enable_auto_commit=False,
        session_timeout_ms=6000, heartbeat_interval_ms=500,
    )  # fmt: skip


async def take(consumer: AIOKafkaConsumer, count: int) -> list:
    return [await consumer.getone() for _ in range(count)]


@pytest.mark.parametrize("codec", CODECS)
def test_aiokafka_gets_back_what_it_wrote_with_every_codec(bootstrap: str, name: str, codec: str) -> None:
    async def story() -> None:
        await create(bootstrap, name)
        payloads = values(100)
        assert await produce(bootstrap, name, payloads, codec) == list(range(100))
        async with consumer_of(bootstrap, None) as consumer:
            consumer.assign([TopicPartition(name, 0)])
            got = await take(consumer, 100)
        assert [each.value for each in got] == payloads
        assert (got[7].timestamp, got[7].headers) == (EPOCH_MS + 7, (("n", b"1"),))

    run(story())


def test_aiokafka_goes_on_where_its_group_committed(bootstrap: str, name: str) -> None:
    async def story() -> None:
        await create(bootstrap, name)
        await produce(bootstrap, name, values(20))
        where = TopicPartition(name, 0)
        async with consumer_of(bootstrap, name, name) as consumer:
            await take(consumer, 20)
            await consumer.commit({where: 12})
        async with consumer_of(bootstrap, name, name) as consumer:
            assert (await take(consumer, 8))[0].offset == 12
            assert await consumer.committed(where) == 12

    run(story())


@pytest.mark.compat
def test_aiokafka_seeks_and_shares(bootstrap: str, name: str) -> None:
    async def story() -> None:
        await create(bootstrap, name, 4)
        await produce(bootstrap, name, values(50))
        where = TopicPartition(name, 0)
        async with consumer_of(bootstrap, name, name) as one:
            assert await one.end_offsets([where]) == {where: 50}
            assert (await one.offsets_for_times({where: EPOCH_MS + 30}))[where].offset == 30
            one.seek(where, 42)
            assert (await one.getone(where)).offset == 42
            async with consumer_of(bootstrap, name, name) as two:
                while not (len(one.assignment()) == len(two.assignment()) == 2):
                    await asyncio.sleep(0.05)
                assert not one.assignment() & two.assignment()

    run(story())
