"""The blocking face of the consumer: `poll` on the caller's thread, heartbeats on one of its own."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence

from ottla.client.blocking.cluster import Cluster, Driver
from ottla.client.consume import offsets
from ottla.client.consume.consuming import ConsumerCore, ConsumerSettings, Listener
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
    """Reads records, alone (`assign`) or sharing topics with a group (`subscribe`). Not for several threads."""

    def __init__(
        self,
        bootstrap: str | Sequence[str] = "localhost:9092",
        *,
        consumer: ConsumerSettings | None = None,
        settings: ClientSettings | None = None,
        security: Security = PLAINTEXT,
    ) -> None:
        self.cluster = Cluster(bootstrap, settings=settings, security=security)
        self.core = ConsumerCore(self.cluster.plan, consumer or ConsumerSettings())
        self._heartbeats = Driver(self.cluster.settings, security)
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[ConsumedRecord]:
        """Records without end."""
        while True:
            yield from self.poll(1_000)

    @property
    def assignment(self) -> set[TopicPartition]:
        return self.core.assignment

    @property
    def group_metadata(self) -> GroupMetadata:
        """For `Producer.send_offsets_to_transaction`."""
        return self.core.group_metadata

    def subscribe(
        self,
        topics: Collection[str] | re.Pattern[str],
        *,
        on_assign: Listener | None = None,
        on_revoke: Listener | None = None,
        on_lost: Listener | None = None,
    ) -> None:
        """Share these topics, or all that a pattern matches; listeners run inside `poll`."""
        self.core.subscribe(topics, on_assign, on_revoke, on_lost)
        if self._thread is None:
            self._thread = threading.Thread(target=self._beat, name="ottla-heartbeat", daemon=True)
            self._thread.start()

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Read these partitions, whichever other consumers read them."""
        self.core.assign(partitions)

    def poll(self, timeout_ms: float = 1_000, max_records: int | None = None) -> list[ConsumedRecord]:
        """Records as soon as there are some; none after `timeout_ms`."""
        return self.cluster.run(self.core.poll(timeout_ms, max_records))

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on from this offset."""
        self.core.fetcher.readings[partition].seek(offset)

    def seek_to_beginning(self, partitions: Collection[TopicPartition] = ()) -> None:
        self._seek_to(partitions, EARLIEST)

    def seek_to_end(self, partitions: Collection[TopicPartition] = ()) -> None:
        self._seek_to(partitions, LATEST)

    def position(self, partition: TopicPartition) -> int:
        return self.cluster.run(self.core.position(partition))

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            self.core.fetcher.readings[partition].paused = True

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            self.core.fetcher.readings[partition].paused = False

    def commit(self, committed: Mapping[TopicPartition, CommittedOffset] | None = None) -> None:
        """Commit these offsets, or the positions; raises the error of a failure."""
        self.cluster.run(self.core.commit(committed))

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        """The group's committed offsets; partitions without a commit are left out."""
        group = self.core.settings.group_id
        if group is None:
            raise ValueError("committed offsets belong to a group: give group_id")
        return self.cluster.committed_offsets(group, partitions)

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAtTime]:
        """For each partition the first offset whose timestamp is at least the given one; offset -1: none."""
        isolation = self.core.settings.fetch.isolation_level
        return self.cluster.run(offsets.list_offsets(self.cluster.plan, list(times), times, isolation))

    def close(self) -> None:
        """Commit if that is automatic, leave the group, close the connections."""
        if self._closed.is_set():
            return
        self._closed.set()
        if self._thread is not None:
            self._thread.join(5)
        self.cluster.run(self.core.close())
        self._heartbeats.close()
        self.cluster.close()

    def _seek_to(self, partitions: Collection[TopicPartition], spec: int) -> None:
        chosen = list(partitions) or sorted(self.core.assignment)
        isolation = self.core.settings.fetch.isolation_level
        for partition, at in self.cluster.list_offsets(chosen, spec, isolation).items():
            self.seek(partition, at.offset)

    def _beat(self) -> None:
        """The heartbeat thread; a failed heartbeat is tried again, the session timeout judges."""
        while not self._closed.is_set():
            try:
                wait_ms = self._heartbeats.run(self.core.heartbeat())
            except (ClientError, ApiError):
                wait_ms = 1_000.0
            self._closed.wait(max(wait_ms, 10.0) / 1000)
