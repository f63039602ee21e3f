"""The blocking face: sockets under the client's stories. Start with `Cluster`; `Connection` is the lowest level.

`Admin`, `Producer` and `Consumer` are in `admin`, `producer` and `consumer` beside this module.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from ottla.client.blocking.driver import Driver
from ottla.client.blocking.sockets import Connection, now_ms
from ottla.client.blocking.started import Started
from ottla.client.core import transfer
from ottla.client.core.effects import ClientStory
from ottla.client.core.plan import ClusterPlan
from ottla.client.errors import ClientError, may_retry
from ottla.client.faces.call import Blocking, keywords
from ottla.client.faces.cluster import ClusterCalls, RangeReading
from ottla.client.model import ClientSettings, Fetched, IsolationLevel, client_settings_from
from ottla.kernel.errors import ApiError
from ottla.kernel.ids import TopicPartition

T = TypeVar("T")

__all__ = ["Cluster", "Connection", "Driver"]


class Cluster(ClusterCalls, Blocking):
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
        clock: Callable[[], float] = now_ms,
        **options: Any,
    ) -> None:
        """`bootstrap` is one or several HOST:PORT, with commas between or as a sequence; ValueError where it is not.

        No connection is made before the first call. `clock` gives milliseconds that only grow. `options` are single
        settings of `ClientSettings`; they override those in `settings`.
        """
        self.settings = client_settings_from("Cluster", settings, options)
        self.plan = ClusterPlan(bootstrap, self.settings, clock)
        self.driver = Driver(self.settings)

    @keywords
    def close(self) -> None:
        """Close all connections. A later call opens new ones."""
        self.driver.close()

    @keywords
    def run(self, story: ClientStory[T]) -> T:
        """Drive one of the client's stories, for what has no method here."""
        return self.driver.run(story)

    _run = run

    @keywords
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
        where = TopicPartition(topic, partition)
        reading = RangeReading(
            self.plan,
            where,
            start,
            end,
            max_bytes=max_bytes,
            isolation_level=isolation_level,
            timeout_ms=timeout_ms,
        )
        started: Started | None = None
        try:
            while reading.goes_on:
                piece = None
                if started is not None:
                    asked, started = started, None
                    piece = self._finish_ahead(asked, reading, where)
                if piece is None:
                    piece = self.run(reading.fetch())
                if piece is None:
                    continue
                if ahead and reading.goes_on:
                    started = self._start_ahead(where, reading.position, max_bytes, isolation_level)
                yield piece
                reading.waits_anew()
        finally:
            if started is not None:  # the range was not read to its end
                started.give_up()

    def _start_ahead(
        self, partition: TopicPartition, position: int, max_bytes: int, isolation_level: IsolationLevel
    ) -> Started | None:
        """Send the next fetch without waiting; None if that is not possible (the plain path is used then)."""
        leader = self.plan.metadata.leader(*partition)
        if leader is None:
            return None
        where = leader.destination(f"ahead-{threading.get_ident()}")
        ask = transfer.fetch_ask(
            self.plan, where, *partition, position, max_bytes=max_bytes, isolation_level=isolation_level
        )
        try:
            return self.driver.start(ask)
        except (ClientError, ApiError):
            return None

    def _finish_ahead(self, started: Started, reading: RangeReading, partition: TopicPartition) -> Fetched | None:
        """The piece that was asked for ahead; None where the plain path is to ask for it again."""
        try:
            response = self.driver.finish(started)
            code, piece = transfer.read_fetch(self.plan, *partition, reading.position, response)
        except (ClientError, ApiError) as fault:
            if not may_retry(fault):
                raise
            return None
        return None if piece is None or code in transfer.MOVED else reading.took(piece)
