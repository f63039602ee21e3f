"""Events of transactional clients: part of the history that the checkers read.

A transaction has a name of its own here, as its producer knows which records belong together. The broker knows it by
producer id and epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ottla.kernel.ids import TopicPartition
    from ottla.sim.checkers.history import LogKey
    from ottla.transactions.values import Transaction


class Owned(NamedTuple):
    """InitProducerId or EndTxn gave a producer the id and epoch that it uses next."""

    at_us: int
    producer: str
    transactional_id: str
    producer_id: int
    epoch: int
    takes_over: bool
    """True if it came from InitProducerId: earlier producers with the transactional id are fenced."""


class IdGiven(NamedTuple):
    """InitProducerId without a transactional id was answered: a producer takes one answer only."""

    at_us: int
    producer: str
    producer_id: int


class Put(NamedTuple):
    """A batch of a transaction was sent for the first time."""

    at_us: int
    producer: str
    transactional_id: str
    transaction: str
    log: LogKey
    values: tuple[bytes, ...]


class PutDone(NamedTuple):
    """A batch with these values was acknowledged."""

    at_us: int
    transaction: str
    log: LogKey
    values: tuple[bytes, ...]
    base_offset: int


class OffsetsPut(NamedTuple):
    """TxnOffsetCommit was sent: the transaction consumes a log from one offset up to another."""

    at_us: int
    transaction: str
    group: str
    log: LogKey
    before: int
    offset: int


class EndAsked(NamedTuple):
    """EndTxn was sent for the first time. A commit is sent only after all batches are acknowledged."""

    at_us: int
    transaction: str
    committed: bool


class EndTxnAnswered(NamedTuple):
    """EndTxn was answered without an error."""

    at_us: int
    transaction: str
    committed: bool


class OffsetsRead(NamedTuple):
    """OffsetFetch with require_stable answered; -1: nothing is committed."""

    asked_us: int
    at_us: int
    group: str
    log: LogKey
    offset: int


class OffsetsUnstable(NamedTuple):
    """OffsetFetch with require_stable answered that an open transaction may change the offset."""

    asked_us: int
    at_us: int
    group: str
    log: LogKey


class ContestedTaken(NamedTuple):
    """A commit of the contested group was answered without an error, in a transaction or outside of one.

    Each offset is committed once, perhaps by several requests.
    """

    at_us: int
    place: TopicPartition
    offset: int


class ContestedTold(NamedTuple):
    """OffsetFetch told an offset of the contested group; -1: nothing is committed."""

    asked_us: int
    at_us: int
    place: TopicPartition
    offset: int
    stable: bool
    """require_stable"""


class ContestedUnstable(NamedTuple):
    """OffsetFetch answered that an open transaction may change an offset of the contested group."""

    asked_us: int
    at_us: int
    place: TopicPartition


class AllEnded(NamedTuple):
    """All clients have finished, and no coordinator knows of a transaction that has not ended."""

    at_us: int


class TransactionRead(NamedTuple):
    """One answer of a Fetch in a log with transactions, without what the reader has left out as aborted."""

    at_us: int
    reader: str
    committed: bool
    """isolation.level=read_committed"""
    log: LogKey
    asked_offset: int
    following: int
    """The offset from which the reader goes on."""
    records: tuple[tuple[int, bytes], ...]


class Stable(NamedTuple):
    """The last stable offset and the high watermark in an answer; `epoch`, `broker` and `life` as in `Bounds`."""

    at_us: int
    reader: str
    log: LogKey
    stable: int
    watermark: int
    epoch: int = -1
    broker: int = -1
    life: int = 0


class Stored(NamedTuple):
    """A batch as it stands in a log."""

    base_offset: int
    next_offset: int
    producer_id: int
    epoch: int
    sequence: int
    transactional: bool
    marker: bool | None
    """For a marker, True if it commits and False if it aborts; None for a batch of records."""
    values: tuple[bytes, ...]


class TransactionsScanned(NamedTuple):
    """The final read of a log with transactions: all its batches, and what a read_committed reader sees of them."""

    at_us: int
    log: LogKey
    start: int
    end: int
    stable: int
    batches: tuple[Stored, ...]
    visible: tuple[tuple[int, bytes], ...]


# --- seen from inside ---


class Stepped(NamedTuple):
    """An entry of a coordinator's log was committed."""

    at_us: int
    transactional_id: str
    step: Transaction


class ContestedStored(NamedTuple):
    """A record with an offset of the contested group was committed in its log."""

    at_us: int
    place: TopicPartition
    record_offset: int
    offset: int | None
    """None for a tombstone."""
    producer_id: int
    """-1 outside of transactions."""


class ContestedEnded(NamedTuple):
    """A marker was committed in the log of the contested group."""

    at_us: int
    record_offset: int
    producer_id: int
    committed: bool


class Appended(NamedTuple):
    """A leader has appended a batch of a transaction, or a marker; it may still be cut off."""

    at_us: int
    log: LogKey
    base_offset: int
    producer_id: int
    epoch: int
    marker: bool | None
    """As in `Stored`."""


class TakenOver(NamedTuple):
    """InitProducerId gave a producer the transactional id of earlier ones."""

    at_us: int
    transactional_id: str
    producer_id: int
    epoch: int
    reached: tuple[tuple[LogKey, int], ...]
    """By log, the farthest end that any replica has had: a batch at or after it was appended after the answer."""


TransactionEvent = (
    Owned
    | IdGiven
    | Put
    | PutDone
    | OffsetsPut
    | EndAsked
    | EndTxnAnswered
    | OffsetsRead
    | OffsetsUnstable
    | ContestedTaken
    | ContestedTold
    | ContestedUnstable
    | AllEnded
    | TransactionRead
    | Stable
    | TransactionsScanned
    | Stepped
    | ContestedStored
    | ContestedEnded
    | Appended
    | TakenOver
)
