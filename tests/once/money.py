"""Money moved between accounts beside the mix of faults: for a reader of committed records the sum never changes."""

from __future__ import annotations

import contextlib
import time

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from tests.faults.brokers import until
from tests.once.ledger import Ledger, decode
from tests.once.movers import MOVERS, PARTITIONS, TOPIC, Mover, reader_of

from ottla.sim.checkers.history import Anomaly

SETTLES_S = 180.0


class Money:
    """`begin` opens the accounts; `check` lets the movers rest after a fault, reads on, and judges the books."""

    def __init__(self, servers: str, admin: AdminClient, seed: int) -> None:
        self._servers = servers
        self._admin = admin
        self._seed = seed
        self.ledger = Ledger()
        self.movers: list[Mover] = []
        self.checks = 0
        self._told: set[str] = set()
        self._read_to: dict[int, int] = {}
        """The next offset of each partition; behind its last markers the end of the partition tells it."""

    def begin(self) -> None:
        topic = NewTopic(TOPIC, PARTITIONS, 3, config={"min.insync.replicas": "2"})
        self._admin.create_topics([topic])[TOPIC].result(60)
        self._reader: Consumer = reader_of(self._servers, "auditor")
        self._reader.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
        self.movers = [Mover(number, self._servers, self._seed) for number in range(MOVERS)]
        for mover in self.movers:
            mover.start()
            mover.going.set()

    def check(self) -> list[Anomaly]:
        """The anomalies since the last check; nobody writes meanwhile."""
        for mover in self.movers:
            mover.going.clear()
        until(
            lambda: all(mover.rests.is_set() for mover in self.movers), "the movers end their transactions", SETTLES_S
        )
        for mover in self.movers:
            if mover.fault is not None:
                raise mover.fault
        self._read_to_the_end()
        self.checks += 1
        fates = [what for mover in self.movers for what in mover.fates(self.ledger)]
        found = [what for what in (*self.ledger.judge(), *fates) if what not in self._told]
        self._told.update(found)
        for mover in self.movers:
            mover.going.set()
        return [Anomaly("money", what) for what in found]

    def end(self) -> list[Anomaly]:
        found = self.check()
        for mover in self.movers:
            mover.stop()
        self._reader.close()
        if self.ledger.transfers < MOVERS * self.checks:
            found.append(Anomaly("money", f"only {self.ledger.transfers} transfers in {self.checks} checks"))
        return found

    def summary(self) -> str:
        committed, aborted = (sum(getattr(mover, name) for mover in self.movers) for name in ("committed", "aborted"))
        anew = sum(mover.begun_anew for mover in self.movers)
        return (
            f"money: {self.ledger.transfers:,} transfers in {committed:,} transactions seen to commit, {aborted:,} "
            f"aborted, {anew} producers made anew, the books judged {self.checks} times"
        )

    def _read_to_the_end(self) -> None:
        """To the end of each partition."""
        ends = self._ends()
        until_s = time.monotonic() + SETTLES_S
        while any(self._read_to.get(partition, 0) < offset for partition, offset in ends.items()):
            assert time.monotonic() < until_s, f"the accounts were not read to {ends}: {self._read_to}"
            self._read()

    def _ends(self) -> dict[int, int]:
        """The ends, once all that is before them may be read: a commit is answered before its markers are everywhere.

        Asked again while leaders move: librdkafka calls no error of this call retriable.
        """
        until_s = time.monotonic() + SETTLES_S
        while True:
            try:
                ends = self._asked_ends(IsolationLevel.READ_UNCOMMITTED)
                stable = self._asked_ends(IsolationLevel.READ_COMMITTED)
                if stable == ends:
                    return ends
                assert time.monotonic() < until_s, f"a transaction is open between {stable} and {ends}"
            except KafkaException:
                if time.monotonic() > until_s:
                    raise
            with contextlib.suppress(KafkaException):  # else it asks the leader of before again, in the epoch of before
                self._admin.list_topics(TOPIC, timeout=5)

    def _asked_ends(self, isolation: IsolationLevel) -> dict[int, int]:
        asked = self._admin.list_offsets(
            {TopicPartition(TOPIC, partition): OffsetSpec.latest() for partition in range(PARTITIONS)},
            isolation_level=isolation,
            request_timeout=30,
        )
        return {place.partition: outcome.result(60).offset for place, outcome in asked.items()}

    def _read(self) -> None:
        for message in self._reader.consume(1000, 0.5):
            if message.error() is None:
                self.ledger.take(decode(message.value()))
                self._read_to[message.partition()] = message.offset() + 1
            elif message.error().code() == KafkaError._PARTITION_EOF:
                self._read_to[message.partition()] = message.offset()
