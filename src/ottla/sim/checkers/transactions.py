"""The seventh judge: transactions are all or nothing, and read_committed readers see exactly the committed records.

The final read of each log is the reference: it shows each batch's transaction, and how its marker ended it. The answers
to producers and everything that readers saw before are compared with it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from ottla.sim.checkers.history import Acknowledged, Anomaly, History, LogKey, Sent
from ottla.sim.checkers.transaction_history import (
    EndAsked,
    EndTxnAnswered,
    OffsetsPut,
    Owned,
    Put,
    PutDone,
    Stable,
    Stored,
    TransactionRead,
    TransactionsScanned,
)


class Fate(Enum):
    """The fate of a record."""

    PLAIN = "written without a transaction"
    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "without an end"
    ABSENT = "not in the log"


_VISIBLE = (Fate.PLAIN, Fate.COMMITTED)
NEVER = 1 << 62


class Span(NamedTuple):
    """The batches of a transaction in one log, and the marker that ended it; None while it is open."""

    batches: tuple[Stored, ...]
    end: Stored | None

    @property
    def first(self) -> int:
        return self.batches[0].base_offset

    @property
    def marker(self) -> int:
        """The offset of the marker, or NEVER."""
        return NEVER if self.end is None else self.end.base_offset

    @property
    def values(self) -> tuple[bytes, ...]:
        return tuple(value for batch in self.batches for value in batch.values)

    def __str__(self) -> str:
        return f"the transaction of producer {self.batches[0].producer_id} from {self.first}"


class Log:
    """One log, by its final read."""

    def __init__(self, scan: TransactionsScanned) -> None:
        self.scan = scan
        self.fates: dict[bytes, Fate] = {}
        self.at: dict[int, bytes] = {}
        self.spans: list[Span] = []
        self.twice: list[bytes] = []
        """Values that are at several offsets."""
        self._read()
        self._all = sorted(self.at.items())
        self._visible = [(offset, value) for offset, value in self._all if self.fates[value] in _VISIBLE]

    def _read(self) -> None:
        open_now: dict[int, list[Stored]] = {}
        for batch in self.scan.batches:
            if batch.marker is not None:
                held = open_now.pop(batch.producer_id, [])
                self._ended(held, Fate.COMMITTED if batch.marker else Fate.ABORTED, batch)
            elif batch.transactional:
                open_now.setdefault(batch.producer_id, []).append(batch)
            else:
                self._settle(batch, Fate.PLAIN)
        for held in open_now.values():
            self._ended(held, Fate.OPEN, None)

    def _ended(self, held: list[Stored], fate: Fate, end: Stored | None) -> None:
        if held:
            self.spans.append(Span(tuple(held), end))
        for batch in held:
            self._settle(batch, fate)

    def _settle(self, batch: Stored, fate: Fate) -> None:
        for place, value in enumerate(batch.values):
            if value in self.fates:
                self.twice.append(value)
            self.fates[value] = fate
            self.at[batch.base_offset + place] = value

    def fate(self, value: bytes) -> Fate:
        return self.fates.get(value, Fate.ABSENT)

    def between(self, start: int, end: int, *, committed: bool) -> list[tuple[int, bytes]]:
        """The records between two offsets that a reader must find."""
        records = self._visible if committed else self._all
        return records[bisect_left(records, (start, b"")) : bisect_left(records, (end, b""))]


class Transaction:
    """One transaction: the requests of its producer, and the answers."""

    def __init__(self) -> None:
        self.puts: list[Put] = []
        self.moves: list[OffsetsPut] = []
        self.asked: EndAsked | None = None
        self.ended: EndTxnAnswered | None = None

    def fates(self, logs: dict[LogKey, Log]) -> set[Fate]:
        return {logs[put.log].fate(value) for put in self.puts if put.log in logs for value in put.values}


class Known:
    """The history of all transactions."""

    def __init__(self, history: History) -> None:
        self.logs: dict[LogKey, Log] = {}
        self.transactions: dict[str, Transaction] = {}
        self.commit_asked_us: dict[bytes, int] = {}
        """By value, the time when its commit was requested; for a record without a transaction, when it was sent."""
        of_transaction: dict[str, list[bytes]] = {}
        for event in history.events:
            if isinstance(event, TransactionsScanned):
                self.logs[event.log] = Log(event)
            elif isinstance(event, Put):
                self._transaction(event.transaction).puts.append(event)
                of_transaction.setdefault(event.transaction, []).extend(event.values)
            elif isinstance(event, OffsetsPut):
                self._transaction(event.transaction).moves.append(event)
            elif isinstance(event, EndAsked):
                self._transaction(event.transaction).asked = event
                if event.committed:
                    asked = dict.fromkeys(of_transaction.get(event.transaction, ()), event.at_us)
                    self.commit_asked_us |= asked
            elif isinstance(event, EndTxnAnswered):
                self._transaction(event.transaction).ended = event
            elif isinstance(event, Sent):
                self.commit_asked_us |= dict.fromkeys(event.values, event.at_us)

    def _transaction(self, name: str) -> Transaction:
        return self.transactions.setdefault(name, Transaction())


def check_transactions(history: History) -> Iterator[Anomaly]:
    """Anomalies of transactions and their readers."""
    known = Known(history)
    if not known.logs:
        return
    for key, log in known.logs.items():
        for what in _broken_in(log):
            yield Anomaly(what[0], f"{history.name(key)}: {what[1]}")
    for name, transaction in known.transactions.items():
        yield from _outcome(name, transaction, known.logs)
    yield from _acknowledged(history, known)
    yield from _readers(history, known)
    yield from _stable(history, known)
    yield from _owners(history, known)


# --- one log ---


def _broken_in(log: Log) -> Iterator[tuple[str, str]]:
    for value in log.twice:
        yield "duplicate", f"{_short(value)} is there twice"
    if log.scan.stable != log.scan.end:
        yield "unstable-at-end", f"stable up to {log.scan.stable}, the end is {log.scan.end}"
    newest: dict[int, int] = {}
    seen: set[tuple[int, int, int]] = set()
    for batch in log.scan.batches:
        if batch.producer_id < 0:
            continue
        if batch.epoch < newest.get(batch.producer_id, -1):
            before = newest[batch.producer_id]
            yield (
                "epoch-went-back",
                f"producer {batch.producer_id} at {batch.base_offset}: {batch.epoch} after {before}",
            )
        newest[batch.producer_id] = batch.epoch
        place = batch.producer_id, batch.epoch, batch.sequence
        if batch.marker is None and place in seen:
            yield "sequence-twice", f"producer, epoch and sequence {place} again at {batch.base_offset}"
        seen.add(place)
    expected = log.between(log.scan.start, log.scan.end, committed=True)
    yield from _differences(log, expected, log.scan.visible, "the last scan")


def _differences(
    log: Log, expected: list[tuple[int, bytes]], found: tuple[tuple[int, bytes], ...], reader: str
) -> Iterator[tuple[str, str]]:
    """Differences between the expected and the found records."""
    if tuple(expected) == found:
        return
    there = set(found)
    for offset, value in expected:
        if (offset, value) not in there:
            yield "skipped-read", f"{reader} passes over {_short(value)} at {offset}"
    due = set(expected)
    for offset, value in found:
        if (offset, value) not in due:
            fate = log.fate(value)
            kind = "aborted-read" if fate in (Fate.ABORTED, Fate.OPEN) else "lost-read"
            yield kind, f"{reader} reads {_short(value)} at {offset}, which is {fate.value}"


# --- one transaction ---


def _outcome(name: str, transaction: Transaction, logs: dict[LogKey, Log]) -> Iterator[Anomaly]:
    fates = transaction.fates(logs)
    told = ", ".join(sorted(fate.value for fate in fates))
    if Fate.OPEN in fates:
        yield Anomaly("open-at-end", f"{name}: its records are {told}")
    if Fate.COMMITTED not in fates:
        if fates and transaction.ended is not None and transaction.ended.committed:
            yield Anomaly("lost-transaction", f"{name} was committed, and its records are {told}")
        return
    if transaction.asked is None or not transaction.asked.committed:
        yield Anomaly("uninvited-commit", f"{name} was never to be committed, and its records are {told}")
    elif len(fates) > 1:
        yield Anomaly("torn-transaction", f"{name}: its records are {told}")


def _acknowledged(history: History, known: Known) -> Iterator[Anomaly]:
    """Acknowledged records are at their acknowledged offsets."""
    sent: dict[tuple[str, int], Sent] = {}
    for event in history.events:
        if isinstance(event, Sent):
            sent[event.producer, event.batch] = event
        if not isinstance(event, PutDone | Acknowledged) or event.log not in known.logs:
            continue
        log = known.logs[event.log]
        values = event.values if isinstance(event, PutDone) else sent[event.producer, event.batch].values
        for place, value in enumerate(values):
            offset = event.base_offset + place
            if log.at.get(offset) != value:
                yield Anomaly(
                    "lost-write" if log.fate(value) is Fate.ABSENT else "moved",
                    f"{history.name(event.log)}@{offset}: {_short(value)} was acknowledged there",
                )


# --- readers ---


def _readers(history: History, known: Known) -> Iterator[Anomaly]:
    for event in history.events:
        if not isinstance(event, TransactionRead) or event.log not in known.logs:
            continue
        log = known.logs[event.log]
        name = history.name(event.log)
        expected = log.between(event.asked_offset, event.following, committed=event.committed)
        for kind, what in _differences(log, expected, event.records, event.reader):
            yield Anomaly(kind, f"{name}: {what}")
        for offset, value in event.records if event.committed else ():
            if known.commit_asked_us.get(value, NEVER) > event.at_us:
                yield Anomaly(
                    "early-read", f"{name}@{offset}: {_short(value)} was read before its commit was asked for"
                )


def _stable(history: History, known: Known) -> Iterator[Anomaly]:
    """The last stable offset does not go back for a reader of one leader. It is the start of the oldest transaction
    whose marker is not committed, or else the high watermark."""
    told: dict[tuple[str, LogKey, int, int, int], int] = {}
    for event in history.events:
        if not isinstance(event, Stable):
            continue
        name = history.name(event.log)
        if event.stable > event.watermark:
            yield Anomaly("stable-beyond-watermark", f"{name}: {event.stable} > {event.watermark}")
        line = event.reader, event.log, event.broker, event.life, event.epoch
        if event.stable < told.get(line, 0):
            yield Anomaly("stable-went-back", f"{name}: from {told[line]} to {event.stable} for {event.reader}")
        told[line] = event.stable
        if event.log in known.logs:
            spans = known.logs[event.log].spans
            oldest = min((span.first for span in spans if span.first < event.watermark <= span.marker), default=NEVER)
            due = min(oldest, event.watermark)
            if event.stable != due:
                kind = "stable-past-open" if event.stable > due else "held-back"
                what = f"stable up to {event.stable}, committed to {event.watermark}: it is {due}"
                yield Anomaly(kind, f"{name}: {what}")


# --- owners of transactional ids ---


def _owners(history: History, known: Known) -> Iterator[Anomaly]:
    """Each epoch has one producer, and batches of a producer come to nothing once another has a newer epoch."""
    given: dict[tuple[int, int], str] = {}
    epochs: dict[str, dict[str, int]] = {}
    for event in history.events:
        if isinstance(event, Owned):
            epochs.setdefault(event.transactional_id, {})[event.producer] = event.epoch
            if given.setdefault((event.producer_id, event.epoch), event.producer) != event.producer:
                first = given[event.producer_id, event.epoch]
                what = f"producer {event.producer_id}, epoch {event.epoch}: {first} and {event.producer}"
                yield Anomaly("shared-epoch", what)
        elif isinstance(event, Put) and event.log in known.logs:
            owners = epochs.get(event.transactional_id, {})
            own = owners.get(event.producer, -1)
            if max(owners.values(), default=-1) <= own:
                continue
            for value in event.values:
                fate = known.logs[event.log].fate(value)
                if fate is not Fate.ABSENT:
                    yield Anomaly("zombie-write", f"{_short(value)} was sent by a fenced producer, and is {fate.value}")


def _short(value: bytes) -> str:
    return value[:24].rstrip(b".").decode("ascii", "replace")
