"""Unmodified clients (confluent-kafka) that write down what they do and see: writers, a reader, a group, a scan."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping
from random import Random

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from tests.faults.witness import Witness

from ottla.sim.checkers.history import (
    Acknowledged,
    Alive,
    CommitAsked,
    CommitDone,
    CommitSeen,
    Failed,
    LogKey,
    OutOfRange,
    Polled,
    Scanned,
    Sent,
    Unreadable,
)

TOPIC = "faults"
PARTITIONS = 6
_ALL = -1
Way = Mapping[str, str]
"""The settings by which clients reach the brokers."""
_FOREVER = 0
_QUICK = {"reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 500, "log_level": 0}


class _Client:
    """A thread that runs until it is told to stop."""

    def __init__(self, witness: Witness) -> None:
        self.witness = witness
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        raise NotImplementedError


class Writer(_Client):
    """An idempotent producer with acks=all, which retries without limit. While `going` is set it sends new records.

    At most `ahead` records wait for their acknowledgement; a slow partition does not hold up the others.
    """

    def __init__(self, name: str, way: Way, witness: Witness, seed: int, *, per_second: float, ahead: int) -> None:
        super().__init__(witness)
        self.name = name
        self.going = threading.Event()
        self.broken = False
        self._waiting = [0] * PARTITIONS
        self.unplaced: list[tuple[LogKey, bytes]] = []
        """Records acknowledged without an offset: librdkafka infers some acknowledgements from a later batch's."""
        self._random = Random(f"{name}-{seed}")
        self._per_second, self._ahead = per_second, ahead // PARTITIONS
        self._numbers = 0
        settings = {"enable.idempotence": True, "acks": "all", "linger.ms": 2, "message.timeout.ms": _FOREVER}
        self._producer = Producer({**way, **settings, **_QUICK, "on_delivery": self._told})

    def _run(self) -> None:
        try:
            self._write_on()
        except (KafkaException, SystemError) as why:  # it turns some exceptions of our callbacks into the second
            self.broken = True
            self.witness.saw(Failed(self.witness.now_us(), f"{self.name} cannot go on: {why}", "refused"))

    def _write_on(self) -> None:
        due = time.monotonic()
        while not self._stopping.is_set():
            free = [number for number, waiting in enumerate(self._waiting) if waiting < self._ahead]
            if not self.going.is_set() or not free or time.monotonic() < due:
                self._producer.poll(0.005)
                due = max(due, time.monotonic() - 1)
                continue
            burst = self._random.randint(1, 20)
            due += burst / self._per_second
            for _ in range(burst):
                self.write(self._random.choice(free))
            self._producer.poll(0)

    @property
    def waits(self) -> bool:
        """True while it waits for acknowledgements that may still come."""
        return sum(self._waiting) > 0 and not self.broken

    def write(self, partition: int) -> None:
        self._numbers += 1
        value = f"{self.name}:{self._numbers}:".encode()
        value += self._random.randbytes(self._random.randint(0, 120)).hex().encode()
        log = LogKey(TOPIC, partition)
        self._waiting[partition] += 1
        self.witness.saw(Sent(self.witness.now_us(), self.name, log, self._numbers, (value,), _ALL, True))
        key = self._numbers.to_bytes(8, "big")
        self._producer.produce(TOPIC, value, key, partition)

    def _told(self, error: KafkaError | None, message: Message) -> None:
        self._waiting[message.partition()] -= 1
        log, value = LogKey(TOPIC, message.partition()), message.value()
        if error is not None:
            self.witness.saw(
                Failed(self.witness.now_us(), f"{self.name} was refused {value[:24]!r}: {error}", "refused")
            )
            return
        offset = message.offset()
        if offset is None or offset < 0:
            self.unplaced.append((log, value))
        else:
            number = int.from_bytes(message.key(), "big")
            self.witness.saw(Acknowledged(self.witness.now_us(), self.name, log, number, offset))
        self.witness.counts_one()


class Prober(Writer):
    """Writes one record to every partition after healing."""

    def probe(self) -> None:
        for partition in range(PARTITIONS):
            self.write(partition)

    def is_told(self) -> bool:
        self._producer.poll(0)
        return not self.waits

    def _told(self, error: KafkaError | None, message: Message) -> None:
        super()._told(error, message)
        if error is None:
            self.witness.saw(Alive(self.witness.now_us(), LogKey(TOPIC, message.partition())))


class Reader(_Client):
    """Reads all partitions from their starts; `again` replaces it by another consumer that continues from there."""

    def __init__(self, way: Way, witness: Witness) -> None:
        super().__init__(witness)
        self._way = way
        self._positions = dict.fromkeys(range(PARTITIONS), 0)
        self._lives = 0
        self._again = threading.Event()

    def again(self) -> None:
        self._again.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._lives += 1
            self.name = f"reader.{self._lives}"
            consumer = consumer_of(self._way, "reader", {"fetch.wait.max.ms": 100})
            consumer.assign([TopicPartition(TOPIC, number, at) for number, at in self._positions.items()])
            self._again.clear()
            while not self._stopping.is_set() and not self._again.is_set():
                self._poll(consumer)
            consumer.close()

    def _poll(self, consumer: Consumer) -> None:
        found: dict[int, list[tuple[int, bytes]]] = {}
        for message in consumer.consume(500, 0.1):
            if message.error() is not None:
                self._stumbled(message.error(), message.partition())
            else:
                found.setdefault(message.partition(), []).append((message.offset(), message.value()))
        for partition, records in found.items():
            asked = self._positions[partition]
            event = Polled(self.witness.now_us(), self.name, LogKey(TOPIC, partition), asked, tuple(records))
            self.witness.saw(event)
            self._positions[partition] = records[-1][0] + 1

    def _stumbled(self, error: KafkaError, partition: int) -> None:
        """Ignore passing errors; report lost positions and bytes that do not parse."""
        now_us, log = self.witness.now_us(), LogKey(TOPIC, partition or 0)
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION):
            self.witness.saw(OutOfRange(now_us, self.name, log, self._positions[log.partition]))
            self._positions[log.partition] = 0
            self._again.set()
        elif error.code() in (KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION):
            self.witness.saw(Unreadable(now_us, self.name, log, str(error)))


class Group(_Client):
    """A client that commits offsets, one at a time, and reads the committed ones."""

    def __init__(self, way: Way, witness: Witness, seed: int) -> None:
        super().__init__(witness)
        self._way = way
        self._random = Random(f"group-{seed}")

    def _run(self) -> None:
        consumer = consumer_of(self._way, "group", {"socket.timeout.ms": 10_000})
        offset = 0
        while not self._stopping.wait(self._random.uniform(0, 0.2)):
            log = LogKey(TOPIC, self._random.randrange(PARTITIONS))
            place = TopicPartition(TOPIC, log.partition)
            with contextlib.suppress(KafkaException):
                if self._random.random() < 0.3:
                    self._ask(consumer, place, log)
                    continue
                offset += 1
                place.offset = offset
                self.witness.saw(CommitAsked(self.witness.now_us(), "group", log, offset))
                (done,) = consumer.commit(offsets=[place], asynchronous=False)
                if done.error is None:
                    self.witness.saw(CommitDone(self.witness.now_us(), "group", log, offset))
        consumer.close()

    def _ask(self, consumer: Consumer, place: TopicPartition, log: LogKey) -> None:
        asked_us = self.witness.now_us()
        (told,) = consumer.committed([place], timeout=5)
        if told.error is None:
            self.witness.saw(CommitSeen(asked_us, self.witness.now_us(), "group", log, max(told.offset, -1)))


def consumer_of(way: Way, group: str, settings: dict[str, object]) -> Consumer:
    safe = {"enable.auto.commit": False, "auto.offset.reset": "error", "check.crcs": True}
    return Consumer({**way, "group.id": group, **safe, **_QUICK, **settings})


def scan(way: Way, witness: Witness, patience_s: float = 120) -> list[Scanned]:
    """Read every partition from its start to its end."""
    consumer = consumer_of(way, "scan", {})
    scans = []
    for number in range(PARTITIONS):
        place = TopicPartition(TOPIC, number)
        low, high = consumer.get_watermark_offsets(place, timeout=patience_s)
        place.offset = low
        consumer.assign([place])
        found: list[tuple[int, bytes]] = []
        silent = 0
        while low + len(found) < high and (not found or found[-1][0] + 1 < high):
            messages = consumer.consume(2000, 0.5)
            found += [(message.offset(), message.value()) for message in messages if message.error() is None]
            silent = 0 if messages else silent + 1
            if silent > patience_s * 2:
                break
        records = tuple(record for record in found if record[0] < high)
        scans.append(Scanned(witness.now_us(), LogKey(TOPIC, number), low, high, records))
    consumer.close()
    return scans
