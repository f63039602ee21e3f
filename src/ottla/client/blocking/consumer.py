"""The blocking face of the consumer: `poll` on the caller's thread, heartbeats on one of its own."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from ottla.client.blocking.cluster import Cluster, Driver
from ottla.client.blocking.sockets import now_ms
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
    """Reads records, alone (`assign`) or sharing topics with a group (`subscribe`). Not for several threads.

    A context manager. Every call that asks a broker raises `ApiError` for an error code that another attempt would not
    cure, `ClientError` for everything else, a closed consumer too. Methods on a partition raise KeyError where it is
    not assigned.
    `cluster` is the `Cluster` whose connections the calls use.

        from ottla.client import Consumer, Producer

        with Producer("localhost:9092") as producer:
            producer.produce("birds", "owl")
        with Consumer("localhost:9092", group_id="watchers", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["birds"])
            for record in consumer.poll(timeout_ms=10_000):
                print(record.topic, record.partition, record.offset, record.value)
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
        """`options` are single settings of `ConsumerSettings`, its `fetch`, and `ClientSettings`; they override those.

        `bootstrap` is one or several HOST:PORT, as for `Producer`. No connection is made before it is needed.
        """
        chosen, own = settings_from(consumer, settings, options)
        self.cluster = Cluster(bootstrap, settings=own, security=security)
        self.core = ConsumerCore(self.cluster.plan, chosen)
        self._heartbeats = Driver(self.cluster.settings, security)
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[ConsumedRecord]:
        """Records without end, one by one: the position, and so a commit, is after the last one handed out."""
        while True:
            yield from self.poll(1_000, 1)
            yield from self.core.fetcher.one_by_one(self.core.settings.max_poll_records - 1)

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

        A pattern matches whole names. A thread begins to send heartbeats, and the next `poll` joins the group.
        Listeners are called with a sorted list of partitions inside `poll` and `close`: `on_assign` after partitions
        were given, `on_revoke` before they are given up, `on_lost` (by default `on_revoke`) after another member may
        have them. An error that a listener raises goes on to the caller of `poll` or `close`; the partitions change
        all the same.
        A second call replaces the first. Raises ValueError without a `group_id`, and for text or no topics at all.
        """
        self.core.subscribe(topics, on_assign, on_revoke, on_lost)
        if self._thread is None:
            self._thread = threading.Thread(target=self._beat, name="ottla-heartbeat", daemon=True)
            self._thread.start()

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Read these partitions, whichever other consumers read them, and no others.

        Positions start at the group's committed offsets if there is a `group_id`, else by `auto_offset_reset`. Raises
        ValueError after `subscribe`: the group would go on counting on this member.

            from ottla.client import TopicPartition

            with Consumer("localhost:9092") as consumer:
                consumer.assign([TopicPartition("birds", 0)])
                consumer.seek_to_beginning()
                print(consumer.poll(10_000)[0].value)
        """
        self.core.assign(partitions)

    def poll(self, timeout_ms: float | str | timedelta = 1_000, max_records: int | None = None) -> list[ConsumedRecord]:
        """Records as soon as there are some, at most `max_records` or else `max_poll_records`; none after `timeout_ms`.

        Also joins the group, calls the listeners and commits if that is automatic, which may take longer than
        `timeout_ms`. Call it at least every `max_poll_interval_ms`, or the member leaves the group. Brokers that have
        answered before and are away are tried until `timeout_ms`, and again with the next poll; a warning tells so.

        Raises BrokerUnreachable where no broker has answered yet, `ApiError` OFFSET_OUT_OF_RANGE where a position is
        gone, or its log was cut back, and `auto_offset_reset` is none, CORRUPT_MESSAGE for a batch that fails its CRC,
        FENCED_INSTANCE_ID where another member has the `instance_id`, INVALID_TOPIC_EXCEPTION or
        TOPIC_AUTHORIZATION_FAILED for a subscribed topic that can never be read.

            with Consumer("localhost:9092", auto_offset_reset="earliest") as consumer:
                consumer.assign([TopicPartition("birds", 0)])
                while records := consumer.poll(timeout_ms=2_000, max_records=100):
                    print(len(records), "records up to offset", records[-1].offset)
        """
        return self.cluster.run(self.core.poll(timeout_ms, max_records))

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on from this offset of an assigned partition.

        Whether it is kept is not checked here: if not, the next `poll` goes by `auto_offset_reset`. Raises ValueError
        for a negative offset.

            with Consumer("localhost:9092") as consumer:
                birds = TopicPartition("birds", 0)
                consumer.assign([birds])
                consumer.seek(birds, 0)
                print(consumer.position(birds))
        """
        self.core.seek(partition, offset)

    def seek_to_beginning(self, partitions: Collection[TopicPartition] = ()) -> None:
        """Go on from the first record kept of these partitions, by default of all that are assigned."""
        self._seek_to(partitions, EARLIEST)

    def seek_to_end(self, partitions: Collection[TopicPartition] = ()) -> None:
        """Go on after the last record of these partitions, by default of all that are assigned.

        With `read_committed` that is before the first transaction that is still open.
        """
        self._seek_to(partitions, LATEST)

    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that `poll` will hand out.

        Looked up where there is none yet: the committed offset, else by `auto_offset_reset`.
        """
        return self.cluster.run(self.core.position(partition))

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out no records of these partitions until `resume`. A pause ends when the partition is given up."""
        self.core.fetcher.pause(partitions)

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """End the pause of these partitions: they go on where they were."""
        self.core.fetcher.resume(partitions)

    def commit(self, committed: Mapping[TopicPartition, CommittedOffset] | None = None) -> None:
        """Commit these offsets, or the positions: for each partition the next offset to read.

        Raises ValueError without a `group_id`, and the first partition's error: REBALANCE_IN_PROGRESS,
        ILLEGAL_GENERATION or UNKNOWN_MEMBER_ID where the group has moved on, and the partitions perhaps with it.

            settings = {"group_id": "counters", "auto_offset_reset": "earliest", "enable_auto_commit": False}
            with Consumer("localhost:9092", **settings) as consumer:
                consumer.subscribe(["birds"])
                records = consumer.poll(timeout_ms=10_000)
                consumer.commit()
                print(consumer.committed(consumer.assignment))
        """
        self.cluster.run(self.core.commit(committed))

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        """The group's committed offsets, asked for; partitions without a commit are left out.

        Raises ValueError without a `group_id`.
        """
        self.core.require_open()
        return self.cluster.committed_offsets(self.core.group, partitions)

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAtTime]:
        """For each partition the first offset whose timestamp is at least the given one; offset -1: none.

        Times are milliseconds since 1970. Raises the first partition's error.
        """
        self.core.require_open()
        isolation = self.core.settings.fetch.isolation_level
        return self.cluster.run(offsets.list_offsets(self.cluster.plan, list(times), times, isolation))

    def close(self, timeout_ms: float = 30_000) -> None:
        """Commit if that is automatic, call `on_revoke`, leave the group, close the connections.

        A member with an `instance_id` does not leave: its session timeout begins. Errors on the way are not raised but
        for those of a listener, at the end. Where no broker answers, it is given up after `timeout_ms` (a connection
        that is being made then is waited for).
        """
        if self._closed.is_set():
            return
        self._closed.set()
        close_by_ms = now_ms() + timeout_ms
        if self._thread is not None:
            self._thread.join(min(5.0, timeout_ms / 1000))
        try:
            self.cluster.run(self.core.close(max(close_by_ms - now_ms(), 0)))
        finally:
            self._heartbeats.close()
            self.cluster.close()

    def _seek_to(self, partitions: Collection[TopicPartition], spec: int) -> None:
        self.core.require_open()
        chosen = list(partitions) or sorted(self.core.assignment)
        isolation = self.core.settings.fetch.isolation_level
        for partition, at in self.cluster.list_offsets(chosen, spec, isolation).items():
            self.core.seek(partition, at.offset)

    def _beat(self) -> None:
        """The heartbeat thread; a failed heartbeat is tried again, the session timeout judges."""
        while not self._closed.is_set():
            try:
                wait_ms = self._heartbeats.run(self.core.heartbeat())
            except (ClientError, ApiError):
                wait_ms = 1_000.0
            self._closed.wait(max(wait_ms, 10.0) / 1000)
        self._heartbeats.close()
