"""The blocking face of the consumer: `poll` on the caller's thread, heartbeats on one of its own."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Iterator, Sequence
from typing import Any, TypeVar

from ottla.client.blocking.cluster import Cluster, Driver
from ottla.client.blocking.sockets import now_ms
from ottla.client.consume.consuming import ConsumerCore
from ottla.client.consume.group import GroupMember, Listener
from ottla.client.consume.settings import ConsumerSettings, settings_from
from ottla.client.core.effects import ClientStory
from ottla.client.errors import ClientError
from ottla.client.faces.call import Blocking, keywords
from ottla.client.faces.consumer import ConsumerCalls
from ottla.client.model import ClientSettings, ConsumedRecord
from ottla.kernel.errors import ApiError

T = TypeVar("T")


class Consumer(ConsumerCalls, Blocking):
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
        **options: Any,
    ) -> None:
        """`options` are single settings of `ConsumerSettings`, its `fetch`, and `ClientSettings`; they override those.

        `bootstrap` is one or several HOST:PORT, as for `Producer`. No connection is made before it is needed.
        """
        chosen, own = settings_from(consumer, settings, options)
        self.cluster = Cluster(bootstrap, settings=own)
        self.core = ConsumerCore(self.cluster.plan, chosen)
        self._heartbeats = Driver(self.cluster.settings)
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def __iter__(self) -> Iterator[ConsumedRecord]:
        """Records without end, one by one: the position, and so a commit, is after the last one handed out."""
        while True:
            yield from self.poll(1_000, 1)
            yield from self.core.fetcher.one_by_one(self.core.settings.max_poll_records - 1)

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

        A pattern matches whole names. A thread begins to send heartbeats, and the next `poll` joins the group.
        Listeners are called with a sorted list of partitions inside `poll` and `close`: `on_assign` after partitions
        were given, `on_revoke` before they are given up, `on_lost` (by default `on_revoke`) after another member may
        have them. An error that a listener raises goes on to the caller of `poll` or `close`; the partitions change
        all the same.
        A second call replaces the first. Raises ValueError without a `group_id`, and for text or no topics at all.
        """
        member = self.core.subscribe(topics, on_assign, on_revoke, on_lost)
        if self._thread is None:
            self._thread = threading.Thread(target=self._beat, args=(member,), name="ottla-heartbeat", daemon=True)
            self._thread.start()

    @keywords
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

    def _run(self, story: ClientStory[T]) -> T:
        return self.cluster.run(story)

    def _beat(self, member: GroupMember) -> None:
        """The heartbeat thread; a failed heartbeat is tried again, the session timeout judges."""
        while not self._closed.is_set():
            try:
                wait_ms = self._heartbeats.run(member.heartbeat())
            except (ClientError, ApiError):
                wait_ms = 1_000.0
            self._closed.wait(max(wait_ms, 10.0) / 1000)
        self._heartbeats.close()
