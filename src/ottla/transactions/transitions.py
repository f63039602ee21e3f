"""The legal steps from one state of a transaction to the next.

Pure functions from transaction to transaction. `decisions.py` says which step a request takes.
"""

from __future__ import annotations

from dataclasses import replace

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.transactions.values import (
    COMPLETED,
    EPOCH_BUMPS,
    LAST_EPOCH,
    NO_EPOCH,
    NO_ID,
    PREPARED,
    TakeId,
    Transaction,
    TransactionState,
)

NO_ID_AT_HAND = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
"""The error on which clients of every age retry; REQUEST_TIMED_OUT is fatal to old ones."""

BEFORE: dict[TransactionState, frozenset[TransactionState]] = {
    TransactionState.EMPTY: COMPLETED | {TransactionState.EMPTY},
    TransactionState.ONGOING: COMPLETED | {TransactionState.EMPTY, TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    TransactionState.PREPARE_ABORT: COMPLETED | {TransactionState.EMPTY, TransactionState.ONGOING},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    TransactionState.DEAD: COMPLETED | {TransactionState.EMPTY},
}
"""By state, the states that it may follow."""


def follows_on(before: Transaction | None, after: Transaction) -> bool:
    """True if `after` may follow `before` in the log: the rules that Kafka checks before it takes a step."""
    if before is None:
        return after.state == TransactionState.EMPTY and after.producer_epoch == 0
    if before.state not in BEFORE[after.state]:
        return False
    if after.state == TransactionState.EMPTY:
        return not after.partitions and after.started_ms == -1 and _epoch_follows(before, after)
    if after.timeout_ms != before.timeout_ms or after.started_ms < 0:
        return False
    if after.state == TransactionState.ONGOING:
        return after.partitions >= before.partitions and _same_producer(before, after)
    if after.state in PREPARED:
        return after.partitions == before.partitions and (_same_producer(before, after) or _bumped(before, after))
    rotated = before.next_id != NO_ID and (after.producer_id, after.producer_epoch) == (before.next_id, 0)
    return not after.partitions and (rotated or _same_producer(before, after))


def _same_producer(before: Transaction, after: Transaction) -> bool:
    return (after.producer_id, after.producer_epoch) == (before.producer_id, before.producer_epoch)


def _bumped(before: Transaction, after: Transaction) -> bool:
    return (after.producer_id, after.producer_epoch) == (before.producer_id, before.producer_epoch + 1)


def _epoch_follows(before: Transaction, after: Transaction) -> bool:
    rotated = after.producer_id != before.producer_id and after.producer_epoch == 0
    return rotated or _same_producer(before, after) or _bumped(before, after)


def initialized(current: Transaction, *, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int) -> Transaction:
    """The owner has started, or started again: no transaction is open."""
    return replace(
        current,
        producer_epoch=epoch,
        last_epoch=last_epoch,
        timeout_ms=timeout_ms,
        state=TransactionState.EMPTY,
        partitions=frozenset(),
        updated_ms=now_ms,
        started_ms=-1,
    )


def rotated(current: Transaction, *, producer_id: int, last_epoch: int, timeout_ms: int, now_ms: int) -> Transaction:
    """The owner gets a new producer id, as the epochs of the old one are used up."""
    new = replace(current, producer_id=producer_id, previous_id=current.producer_id)
    return initialized(new, epoch=0, last_epoch=last_epoch, timeout_ms=timeout_ms, now_ms=now_ms)


def with_partitions(
    current: Transaction, partitions: frozenset[TopicPartition], *, version: int, now_ms: int
) -> Transaction:
    """Partitions were added; the transaction begins with the first of them."""
    begins = current.state != TransactionState.ONGOING
    return replace(
        current,
        state=TransactionState.ONGOING,
        partitions=current.partitions | partitions,
        updated_ms=now_ms,
        started_ms=now_ms if begins else current.started_ms,
        version=version,
    )


def prepared(
    current: Transaction, state: TransactionState, *, version: int, fences: bool, take_id: TakeId, now_ms: int
) -> Transaction | ErrorCode:
    """The outcome of the transaction is decided.

    From version 2 on, each end raises the epoch; before, only one that fences the owner does. If a raise uses up the
    epochs, the next producer id is taken now, so that the completion needs none.
    """
    bumps = version >= EPOCH_BUMPS
    epoch, last_epoch, next_id = current.producer_epoch, current.last_epoch, NO_ID
    if bumps and current.exhausted:
        taken = take_id()
        if taken is None:
            return NO_ID_AT_HAND
        next_id = taken
    if (bumps or fences) and epoch < LAST_EPOCH:
        last_epoch = epoch if bumps else NO_EPOCH
        epoch += 1
    return replace(
        current,
        producer_epoch=epoch,
        last_epoch=last_epoch,
        next_id=next_id,
        state=state,
        updated_ms=now_ms,
        started_ms=current.started_ms if current.state == TransactionState.ONGOING else now_ms,
        version=version,
    )


def completed(current: Transaction, now_ms: int) -> Transaction:
    """All markers are written."""
    producer_id, epoch = current.told
    return replace(
        current,
        producer_id=producer_id,
        producer_epoch=epoch,
        previous_id=current.previous_id if current.next_id == NO_ID else current.producer_id,
        next_id=NO_ID,
        state=TransactionState.COMPLETE_COMMIT
        if current.state == TransactionState.PREPARE_COMMIT
        else TransactionState.COMPLETE_ABORT,
        partitions=frozenset(),
        updated_ms=now_ms,
    )
