"""The coordinator's decision table: which step a request takes, or with which error it is refused.

Each function is a column of the table, its checks in the order in which Kafka makes them. Kafka has a pending state
between the append of an entry and its commit. Here an entry applies at its append and answers wait for the commit, so a
transaction is pending only while its markers are on their way.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.transactions import transitions
from ottla.transactions.values import (
    EPOCH_BUMPS,
    LAST_EPOCH,
    NO_EPOCH,
    GivenProducer,
    TakeId,
    Transaction,
    TransactionState,
    Verified,
)


class ExpectedProducer(NamedTuple):
    """The producer id and epoch in an InitProducerId request (KIP-360)."""

    producer_id: int
    producer_epoch: int


def begin(
    current: Transaction | None,
    expected: ExpectedProducer | None,
    *,
    timeout_ms: int,
    version: int,
    take_id: TakeId,
    now_ms: int,
) -> Transaction | ErrorCode:
    """InitProducerId. A transaction in PrepareAbort means: fence the owner of the open one, and answer 51.

    `version` is the server's own level: the client's does not count for a fence.
    """
    if current is None:
        taken = take_id()
        if taken is None:
            return transitions.NO_ID_AT_HAND
        current = Transaction(taken)
    if current.prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if expected is not None and not _is_owner(current, expected):
        return ErrorCode.PRODUCER_FENCED
    if current.state == TransactionState.ONGOING:
        return transitions.prepared(
            current, TransactionState.PREPARE_ABORT, version=version, fences=True, take_id=take_id, now_ms=now_ms
        )
    if current.exhausted and (expected is None or expected.producer_epoch == current.producer_epoch):
        taken = take_id()
        if taken is None:
            return transitions.NO_ID_AT_HAND
        last_epoch = NO_EPOCH if expected is None else current.producer_epoch
        return transitions.rotated(
            current, producer_id=taken, last_epoch=last_epoch, timeout_ms=timeout_ms, now_ms=now_ms
        )
    epochs = _next_epochs(current, expected)
    if epochs is None:
        return ErrorCode.PRODUCER_FENCED
    return transitions.initialized(current, epoch=epochs[0], last_epoch=epochs[1], timeout_ms=timeout_ms, now_ms=now_ms)


def _is_owner(current: Transaction, expected: ExpectedProducer) -> bool:
    if current.producer_epoch == NO_EPOCH or expected.producer_id == current.producer_id:
        return True
    return expected.producer_id == current.previous_id and expected.producer_epoch >= LAST_EPOCH - 1


def _next_epochs(current: Transaction, expected: ExpectedProducer | None) -> tuple[int, int] | None:
    """The epoch to give and the one before it; None if the asker's epoch is neither.

    A client that names the last epoch repeats a request whose answer was lost, and gets the same epoch again. No other
    client got it meanwhile, as that would have set the last epoch to -1.
    """
    epoch = current.producer_epoch
    if expected is None:
        return epoch + 1, NO_EPOCH
    if epoch in (NO_EPOCH, expected.producer_epoch):
        return epoch + 1, epoch
    return (epoch, current.last_epoch) if expected.producer_epoch == current.last_epoch else None


def add(
    current: Transaction | None,
    producer_id: int,
    producer_epoch: int,
    partitions: frozenset[TopicPartition],
    *,
    version: int,
    now_ms: int,
) -> Transaction | ErrorCode:
    """AddPartitionsToTxn and AddOffsetsToTxn; NONE where all partitions are in the transaction already.

    While markers are on their way the producer may hold an id and epoch that come only after them (KAFKA-18660).
    """
    if current is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if current.prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    wrong = _other_producer(current, producer_id, producer_epoch)
    if wrong:
        return wrong
    if current.state == TransactionState.ONGOING and partitions <= current.partitions:
        return ErrorCode.NONE
    return transitions.with_partitions(current, partitions, version=version, now_ms=now_ms)


def verify(
    current: Transaction | None, producer_id: int, producer_epoch: int, partitions: frozenset[TopicPartition]
) -> Verified | ErrorCode:
    """AddPartitionsToTxn that only verifies that partitions are in the transaction."""
    if current is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    wrong = _other_producer(current, producer_id, producer_epoch)
    if wrong:
        return wrong
    if current.prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    inside = current.partitions
    return {each: ErrorCode.NONE if each in inside else ErrorCode.TRANSACTION_ABORTABLE for each in sorted(partitions)}


def _other_producer(current: Transaction, producer_id: int, producer_epoch: int) -> ErrorCode:
    if producer_id != current.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    return ErrorCode.NONE if producer_epoch == current.producer_epoch else ErrorCode.PRODUCER_FENCED


def end(
    current: Transaction | None,
    producer_id: int,
    producer_epoch: int,
    *,
    committed: bool,
    version: int,
    take_id: TakeId,
    now_ms: int,
) -> Transaction | GivenProducer:
    """EndTxn; a `GivenProducer` where there is nothing to write."""
    if current is None:
        return GivenProducer(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if version >= EPOCH_BUMPS:
        verdict = _may_end(current, producer_id, producer_epoch, committed=committed)
    else:
        verdict = _may_end_at_equal_epoch(current, producer_id, producer_epoch, committed=committed)
    if verdict is not None:
        return verdict
    after = transitions.prepared(
        current,
        TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT,
        version=version,
        fences=False,
        take_id=take_id,
        now_ms=now_ms,
    )
    return GivenProducer(after) if isinstance(after, ErrorCode) else after


def _may_end_at_equal_epoch(
    current: Transaction, producer_id: int, producer_epoch: int, *, committed: bool
) -> GivenProducer | None:
    """EndTxn 0 to 4. A repeated end of the same kind is success: the epoch does not tell it from the first."""
    wrong = _other_producer(current, producer_id, producer_epoch)
    if wrong:
        return GivenProducer(wrong)
    if current.prepared:
        return GivenProducer(ErrorCode.CONCURRENT_TRANSACTIONS)
    if current.state == TransactionState.ONGOING:
        return None
    if current.state == (TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT):
        return GivenProducer(ErrorCode.NONE, current.producer_id, current.producer_epoch)
    return GivenProducer(ErrorCode.INVALID_TXN_STATE)


def _may_end(current: Transaction, producer_id: int, producer_epoch: int, *, committed: bool) -> GivenProducer | None:
    """EndTxn 5. An epoch one below is a repeat; an equal one ends the next transaction, which may have no partition.

    If the last end did not raise the epoch (version 1), no request can be its repeat. Apache Kafka takes one for a
    repeat, and so gives the epoch to a producer that was fenced by the owner, a client of version 1.
    """
    if current.prepared:
        return GivenProducer(
            ErrorCode.CONCURRENT_TRANSACTIONS
        )  # before all other checks: a fence would be final (KAFKA-18464)
    same_id = producer_id == current.producer_id
    over_rotation = (producer_id, producer_epoch, current.producer_epoch) == (current.previous_id, LAST_EPOCH - 1, 0)
    if not same_id and not over_rotation:
        return GivenProducer(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    one_below = over_rotation or producer_epoch + 1 == current.producer_epoch
    repeats = one_below and current.version >= EPOCH_BUMPS
    done = current.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
    if not (same_id and producer_epoch == current.producer_epoch) and not (repeats and done):
        return GivenProducer(ErrorCode.PRODUCER_FENCED)
    if current.state == TransactionState.ONGOING:
        return None
    if done and repeats:
        alike = (current.state == TransactionState.COMPLETE_COMMIT) == committed
        return GivenProducer(ErrorCode.NONE, *current.told) if alike else GivenProducer(ErrorCode.INVALID_TXN_STATE)
    return GivenProducer(ErrorCode.INVALID_TXN_STATE) if committed else None
