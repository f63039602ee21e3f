"""A compacted topic as a table: several writers that compare, one that does not, and readers that catch up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from ottla.client import aio
from ottla.client.aio.cluster import Cluster
from ottla.client.blocking.admin import Admin
from ottla.jobs.state_topic import Pair, StateTopic
from ottla.jobs.state_topic_setup import UnusableTopic, Words

WORDS = Words("a worker", "connectors", "Start the worker again", "connectors would be missing. Restore the topic")
NO_OP = (b"nothing", None)


class Table:
    """A table of the topic's records, as its owners make it."""

    def __init__(self, topic: StateTopic, rows: dict[bytes, bytes]) -> None:
        self.topic = topic
        self.rows = rows


@asynccontextmanager
async def a_table(bootstrap: str, name: str, *, partition: int = 0, partitions: int = 1) -> AsyncIterator[Table]:
    rows: dict[bytes, bytes] = {}

    def take(_: int, key: bytes, value: bytes | None) -> None:
        if value is None:
            rows.pop(key, None)
        else:
            rows[key] = value

    cluster = Cluster(bootstrap)
    topic = StateTopic(cluster, take, WORDS, topic=name, no_op=NO_OP, partition=partition, partitions=partitions)
    try:
        await topic.open()
        yield Table(topic, rows)
    finally:
        await cluster.close()


async def add_one(table: Table) -> int:
    """Write the next number, as it follows from the table."""

    def decide() -> tuple[int, list[Pair]]:
        number = int(table.rows.get(b"count", b"0")) + 1
        return number, [(b"count", str(number).encode())]

    return await table.topic.write(decide)


def test_writers_that_decide_on_the_same_state_never_write_the_same_number(bootstrap: str, name: str) -> None:
    async def scene() -> None:
        async with a_table(bootstrap, name) as one, a_table(bootstrap, name) as two:
            numbers = await asyncio.gather(*(_several(table) for table in (one, two)))
            assert sorted([*numbers[0], *numbers[1]]) == list(range(1, 21))

    async def _several(table: Table) -> list[int]:
        return [await add_one(table) for _ in range(10)]

    asyncio.run(scene())


def test_an_append_on_an_old_state_is_refused_and_leaves_nothing(bootstrap: str, name: str) -> None:
    async def scene() -> None:
        async with a_table(bootstrap, name) as slow, a_table(bootstrap, name) as fast:
            await add_one(fast)
            assert not await slow.topic.append([(b"count", b"99")])
            await slow.topic.catch_up()
            assert slow.rows == {b"count": b"1"}
            assert await slow.topic.append([(b"count", None)])
            assert slow.rows == {}

    asyncio.run(scene())


def test_a_decision_is_made_again_where_records_came_before_its_append(bootstrap: str, name: str) -> None:
    async def scene() -> None:
        async with a_table(bootstrap, name) as one, a_table(bootstrap, name) as two:
            decided: list[int] = []

            def decide() -> tuple[int, list[Pair]]:
                decided.append(int(one.rows.get(b"count", b"0")) + 1)
                return decided[-1], [(b"count", str(decided[-1]).encode())]

            async def come_between(number: int) -> None:
                if number == 1:
                    await add_one(two)
                    await one.topic.catch_up()

            assert await one.topic.write(decide, before=come_between) == 2
            assert decided == [1, 2]

    asyncio.run(scene())


def test_a_decision_that_changes_nothing_writes_nothing(bootstrap: str, name: str) -> None:
    async def scene() -> None:
        async with a_table(bootstrap, name) as table:
            assert await table.topic.write(lambda: ("as it was", [])) == "as it was"
            assert table.topic.position == 0

    asyncio.run(scene())


def test_a_put_into_one_of_several_partitions_is_read_by_those_that_follow(bootstrap: str, name: str) -> None:
    async def scene() -> None:
        async with (
            a_table(bootstrap, name, partition=2, partitions=3) as writer,
            a_table(bootstrap, name, partition=2, partitions=3) as reader,
            a_table(bootstrap, name, partition=1, partitions=3) as other,
        ):
            await writer.topic.put([(b"status", b"RUNNING")])
            for table in (reader, other):
                await table.topic.catch_up()
            assert (reader.rows, other.rows) == ({b"status": b"RUNNING"}, {})
            assert await reader.topic.append([(b"status", b"PAUSED")]), "a put is no other writer's comparison"

    asyncio.run(scene())


def test_many_may_catch_up_while_others_write_and_follow(bootstrap: str, name: str) -> None:
    """The end that one of them was told is behind what others have read by then, which is no loss."""

    async def scene() -> None:
        async with a_table(bootstrap, name) as one, a_table(bootstrap, name) as two:
            cluster = Cluster(bootstrap)
            following = asyncio.create_task(one.topic.follow(cluster))
            for _ in range(20):
                await asyncio.gather(add_one(two), *(one.topic.catch_up() for _ in range(5)))
            await one.topic.catch_up()
            assert one.rows[b"count"] == b"20"
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            await cluster.close()

    asyncio.run(scene())


def test_records_of_a_transaction_count_once_it_is_committed_and_never_if_it_is_aborted(
    bootstrap: str, name: str
) -> None:
    async def scene() -> None:
        async with a_table(bootstrap, name) as table:
            one, two = (aio.Producer(bootstrap, transactional_id=f"{name}-{number}") for number in range(2))
            async with one, two:
                for producer, value in ((one, "committed"), (two, "aborted")):
                    await producer.init_transactions()
                    producer.begin_transaction()
                    await (await producer.produce(name, value, key=value))
                assert await table.topic.append([(b"between", b"1")])
                assert table.rows == {b"between": b"1"}, "open transactions hold nobody up"
                await two.abort_transaction()
                await one.commit_transaction()
            await table.topic.catch_up()
            assert table.rows == {b"between": b"1", b"committed": b"committed"}
            async with a_table(bootstrap, name) as late:
                assert late.rows == table.rows

    asyncio.run(scene())


def test_a_topic_with_another_number_of_partitions_or_policy_is_refused(bootstrap: str, name: str) -> None:
    async def opened() -> None:
        async with a_table(bootstrap, name):
            raise AssertionError("it was opened")

    with Admin(bootstrap) as admin:
        admin.create_topic(name, partitions=2)
    with pytest.raises(UnusableTopic, match="has 2 partitions; a worker needs one"):
        asyncio.run(opened())
    name += "-plain"
    with Admin(bootstrap) as admin:
        admin.create_topic(name, partitions=1)
    with pytest.raises(UnusableTopic, match="old connectors would be deleted"):
        asyncio.run(opened())
