"""Building blocks of histories for the tests of the judges of transactions."""

from __future__ import annotations

from planted import A, B, C

from ottla.sim.checkers.history import Event, LogKey
from ottla.sim.checkers.transaction_history import (
    EndAsked,
    EndTxnAnswered,
    Owned,
    Put,
    PutDone,
    Stable,
    Stored,
    TransactionRead,
    TransactionsScanned,
)

LOG, OTHER, SOURCE = LogKey("ab", 0), LogKey("ab", 1), LogKey("cd", 0)
OWNER, SUCCESSOR = "t0.1", "t0.2"
COMMITTED, ABORTED = "t0.1:1", "t0.1:2"


def put(transaction: str, *values: bytes, log: LogKey = LOG, at_us: int = 1, producer: str = OWNER) -> Put:
    return Put(at_us, producer, "t0", transaction, log, values)


def stored(base: int, *values: bytes, epoch: int = 0, sequence: int = 0, producer: int = 7) -> Stored:
    return Stored(base, base + len(values), producer, epoch, sequence, producer >= 0, None, values)


def marker(base: int, *, commits: bool, epoch: int = 1) -> Stored:
    return Stored(base, base + 1, 7, epoch, -1, True, commits, ())


def scanned(*batches: Stored, visible: tuple[tuple[int, bytes], ...], log: LogKey = LOG) -> TransactionsScanned:
    end = batches[-1].next_offset
    return TransactionsScanned(99, log, 0, end, end, batches, visible)


def read(asked: int, following: int, *records: tuple[int, bytes], committed: bool = True) -> TransactionRead:
    return TransactionRead(50, "r", committed, LOG, asked, following, records)


def stable(offset: int, watermark: int, *, epoch: int = 1, reader: str = "r") -> Stable:
    return Stable(50, reader, LOG, offset, watermark, epoch, 1, 0)


def owned(epoch: int, producer: str = OWNER, *, takes_over: bool = True, at_us: int = 0) -> Owned:
    return Owned(at_us, producer, "t0", 7, epoch, takes_over)


COMMIT = (owned(0), put(COMMITTED, A, B), PutDone(2, COMMITTED, LOG, (A, B), 0), EndAsked(3, COMMITTED, True))
ABORT = (owned(1), put(ABORTED, C), PutDone(5, ABORTED, LOG, (C,), 3), EndAsked(6, ABORTED, False))
ANSWERED = (EndTxnAnswered(4, COMMITTED, True), EndTxnAnswered(7, ABORTED, False))
BATCHES = (stored(0, A, B), marker(2, commits=True), stored(3, C, epoch=1), marker(4, commits=False, epoch=2))
SCAN = scanned(*BATCHES, visible=((0, A), (1, B)))
SOUND: tuple[Event, ...] = (*COMMIT, *ABORT, *ANSWERED, SCAN)
