"""Consumers as iterators: the position follows the records that were handed out, one by one."""

from __future__ import annotations

import asyncio

from ottla.client import aio
from ottla.client.blocking.consumer import Consumer
from ottla.client.blocking.producer import Producer
from ottla.client.consume.settings import ConsumerSettings
from ottla.kernel.ids import TopicPartition


def fill(bootstrap: str, topic: str) -> ConsumerSettings:
    """Five records; settings of a group that reads them."""
    with Producer(bootstrap) as producer:
        for number in range(5):
            producer.produce(topic, str(number), partition=0)
    return ConsumerSettings(group_id=topic, auto_offset_reset="earliest", enable_auto_commit=False)


def test_a_loop_that_ends_early_leaves_the_other_records_for_the_next(ours: str, name: str) -> None:
    settings, place = fill(ours, name), TopicPartition(name, 0)
    with Consumer(ours, consumer=settings) as consumer:
        consumer.subscribe([name])
        for record in consumer:
            consumer.commit()
            assert consumer.committed([place])[place].offset == record.offset + 1
            if record.offset == 1:
                break
        assert next(iter(consumer)).offset == 2
        assert [record.offset for record in consumer.poll(60_000)] == [3, 4]


def test_so_does_a_loop_with_asyncio(ours: str, name: str) -> None:
    settings, place = fill(ours, name), TopicPartition(name, 0)

    async def story() -> None:
        async with aio.Consumer(ours, consumer=settings) as consumer:
            consumer.subscribe([name])
            async for record in consumer:
                await consumer.commit()
                assert (await consumer.committed([place]))[place].offset == record.offset + 1
                if record.offset == 1:
                    break
            assert [record.offset for record in await consumer.poll(60_000)] == [2, 3, 4]

    asyncio.run(story())
