"""Counts the records that a producer sent, by topic and ten-minute window of event time, for an audit topic.

Each message has the number of records since the last one (a delta), so that messages add up and late records
count in their own window. A reader passes over a repeated one by `host`, `service` and `seq`. `ottla audit check`
compares the counts with what a lake loaded.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Protocol

_Body = bytes

AUDIT_TOPIC = "ottla.audit"
WINDOW_MS = 600_000


@dataclass(frozen=True, slots=True)
class AuditMessage:
    """Counts of one service on one host for a topic and window since its last message."""

    tier: str
    topic: str
    window_start: int
    """Milliseconds since 1970, as all times here."""
    window_end: int
    count: int
    bytes: int
    host: str
    service: str
    seq: int
    """Counts the messages of this host and service."""
    sent_at: int

    def encode(self) -> _Body:
        """The message's JSON."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def decode(cls, body: _Body | None) -> AuditMessage:
        """A message of the audit topic; ValueError where it is none."""
        try:
            stored = json.loads(body or b"null")
        except RecursionError:
            raise ValueError("an audit message is nested too deep") from None
        if not isinstance(stored, dict):
            raise ValueError("an audit message is a JSON object")
        try:
            message = cls(**{name: stored[name] for name in cls.__slots__})
        except KeyError as fault:
            raise ValueError(f"an audit message without {fault}") from fault
        for name in cls.__slots__:
            wanted = str if name in ("tier", "topic", "host", "service") else int
            if type(getattr(message, name)) is not wanted:
                raise ValueError(f"an audit message whose {name} is {getattr(message, name)!r}")
        return message


class Delivers(Protocol):
    """A record on its way, as `Producer.produce` returns it."""

    def result(self, timeout: float | None = None) -> object:
        """Wait until the record is delivered; raises the error of a failure."""


class Produces(Protocol):
    """The producer's method that an audit trail calls; `ottla.client.blocking.producer.Producer` has it."""

    def produce(self, topic: str, value: bytes | str | None = None, key: bytes | str | None = None) -> Delivers:
        """Take one record."""


class AuditTrail:
    """Counts the records that a producer sent; `flush` produces the counts. Safe for several threads.

    `service` must not be used by two processes of a host at once: name each of them. `clock` gives milliseconds since
    1970. Messages are numbered from `first_seq` on, by default from the time of the start.

        import time

        from ottla.client import AuditTrail, Producer

        trail = AuditTrail(host="web-1", service="shop", clock=lambda: int(time.time() * 1000))
        with Producer("localhost:9092") as producer:
            value, when = b"one book", int(time.time() * 1000)
            producer.produce("sales", value, timestamp=when).result()
            trail.count("sales", when, len(value))
            print(trail.flush(producer), "messages")  # every minute, and before the end
    """

    def __init__(
        self, *, host: str, service: str, clock: Callable[[], int], tier: str = "producer", first_seq: int | None = None
    ) -> None:
        self._host = host
        self._service = service
        self._clock = clock
        self._tier = tier
        self._seq = clock() if first_seq is None else first_seq
        """A process that starts again goes on above its numbers of before, as its clock does."""
        self._counts: dict[tuple[str, int], tuple[int, int]] = {}
        self._unsent: list[AuditMessage] = []
        self._guard = threading.Lock()
        self._flushing = threading.Lock()

    def count(self, topic: str, timestamp_ms: int, size: int, records: int = 1) -> None:
        """Count records of one time, with the bytes of their keys and values in `size`."""
        place = (topic, timestamp_ms // WINDOW_MS * WINDOW_MS)
        with self._guard:
            before, bytes_before = self._counts.get(place, (0, 0))
            self._counts[place] = (before + records, bytes_before + size)

    def delivered(self, topic: str, timestamp_ms: int, size: int, outcome: object) -> None:
        """Count a record unless its delivery failed: for `on_delivery` of `Producer.produce`."""
        if not isinstance(outcome, Exception):
            self.count(topic, timestamp_ms, size)

    def messages(self) -> list[AuditMessage]:
        """Counts since the last call, and those that could not be sent before."""
        with self._guard:
            counts, self._counts = self._counts, {}
            now = self._clock()
            for (topic, start), (count, size) in sorted(counts.items()):
                self._unsent.append(self._message(topic, start, count, size, now))
                self._seq += 1
            return list(self._unsent)

    def flush(self, producer: Produces, topic: str = AUDIT_TOPIC, timeout: float | None = 60.0) -> int:
        """Produce the counts and wait for them, `timeout` seconds for each; returns how many messages that were.

        Raises the error of a delivery. Messages that fail are sent again, as they were, by the next flush.
        """
        with self._flushing:
            waiting = self.messages()
            deliveries = [producer.produce(topic, message.encode(), message.topic) for message in waiting]
            for message, delivery in zip(waiting, deliveries, strict=True):
                delivery.result(timeout)
                with self._guard:
                    self._unsent.remove(message)
            return len(waiting)

    def _message(self, topic: str, start: int, count: int, size: int, now: int) -> AuditMessage:
        return AuditMessage(
            self._tier,
            topic,
            start,
            start + WINDOW_MS,
            count,
            size,
            self._host,
            self._service,
            self._seq,
            now,
        )
