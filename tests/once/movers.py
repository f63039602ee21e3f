"""Movers of money and the reader of the books: unmodified librdkafka clients, each in a thread."""

from __future__ import annotations

import threading
import time
from random import Random
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from tests.once.ledger import ACCOUNTS, OPENING, Ledger, Leg, decode

TOPIC = "accounts"
MOVERS = 4
PARTITIONS = 16
"""Each mover has a quarter of them to itself: nobody else's open transaction hides from it what it has committed."""
MOST_TRANSFERS = 5
PAUSE_S = 0.05
STEP_S = 15.0


def partition_of(account: int) -> int:
    return account % PARTITIONS


def accounts_of(mover: int) -> list[int]:
    return [account for account in range(ACCOUNTS) if partition_of(account) % MOVERS == mover]


def settings(servers: str) -> dict[str, Any]:
    return {"bootstrap.servers": servers, "log_level": 0, "reconnect.backoff.max.ms": 500, "socket.timeout.ms": 10_000}


def reader_of(servers: str, group: str, *, isolation: str = "read_committed") -> Consumer:
    committed = {"group.id": group, "isolation.level": isolation, "enable.auto.commit": False}
    return Consumer(settings(servers) | committed | {"enable.partition.eof": True, "auto.offset.reset": "error"})


class Mover(threading.Thread):
    """Moves money between its accounts, as long as it may go; after any doubt it reads what was committed."""

    def __init__(self, number: int, servers: str, seed: int) -> None:
        super().__init__(name=f"mover-{number}", daemon=True)
        self._number = number
        self._servers = servers
        self._accounts = accounts_of(number)
        self._random = Random(f"{seed} mover {number}")
        self._balances = dict.fromkeys(self._accounts, OPENING)
        self._partitions = sorted({partition_of(account) for account in self._accounts})
        self._read_to = dict.fromkeys(self._partitions, 0)
        self.going = threading.Event()
        self.rests = threading.Event()
        """Set while it has no transaction open, and begins none before `going` is set."""
        self._is_over = False
        self._transfers = 0
        self._acknowledged: list[str] = []
        self._refused: list[str] = []
        """Transfers of transactions that ended by an acknowledged abort."""
        self._open: list[str] = []
        self.committed = 0
        self.aborted = 0
        self.begun_anew = 0
        self.fault: Exception | None = None

    def run(self) -> None:
        try:
            while not self._is_over:
                self._attempt()
        except Exception as fault:
            self.fault = fault
        self.rests.set()

    def fates(self, ledger: Ledger) -> list[str]:
        """All that the books say otherwise than the brokers said; called while it rests, and everything is read."""
        lost = [
            f"{each} was acknowledged, and is not there" for each in self._acknowledged if not ledger.is_whole(each)
        ]
        back = [f"{each} was aborted, and is there" for each in self._refused if ledger.is_whole(each)]
        return lost + back

    def stop(self) -> None:
        self._is_over = True
        self.going.set()
        self.join(120)

    def _attempt(self) -> None:
        """Work with one producer until it is of no more use."""
        producer = Producer(
            settings(self._servers)
            | {"transactional.id": self.name, "transaction.timeout.ms": 30_000, "linger.ms": 0}
        )  # fmt: skip
        try:
            producer.init_transactions(60)  # what the last producer left open has ended then
            self._read_on()
            while not self._is_over:
                self._step(producer)
        except KafkaException:
            self.begun_anew += 1
        finally:
            producer.purge()

    def _step(self, producer: Producer) -> None:
        if not self.going.is_set():
            self.rests.set()
            self.going.wait()
            self.rests.clear()
            return
        producer.begin_transaction()
        try:
            after = self._move(producer)
            producer.commit_transaction(STEP_S)
        except KafkaException as fault:
            if not fault.args[0].txn_requires_abort():
                raise  # nobody knows whether it was committed: the next producer ends it, and then it is read
            self.aborted += 1
            producer.abort_transaction(STEP_S)
            self._refused += self._open
            return
        self._acknowledged += self._open
        self._balances |= after
        self.committed += 1
        time.sleep(PAUSE_S)

    def _move(self, producer: Producer) -> dict[int, int]:
        """Some transfers between accounts; the balances after them."""
        after: dict[int, int] = {}
        self._open = []
        for _ in range(self._random.randint(1, MOST_TRANSFERS)):
            giver, taker = self._random.sample(self._accounts, 2)
            amount = self._random.randint(1, 100)
            self._transfers += 1
            transfer = f"{self._number}-{self._transfers}"
            self._open.append(transfer)
            for account, change in ((giver, -amount), (taker, amount)):
                after[account] = after.get(account, self._balances[account]) + change
                leg = Leg(account, transfer, change, after[account])
                producer.produce(TOPIC, leg.encode(), b"%d" % account, partition=partition_of(account))
        return after

    def _read_on(self) -> None:
        """Take the balances from what was committed since the last reading."""
        consumer = reader_of(self._servers, self.name)
        consumer.assign([TopicPartition(TOPIC, place, offset) for place, offset in self._read_to.items()])
        left = set(self._partitions)
        end = time.monotonic() + 60
        try:
            while left:
                if time.monotonic() > end:
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "the accounts could not be read"))
                for message in consumer.consume(1000, 1):
                    if message.error() is None:
                        leg = decode(message.value())
                        self._balances[leg.account] = leg.balance
                        self._read_to[message.partition()] = message.offset() + 1
                    elif message.error().code() == KafkaError._PARTITION_EOF:
                        left.discard(message.partition())
        finally:
            consumer.close()
