"""The eighth judge: offsets that transactions commit count with their records, and each input is consumed once.

Offsets that a group commits within transactions form a chain: each transaction starts where the last committed one has
stopped. OffsetFetch says that an offset is unstable only while a transaction that changes it may be undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ottla.sim.checkers.history import Anomaly, History, LogKey
from ottla.sim.checkers.transaction_history import (
    AllEnded,
    OffsetsPut,
    OffsetsRead,
    OffsetsUnstable,
    Owned,
    Put,
    PutDone,
)
from ottla.sim.checkers.transactions import NEVER, Fate, Known, Transaction

_NOTHING = -1
Place = tuple[str, LogKey]


class _Move:
    """One transaction's step in one log."""

    def __init__(self, transaction: Transaction, put: OffsetsPut, fates: set[Fate]) -> None:
        asked, ended = transaction.asked, transaction.ended
        self.name = put.transaction
        self.before = put.before
        self.offset = put.offset
        self.asked_us = asked.at_us if asked is not None and asked.committed else None
        self.ended_us = ended.at_us if ended is not None and ended.committed else None
        self.counts = Fate.COMMITTED in fates or self.ended_us is not None
        self.may_count = self.counts or (not fates and self.asked_us is not None)
        """True for an asked commit without records, too: its outcome shows by the offsets alone."""


def check_consumed(history: History) -> Iterator[Anomaly]:
    """Anomalies of offsets that were committed in transactions."""
    known = Known(history)
    if not known.logs:
        return
    moves: dict[Place, list[_Move]] = {}
    for transaction in known.transactions.values():
        fates = transaction.fates(known.logs)
        for put in transaction.moves:
            moves.setdefault((put.group, put.log), []).append(_Move(transaction, put, fates))
    last: dict[Place, OffsetsRead] = {}
    for event in history.events:
        if isinstance(event, OffsetsRead):
            place = event.group, event.log
            last[place] = event
            for kind, what in _told(event, moves.get(place, [])):
                yield Anomaly(kind, f"{history.name(event.log)}, {event.group}: {what}")
    yield from _unstable(history, known)
    for place, steps in moves.items():
        for kind, what in _chain(steps, last.get(place)):
            yield Anomaly(kind, f"{history.name(place[1])}, {place[0]}: {what}")


def _told(event: OffsetsRead, moves: list[_Move]) -> Iterator[tuple[str, str]]:
    """One answer of OffsetFetch."""
    at_least = max(
        (one.offset for one in moves if one.ended_us is not None and one.ended_us < event.asked_us), default=-1
    )
    if event.offset < at_least:
        yield "lost-offset", f"told {event.offset}, and {at_least} was committed"
    if event.offset == _NOTHING:
        return
    of_it = [one for one in moves if one.offset == event.offset]
    if not any(one.may_count and one.asked_us is not None and one.asked_us < event.at_us for one in of_it):
        names = ", ".join(one.name for one in of_it) or "no transaction"
        yield "uncommitted-offset", f"told {event.offset}, of {names}, which is not committed"


def _chain(moves: list[_Move], last: OffsetsRead | None) -> Iterator[tuple[str, str]]:
    """Anomalies of the chain of all steps that count."""
    reached = 0
    for one in sorted((one for one in moves if one.counts), key=lambda one: (one.before, one.offset)):
        if one.before < reached:
            yield "consumed-twice", f"{one.name} consumes {one.before} to {one.offset}; {reached} was reached before"
        elif one.before > reached and not any(each.may_count and each.offset == one.before for each in moves):
            yield "skipped-input", f"nothing has consumed {reached} to {one.before}, where {one.name} goes on"
        reached = max(reached, one.offset)
    if last is not None and last.offset < reached and any(one.counts for one in moves):
        yield "lost-offset", f"told {last.offset} in the end, and {reached} was committed"


def _unstable(history: History, known: Known) -> Iterator[Anomaly]:
    """Each answer that an offset is unstable has a transaction that was undecided, or whose marker was on its way."""
    over_us = _over_us(history)
    puts: dict[Place, list[OffsetsPut]] = {}
    for transaction in known.transactions.values():
        for put in transaction.moves:
            puts.setdefault((put.group, put.log), []).append(put)
    for event in history.events:
        if not isinstance(event, OffsetsUnstable):
            continue
        open_then = (
            put
            for put in puts.get((event.group, event.log), ())
            if put.at_us <= event.at_us and over_us(put) >= event.asked_us
        )
        if not any(open_then):
            what = f"asked at {event.asked_us}, and no transaction was undecided"
            yield Anomaly("unstable-for-nothing", f"{history.name(event.log)}, {event.group}: {what}")


def _over_us(history: History) -> Callable[[OffsetsPut], int]:
    """The time from which on a transaction is surely complete, with a marker in each of its partitions.

    InitProducerId has given out a newer epoch of its producer, a transaction of the same transactional id that began
    later has a record in a log, or all transactions have ended. An answer that was merely late does not count.
    """
    begun_us: dict[str, int] = {}
    epochs: dict[str, tuple[int, int]] = {}
    of_put: dict[OffsetsPut, tuple[int, int]] = {}
    given: dict[str, list[tuple[int, tuple[int, int]]]] = {}
    written: dict[str, list[PutDone]] = {}
    all_ended_us = NEVER
    for event in history.events:
        if isinstance(event, Owned):
            epochs[event.producer] = event.producer_id, event.epoch
            if event.takes_over:
                given.setdefault(event.transactional_id, []).append((event.at_us, epochs[event.producer]))
        elif isinstance(event, Put):
            begun_us.setdefault(event.transaction, event.at_us)
        elif isinstance(event, OffsetsPut):
            of_put[event] = epochs.get(event.transaction.rpartition(":")[0], (-1, -1))
        elif isinstance(event, PutDone):
            written.setdefault(_transactional_id(event.transaction), []).append(event)
        elif isinstance(event, AllEnded):
            all_ended_us = event.at_us

    def over_us(put: OffsetsPut) -> int:
        name, (producer_id, epoch) = _transactional_id(put.transaction), of_put[put]
        fenced = (at for at, newer in given.get(name, ()) if newer[0] == producer_id and newer[1] > epoch)
        others = (one for one in written.get(name, ()) if one.transaction != put.transaction)
        followed = (one.at_us for one in others if begun_us.get(one.transaction, 0) > put.at_us)
        return min((*fenced, *followed), default=all_ended_us)

    return over_us


def _transactional_id(transaction: str) -> str:
    return transaction.rpartition(".")[0]
