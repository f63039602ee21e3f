"""One copier of the campaign: reads a topic in a group, writes another, each step a transaction with its offsets."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

SOURCE, TARGET, GROUP = "source", "target", "copiers"
STEP_S = 10.0
"""The patience with one call of a transaction."""
HANGS_S = 25.0
"""A copier that has been in one call for so long hangs: each has less patience."""


class Pace(NamedTuple):
    """The size and the length of a transaction."""

    per_transaction: int
    work_s: float
    """Seconds that a transaction takes besides its calls, at most; at least half of it."""
    seed: int


class Gate:
    """Lets copiers begin transactions as long as fewer records than allowed are copied or under way.

    The offsets that the group has committed say how many are copied. Those of a transaction count as under way until
    the group was asked after its end.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._allowed = 0
        self._open: dict[Copier, int] = {}
        """Records in open transactions."""
        self._ended: list[tuple[float, int]] = []
        """Time and records of each transaction that has ended since the group was asked."""
        self.copied = 0
        self.is_over = False
        self.kills = 0

    @property
    def open_transactions(self) -> int:
        return len(self._open)

    def allow(self, records: int) -> None:
        with self._changed:
            self._allowed = records
            self._changed.notify_all()

    def has_copied(self, records: int, asked_s: float) -> None:
        """Take what the group said; it was asked at `asked_s`."""
        with self._changed:
            self.copied = records
            self._ended = [each for each in self._ended if each[0] >= asked_s]
            self._changed.notify_all()

    def end(self) -> None:
        with self._changed:
            self.is_over = True
            self._changed.notify_all()

    def may_begin(self, patience_s: float) -> bool:
        """False if no transaction may begin after this long."""
        with self._changed:
            return self._changed.wait_for(lambda: self.is_over or self._counted() < self._allowed, patience_s)

    def _counted(self) -> int:
        return self.copied + sum(self._open.values()) + sum(records for _, records in self._ended)

    def begun(self, copier: Copier, records: int) -> None:
        with self._changed:
            self._open[copier] = records

    def ended(self, copier: Copier) -> None:
        """Its transaction has ended, or nobody waits for its end any more."""
        with self._changed:
            if (records := self._open.pop(copier, 0)) > 0:
                self._ended.append((time.monotonic(), records))
            self._changed.notify_all()


@dataclass
class Counts:
    """The work of all copiers of a campaign."""

    committed: int = 0
    aborted: int = 0
    begun_anew: int = 0
    abandoned: int = 0


class Copier(threading.Thread):
    """Copies until the gate says that it is over; begins anew with the same transactional id when it must.

    It does so after each kill: librdkafka 2.16 looks up a group's coordinator only once, and where that broker was away
    the call that sends offsets in a transaction never returns, whatever its timeout. A copier that hangs there all the
    same is abandoned, and a successor fences its producer.
    """

    def __init__(self, number: int, servers: str, gate: Gate, pace: Pace, counts: Counts) -> None:
        super().__init__(name=f"copier-{number}", daemon=True)
        self._servers = servers
        self._gate = gate
        self._pace = pace
        self._random = Random(f"{pace.seed} copier {number}")
        self._counts = counts
        self._consumer: Consumer | None = None
        self._is_abandoned = False
        self._moved_s = time.monotonic()
        self.fault: Exception | None = None
        """An error that is no client's: the campaign ends with it."""

    @property
    def hangs(self) -> bool:
        return time.monotonic() - self._moved_s > HANGS_S

    def abandon(self) -> None:
        """Its member leaves the group; should its thread ever go on, then only to its end."""
        self._is_abandoned = True
        self._counts.abandoned += 1
        self._gate.ended(self)
        if self._consumer is not None:
            _quietly(self._consumer.close)

    def run(self) -> None:
        try:
            while not self._is_over():
                self._attempt()
                self._counts.begun_anew += not self._is_over()
        except Exception as fault:
            self.fault = fault
            self._gate.end()

    def _is_over(self) -> bool:
        return self._gate.is_over or self._is_abandoned

    def _attempt(self) -> None:
        """Copy with one producer and one member of the group, until one of them is of no more use."""
        kills = self._gate.kills
        self._moved_s = time.monotonic()
        producer = Producer(self._settings() | {"transactional.id": self.name, "transaction.timeout.ms": 20_000})
        consumer = self._consumer = Consumer(
            self._settings()
            | {
                "group.id": GROUP,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 10_000,
            }
        )
        try:
            producer.init_transactions(2 * STEP_S)
            consumer.subscribe([SOURCE])
            while not self._is_over() and self._gate.kills == kills:
                self._moved_s = time.monotonic()
                self._step(producer, consumer)
        except (KafkaException, RuntimeError):  # RuntimeError: an abandoned one's consumer is closed
            return
        finally:
            producer.purge()
            _quietly(consumer.close)

    def _settings(self) -> dict[str, Any]:
        return {"bootstrap.servers": self._servers, "log_level": 0, "linger.ms": 2, "reconnect.backoff.max.ms": 500}

    def _step(self, producer: Producer, consumer: Consumer) -> None:
        """Copy one transaction; KafkaException if producer or consumer are to be made anew."""
        if not self._gate.may_begin(0.2):
            _wait(consumer)
            return
        messages = [one for one in consumer.consume(self._pace.per_transaction, 0.5) if one.error() is None]
        if not messages:
            return
        producer.begin_transaction()
        self._gate.begun(self, len(messages))
        try:
            self._copy(producer, consumer, messages)
        except KafkaException as fault:
            self._counts.aborted += 1
            if not fault.args[0].txn_requires_abort():
                raise
            self._moved_s = time.monotonic()
            producer.abort_transaction(STEP_S)
            _rewind(consumer, messages)
        else:
            self._counts.committed += 1
        finally:
            self._gate.ended(self)

    def _copy(self, producer: Producer, consumer: Consumer, messages: list[Message]) -> None:
        ends: dict[int, int] = {}
        for message in messages:
            producer.produce(TARGET, message.value(), message.key(), partition=message.partition())
            ends[message.partition()] = message.offset() + 1
        time.sleep(
            self._random.uniform(self._pace.work_s / 2, self._pace.work_s)
        )  # the work that a real copier does meanwhile
        places = [TopicPartition(SOURCE, partition, offset) for partition, offset in ends.items()]
        self._moved_s = time.monotonic()
        producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), STEP_S)
        self._moved_s = time.monotonic()
        producer.commit_transaction(STEP_S)


def _wait(consumer: Consumer) -> None:
    """Take part in rebalances without reading on."""
    mine = consumer.assignment()
    consumer.pause(mine)
    message = consumer.poll(0)
    if message is not None and message.error() is None:
        consumer.seek(TopicPartition(message.topic(), message.partition(), message.offset()))
    consumer.resume([place for place in consumer.assignment() if place in mine])


def _rewind(consumer: Consumer, messages: list[Message]) -> None:
    """Read these again, those of partitions that this member still has."""
    first: dict[int, int] = {}
    for message in messages:
        first.setdefault(message.partition(), message.offset())
    mine = {place.partition for place in consumer.assignment()}
    for partition in first.keys() & mine:
        consumer.seek(TopicPartition(SOURCE, partition, first[partition]))


def _quietly(call: Callable[[], object]) -> None:
    try:
        call()
    except (KafkaException, RuntimeError):
        return
