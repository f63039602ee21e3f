"""The records that coordinators have written about transactions, read from inside when a world has ended.

Each step in `__transaction_state` must be a legal successor of the one before it, and no transaction is left open.
Every batch and marker in a log with transactions must be allowed by the coordinator's log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ottla.broker.coordinators.transaction_coordinator import TRANSACTION_TOPIC
from ottla.kernel.ids import TopicPartition
from ottla.records.batch import Batch
from ottla.records.reader import read_records
from ottla.sim.checkers.history import Anomaly, History
from ottla.sim.checkers.transaction_history import TransactionsScanned
from ottla.sim.peek import batches
from ottla.transactions.entries import decode_entry, transaction_of
from ottla.transactions.values import Transaction, TransactionState

if TYPE_CHECKING:
    from ottla.broker.node import Node
    from ottla.sim.machine import Machine

_COMPLETE = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
_MAY_FOLLOW = {
    TransactionState.EMPTY: (None, TransactionState.EMPTY, *_COMPLETE),
    TransactionState.ONGOING: (TransactionState.EMPTY, TransactionState.ONGOING, *_COMPLETE),
    TransactionState.PREPARE_COMMIT: (TransactionState.ONGOING,),
    TransactionState.PREPARE_ABORT: (TransactionState.EMPTY, TransactionState.ONGOING, *_COMPLETE),
    TransactionState.COMPLETE_COMMIT: (TransactionState.PREPARE_COMMIT,),
    TransactionState.COMPLETE_ABORT: (TransactionState.PREPARE_ABORT,),
}
Steps = dict[str, list[Transaction]]


def check_states(machines: Iterable[Machine], history: History) -> Iterator[Anomaly]:
    """Anomalies in the logs of all coordinators, once every broker serves and no transaction is to be open."""
    steps: Steps = {}
    for machine in machines:
        if machine.serving is not None:
            steps |= _steps(machine, machine.serving.node)
    for transactional_id, of_it in steps.items():
        yield from sequence(transactional_id, of_it)
    yield from allowed(steps, history)


def open_transactions(machines: Iterable[Machine]) -> list[str]:
    """Transactional ids whose last transaction has not ended, and hosts whose coordinators are still loading."""
    found: list[str] = []
    for machine in machines:
        if machine.serving is None or machine.serving.node.transactions.loading:
            found.append(machine.host)
            continue
        for shard in machine.serving.node.transactions.shards():
            found += [
                name
                for name, each in shard.transactions.items()
                if each.state not in (TransactionState.EMPTY, *_COMPLETE)
            ]
    return found


def _steps(machine: Machine, node: Node) -> Steps:
    """The steps in the logs of all shards that are led here."""
    found: Steps = {}
    for partition in node.replicas.all():
        if partition.topic == TRANSACTION_TOPIC and node.transactions.runner_at(partition.index) is not None:
            for _, _, body in batches(machine.disk, partition.log.directory, 0, durable=False):
                for transactional_id, step in steps_in(body):
                    found.setdefault(transactional_id, []).append(step)
    return found


def steps_in(body: bytes) -> Iterator[tuple[str, Transaction]]:
    """The steps that a batch of a coordinator's log tells, each with its transactional id."""
    for record in read_records(Batch(body)):
        entry = decode_entry(bytes(record.key or b""), None if record.value is None else bytes(record.value))
        if entry is not None and entry.value is not None:
            yield entry.key.transactional_id, transaction_of(entry.value)


def sequence(transactional_id: str, steps: list[Transaction]) -> Iterator[Anomaly]:
    """One transactional id's steps, in the order of the log."""
    before: Transaction | None = None
    for step in steps:
        if (why := unlawful(before, step)) is not None:
            yield Anomaly("impossible-step", f"{transactional_id}: {why}: {step} after {before}")
        before = step
    if before is not None and before.state not in (TransactionState.EMPTY, *_COMPLETE):
        yield Anomaly("never-complete", f"{transactional_id}: {before}")


def unlawful(before: Transaction | None, step: Transaction) -> str | None:
    """The reason why a step may not follow the one before it; None if it may."""
    if (None if before is None else before.state) not in _MAY_FOLLOW[step.state]:
        return "no such step"
    if before is None:
        return None
    same = step.producer_id == before.producer_id
    raised_by = step.producer_epoch - before.producer_epoch if same else None
    if step.state is TransactionState.EMPTY:
        return None if raised_by in (0, 1) or (not same and step.producer_epoch == 0) else "another producer"
    if step.timeout_ms != before.timeout_ms:
        return "another timeout"
    if step.state is TransactionState.ONGOING:
        begins = before.state is not TransactionState.ONGOING
        if raised_by != 0:
            return "another producer"
        if not begins and step.started_ms != before.started_ms:
            return "another start"
        return None if step.partitions >= before.partitions else "partitions are missing"
    if step.prepared:
        if raised_by not in (0, 1):
            return "another producer"
        return None if step.partitions == before.partitions else "other partitions"
    if raised_by != 0 and (step.producer_id, step.producer_epoch) != (before.next_id, 0):
        return "another producer"
    return "partitions are left" if step.partitions else None


def allowed(steps: Steps, history: History) -> Iterator[Anomaly]:
    """Batches belong to partitions in their transaction, and markers match the coordinator's decision."""
    open_in: set[tuple[int, int, TopicPartition]] = set()
    decided: set[tuple[int, int, bool]] = set()
    for of_it in steps.values():
        for step in of_it:
            if step.state is TransactionState.ONGOING:
                open_in |= {(step.producer_id, step.producer_epoch, partition) for partition in step.partitions}
            elif step.prepared:
                decided.add((step.producer_id, step.producer_epoch, step.state is TransactionState.PREPARE_COMMIT))
    for event in history.events:
        if not isinstance(event, TransactionsScanned):
            continue
        place = TopicPartition(history.traits_of(event.log).name, event.log.partition)
        for batch in event.batches:
            producer = batch.producer_id, batch.epoch
            if batch.marker is None:
                if batch.transactional and (*producer, place) not in open_in:
                    yield Anomaly("never-added", f"{place}@{batch.base_offset}: producer {producer}")
            elif (*producer, batch.marker) not in decided:
                kind = "commit" if batch.marker else "abort"
                yield Anomaly("undecided-marker", f"{place}@{batch.base_offset}: a {kind} of producer {producer}")
