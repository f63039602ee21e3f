"""The blocking face: sockets under the client's stories. Start with `Cluster`; `Connection` is the lowest level.

`Admin`, `Producer` and `Consumer` are in `admin`, `producer` and `consumer` beside this module.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from ottla.client.blocking.driver import Driver
from ottla.client.blocking.sockets import Connection, now_ms
from ottla.client.blocking.started import Started
from ottla.client.consume import offsets
from ottla.client.core import transfer
from ottla.client.core.effects import Ask, Effect
from ottla.client.core.link import response_of
from ottla.client.core.plan import ClusterPlan
from ottla.client.core.transport import PLAINTEXT, Security
from ottla.client.errors import (
    ClientError,
    RequestTimedOut,
    may_retry,
    refused,
)
from ottla.client.model import (
    EARLIEST,
    LATEST,
    Broker,
    ClientSettings,
    CommittedOffset,
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

R = TypeVar("R")
T = TypeVar("T")

__all__ = ["Cluster", "Connection", "Driver"]


class Cluster:
    """A cluster: brokers, topics, leaders, offsets, bytes. Every call follows leader changes and retries.

    Raises `ApiError` for an error code that another attempt would not cure, `ClientError` for everything else.
    Safe for several threads (one call at a time) and across fork; a context manager.

        from ottla.client import Admin, Cluster, Producer
        from ottla.client.model import EARLIEST, LATEST

        with Cluster("localhost:9092") as cluster:
            Admin(cluster=cluster).create_topic("trees", partitions=2)
            partitions = cluster.partitions("trees")
            first, after_last = cluster.list_offsets(partitions, EARLIEST), cluster.list_offsets(partitions, LATEST)
            for partition in partitions:
                print(partition, first[partition].offset, after_last[partition].offset)
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str] = "localhost:9092",
        *,
        settings: ClientSettings | None = None,
        security: Security = PLAINTEXT,
        clock: Callable[[], float] = now_ms,
        **options: Any,
    ) -> None:
        """`bootstrap` is one or several HOST:PORT, with commas between or as a sequence; ValueError where it is not.

        No connection is made before the first call. `clock` gives milliseconds that only grow. `options` are single
        settings of `ClientSettings`; they override those in `settings`.
        """
        self.settings = client_settings_from("Cluster", settings, options)
        self.plan = ClusterPlan(bootstrap, self.settings, clock)
        self.driver = Driver(self.settings, security)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections. A later call opens new ones."""
        self.driver.close()

    def run(self, story: Coroutine[Effect, Any, T]) -> T:
        """Drive one of the client's stories, for what has no method here."""
        return self.driver.run(story)

    def refresh(self, topics: Collection[str] | None = (), *, create: bool = False) -> None:
        """Fetch metadata of these topics (none: brokers only; None: all).

        `create` asks the broker to make topics that do not exist. Raises BrokerUnreachable where no broker answers.
        """
        self.run(self.plan.refresh(topics, create=create))

    def brokers(self) -> dict[int, Broker]:
        """The live brokers by id."""
        if not self.plan.metadata.brokers:
            self.refresh()
        return dict(self.plan.metadata.brokers)

    def topics(self) -> dict[str, TopicView]:
        """All topics, internal ones too, asked for afresh."""
        self.refresh(None)
        return dict(self.plan.metadata.topics)

    def topic(self, topic: str) -> TopicView:
        """Id and partitions of one topic.

        Raises `ApiError` UNKNOWN_TOPIC_OR_PARTITION where it does not exist, MetadataMissing where a partition has no
        leader for as long as `api_timeout_ms`.
        """
        return self.run(self.plan.topic(topic))

    def topic_id(self, topic: str) -> bytes:
        """The 16 bytes of a topic's id; all zero where the broker has no ids. Errors as with `topic`."""
        return self.topic(topic).topic_id

    def partitions(self, topic: str) -> list[TopicPartition]:
        """All partitions of a topic. Errors as with `topic`."""
        return [TopicPartition(topic, index) for index in self.topic(topic).partitions]

    def leader(self, topic: str, partition: int) -> Broker:
        """The broker that leads a partition, as known now; errors as with `topic`, for this partition alone."""
        return self.run(self.plan.leader(topic, partition))

    def request(self, message: Any, *, broker_id: int | None = None, timeout_ms: int | None = None) -> Any:
        """Ask one broker, any if `broker_id` is None; error codes in the answer are the caller's.

        `message` is a request of `ottla.messages`; `timeout_ms` is for one answer, by default `request_timeout_ms`.
        Raises MetadataMissing where no such broker lives, UnsupportedVersion where the broker does not serve the API.

            from ottla.messages.describe_cluster import DescribeClusterRequest

            with Cluster("localhost:9092") as cluster:
                print(cluster.request(DescribeClusterRequest()).cluster_id)
        """
        return self.run(self._request(message, broker_id, timeout_ms))

    def request_to_leader(self, topic: str, partition: int, message: Any, *, timeout_ms: int | None = None) -> Any:
        """Ask the leader of a partition, as known now; error codes in the answer are the caller's."""
        leader = self.leader(topic, partition)
        ask: Ask[Any] = Ask(
            leader.destination(), type(message), response_of(type(message)), lambda _: message, timeout_ms=timeout_ms
        )
        return self.run(_await(ask))

    def list_offsets(
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
        return self.run(offsets.list_offsets(self.plan, partitions, spec, isolation_level, timeout_ms))

    def fetch(
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
        story = transfer.fetch(
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
        return self.run(story)

    def fetch_range(
        self,
        topic: str,
        partition: int,
        start: int,
        end: int,
        *,
        max_bytes: int = 4 * transfer.PARTITION_MAX_BYTES,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        timeout_ms: float | None = None,
        ahead: bool = True,
    ) -> Iterator[Fetched]:
        """The whole batches that hold offsets `start` to below `end`, piece by piece.

        The first batch may begin below `start`, the last end above `end`: filter by offset. `max_bytes` (by default
        4 MiB) is for one piece. `ahead` asks for the next piece before this one is handed out. Raises ApiError
        OFFSET_OUT_OF_RANGE where data is gone, and RequestTimedOut where nothing came for `timeout_ms` (default:
        `settings.api_timeout_ms`).
        """
        position = start
        started: Started | None = None
        attempts = self.plan.attempts(timeout_ms)
        try:
            while position < end:
                piece = None
                if started is not None:
                    asked, started = started, None
                    piece = self._finish_ahead(asked, topic, partition, position)
                if piece is None:
                    piece = self.fetch(
                        topic,
                        partition,
                        position,
                        max_bytes=max_bytes,
                        isolation_level=isolation_level,
                        timeout_ms=timeout_ms,
                    )
                if piece.error:
                    kept = self._kept(TopicPartition(topic, partition))
                    raise refused(piece.error, f"{topic}-{partition} at offset {position} (kept: {kept})")
                if piece.next_offset <= position:
                    if attempts.left_ms <= 0:
                        raise RequestTimedOut(f"{topic}-{partition}: no records from offset {position} to {end}")
                    continue
                position = piece.next_offset
                if ahead and position < end:
                    started = self._start_ahead(topic, partition, position, max_bytes, isolation_level)
                yield piece
                attempts = self.plan.attempts(timeout_ms)
        finally:
            if started is not None:  # the range was not read to its end
                started.give_up()

    def produce(
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
        story = transfer.produce(
            self.plan,
            topic,
            partition,
            batch,
            acks=acks,
            delivery_timeout_ms=delivery_timeout_ms,
            request_timeout_ms=request_timeout_ms,
            retries=retries,
        )
        return self.run(story)

    def init_producer_id(
        self, transactional_id: str | None = None, *, transaction_timeout_ms: int = 60_000
    ) -> ProducerIdentity:
        """A producer id and epoch for idempotent (or transactional) batches.

        With a `transactional_id` its coordinator gives them, and fences the producer that had the id before.
        """
        return self.run(
            transfer.init_producer_id(self.plan, transactional_id, transaction_timeout_ms=transaction_timeout_ms)
        )

    def commit_offsets(self, group: str, committed: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit offsets for a group without being a member, which a group allows while it has none.

        Raises the first error: UNKNOWN_MEMBER_ID where the group has members.

            from ottla.client import CommittedOffset, TopicPartition

            with Cluster("localhost:9092") as cluster:
                cluster.commit_offsets("foresters", {TopicPartition("trees", 0): CommittedOffset(1)})
                print(cluster.committed_offsets("foresters"))
        """
        for fault in self.run(offsets.commit_offsets(self.plan, group, committed)).values():
            if fault is not None:
                raise fault

    def committed_offsets(
        self, group: str, partitions: Collection[TopicPartition] | None = None, *, require_stable: bool = False
    ) -> dict[TopicPartition, CommittedOffset]:
        """The committed offsets of a group, for these partitions or all; those without a commit are left out.

        `require_stable` waits for transactions that commit offsets of the group. Raises the first error.
        """
        return self.run(offsets.committed_offsets(self.plan, group, partitions, require_stable=require_stable))

    def _kept(self, partition: TopicPartition) -> str:
        """The offsets that a partition holds now, for an error about an offset that it no longer holds."""
        first = self.list_offsets([partition], EARLIEST)[partition].offset
        return f"{first} to {self.list_offsets([partition], LATEST)[partition].offset}"

    async def _request(self, message: Any, broker_id: int | None, timeout_ms: int | None) -> Any:
        request, response = type(message), response_of(type(message))
        if broker_id is None:
            return await self.plan.ask_any(request, response, lambda _: message, timeout_ms=timeout_ms)
        broker = await self.plan.broker(broker_id)
        ask: Ask[Any] = Ask(broker.destination(), request, response, lambda _: message, timeout_ms=timeout_ms)
        return await ask

    def _start_ahead(
        self, topic: str, partition: int, position: int, max_bytes: int, isolation_level: IsolationLevel
    ) -> Started | None:
        """Send the next fetch without waiting; None if that is not possible (the plain path is used then)."""
        leader = self.plan.metadata.leader(topic, partition)
        if leader is None:
            return None
        where = leader.destination(f"ahead-{threading.get_ident()}")
        ask = transfer.fetch_ask(
            self.plan, where, topic, partition, position, max_bytes=max_bytes, isolation_level=isolation_level
        )
        try:
            return self.driver.start(ask)
        except (ClientError, ApiError):
            return None

    def _finish_ahead(self, started: Started, topic: str, partition: int, position: int) -> Fetched | None:
        try:
            response = self.driver.finish(started)
            code, piece = transfer.read_fetch(self.plan, topic, partition, position, response)
        except (ClientError, ApiError) as fault:
            if not may_retry(fault):
                raise
            return None
        return None if code in transfer.MOVED else piece


async def _await(ask: Ask[R]) -> R:
    return await ask
