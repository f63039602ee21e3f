"""The asyncio producer: what it takes has an outcome, however it ends."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from ottla.client import aio
from ottla.client.errors import ClientError
from ottla.client.produce.settings import ProducerSettings
from ottla.testing import TestBroker


def test_what_other_tasks_produce_while_the_producer_closes_is_delivered_or_refused(ours: str, name: str) -> None:
    async def story() -> None:
        producer = aio.Producer(ours, producer=ProducerSettings(linger_ms=600_000))
        futures = [await producer.produce(name, "cat")]
        closing = asyncio.create_task(producer.close())
        with contextlib.suppress(ClientError):
            while not closing.done():
                futures.append(await producer.produce(name, "dog"))
                await asyncio.sleep(0)
        await closing
        async with asyncio.timeout(60):
            assert len(await asyncio.gather(*futures)) == len(futures)

    asyncio.run(story())


def test_records_fail_if_the_producer_is_not_given_the_time_to_send_them(name: str) -> None:
    async def story(bootstrap: str) -> None:
        settings = ProducerSettings(buffer_memory=1)
        producer = aio.Producer(bootstrap, producer=settings)
        await (await producer.produce(name, "cat"))
        broker.fail("Produce", "NOT_ENOUGH_REPLICAS", times=1_000)
        future = await producer.produce(name, "dog")
        waits_for_room = asyncio.create_task(producer.produce(name, "cow"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await producer.close()
        async with asyncio.timeout(60):
            for each in (future, waits_for_room):
                with pytest.raises(ClientError):
                    await each
        await producer.close()

    with TestBroker() as broker:
        asyncio.run(story(broker.bootstrap_servers))
