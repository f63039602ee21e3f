"""The twelfth judge: what is in the ledger, and what readers were shown of it, agrees with what coordinators had
decided by then.

It reads the notes that were taken while the world ran (`transaction_notes.py`). A coordinator's committed entries tell
of its transactions one after the other, and each transaction in a log must be one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ottla.kernel.ids import TopicPartition
from ottla.sim.checkers.history import Anomaly, Healed, History, LogKey
from ottla.sim.checkers.state_log import unlawful
from ottla.sim.checkers.transaction_history import (
    Appended,
    OffsetsRead,
    Owned,
    Stepped,
    TakenOver,
    TransactionRead,
)
from ottla.sim.checkers.transactions import NEVER, Known, Log, Span
from ottla.transactions.values import Transaction, TransactionState

_TIMEOUTS_CHECKED_US = 10_000_000
"""The longest time until a coordinator looks for transactions that are open for too long."""
Producer = tuple[int, int]
"""Producer id and epoch."""


class Decided(NamedTuple):
    """A transaction whose outcome is committed in its coordinator's log."""

    at_us: int
    producer: Producer
    """The producer of its batches."""
    marker: Producer
    """The producer of its markers: a later epoch where the end has raised it."""
    committed: bool
    partitions: frozenset[TopicPartition]


def check_decisions(history: History) -> Iterator[Anomaly]:
    """Anomalies between the coordinators' logs and the ledger."""
    yield from _lawful(history)
    yield from _in_time(history)
    yield from _in_order(history)
    known = Known(history)
    decided = list(decisions(history))
    decided_us: dict[bytes, int] = {}
    for key, log in known.logs.items():
        name = history.name(key)
        place = TopicPartition(history.traits_of(key).name, key.partition)
        here = [one for one in decided if place in one.partitions]
        matched, odd = match(log.spans, here)
        for what in odd:
            yield Anomaly("undecided-transaction", f"{name}: {what}")
        for one in _without_marker(log, here):
            yield Anomaly("missing-marker", f"{name}: none of producer {one.marker}")
        for span, one in matched:
            if one.committed:
                decided_us |= dict.fromkeys(span.values, one.at_us)
        yield from _appended_late(history, key, log)
    yield from _shown_early(history, known, decided_us)


# --- the coordinators' entries, as they were committed ---


def _lawful(history: History) -> Iterator[Anomaly]:
    last: dict[str, Transaction] = {}
    for event in history.events:
        if isinstance(event, Stepped):
            before, last[event.transactional_id] = last.get(event.transactional_id), event.step
            if (why := unlawful(before, event.step)) is not None:
                yield Anomaly("impossible-step", f"{event.transactional_id}: {why}: {event.step} after {before}")


def decisions(history: History) -> Iterator[Decided]:
    """The decided transactions; those of one transactional id in order."""
    last: dict[str, Transaction] = {}
    for event in history.events:
        if not isinstance(event, Stepped):
            continue
        before, step = last.get(event.transactional_id), event.step
        last[event.transactional_id] = step
        if before is not None and step.prepared:
            yield Decided(
                event.at_us,
                (before.producer_id, before.producer_epoch),
                (step.producer_id, step.producer_epoch),
                step.state is TransactionState.PREPARE_COMMIT,
                step.partitions,
            )


def _in_time(history: History) -> Iterator[Anomaly]:
    """Once faults have ended, no transaction is open for much longer than its timeout, or decided without an end."""
    healed: Healed | None = None
    since: dict[str, tuple[int, Transaction]] = {}
    for event in history.events:
        if isinstance(event, Healed):
            healed = event
        if not isinstance(event, Stepped):
            continue
        name, step = event.transactional_id, event.step
        began_us, before = since.get(name, (event.at_us, step))
        ends = before.state != step.state and (before.state is TransactionState.ONGOING or before.prepared)
        if healed is not None and ends:
            allowed_us = healed.within_us + history.repaired_within_us
            if before.state is TransactionState.ONGOING:
                allowed_us += before.timeout_ms * 1000 + _TIMEOUTS_CHECKED_US
            late_us = event.at_us - max(began_us, healed.at_us) - allowed_us
            if late_us > 0:
                yield Anomaly("late", f"{name}: {step.state.label} came {late_us // 1000} ms too late after {before}")
        since[name] = (began_us if before.state == step.state else event.at_us), step


# --- batches and markers, as leaders appended them ---


def _in_order(history: History) -> Iterator[Anomaly]:
    """A batch comes after its partition was added, a marker after the decision, an end after all markers."""
    added: set[tuple[Producer, TopicPartition]] = set()
    decided: set[tuple[Producer, bool]] = set()
    marked: set[tuple[Producer, TopicPartition]] = set()
    ledger = {history.traits_of(event.log).name for event in history.events if isinstance(event, Appended)}
    last: dict[str, Transaction] = {}
    for event in history.events:
        if isinstance(event, Appended):
            place = TopicPartition(history.traits_of(event.log).name, event.log.partition)
            producer = event.producer_id, event.epoch
            where = f"{place}@{event.base_offset}: producer {producer}"
            if event.marker is None and (producer, place) not in added:
                yield Anomaly("never-added", f"{where} wrote before the partition was in its transaction")
            elif event.marker is not None and (producer, event.marker) not in decided:
                yield Anomaly("undecided-marker", f"{where} was marked before the decision was committed")
            if event.marker is not None:
                marked.add((producer, place))
        elif isinstance(event, Stepped):
            step, producer = event.step, (event.step.producer_id, event.step.producer_epoch)
            before, last[event.transactional_id] = last.get(event.transactional_id), step
            if step.state is TransactionState.ONGOING:
                added |= {(producer, place) for place in step.partitions}
            elif step.prepared:
                decided.add((producer, step.state is TransactionState.PREPARE_COMMIT))
                marked = {each for each in marked if each[0] != producer}
            elif before is not None and before.prepared:
                marker = before.producer_id, before.producer_epoch
                due = {place for place in before.partitions if place.topic in ledger and (marker, place) not in marked}
                for place in sorted(due):
                    yield Anomaly("ended-unmarked", f"{event.transactional_id}: {place} has no marker of {before}")


# --- the ledger in the end ---


def match(spans: Iterable[Span], decided: Iterable[Decided]) -> tuple[list[tuple[Span, Decided]], list[str]]:
    """Each ended transaction in a log with the decision that it is the work of, and those that have none.

    A producer's transactions stand in a log in the order in which they were decided, each at most once.
    """
    waiting: dict[int, list[Decided]] = {}
    for one in decided:
        waiting.setdefault(one.marker[0], []).append(one)
    matched, odd = [], []
    for span in spans:
        end = span.end
        if end is None:
            continue
        producers = {(batch.producer_id, batch.epoch) for batch in span.batches}
        due = waiting.get(end.producer_id, [])
        while due:
            one = due.pop(0)
            if (
                {one.producer} == producers
                and one.marker == (end.producer_id, end.epoch)
                and one.committed == end.marker
            ):
                matched.append((span, one))
                break
        else:
            odd.append(f"{span}, marked at {span.marker}, is not a transaction of its coordinator")
    return matched, odd


def _without_marker(log: Log, decided: Iterable[Decided]) -> Iterator[Decided]:
    there = {((batch.producer_id, batch.epoch), batch.marker) for batch in log.scan.batches}
    return (one for one in decided if (one.marker, one.committed) not in there)


def _appended_late(history: History, key: LogKey, log: Log) -> Iterator[Anomaly]:
    """After InitProducerId is answered, no log takes a batch of an older epoch, or of an older id of the same owner."""
    ids: dict[str, set[int]] = {}
    for event in history.events:
        if isinstance(event, Owned):
            ids.setdefault(event.transactional_id, set()).add(event.producer_id)
        if not isinstance(event, TakenOver):
            continue
        older_ids = ids.get(event.transactional_id, set()) - {event.producer_id}
        reached = dict(event.reached).get(key, 0)
        for batch in log.scan.batches:
            older = batch.producer_id in older_ids or (
                batch.producer_id == event.producer_id and batch.epoch < event.epoch
            )
            if older and batch.marker is None and batch.base_offset >= reached:
                what = f"epoch {batch.epoch} of producer {batch.producer_id} after epoch {event.epoch} was given"
                yield Anomaly("zombie-write", f"{history.name(key)}@{batch.base_offset}: {what}")


def _shown_early(history: History, known: Known, decided_us: dict[bytes, int]) -> Iterator[Anomaly]:
    """Nothing of a transaction is shown to readers of committed data before its commit is decided."""
    earliest: dict[tuple[str, LogKey, int], int] = {}
    """By group and offset, the time when the first transaction that may have committed it was decided."""
    for transaction in known.transactions.values():
        times = [decided_us[value] for put in transaction.puts for value in put.values if value in decided_us]
        for move in transaction.moves:
            place = move.group, move.log, move.offset
            earliest[place] = min(min(times, default=0), earliest.get(place, NEVER))
    for event in history.events:
        if isinstance(event, TransactionRead) and event.committed:
            for offset, value in event.records:
                if decided_us.get(value, 0) > event.at_us:
                    where = f"{history.name(event.log)}@{offset}"
                    yield Anomaly("early-read", f"{where} was read before its commit was decided")
        elif isinstance(event, OffsetsRead) and event.at_us < earliest.get((event.group, event.log, event.offset), 0):
            name = history.name(event.log)
            yield Anomaly("early-offset", f"{name}, {event.group}: {event.offset} told before it was committed")
