"""The asyncio face of the consumer: `poll` in the caller's task, heartbeats in one of its own."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Any, TypeVar

from ottla.client.aio.cluster import Cluster
from ottla.client.consume.consuming import ConsumerCore
from ottla.client.consume.group import GroupMember, Listener
from ottla.client.consume.settings import ConsumerSettings, settings_from
from ottla.client.core.effects import ClientStory
from ottla.client.errors import ClientError
from ottla.client.faces.call import Awaited, keywords
from ottla.client.faces.consumer import ConsumerCalls
from ottla.client.model import ClientSettings, ConsumedRecord
from ottla.kernel.errors import ApiError

T = TypeVar("T")


class Consumer(ConsumerCalls, Awaited):
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
        **options: Any,
    ) -> None:
        """Arguments and `options` are those of `ottla.client.Consumer`. No connection is made before it is needed."""
        chosen, own = settings_from(consumer, settings, options)
        self.cluster = Cluster(bootstrap, settings=own)
        self.core = ConsumerCore(self.cluster.plan, chosen)
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    async def __aiter__(self) -> AsyncIterator[ConsumedRecord]:
        """Records without end, one by one: the position, and so a commit, is after the last one handed out."""
        while True:
            for record in await self.poll(1_000, 1):
                yield record
            for record in self.core.fetcher.one_by_one(self.core.settings.max_poll_records - 1):
                yield record

    @keywords
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
        member = self.core.subscribe(topics, on_assign, on_revoke, on_lost)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._beat(member))

    @keywords
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

    async def _run(self, story: ClientStory[T]) -> T:
        return await self.cluster.run(story)

    async def _beat(self, member: GroupMember) -> None:
        """The heartbeat task; a failed heartbeat is tried again, the session timeout judges."""
        while True:
            try:
                wait_ms = await self.cluster.run(member.heartbeat())
            except (ClientError, ApiError):
                wait_ms = 1_000.0
            await asyncio.sleep(max(wait_ms, 10.0) / 1000)
