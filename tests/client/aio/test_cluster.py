"""The asyncio face against real brokers: ours and Apache Kafka."""

from __future__ import annotations

import asyncio

import pytest

from ottla.client.admin import admin
from ottla.client.aio.cluster import Cluster
from ottla.client.aio.connection import AsyncConnection
from ottla.client.aio.consumer import Consumer
from ottla.client.aio.producer import Producer
from ottla.client.consume.settings import ConsumerSettings
from ottla.client.errors import BrokerUnreachable, RequestTimedOut
from ottla.client.model import LATEST, ClientSettings, CommittedOffset, Destination
from ottla.client.produce.settings import ProducerSettings
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.records.builder import build_batch
from ottla.records.reader import Record, read_run


def test_records_go_out_and_come_back_in_a_group(bootstrap: str, name: str) -> None:
    async def story() -> None:
        async with Cluster(bootstrap) as cluster:
            made = await cluster.run(admin.create_topics(cluster.plan, [admin.NewTopic(name, 2, 1)]))
            assert not isinstance(made[name], ApiError)
        async with Producer(bootstrap, producer=ProducerSettings(linger_ms=1)) as producer:
            futures = [await producer.produce(name, f"{number}", key=f"{number}") for number in range(500)]
            places = await asyncio.gather(*futures)
        assert len({(place.partition, place.offset) for place in places}) == 500
        settings = ConsumerSettings(group_id=name, auto_offset_reset="earliest", heartbeat_interval_ms=100)
        async with Consumer(bootstrap, consumer=settings) as consumer:
            consumer.subscribe([name])
            seen: list[bytes | None] = []
            async with asyncio.timeout(120):
                while len(seen) < 500:
                    seen += [record.value for record in await consumer.poll(1_000)]
            assert sorted(int(value or b"-1") for value in seen) == list(range(500))
            await consumer.commit()
        async with Cluster(bootstrap) as cluster:
            committed = await cluster.committed_offsets(name)
            assert sum(at.offset for at in committed.values()) == 500

    asyncio.run(story())


def test_many_stories_share_one_cluster(bootstrap: str, name: str) -> None:
    async def story() -> None:
        async with Cluster(bootstrap) as cluster:
            await cluster.run(admin.create_topics(cluster.plan, [admin.NewTopic(name, 1, 1)]))
            place = TopicPartition(name, 0)
            batches = [build_batch([Record(0, 0, None, bytes([number]))] * 3) for number in range(20)]
            produced = await asyncio.gather(*(cluster.produce(name, 0, batch) for batch in batches))
            assert sorted(each.base_offset for each in produced) == list(range(0, 60, 3))
            ends = await asyncio.gather(*(cluster.list_offsets([place], LATEST) for _ in range(20)))
            assert {end[place].offset for end in ends} == {60}
            pieces = [piece async for piece in cluster.fetch_range(name, 0, 0, 60, max_bytes=200)]
            assert [record.offset for piece in pieces for record in read_run(piece.records)] == list(range(60))
            await cluster.commit_offsets(name, {place: CommittedOffset(9)})
            assert await cluster.committed_offsets(name) == {place: CommittedOffset(9)}
            with pytest.raises(ApiError) as raised:
                await cluster.topic(f"{name}-absent")
            assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    asyncio.run(story())


def test_nobody_there_and_nobody_answering_are_told_apart() -> None:
    async def story() -> None:
        settings = ClientSettings(request_timeout_ms=200, bootstrap_timeout_ms=0)
        silent = await asyncio.start_server(_swallow, "127.0.0.1", 0)
        port = silent.sockets[0].getsockname()[1]
        with pytest.raises(RequestTimedOut, match="200 ms"):
            await AsyncConnection.open(Destination("127.0.0.1", port), settings)
        silent.close()
        async with Cluster(f"127.0.0.1:{port}", settings=settings) as cluster:
            with pytest.raises(BrokerUnreachable, match="ottla start"):
                await cluster.brokers()

    asyncio.run(story())


def test_a_call_whose_connection_is_closed_by_another_fails_and_is_not_cancelled() -> None:
    async def story() -> None:
        accepted = asyncio.Event()

        async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted.set()
            await _swallow(reader, writer)

        silent = await asyncio.start_server(swallow, "127.0.0.1", 0)
        port = silent.sockets[0].getsockname()[1]
        async with Cluster(f"127.0.0.1:{port}", settings=ClientSettings(bootstrap_timeout_ms=0)) as cluster:
            call = asyncio.create_task(cluster.brokers())
            await accepted.wait()
            await cluster.close()
            with pytest.raises(BrokerUnreachable, match="closed while it was made"):
                await call
        silent.close()

    asyncio.run(story())


async def _swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()
