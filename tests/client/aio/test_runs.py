"""Runs of records in asyncio: one outcome for each, in few steps."""

from __future__ import annotations

import asyncio

import pytest

from ottla.client import Admin
from ottla.client.aio.runs import RunProducer
from ottla.client.model import Produced
from ottla.client.produce.run import Run
from ottla.kernel.errors import ApiError, ErrorCode


def test_a_run_is_delivered_in_its_order_in_as_many_batches_as_it_takes(ours: str, name: str) -> None:
    async def story() -> None:
        async with RunProducer(ours, batch_size=2_000, linger_ms=0) as producer:
            values: list[bytes | None] = [b"%04d" % number + b"x" * 96 for number in range(100)]
            parts = await producer.produce_run(name, Run(values, partition=0))
            told: list[int] = []
            for number, part in enumerate(parts):
                part.batch.listeners.append(lambda number=number: told.append(number))  # type: ignore[misc]
            await producer.flush()
            assert told == list(range(len(parts)))
            assert len(parts) > 4
            assert [part.start for part in parts][1:] == [part.start + part.records_count for part in parts][:-1]
            assert all(part.done and part.is_whole for part in parts)
            first = parts[0].outcome(0)
            assert isinstance(first, Produced)
            assert first.base_offset == 0

    asyncio.run(story())


def test_a_record_that_is_too_large_fails_alone(ours: str, name: str) -> None:
    with Admin(ours) as admin:
        admin.create_topic(name, partitions=1, configs={"max.message.bytes": "1000"})

    async def story() -> None:
        async with RunProducer(ours, linger_ms=0) as producer:
            (part,) = await producer.produce_run(name, Run([b"a", b"x" * 5_000, b"b"]))
            await producer.flush()
            assert part.done
            assert not part.is_whole
            outcomes = [part.outcome(index) for index in range(3)]
            assert isinstance(outcomes[0], Produced)
            assert isinstance(outcomes[2], Produced)
            assert isinstance(outcomes[1], ApiError)
            assert outcomes[1].code is ErrorCode.MESSAGE_TOO_LARGE

    asyncio.run(story())


def test_a_partition_that_is_not_there_is_refused(ours: str, name: str) -> None:
    with Admin(ours) as admin:
        admin.create_topic(name, partitions=1)

    async def story() -> None:
        async with RunProducer(ours) as producer:
            with pytest.raises(ValueError, match="has no partition 3: it has 1"):
                await producer.produce_run(name, Run([b"a"], partition=3))

    asyncio.run(story())
