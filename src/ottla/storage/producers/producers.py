"""A log's producers: epochs, the last five batches of each, open transactions (KIP-98, rule B7).

`check` comes before an append and changes nothing; `note` follows every batch that is in the log, on followers and in
recovery too. `snapshot.py` next door puts the state into Kafka's `.snapshot` files.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from ottla.kernel.errors import ErrorCode
from ottla.records.batch import Batch
from ottla.records.control import EndOfTransaction, Marker
from ottla.storage.segment.aborted import AbortedEntry
from ottla.storage.segment.scan import ScannedHeader
from ottla.storage.values import ActiveProducer

INT_MAX = 2**31 - 1
LAST_EPOCH = 32767
BATCHES_KEPT = 5
MAX_PRODUCERS = 200_000
"""The number of known producer ids at which new ones are refused; only age removes known ones."""


class Mark(NamedTuple):
    """One batch of a producer that is in the log."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & INT_MAX if self.last_sequence >= 0 else -1


class Guard:
    """The proof that a producer's coordinator is being asked whether this partition is in the transaction.

    Held from the question to the first append. A marker removes it, so that a late answer does not let records into the
    next transaction: guards are compared by identity (KAFKA-14884).
    """

    __slots__ = ("bumps", "epoch", "lowest_sequence", "since_ms")

    def __init__(self, epoch: int, sequence: int, *, bumps: bool, since_ms: int) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence
        self.bumps = bumps
        """True if each transaction of this producer has an epoch of its own (transaction.version 2)."""
        self.since_ms = since_ms


class ProducerState:
    """One producer id."""

    __slots__ = ("coordinator_epoch", "epoch", "idle_since_ms", "last_timestamp", "marks", "transaction_start")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.marks: deque[Mark] = deque(maxlen=BATCHES_KEPT)
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.idle_since_ms = -1
        """The time of the first look since its last batch, by the wall clock; -1 before that look."""
        self.transaction_start = -1

    @property
    def last_sequence(self) -> int:
        return self.marks[-1].last_sequence if self.marks else -1

    def repeated(self, epoch: int, first_sequence: int, last_sequence: int) -> Mark | None:
        """The mark of a batch that is in the log already."""
        if epoch == self.epoch:
            for mark in self.marks:
                if mark[0] == last_sequence and mark.first_sequence == first_sequence:
                    return mark
        return None


class Producers:
    """All producers of one log, and its open and lately ended transactions."""

    __slots__ = ("_ended", "_guards", "_open", "_states", "changed")

    def __init__(self) -> None:
        self._states: dict[int, ProducerState] = {}
        self._guards: dict[int, Guard] = {}
        self._open: dict[int, int] = {}
        """Producer id to the first offset of its open transaction; in rising order, as they were begun."""
        self._ended: deque[tuple[int, int]] = deque()
        """(marker's offset, first offset) of transactions whose marker may not be committed yet."""
        self.changed = False
        """True if anything happened since the last snapshot."""

    def clear(self) -> None:
        self._states, self._open = {}, {}
        self._guards.clear()
        self._ended.clear()
        self.changed = True

    def take_over(self, other: Producers) -> None:
        """Take over the state of a snapshot or of another copy of the log, which is not used any more."""
        self._states, self._guards = other._states, other._guards
        self._open, self._ended = other._open, other._ended
        self.changed = other.changed

    def __len__(self) -> int:
        return len(self._states)

    def get(self, producer_id: int) -> ProducerState | None:
        return self._states.get(producer_id)

    def items(self) -> list[tuple[int, ProducerState]]:
        return sorted(self._states.items())

    def restore(self, producer_id: int, state: ProducerState) -> None:
        """One line of a snapshot."""
        self._states[producer_id] = state
        if state.transaction_start >= 0:
            self._open[producer_id] = state.transaction_start
            self._open = dict(sorted(self._open.items(), key=lambda entry: entry[1]))

    def ended(self) -> list[tuple[int, int]]:
        """(marker's offset, first offset) of ended transactions whose marker may not be committed yet."""
        return list(self._ended)

    def restore_ended(self, ended: list[tuple[int, int]]) -> None:
        """Transactions by a snapshot."""
        self._ended.extend(ended)

    # -- before an append ---

    def guard(
        self, producer_id: int, epoch: int, sequence: int, *, bumps: bool, now_ms: int
    ) -> Guard | ErrorCode | None:
        """A guard for the first batch of a transaction in this log; None where the transaction is open already.

        A guard of a higher epoch is not replaced: the asker was fenced. `sequence` is -1 for the offsets of a group.
        """
        state = self._states.get(producer_id)
        if state is not None:
            if epoch < state.epoch:
                return ErrorCode.INVALID_PRODUCER_EPOCH
            if epoch == state.epoch and state.transaction_start >= 0:
                return None
        guard = self._guards.get(producer_id)
        if guard is not None and epoch < guard.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if guard is None or guard.epoch != epoch or guard.bumps != bumps:
            guard = self._guards[producer_id] = Guard(epoch, sequence, bumps=bumps, since_ms=now_ms)
        guard.lowest_sequence = min(guard.lowest_sequence, sequence)
        return guard

    def repeats(self, batch: Batch) -> bool:
        """True if a batch is one of its producer's last in the log."""
        state = self._states.get(batch.producer_id)
        if state is None:
            return False
        return state.repeated(batch.producer_epoch, batch.base_sequence, batch.last_sequence) is not None

    def forget_guard(self, producer_id: int, guard: object) -> None:
        """Drop a guard whose epoch the coordinator does not know: it must not keep the owner of a lower one out."""
        if self._guards.get(producer_id) is guard:
            del self._guards[producer_id]

    def forget_guards(self) -> None:
        """Drop all guards, as this replica leads no more."""
        self._guards.clear()

    def _check_guard(self, producer_id: int, epoch: int, base_sequence: int, guard: object | None) -> ErrorCode | None:
        """Refuse a transactional batch that is not of the open transaction and does not bring its guard."""
        state = self._states.get(producer_id)
        if state is not None and state.transaction_start >= 0 and state.epoch == epoch:
            return None
        if state is not None and epoch < state.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        held = self._guards.get(producer_id)
        if held is None or held is not guard or held.epoch != epoch:
            return ErrorCode.INVALID_TXN_STATE
        if base_sequence > held.lowest_sequence or (held.bumps and state is None and base_sequence > 0):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return None

    def check(
        self,
        producer_id: int,
        epoch: int,
        base_sequence: int,
        last_sequence: int,
        transactional: bool,
        guard: object | None = None,
    ) -> Mark | ErrorCode | None:
        """None where a client's batch may be appended; the mark of its first try where it is a duplicate."""
        state = self._states.get(producer_id)
        if transactional:
            known = None if state is None else state.repeated(epoch, base_sequence, last_sequence)
            if known is not None:
                return known
            refused = self._check_guard(producer_id, epoch, base_sequence, guard)
            if refused is not None:
                return refused
        if state is None:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED if len(self._states) >= MAX_PRODUCERS else None
        if epoch != state.epoch:
            if epoch < state.epoch:
                return ErrorCode.INVALID_PRODUCER_EPOCH
            if base_sequence != 0:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        else:
            marks = state.marks
            if base_sequence != ((marks[-1][0] + 1) & INT_MAX if marks else 0):
                return state.repeated(epoch, base_sequence, last_sequence) or ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if state.transaction_start >= 0 and not transactional:
            return ErrorCode.INVALID_TXN_STATE
        return None

    def check_coordinator(self, producer_id: int, epoch: int, guard: object | None) -> ErrorCode | None:
        """The error if a transaction's offsets may not be appended; they have no sequence."""
        state = self._states.get(producer_id)
        if state is None and len(self._states) >= MAX_PRODUCERS:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        return self._check_guard(producer_id, epoch, -1, guard)

    def check_marker(self, producer_id: int, epoch: int, marker: EndOfTransaction, *, bumps: bool) -> ErrorCode | None:
        """The error if a marker may not be appended. With `bumps` each transaction has its own epoch (rule D3).

        Such a marker's epoch is the next transaction's. One that is equal to the epoch known here is a repeat, unless
        that next transaction is open: then it is late (KIP-1228, KAFKA-19999).
        """
        state = self._states.get(producer_id)
        if state is None:
            return None
        is_late = bumps and epoch == state.epoch and state.transaction_start >= 0 and epoch < LAST_EPOCH
        if epoch < state.epoch or is_late:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if marker.coordinator_epoch < state.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        return None

    # -- after an append ---

    def note(
        self,
        producer_id: int,
        epoch: int,
        last_sequence: int,
        first_offset: int,
        last_offset: int,
        timestamp: int,
        transactional: bool,
    ) -> None:
        """A producer's batch is in the log."""
        state = self._states.get(producer_id)
        if state is None:
            state = self._states[producer_id] = ProducerState(epoch)
        elif state.epoch != epoch:
            state.epoch = epoch
            state.marks.clear()
        state.marks.append(Mark(last_sequence, last_offset, last_offset - first_offset, timestamp))
        state.last_timestamp = timestamp
        state.idle_since_ms = -1
        self.changed = True
        if transactional:
            self._guards.pop(producer_id, None)
            if state.transaction_start < 0:
                state.transaction_start = first_offset
                self._open[producer_id] = first_offset

    def note_marker(
        self, producer_id: int, epoch: int, offset: int, timestamp: int, marker: EndOfTransaction
    ) -> tuple[int, bool] | None:
        """A transaction's marker is in the log: its first offset and whether it was aborted, if one was open.

        A guard of the marker's own epoch stays where each transaction has an epoch: the next one is being verified.
        """
        guard = self._guards.get(producer_id)
        if guard is not None and not (guard.bumps and guard.epoch == epoch):
            del self._guards[producer_id]
        state = self._in_epoch(producer_id, epoch, timestamp)
        state.coordinator_epoch = marker.coordinator_epoch
        start, state.transaction_start = state.transaction_start, -1
        if start < 0:
            return None
        self._open.pop(producer_id, None)
        self._ended.append((offset, start))
        return start, marker.marker is Marker.ABORT

    def _in_epoch(self, producer_id: int, epoch: int, timestamp: int) -> ProducerState:
        """A producer's state behind a marker of this epoch: sequences of another epoch are forgotten."""
        state = self._states.get(producer_id)
        if state is None:
            state = self._states[producer_id] = ProducerState(epoch)
        elif state.epoch != epoch:
            state.epoch = epoch
            state.marks.clear()
        state.last_timestamp = timestamp
        state.idle_since_ms = -1
        self.changed = True
        return state

    def note_header(self, header: ScannedHeader, marker: EndOfTransaction | None) -> AbortedEntry | None:
        """A batch met in recovery or from the leader; the entry for the aborted index where it ends an aborted one."""
        if header.producer_id < 0:
            return None
        if header.is_control:
            if marker is None:
                if not header.records_count:  # compaction kept it, as its epoch fences
                    self._in_epoch(header.producer_id, header.producer_epoch, header.max_timestamp)
                return None
            return self.end_transaction(
                header.producer_id, header.producer_epoch, header.last_offset, header.max_timestamp, marker
            )
        sequence = header.base_sequence
        self.note(
            header.producer_id,
            header.producer_epoch,
            (sequence + header.last_offset_delta) & INT_MAX if sequence >= 0 else -1,
            header.base_offset,
            header.last_offset,
            header.max_timestamp,
            header.is_transactional,
        )
        return None

    def end_transaction(
        self, producer_id: int, epoch: int, offset: int, timestamp: int, marker: EndOfTransaction
    ) -> AbortedEntry | None:
        """Do as `note_marker`, and return the aborted index's entry for it."""
        ended = self.note_marker(producer_id, epoch, offset, timestamp, marker)
        if ended is None or not ended[1]:
            return None
        stable = min(self._open.values(), default=offset + 1)
        return AbortedEntry(producer_id, ended[0], offset, stable)

    # -- read from it ---

    def first_unstable(self, high_watermark: int) -> int | None:
        """The first offset that a reader of committed records must not reach (rule B8); None where there is none."""
        self.forget_ended(high_watermark)
        least: int | None = next(iter(self._open.values())) if self._open else None
        for _, first in self._ended:
            if least is None or first < least:
                least = first
        return least

    def forget_ended(self, high_watermark: int) -> None:
        """Transactions whose markers are committed hold no reader back any more."""
        ended = self._ended
        while ended and ended[0][0] < high_watermark:
            ended.popleft()

    @property
    def no_transactions(self) -> bool:
        return not self._open and not self._ended

    def expire(self, wall_ms: int, before_ms: int) -> int:
        """Forget producers that are idle since before a time, unless a transaction of theirs is open.

        Unlike in Apache Kafka, timestamps of records do not count: they may be of any age.
        """
        silent = []
        for producer_id, state in self._states.items():
            if state.idle_since_ms < 0:
                state.idle_since_ms = wall_ms
                self.changed = True
            elif state.idle_since_ms < before_ms and state.transaction_start < 0:
                silent.append(producer_id)
        for producer_id in silent:
            del self._states[producer_id]
        self._guards = {each: guard for each, guard in self._guards.items() if guard.since_ms >= before_ms}
        self.changed = self.changed or bool(silent)
        return len(silent)

    def active(self) -> list[ActiveProducer]:
        return [
            ActiveProducer(
                producer_id,
                state.epoch,
                state.last_sequence,
                state.last_timestamp,
                state.coordinator_epoch,
                state.transaction_start,
            )
            for producer_id, state in self.items()
        ]
