"""A shard without a broker: decisions are carried out at once, and the test moves the clock."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.kernel.shards import Moment
from ottla.kernel.story import Slot
from ottla.messages.describe_transactions import TransactionState as Described
from ottla.messages.list_transactions import ListTransactionsRequest
from ottla.transactions.decisions import Expected
from ottla.transactions.entries import decode_entry, encode_entry, transaction_entry
from ottla.transactions.shard import TransactionShard
from ottla.transactions.values import Decision, Given, Markers, State, Transaction, TransactionSettings, Verified

WALL_START_MS = 1_700_000_000_000
TIMEOUT_MS = 60_000
P0, P1, P2 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
ID = "tx"


class Desk:
    """Plays the broker to one shard. `log` holds the appended records, `refusing` is the error of appends."""

    def __init__(self, **settings: int) -> None:
        self.settings = TransactionSettings(**settings)
        self.ids = count(1000)
        self.ids_at_hand = True
        self.shard = self._new_shard()
        self.now_ms = 0
        self.wall_start_ms = WALL_START_MS
        self.log: list[tuple[bytes, bytes | None]] = []
        self.markers: list[Markers] = []
        self.refusing: ErrorCode | None = None
        self.carry_out(self.shard.loaded(self.now))

    def _new_shard(self) -> TransactionShard:
        return TransactionShard(self.settings, lambda: next(self.ids) if self.ids_at_hand else None)

    @property
    def now(self) -> Moment:
        return Moment(self.now_ms, self.wall_start_ms + self.now_ms)

    def carry_out(self, decision: Decision) -> None:
        if decision.entries and self.refusing:
            decision = self.shard.refused(decision, self.refusing, self.now)
            assert not decision.entries and not decision.effects
        for entry in decision.entries:
            self.log.append(encode_entry(entry))
            self.shard.apply(entry, len(self.log) - 1)
        for ticket, answer in decision.replies:
            assert not ticket.full, "a ticket was answered twice"
            ticket.fill(answer)
        for effect in decision.effects:
            assert isinstance(effect, Markers)
            self.markers.append(effect)

    def ask(self, decide: Any) -> Any:
        ticket: Slot[Any] = Slot()
        self.carry_out(decide(ticket))
        return ticket.result()

    # requests of clients and brokers

    def init(self, expected: tuple[int, int] | None = None, *, timeout_ms: int = TIMEOUT_MS, name: str = ID) -> Given:
        whom = None if expected is None else Expected(*expected)
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

    def end(self, producer: tuple[int, int], *, commit: bool, version: int = 0, name: str = ID) -> Given:
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

    # time and moves

    def wait(self, ms: int) -> None:
        """Let time pass, and meet every deadline when it is due."""
        end = self.now_ms + ms
        while (at := self.shard.next_deadline_ms) is not None and at <= end:
            self.now_ms = max(self.now_ms, at)
            while (decision := self.shard.tick(self.now)) is not None:
                self.carry_out(decision)
        self.now_ms = end

    def move(self) -> None:
        """Move the shard: another broker replays the log."""
        self.shard = self.replayed()
        self.markers.clear()
        self.carry_out(self.shard.loaded(self.now))

    def replayed(self) -> TransactionShard:
        shard = self._new_shard()
        for offset, (key, value) in enumerate(self.log):
            entry = decode_entry(key, value)
            assert entry is not None
            shard.apply(entry, offset)
        return shard

    # the present state

    @property
    def transaction(self) -> Transaction:
        return self.shard.transactions[ID]

    @property
    def state(self) -> State:
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
