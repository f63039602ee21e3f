"""The asyncio face: the driver of the client's stories, and `Cluster`.

`Producer` and `Consumer` are in `producer.py` and `consumer.py`.
Administration goes by stories: `await cluster.run(admin.create_topics(cluster.plan, topics))`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from ottla.client.aio.connection import AsyncConnection
from ottla.client.consume import offsets
from ottla.client.core import transfer
from ottla.client.core.effects import (
    Ask,
    AskAll,
    Begin,
    Drop,
    Effect,
    FeaturesOf,
    Finish,
    First,
    Pause,
    Start,
    VersionsOf,
)
from ottla.client.core.plan import ClusterPlan
from ottla.client.core.transport import PLAINTEXT, Security
from ottla.client.errors import ClientError, ConnectionLost, RequestTimedOut, refused
from ottla.client.model import (
    Broker,
    ClientSettings,
    CommittedOffset,
    Destination,
    Fetched,
    IsolationLevel,
    OffsetAtTime,
    Produced,
    ProducerIdentity,
    TopicView,
    client_settings_from,
)
from ottla.kernel.errors import ApiError
from ottla.kernel.ids import TopicPartition

T = TypeVar("T")


def now_ms() -> float:
    return time.monotonic() * 1000


def _is_cancelled() -> bool:
    """In a handler of CancelledError: True if it means this task, and not what the task waited for."""
    waiting = asyncio.current_task()
    return waiting is not None and waiting.cancelling() > 0


class Driver:
    """Carries out the effects of stories, over connections kept per destination; several stories may run at once."""

    def __init__(self, settings: ClientSettings, security: Security = PLAINTEXT) -> None:
        self.settings = settings
        self.security = security
        self._connections: dict[Destination, asyncio.Task[AsyncConnection]] = {}
        self._begun: set[asyncio.Task[Any]] = set()
        """Requests and stories that were started, and are not done."""

    async def run(self, story: Coroutine[Effect, Any, T]) -> T:
        """Drive a story to its end."""
        answer: Any = None
        fault: Exception | None = None
        while True:
            try:
                effect = story.send(answer) if fault is None else story.throw(fault)
            except StopIteration as end:
                result: T = end.value
                return result
            answer = fault = None
            try:
                answer = await self._carry_out(effect)
            except (ClientError, ApiError) as failed:
                fault = failed
            except BaseException:
                story.close()
                raise

    async def connection(self, where: Destination) -> AsyncConnection:
        """The open connection to a destination, made where there is none."""
        task = self._connections.get(where)
        if task is None or (task.done() and (task.cancelled() or task.exception() or not task.result().usable)):
            task = asyncio.ensure_future(AsyncConnection.open(where, self.settings, self.security))
            self._connections[where] = task
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            raise ConnectionLost(f"the connection to {where} was closed while it was made") from None

    async def close(self) -> None:
        for begun in self._begun:
            begun.cancel()
        for task in self._connections.values():
            if not task.done():
                task.cancel()
            elif not task.cancelled() and task.exception() is None:
                task.result().close()
        self._connections = {}

    async def ask(self, ask: Ask[Any]) -> Any:
        connection = await self.connection(ask.destination)
        version = connection.choose(ask.request, ask.min_version, ask.max_version)
        future = connection.send(ask.build(version), version, ask.response)
        return await connection.wait(future, timeout_ms=ask.timeout_ms)

    async def _carry_out(self, effect: Effect) -> Any:
        if isinstance(effect, Ask):
            return await self.ask(effect)
        if isinstance(effect, AskAll):
            return await asyncio.gather(*(self._attempt(partial(self.ask, ask)) for ask in effect.asks))
        if isinstance(effect, Pause):
            return await asyncio.sleep(effect.ms / 1000)
        if isinstance(effect, Start):
            return self._begin(partial(self.ask, effect.ask))
        if isinstance(effect, Begin):
            begun = self._begin(partial(self.run, effect.story))
            begun.add_done_callback(lambda _: effect.story.close())  # it was not begun if it is cancelled at once
            return begun
        if isinstance(effect, Drop):
            effect.handle.cancel()  # type: ignore[attr-defined]
            return None
        if isinstance(effect, First):
            tasks: list[Any] = list(effect.handles)
            done, _ = await asyncio.wait(
                tasks, timeout=max(effect.timeout_ms, 0) / 1000, return_when=asyncio.FIRST_COMPLETED
            )
            return next((task for task in tasks if task in done), None)
        if isinstance(effect, Finish):
            task: Any = effect.handle
            try:
                answer = await task
            except asyncio.CancelledError:
                if _is_cancelled():
                    raise
                raise ConnectionLost("connections were closed while a request was under way") from None
            if isinstance(answer, Exception):
                raise answer
            return answer
        if isinstance(effect, FeaturesOf):
            return dict((await self.connection(effect.destination)).features)
        assert isinstance(effect, VersionsOf)
        return dict((await self.connection(effect.destination)).api_versions)

    def _begin(self, work: Callable[[], Awaitable[Any]]) -> asyncio.Task[Any]:
        begun = asyncio.create_task(self._attempt(work))
        self._begun.add(begun)
        begun.add_done_callback(self._begun.discard)
        return begun

    async def _attempt(self, work: Callable[[], Awaitable[Any]]) -> Any:
        try:
            return await work()
        except (ClientError, ApiError) as fault:
            return fault


class Cluster:
    """Like `ottla.client.Cluster`, for asyncio: several calls may run at once. An async context manager.

    Raises `ApiError` for an error code that another attempt would not cure, `ClientError` for everything else.

        import asyncio

        from ottla.client import NewTopic, aio
        from ottla.client.admin import admin
        from ottla.client.model import LATEST


        async def main() -> None:
            async with aio.Cluster("localhost:9092") as cluster:
                await cluster.run(admin.create_topics(cluster.plan, [NewTopic("lakes", 2)]))
                for partition, at in (await cluster.list_offsets(await cluster.partitions("lakes"), LATEST)).items():
                    print(partition, at.offset)


        asyncio.run(main())
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str] = "localhost:9092",
        *,
        settings: ClientSettings | None = None,
        security: Security = PLAINTEXT,
        **options: Any,
    ) -> None:
        """Arguments and `options` are those of `ottla.client.Cluster`. No connection is made before the first call."""
        self.settings = client_settings_from("Cluster", settings, options)
        self.plan = ClusterPlan(bootstrap, self.settings, now_ms)
        self.driver = Driver(self.settings, security)

    async def __aenter__(self) -> Cluster:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections. A later call opens new ones."""
        await self.driver.close()

    async def run(self, story: Coroutine[Effect, Any, T]) -> T:
        """Drive one of the client's stories: so administration goes, which has no class here.

        Stories are in the modules of `ottla.client.admin`: `admin`, `groups`, `replicas`, `transactions`, `features`.
        They take `cluster.plan` first; they are what the methods of `ottla.client.Admin` run.

            from ottla.client.admin import groups


            async def list_groups() -> None:
                async with aio.Cluster("localhost:9092") as cluster:
                    print(len(await cluster.run(groups.list_groups(cluster.plan))), "groups")


            asyncio.run(list_groups())
        """
        return await self.driver.run(story)

    async def brokers(self) -> dict[int, Broker]:
        """The live brokers by id."""
        if not self.plan.metadata.brokers:
            await self.run(self.plan.refresh())
        return dict(self.plan.metadata.brokers)

    async def topics(self) -> dict[str, TopicView]:
        """All topics, internal ones too, asked for afresh."""
        await self.run(self.plan.refresh(None))
        return dict(self.plan.metadata.topics)

    async def topic(self, topic: str) -> TopicView:
        """Id and partitions of one topic; raises `ApiError` UNKNOWN_TOPIC_OR_PARTITION where it does not exist."""
        return await self.run(self.plan.topic(topic))

    async def partitions(self, topic: str) -> list[TopicPartition]:
        """All partitions of a topic. Errors as with `topic`."""
        return [TopicPartition(topic, index) for index in (await self.topic(topic)).partitions]

    async def list_offsets(
        self,
        partitions: Collection[TopicPartition],
        spec: int | Mapping[TopicPartition, int],
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, OffsetAtTime]:
        """The offset at `spec` for each partition: LATEST, EARLIEST, MAX_TIMESTAMP or milliseconds since 1970.

        With read_committed LATEST is the last stable offset. Offset -1: no record is that late. Raises the first
        partition's error.
        """
        return await self.run(offsets.list_offsets(self.plan, partitions, spec, isolation_level))

    async def fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        max_bytes: int = transfer.PARTITION_MAX_BYTES,
        min_bytes: int = 1,
        max_wait_ms: int = 500,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> Fetched:
        """Whole batches from `offset` on with high watermark, last stable offset, log start, aborted transactions.

        `error` is set (OFFSET_OUT_OF_RANGE...) where it is about the offset; other errors are retried or raised.
        The broker answers with at most `max_bytes` (by default 1 MiB) but at least one batch, as soon as it has
        `min_bytes` or after `max_wait_ms`.
        """
        story = transfer.fetch(
            self.plan,
            topic,
            partition,
            offset,
            max_bytes=max_bytes,
            min_bytes=min_bytes,
            max_wait_ms=max_wait_ms,
            isolation_level=isolation_level,
        )
        return await self.run(story)

    async def fetch_range(
        self,
        topic: str,
        partition: int,
        start: int,
        end: int,
        *,
        max_bytes: int = 4 * transfer.PARTITION_MAX_BYTES,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> AsyncIterator[Fetched]:
        """The whole batches that hold offsets `start` to below `end`, piece by piece: filter by offset.

        The first batch may begin below `start`, with records that were deleted; the last may end above `end`.
        `max_bytes` (by default 4 MiB) is for one piece. Raises `ApiError` OFFSET_OUT_OF_RANGE where data is gone,
        RequestTimedOut where nothing came for `api_timeout_ms`.
        """
        position = start
        attempts = self.plan.attempts()
        while position < end:
            piece = await self.fetch(topic, partition, position, max_bytes=max_bytes, isolation_level=isolation_level)
            if piece.error:
                raise refused(piece.error, f"{topic}-{partition} at offset {position}")
            if piece.next_offset > position:
                position = piece.next_offset
                yield piece
                attempts = self.plan.attempts()
            elif attempts.left_ms <= 0:
                raise RequestTimedOut(f"{topic}-{partition}: no records from offset {position} to {end}")

    async def produce(self, topic: str, partition: int, batch: bytes, *, acks: int = -1) -> Produced:
        """Append one prepared v2 batch. It is sent again after lost connections, for two minutes at most.

        With a producer id and sequence in its header that is safe, without them it may land twice.
        """
        return await self.run(transfer.produce(self.plan, topic, partition, batch, acks=acks))

    async def init_producer_id(self, transactional_id: str | None = None) -> ProducerIdentity:
        """A producer id and epoch for idempotent (or transactional) batches."""
        return await self.run(transfer.init_producer_id(self.plan, transactional_id))

    async def commit_offsets(self, group: str, committed: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit offsets for a group without being a member, which a group allows while it has none.

        Raises the first error: UNKNOWN_MEMBER_ID where the group has members.
        """
        for fault in (await self.run(offsets.commit_offsets(self.plan, group, committed))).values():
            if fault is not None:
                raise fault

    async def committed_offsets(
        self, group: str, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """The committed offsets of a group, for these partitions or all; those without a commit are left out."""
        return await self.run(offsets.committed_offsets(self.plan, group, partitions))
