"""The asyncio face of the consumer: `poll` in the caller's task, heartbeats in one of its own."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

from ottla.client.aio.cluster import Cluster
from ottla.client.consume import offsets
from ottla.client.consume.consuming import ConsumerCore, Listener
from ottla.client.consume.settings import ConsumerSettings, settings_from
from ottla.client.core.transport import PLAINTEXT, Security
from ottla.client.errors import ClientError
from ottla.client.model import (
    EARLIEST,
    LATEST,
    ClientSettings,
    CommittedOffset,
    ConsumedRecord,
    GroupMetadata,
    OffsetAtTime,
)
from ottla.kernel.errors import ApiError
from ottla.kernel.ids import TopicPartition


class Consumer:
    """Like `ottla.client.Consumer`, for asyncio; `async for record in consumer` goes on without end.

    For one event loop, one call at a time; an async context manager. Errors are those of `ottla.client.Consumer`.

        import asyncio

        from ottla.client import aio


        async def main() -> None:
            async with aio.Producer("localhost:9092") as producer:
                await producer.produce("fish", "carp")
            async with aio.Consumer("localhost:9092", group_id="anglers", auto_offset_reset="earliest") as consumer:
                consumer.subscribe(["fish"])
                for record in await consumer.poll(timeout_ms=10_000):
                    print(record.topic, record.partition, record.offset, record.value)
                await consumer.commit()


        asyncio.run(main())
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str] = "localhost:9092",
        *,
        consumer: ConsumerSettings | None = None,
        settings: ClientSettings | None = None,
        security: Security = PLAINTEXT,
        **options: Any,
    ) -> None:
        """Arguments and `options` are those of `ottla.client.Consumer`. No connection is made before it is needed."""
        chosen, own = settings_from(consumer, settings, options)
        self.cluster = Cluster(bootstrap, settings=own, security=security)
        self.core = ConsumerCore(self.cluster.plan, chosen)
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    async def __aenter__(self) -> Consumer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def __aiter__(self) -> AsyncIterator[ConsumedRecord]:
        """Records without end, one by one: the position, and so a commit, is after the last one handed out."""
        while True:
            for record in await self.poll(1_000, 1):
                yield record
            for record in self.core.fetcher.one_by_one(self.core.settings.max_poll_records - 1):
                yield record

    @property
    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read now; with `subscribe` none before the first `poll`."""
        return self.core.assignment

    @property
    def group_metadata(self) -> GroupMetadata:
        """The group and this member of it, for `Producer.send_offsets_to_transaction`; ValueError without a group."""
        return self.core.group_metadata

    def subscribe(
        self,
        topics: Collection[str] | re.Pattern[str],
        *,
        on_assign: Listener | None = None,
        on_revoke: Listener | None = None,
        on_lost: Listener | None = None,
    ) -> None:
        """Share these topics, or all that a pattern matches, with the other members of the group.

        Call it where an event loop runs: a task begins to send heartbeats, and the next `poll` joins the group.
        Listeners are plain functions, called as by `ottla.client.Consumer`. Raises ValueError without a `group_id`.
        """
        self.core.subscribe(topics, on_assign, on_revoke, on_lost)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._beat())

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Read these partitions, whichever other consumers read them, and no others.

        Positions start at the group's committed offsets if there is a `group_id`, else by `auto_offset_reset`.
        """
        self.core.assign(partitions)

    async def poll(
        self, timeout_ms: float | str | timedelta = 1_000, max_records: int | None = None
    ) -> list[ConsumedRecord]:
        """Records as soon as there are some, at most `max_records` or else `max_poll_records`; none after `timeout_ms`.

        Also joins the group, calls the listeners and commits if that is automatic, which may take longer than
        `timeout_ms`. Call it at least every `max_poll_interval_ms`, or the member leaves the group. Brokers that have
        answered before and are away are tried until `timeout_ms`, and again with the next poll.
        """
        return await self.cluster.run(self.core.poll(timeout_ms, max_records))

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on from this offset; KeyError where the partition is not assigned, ValueError for a negative offset."""
        self.core.seek(partition, offset)

    async def seek_to_beginning(self, partitions: Collection[TopicPartition] = ()) -> None:
        """Go on from the first record kept of these partitions, by default of all that are assigned."""
        await self._seek_to(partitions, EARLIEST)

    async def seek_to_end(self, partitions: Collection[TopicPartition] = ()) -> None:
        """Go on after the last record of these partitions, by default of all that are assigned.

        With `read_committed` that is before the first transaction that is still open.
        """
        await self._seek_to(partitions, LATEST)

    async def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that `poll` will hand out; KeyError where the partition is not assigned."""
        return await self.cluster.run(self.core.position(partition))

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out no records of these partitions until `resume`. A pause ends when the partition is given up."""
        self.core.fetcher.pause(partitions)

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """End the pause of these partitions: they go on where they were."""
        self.core.fetcher.resume(partitions)

    async def commit(self, committed: Mapping[TopicPartition, CommittedOffset] | None = None) -> None:
        """Commit these offsets, or the positions: for each partition the next offset to read.

        Raises ValueError without a `group_id`, and the first partition's error, as `ottla.client.Consumer.commit`.
        """
        await self.cluster.run(self.core.commit(committed))

    async def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        """The group's committed offsets, asked for; partitions without a commit are left out.

        Raises ValueError without a `group_id`.
        """
        self.core.require_open()
        return await self.cluster.committed_offsets(self.core.group, partitions)

    async def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAtTime]:
        """For each partition the first offset whose timestamp is at least the given one; offset -1: none.

        Times are milliseconds since 1970. Raises the first partition's error.
        """
        self.core.require_open()
        isolation = self.core.settings.fetch.isolation_level
        return await self.cluster.run(offsets.list_offsets(self.cluster.plan, list(times), times, isolation))

    async def close(self, timeout_ms: float = 30_000) -> None:
        """Commit if that is automatic, leave the group, close the connections.

        A member with an `instance_id` does not leave. Errors on the way are not raised but for those of a listener.
        Where no broker answers, it is given up after `timeout_ms`.
        """
        if self._closed:
            return
        self._closed = True
        try:
            if self._task is not None:
                self._task.cancel()
                await asyncio.wait([self._task])
            await self.cluster.run(self.core.close(timeout_ms))
        finally:
            await self.cluster.close()

    async def _seek_to(self, partitions: Collection[TopicPartition], spec: int) -> None:
        self.core.require_open()
        chosen = list(partitions) or sorted(self.assignment)
        found = await self.cluster.list_offsets(chosen, spec, self.core.settings.fetch.isolation_level)
        for partition, at in found.items():
            self.core.seek(partition, at.offset)

    async def _beat(self) -> None:
        """The heartbeat task; a failed heartbeat is tried again, the session timeout judges."""
        while True:
            try:
                wait_ms = await self.cluster.run(self.core.heartbeat())
            except (ClientError, ApiError):
                wait_ms = 1_000.0
            await asyncio.sleep(max(wait_ms, 10.0) / 1000)
