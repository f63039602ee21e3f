"""A cluster's calls as both faces have them: brokers, topics, leaders, offsets, bytes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ottla.client.consume import offsets
from ottla.client.core import transfer
from ottla.client.core.effects import Ask
from ottla.client.core.link import response_of
from ottla.client.core.plan import ClusterPlan
from ottla.client.errors import RequestTimedOut, refused
from ottla.client.faces.call import call
from ottla.client.model import (
    EARLIEST,
    LATEST,
    Broker,
    CommittedOffset,
    Fetched,
    IsolationLevel,
    OffsetAtTime,
    Produced,
    ProducerIdentity,
    TopicView,
)
from ottla.kernel.ids import TopicPartition


async def live_brokers(plan: ClusterPlan) -> dict[int, Broker]:
    """The live brokers by id."""
    if not plan.metadata.brokers:
        await plan.refresh()
    return dict(plan.metadata.brokers)


async def all_topics(plan: ClusterPlan) -> dict[str, TopicView]:
    """All topics by name, internal ones too, asked for afresh."""
    await plan.refresh(None)
    return dict(plan.metadata.topics)


class RangeReading:
    """The batches that hold a range of offsets, fetched piece by piece."""

    def __init__(
        self,
        plan: ClusterPlan,
        partition: TopicPartition,
        start: int,
        end: int,
        *,
        max_bytes: int,
        isolation_level: IsolationLevel,
        timeout_ms: float | None,
    ) -> None:
        self.position = start
        self._plan, self._partition, self._end = plan, partition, end
        self._max_bytes, self._isolation_level, self._timeout_ms = max_bytes, isolation_level, timeout_ms
        self.waits_anew()

    @property
    def goes_on(self) -> bool:
        """True until the end of the range was fetched."""
        return self.position < self._end

    def waits_anew(self) -> None:
        """Begin the time in which the next piece must come."""
        self._attempts = self._plan.attempts(self._timeout_ms)

    def took(self, piece: Fetched) -> Fetched | None:
        """Go on after a piece; None if it has no records. An error of it is raised by the next `fetch`."""
        if piece.error or piece.next_offset <= self.position:
            return None
        self.position = piece.next_offset
        return piece

    async def fetch(self) -> Fetched | None:
        """The next piece; None where nothing has come yet. Raises its error, and RequestTimedOut at last."""
        plan, partition, position = self._plan, self._partition, self.position
        piece = await transfer.fetch(
            plan,
            *partition,
            position,
            max_bytes=self._max_bytes,
            isolation_level=self._isolation_level,
            timeout_ms=self._timeout_ms,
        )
        if piece.error:
            first = (await offsets.list_offsets(plan, [partition], EARLIEST))[partition].offset
            last = (await offsets.list_offsets(plan, [partition], LATEST))[partition].offset
            raise refused(piece.error, f"{partition} at offset {position} (kept: {first} to {last})")
        if self.took(piece) is not None:
            return piece
        if self._attempts.left_ms <= 0:
            raise RequestTimedOut(f"{partition}: no records from offset {position} to {self._end}")
        return None


class ClusterCalls:
    """The calls of a `Cluster`."""

    plan: ClusterPlan

    @call
    async def brokers(self) -> dict[int, Broker]:
        """The live brokers by id."""
        return await live_brokers(self.plan)

    @call
    async def topics(self) -> dict[str, TopicView]:
        """All topics, internal ones too, asked for afresh."""
        return await all_topics(self.plan)

    @call
    async def refresh(self, topics: Collection[str] | None = (), *, create: bool = False) -> None:
        """Fetch metadata of these topics (none: brokers only; None: all).

        `create` asks the broker to make topics that do not exist. Raises BrokerUnreachable where no broker answers.
        """
        await self.plan.refresh(topics, create=create)

    @call
    async def topic(self, topic: str) -> TopicView:
        """Id and partitions of one topic.

        Raises `ApiError` UNKNOWN_TOPIC_OR_PARTITION where it does not exist, MetadataMissing where a partition has no
        leader for as long as `api_timeout_ms`.
        """
        return await self.plan.topic(topic)

    @call
    async def topic_id(self, topic: str) -> bytes:
        """The 16 bytes of a topic's id; all zero where the broker has no ids. Errors as with `topic`."""
        return (await self.plan.topic(topic)).topic_id

    @call
    async def partitions(self, topic: str) -> list[TopicPartition]:
        """All partitions of a topic. Errors as with `topic`."""
        return [TopicPartition(topic, index) for index in (await self.plan.topic(topic)).partitions]

    @call
    async def leader(self, topic: str, partition: int) -> Broker:
        """The broker that leads a partition, as known now; errors as with `topic`, for this partition alone."""
        return await self.plan.leader(topic, partition)

    @call
    async def request(self, message: Any, *, broker_id: int | None = None, timeout_ms: int | None = None) -> Any:
        """Ask one broker, any if `broker_id` is None; error codes in the answer are the caller's.

        `message` is a request of `ottla.messages`; `timeout_ms` is for one answer, by default `request_timeout_ms`.
        Raises MetadataMissing where no such broker lives, UnsupportedVersion where the broker does not serve the API.

            from ottla.messages.describe_cluster import DescribeClusterRequest

            with Cluster("localhost:9092") as cluster:
                print(cluster.request(DescribeClusterRequest()).cluster_id)
        """
        if broker_id is None:
            kind = type(message)
            return await self.plan.ask_any(kind, response_of(kind), lambda _: message, timeout_ms=timeout_ms)
        return await _ask(await self.plan.broker(broker_id), message, timeout_ms)

    @call
    async def request_to_leader(
        self, topic: str, partition: int, message: Any, *, timeout_ms: int | None = None
    ) -> Any:
        """Ask the leader of a partition, as known now; error codes in the answer are the caller's."""
        return await _ask(await self.plan.leader(topic, partition), message, timeout_ms)

    @call
    async def list_offsets(
        self,
        partitions: Collection[TopicPartition],
        spec: int | Mapping[TopicPartition, int],
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        *,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, OffsetAtTime]:
        """The offset at `spec` for each partition: LATEST, EARLIEST, MAX_TIMESTAMP or milliseconds since 1970.

        With read_committed LATEST is the last stable offset. Offset -1: no record is that late. `timeout_ms` is for all
        attempts, by default `api_timeout_ms`. Raises the first partition's error.
        """
        return await offsets.list_offsets(self.plan, partitions, spec, isolation_level, timeout_ms)

    @call
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
        leader_epoch: int | None = None,
        timeout_ms: float | None = None,
    ) -> Fetched:
        """Whole batches from `offset` on with high watermark, last stable offset, log start, aborted transactions.

        `error` is set (OFFSET_OUT_OF_RANGE...) where it is about the offset; other errors are retried or raised.
        The broker answers with at most `max_bytes` (by default 1 MiB) but at least one batch, as soon as it has
        `min_bytes` or after `max_wait_ms`. `timeout_ms` is for all attempts, by default `api_timeout_ms`.

            with Producer("localhost:9092") as producer:
                producer.produce("trees", "oak", partition=0)
            with Cluster("localhost:9092") as cluster:
                fetched = cluster.fetch("trees", 0, 0)
                print(fetched.next_offset, fetched.high_watermark, len(fetched.records))
        """
        return await transfer.fetch(
            self.plan,
            topic,
            partition,
            offset,
            max_bytes=max_bytes,
            min_bytes=min_bytes,
            max_wait_ms=max_wait_ms,
            isolation_level=isolation_level,
            leader_epoch=leader_epoch,
            timeout_ms=timeout_ms,
        )

    @call
    async def produce(
        self,
        topic: str,
        partition: int,
        batch: bytes | bytearray | memoryview,
        *,
        acks: int = -1,
        delivery_timeout_ms: int = 120_000,
        request_timeout_ms: int | None = None,
        retries: bool = True,
    ) -> Produced:
        """Append one prepared v2 batch to a partition.

        It is sent again after lost connections for `delivery_timeout_ms`, unless `retries=False`: with a producer id
        and sequence in its header that is safe, without them it may land twice. `request_timeout_ms` is the broker's
        time for one attempt, by default that of the settings. `acks` is -1 for all in-sync replicas, 1 or 0.

            from ottla.records.builder import BatchBuilder

            batch = BatchBuilder()
            batch.add(1_700_000_000_000, b"key", b"elm", ())
            with Cluster("localhost:9092") as cluster:
                print(cluster.produce("trees", 1, batch.build()).base_offset)
        """
        return await transfer.produce(
            self.plan,
            topic,
            partition,
            batch,
            acks=acks,
            delivery_timeout_ms=delivery_timeout_ms,
            request_timeout_ms=request_timeout_ms,
            retries=retries,
        )

    @call
    async def init_producer_id(
        self, transactional_id: str | None = None, *, transaction_timeout_ms: int = 60_000
    ) -> ProducerIdentity:
        """A producer id and epoch for idempotent (or transactional) batches.

        With a `transactional_id` its coordinator gives them, and fences the producer that had the id before.
        """
        return await transfer.init_producer_id(
            self.plan, transactional_id, transaction_timeout_ms=transaction_timeout_ms
        )

    @call
    async def commit_offsets(self, group: str, committed: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit offsets for a group without being a member, which a group allows while it has none.

        Raises the first error: UNKNOWN_MEMBER_ID where the group has members.

            from ottla.client import CommittedOffset, TopicPartition

            with Cluster("localhost:9092") as cluster:
                cluster.commit_offsets("foresters", {TopicPartition("trees", 0): CommittedOffset(1)})
                print(cluster.committed_offsets("foresters"))
        """
        for fault in (await offsets.commit_offsets(self.plan, group, committed)).values():
            if fault is not None:
                raise fault

    @call
    async def committed_offsets(
        self, group: str, partitions: Collection[TopicPartition] | None = None, *, require_stable: bool = False
    ) -> dict[TopicPartition, CommittedOffset]:
        """The committed offsets of a group, for these partitions or all; those without a commit are left out.

        `require_stable` waits for transactions that commit offsets of the group. Raises the first error.
        """
        return await offsets.committed_offsets(self.plan, group, partitions, require_stable=require_stable)


async def _ask(broker: Broker, message: Any, timeout_ms: int | None) -> Any:
    kind = type(message)
    ask: Ask[Any] = Ask(broker.destination(), kind, response_of(kind), lambda _: message, timeout_ms=timeout_ms)
    return await ask
