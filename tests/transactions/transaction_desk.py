"""A shard of transactions without a broker, and the requests of clients and brokers to it."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

from tests.shard_desk import ShardDesk

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.messages.describe_transactions import TransactionState as Described
from ottla.messages.list_transactions import ListTransactionsRequest
from ottla.transactions.decisions import ExpectedProducer
from ottla.transactions.entries import decode_entry, encode_entry, transaction_entry
from ottla.transactions.shard import TransactionShard
from ottla.transactions.values import (
    GivenProducer,
    Markers,
    Transaction,
    TransactionSettings,
    TransactionState,
    Verified,
)

TIMEOUT_MS = 60_000
P0, P1, P2 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
ID = "tx"


class Desk(ShardDesk):
    """Plays the broker to a shard of transactions; `markers` holds those that it has sent."""

    encode, decode = staticmethod(encode_entry), staticmethod(decode_entry)
    shard: TransactionShard

    def __init__(self, **settings: int) -> None:
        self.settings = TransactionSettings(**settings)
        self.ids = count(1000)
        self.ids_at_hand = True
        self.markers: list[Markers] = []
        super().__init__()
        self.carry_out(self.shard.loaded(self.now))

    def _new_shard(self) -> TransactionShard:
        return TransactionShard(self.settings, lambda: next(self.ids) if self.ids_at_hand else None)

    def _act(self, effect: object) -> None:
        assert isinstance(effect, Markers)
        self.markers.append(effect)

    def fail_over(self) -> None:
        self.markers.clear()
        super().fail_over()

    def ask(self, decide: Any) -> Any:
        ticket = self.ticket()
        self.carry_out(decide(ticket))
        return ticket.result()

    # requests of clients and brokers

    def init(
        self, expected: tuple[int, int] | None = None, *, timeout_ms: int = TIMEOUT_MS, name: str = ID
    ) -> GivenProducer:
        whom = None if expected is None else ExpectedProducer(*expected)
        return self.ask(lambda ticket: self.shard.init_producer_id(name, whom, timeout_ms, ticket, self.now))

    def add(
        self, producer: tuple[int, int], *partitions: TopicPartition, version: int = 0, name: str = ID
    ) -> ErrorCode:
        return self.ask(
            lambda ticket: self.shard.add_partitions(
                name, *producer, frozenset(partitions), version=version, ticket=ticket, now=self.now
            )
        )

    def verify(self, producer: tuple[int, int], *partitions: TopicPartition, name: str = ID) -> Verified | ErrorCode:
        return self.ask(
            lambda ticket: self.shard.verify_partitions(name, *producer, frozenset(partitions), ticket=ticket)
        )

    def end(self, producer: tuple[int, int], *, commit: bool, version: int = 0, name: str = ID) -> GivenProducer:
        return self.ask(
            lambda ticket: self.shard.end(
                name, *producer, committed=commit, version=version, ticket=ticket, now=self.now
            )
        )

    def mark(self, *partitions: TopicPartition, of: Markers | None = None) -> None:
        """Let the leaders of these partitions, or of all, answer the last markers."""
        sent = of or self.markers[-1]
        for partition in partitions or sent.partitions:
            self.carry_out(
                self.shard.marked(sent.transactional_id, sent.producer_id, sent.producer_epoch, partition, self.now)
            )

    def describe(self, name: str = ID) -> Described:
        return self.ask(lambda ticket: self.shard.describe(name, ticket))

    def listed(self, pattern: str | None = None, **filters: Any) -> list[str]:
        request = ListTransactionsRequest(**filters)
        answer = self.ask(
            lambda ticket: self.shard.list_transactions(
                request, lambda name: pattern is None or pattern in name, ticket, self.now
            )
        )
        return [each.transactional_id for each in answer]

    # the present state

    @property
    def transaction(self) -> Transaction:
        return self.shard.transactions[ID]

    @property
    def state(self) -> TransactionState:
        return self.transaction.state


def begun(desk: Desk, *, version: int = 0, partitions: tuple[TopicPartition, ...] = (P0, P1)) -> tuple[int, int]:
    """Begin a transaction; return its producer."""
    given = desk.init()
    assert given.error == ErrorCode.NONE
    producer = (given.producer_id, given.producer_epoch)
    assert desk.add(producer, *partitions, version=version) == ErrorCode.NONE
    return producer


def near_the_last_epoch(desk: Desk, epoch: int = 32_766) -> tuple[int, int]:
    """A producer whose epochs are almost used up."""
    producer_id, _ = begun(desk)
    found_in_the_log(desk, replace(desk.transaction, producer_epoch=epoch, last_epoch=epoch - 1))
    return producer_id, epoch


def found_in_the_log(desk: Desk, transaction: Transaction) -> None:
    """Append a transaction to the log as another broker left it, and apply it."""
    entry = transaction_entry(ID, transaction, value_version=1)
    desk.log.append(encode_entry(entry))
    desk.shard.apply(entry, len(desk.log) - 1)
