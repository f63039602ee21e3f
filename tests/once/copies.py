"""Copiers in transactions while brokers are killed, and the proof that the copy is the original."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from random import Random
from typing import NamedTuple

from cluster_processes import OttlaCluster, until
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.once.copier import GROUP, SOURCE, TARGET, Copier, Counts, Gate, Pace
from tests.once.judge import differences

KEYS = 1000
REPLICAS = 3
OPTIONS = ("transaction.state.log.num.partitions=6", "offsets.topic.num.partitions=6", "replica.lag.time.max.ms=5000")
PATIENCE_S = 300.0


class Scale(NamedTuple):
    """The size of a run."""

    records: int
    kills: int
    seed: int
    copiers: int = 3
    partitions: int = 6
    per_transaction: int = 750
    work_s: float = 0.6


@dataclass
class Ended:
    """The outcome of a run."""

    kills: int = 0
    kills_in_transactions: int = 0
    """Those at a moment at which a transaction was open."""
    counts: Counts = field(default_factory=Counts)
    aborted_records: int = 0
    seconds: float = 0.0
    differences: list[str] = field(default_factory=list)


class Copies:
    """Fills the source, lets copiers work while brokers are killed, and compares."""

    def __init__(self, cluster: OttlaCluster, scale: Scale, tell: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._servers = cluster.bootstrap_servers
        self._scale = scale
        self._tell = tell
        self._random = Random(scale.seed)
        self._admin = AdminClient({"bootstrap.servers": self._servers, "log_level": 0, "socket.timeout.ms": 5000})
        self._asker = Consumer({"bootstrap.servers": self._servers, "group.id": GROUP, "log_level": 0})
        self._gate = Gate()
        self._ended = Ended()
        self._copiers: dict[int, Copier] = {}

    def run(self) -> Ended:
        began = time.monotonic()
        self._create()
        self._fill()
        scale, ended = self._scale, self._ended
        for number in range(scale.copiers):
            self._begin_copier(number)
        for number in range(1, scale.kills + 1):
            self._kill_one(number)
        self._let_copy(scale.records)
        self._gate.end()
        for copier in self._copiers.values():
            copier.join(PATIENCE_S)
            if copier.fault is not None:
                raise copier.fault
        self._asker.close()
        until(self._is_whole, PATIENCE_S)
        self._compare()
        if scale.kills and not ended.kills_in_transactions:
            ended.differences.append("no kill fell into a transaction: nothing was tried")
        ended.seconds = time.monotonic() - began
        return ended

    def _begin_copier(self, number: int) -> None:
        pace = Pace(self._scale.per_transaction, self._scale.work_s, self._scale.seed)
        self._copiers[number] = Copier(number, self._servers, self._gate, pace, self._ended.counts)
        self._copiers[number].start()

    def _look_after_copiers(self) -> None:
        for number, copier in list(self._copiers.items()):
            if copier.hangs and copier.is_alive():
                copier.abandon()
                self._begin_copier(number)

    def _create(self) -> None:
        partitions = self._scale.partitions
        config = {"min.insync.replicas": "2"}
        topics = [NewTopic(name, partitions, REPLICAS, config=config) for name in (SOURCE, TARGET)]
        for outcome in self._admin.create_topics(topics).values():
            outcome.result(30)

    def _fill(self) -> None:
        producer = Producer({"bootstrap.servers": self._servers, "enable.idempotence": True, "linger.ms": 5})
        for number in range(self._scale.records):
            if number % 10_000 == 0:
                producer.flush(60)
            producer.produce(SOURCE, str(number).encode(), b"%d" % (number % KEYS))
        assert producer.flush(60) == 0, "the source could not be filled"

    def _kill_one(self, number: int) -> None:
        """Kill a broker while the next share of the records is copied, start it again, and wait until that is done."""
        scale = self._scale
        until(self._is_whole, PATIENCE_S)
        share = min(max(scale.records * number // (scale.kills + 1), self._copied() + 1), scale.records)
        self._gate.allow(share)
        until(lambda: self._gate.open_transactions or self._copied() >= share, PATIENCE_S)
        time.sleep(self._random.uniform(0, scale.work_s * 0.75))
        broker = self._random.choice(sorted(self._cluster.brokers))
        open_now = self._gate.open_transactions
        self._cluster.brokers[broker].kill()
        away_s = self._random.uniform(0.2, 3)
        time.sleep(away_s)
        self._cluster.brokers[broker].start()
        self._gate.kills += 1
        self._ended.kills += 1
        self._ended.kills_in_transactions += open_now > 0
        self._let_copy(share)
        self._tell(f"kill {number}: broker {broker} for {away_s:.1f} s, {open_now} transactions open; {share:,} copied")

    def _let_copy(self, records: int) -> None:
        self._gate.allow(records)

        def is_copied() -> bool:
            self._look_after_copiers()
            return self._gate.is_over or self._copied() >= records

        until(is_copied, PATIENCE_S)

    def _copied(self) -> int:
        """The records whose offsets the group has committed; the last known number while nobody tells."""
        asked_s = time.monotonic()
        with suppress(KafkaException):
            self._gate.has_copied(self._committed(), asked_s)
        return self._gate.copied

    def _committed(self) -> int:
        places = [TopicPartition(SOURCE, partition) for partition in range(self._scale.partitions)]
        return sum(max(each.offset, 0) for each in self._asker.committed(places, 5))

    def _is_whole(self) -> bool:
        """Each partition of each topic has a leader, and all replicas in sync."""
        with suppress(KafkaException):
            topics = self._admin.list_topics(timeout=2).topics.values()
            parts = [part for topic in topics for part in topic.partitions.values()]
            return bool(parts) and all(part.leader > 0 and len(part.isrs) == REPLICAS for part in parts)
        return False

    def _compare(self) -> None:
        source, target = self._read(SOURCE), self._read(TARGET)
        written = [b"%d" % number for number in range(self._scale.records)]
        self._ended.differences = [
            *differences({b"source": written}, {b"source": sorted(chain(*source.values()), key=int)}),
            *differences(source, target),
        ]
        everything = sum(map(len, self._read(TARGET, isolation="read_uncommitted").values()))
        self._ended.aborted_records = everything - sum(map(len, target.values()))

    def _read(self, topic: str, *, isolation: str = "read_committed") -> dict[bytes, list[bytes]]:
        """The values of each partition, in their order."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": "judge",
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        partitions = range(self._scale.partitions)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        found: dict[bytes, list[bytes]] = defaultdict(list)
        ended: set[int] = set()
        end = time.monotonic() + PATIENCE_S
        while len(ended) < len(partitions):
            assert time.monotonic() < end, f"{topic} could not be read to its end"
            for message in consumer.consume(10_000, 1):
                if message.error() is None:
                    found[b"partition %d" % message.partition()].append(message.value())
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
                else:
                    raise KafkaException(message.error())
        consumer.close()
        return found
