"""A compacted topic as a dict that follows it, in a thread of its own: a cache that many processes can have."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from ottla.client.blocking.cluster import Cluster
from ottla.client.blocking.consumer import Consumer
from ottla.client.errors import ClientError, RequestTimedOut
from ottla.client.model import EARLIEST, LATEST, ConsumedRecord, IsolationLevel
from ottla.kernel.ids import TopicPartition

K = TypeVar("K")
V = TypeVar("V")
_POLL_MS = 200


def _as_it_is(data: bytes) -> Any:
    return data


class TopicTable(Mapping[K, V], Generic[K, V]):
    """The newest value of each key of a topic, as a read-only mapping; a record without a value deletes its key.

    Iteration sees the keys of one moment, and `snapshot()` all rows of one. Only committed records are seen. It is a
    context manager.

        from ottla.client import TopicTable

        with TopicTable("prices", "localhost:9092", key=bytes.decode, value=float) as prices:
            prices.wait_until_caught_up(timeout=30)
            print(prices.get("tea"), prices.lag())
    """

    def __init__(
        self,
        topic: str,
        bootstrap: str | Sequence[str] = "localhost:9092",
        *,
        key: Callable[[bytes], K] = _as_it_is,
        value: Callable[[bytes], V] = _as_it_is,
        on_change: Callable[[K, V | None], None] | None = None,
        **options: Any,
    ) -> None:
        """`key` and `value` make of bytes what the table holds; without them it holds bytes.

        `on_change` is called with each key and its new value, or None, by the thread that follows; it must be quick.
        `options` are settings of the `Consumer`.
        """
        self._topic, self._key, self._value, self._on_change = topic, key, value, on_change
        self._bootstrap, self._options = bootstrap, options
        self._rows: dict[K, V] = {}
        self._reached: dict[TopicPartition, int] = {}
        self._changed = threading.Condition()
        self._delay_ms: int | None = None
        self._fault: Exception | None = None
        self._stop = threading.Event()
        self._cluster: Cluster | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> TopicTable[K, V]:
        """Begin to follow, and return at once. Raises `ApiError` where the topic does not exist."""
        if self._thread is not None:
            raise ClientError(f"the table of {self._topic} was started before: make another one")
        self._cluster = Cluster(self._bootstrap)
        try:
            partitions = self._partitions(self._cluster)
            begins = self._cluster.list_offsets(partitions, EARLIEST)
        except BaseException:
            self._cluster.close()
            raise
        self._reached = {partition: begins[partition].offset for partition in partitions}
        self._thread = threading.Thread(target=self._follow, name=f"table of {self._topic}", daemon=True)
        self._thread.start()
        return self

    def close(self) -> None:
        """Follow no longer; what the table holds stays."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if self._cluster is not None:
            self._cluster.close()

    def wait_until_caught_up(self, timeout: float | None = None) -> None:
        """Wait until the table holds all that is committed now; RequestTimedOut after `timeout` seconds.

        So a process that has written a record reads it here. Raises the error that has ended the following.
        """
        ends = self._ends()

        def caught_up() -> bool:
            return self._fault is not None or all(self._reached[each] >= end for each, end in ends.items())

        with self._changed:
            there = self._changed.wait_for(caught_up, timeout)
            if self._fault is not None:
                raise ClientError(f"the table of {self._topic} follows no longer: {self._fault}") from self._fault
            if not there:
                raise RequestTimedOut(f"the table of {self._topic} has not caught up within {timeout} s")

    def lag(self) -> int:
        """The offsets that the topic has and the table does not know yet; 0: nothing was newer when it was asked."""
        ends = self._ends()
        with self._changed:
            return sum(max(0, end - self._reached[partition]) for partition, end in ends.items())

    @property
    def delay_ms(self) -> int | None:
        """The milliseconds from the timestamp of the newest record to its arrival here; None before the first."""
        return self._delay_ms

    def __getitem__(self, key: K) -> V:
        with self._changed:
            return self._rows[key]

    def __iter__(self) -> Iterator[K]:
        """The keys of one moment."""
        with self._changed:
            return iter(list(self._rows))

    def __len__(self) -> int:
        return len(self._rows)

    def snapshot(self) -> dict[K, V]:
        """All rows of one moment."""
        with self._changed:
            return dict(self._rows)

    def __enter__(self) -> TopicTable[K, V]:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _partitions(self, cluster: Cluster) -> list[TopicPartition]:
        return [TopicPartition(self._topic, index) for index in sorted(cluster.topic(self._topic).partitions)]

    def _ends(self) -> dict[TopicPartition, int]:
        if self._cluster is None:
            raise ClientError(f"the table of {self._topic} was not started: call start(), or use `with`")
        partitions = self._partitions(self._cluster)
        if len(partitions) != len(self._reached):
            raise ClientError(
                f"the topic {self._topic} has {len(partitions)} partitions now, and the table follows "
                f"{len(self._reached)}: make another table"
            )
        found = self._cluster.list_offsets(partitions, LATEST, IsolationLevel.READ_COMMITTED)
        return {partition: found[partition].offset for partition in partitions}

    def _follow(self) -> None:
        try:
            options = {"isolation_level": "read_committed", **self._options}
            with Consumer(self._bootstrap, auto_offset_reset="earliest", **options) as consumer:
                consumer.assign(list(self._reached))
                consumer.seek_to_beginning()
                while not self._stop.is_set():
                    records = consumer.poll(_POLL_MS)
                    reached = {partition: consumer.position(partition) for partition in self._reached}
                    self._take(records, reached)
        except Exception as fault:
            with self._changed:
                self._fault = fault
                self._changed.notify_all()

    def _take(self, records: Sequence[ConsumedRecord], reached: dict[TopicPartition, int]) -> None:
        changes: list[tuple[K, V | None]] = []
        for record in records:
            if record.key is None:
                raise ClientError(f"the record at {record.topic}-{record.partition}@{record.offset} has no key")
            changes.append((self._key(record.key), None if record.value is None else self._value(record.value)))
        with self._changed:
            for key, value in changes:
                if value is None:
                    self._rows.pop(key, None)
                else:
                    self._rows[key] = value
            self._reached = reached
            if records:
                self._delay_ms = max(0, int(time.time() * 1000) - records[-1].timestamp)
            self._changed.notify_all()
        for key, value in changes if self._on_change else ():
            assert self._on_change is not None
            self._on_change(key, value)
