"""The input and output of a transaction shard: states, transactions, settings, entries and decisions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.kernel.shards import Outcome
from ottla.messages.transaction_records import TransactionLogKey, TransactionLogValue

NO_ID = -1
NO_EPOCH = -1
LAST_EPOCH = 32767
"""The largest int16: no client is ever given it, markers of a used-up producer id carry it."""
EPOCH_BUMPS = 2
"""From this transaction.version on, each transaction has an epoch of its own (KIP-890, part 2)."""

TakeId = Callable[[], int | None]
"""Gives a new producer id; None if none is ready at the moment."""


class TransactionState(IntEnum):
    """The state of a transaction; numbers are those of the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """The state's name as Kafka's tools print it."""
        return "".join(word.capitalize() for word in self.name.split("_"))


NEVER_WRITTEN = frozenset({TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE})
PREPARED = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
COMPLETED = frozenset({TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})


@dataclass(frozen=True, slots=True)
class Transaction:
    """The last transaction of one transactional id, and the producer that may end it or begin the next."""

    producer_id: int
    producer_epoch: int = NO_EPOCH
    last_epoch: int = NO_EPOCH
    """The epoch before this one, if its owner may not know yet that it was raised."""
    previous_id: int = NO_ID
    next_id: int = NO_ID
    """The producer id that follows once this transaction is complete, if the epochs of this one are used up."""
    timeout_ms: int = 0
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    updated_ms: int = -1
    started_ms: int = -1
    version: int = 0
    """The transaction.version with which the transaction was begun or ended."""

    @property
    def prepared(self) -> bool:
        """True if its outcome is decided and markers are on their way."""
        return self.state in PREPARED

    @property
    def exhausted(self) -> bool:
        """True if no client may be given a higher epoch of this producer id."""
        return self.producer_epoch >= LAST_EPOCH - 1

    @property
    def told(self) -> tuple[int, int]:
        """The producer id and epoch that its owner uses next, once this transaction is complete."""
        return (self.producer_id, self.producer_epoch) if self.next_id == NO_ID else (self.next_id, 0)


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """The broker's options that steer transactions, under Kafka's defaults."""

    id_expiration_ms: int = 7 * 24 * 3_600_000
    abort_check_ms: int = 10_000
    expiration_check_ms: int = 3_600_000
    transaction_version: int = EPOCH_BUMPS
    """The level that the cluster has finalized: how fences and timeouts end a transaction, and what the log holds."""


class TransactionEntry(NamedTuple):
    """One record of `__transaction_state`; a value of None is a tombstone."""

    key: TransactionLogKey
    value: TransactionLogValue | None
    value_version: int


class Markers(NamedTuple):
    """An effect: these partitions are to be told how a transaction has ended."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    version: int
    partitions: tuple[TopicPartition, ...]


class GivenProducer(NamedTuple):
    """The answer to InitProducerId and EndTxn: the id and epoch that the producer goes on with."""

    error: ErrorCode
    producer_id: int = NO_ID
    producer_epoch: int = NO_EPOCH


Verified = dict[TopicPartition, ErrorCode]
"""True if each partition is in the transaction."""


class TransactionDecision(Outcome[TransactionEntry]):
    """A transaction shard's decision; its effects are `Markers`."""

    __slots__ = ()
