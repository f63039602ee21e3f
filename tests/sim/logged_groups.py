"""A group shard whose log is kept as batches, transactions included: the log that the judges of coordinators read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.groups.consumer_desk import ConsumerDesk

from ottla.groups.entries import encode_entry
from ottla.groups.offsets import NO_PRODUCER
from ottla.groups.values import GroupDecision, GroupEntry
from ottla.kernel.shards import TransactionalWriter
from ottla.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.records.batch import Batch
from ottla.records.builder import build_batch
from ottla.records.control import Marker, build_marker
from ottla.records.reader import Record
from ottla.sim.checkers.replayed import CoordinatorLog
from ottla.storage.segment.aborted import AbortedEntry

_LEADER_EPOCH = 0


class LoggedDesk(ConsumerDesk):
    """Plays the broker to a group shard, and appends to a log."""

    def __init__(self, **options: Any) -> None:
        self.batches: list[bytes] = []
        self.end_offset = 0
        self.aborted: list[AbortedEntry] = []
        self._first: dict[int, int] = {}
        super().__init__(**options)

    @property
    def whole(self) -> CoordinatorLog:
        """The log: all of it is committed, and no transaction is open below its last stable offset."""
        stable = min(self._first.values(), default=self.end_offset)
        return CoordinatorLog(list(self.batches), stable, list(self.aborted), {}, 1000)

    def carry_out(self, decision: GroupDecision) -> None:
        if decision.entries:
            self.put(decision.entries, decision.writer.producer_id if decision.writer else NO_PRODUCER)
        for ticket, answer in decision.replies:
            ticket.fill(answer)

    def put(self, entries: Sequence[GroupEntry], producer: int = NO_PRODUCER) -> None:
        """Append entries and apply them."""
        base = self.log_only(entries, producer)
        for place, entry in enumerate(entries):
            self.shard.apply(entry, base + place, producer)

    def log_only(self, entries: Sequence[GroupEntry], producer: int = NO_PRODUCER) -> int:
        """Append entries that the live shard does not hear of; return the offset of the first."""
        records = [Record(0, self.now.wall_ms, *encode_entry(entry)) for entry in entries]
        if producer == NO_PRODUCER:
            return self._append(build_batch(records))
        self._first.setdefault(producer, self.end_offset)
        body = build_batch(records, producer_id=producer, producer_epoch=0, is_transactional=True)
        return self._append(body)

    def commit_pending(self, producer: int, offset: int, *, partition: int = 0) -> None:
        """Commit an offset of `t` in a transaction of the producer."""
        place = TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        request = TxnOffsetCommitRequest(
            group_id="g", topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[place])]
        )
        writer = TransactionalWriter(producer, 0, None)
        ids = {"t": self.topics.id_of("t")}
        self.carry_out(self.shard.commit_in_transaction(request, ids, writer, self.ticket(), self.now))

    def is_open(self, producer: int) -> bool:
        """True if the producer has records in the log whose transaction has not ended."""
        return producer in self._first

    def end(self, producer: int, *, committed: bool) -> None:
        """End the transaction of the producer."""
        marker = build_marker(
            Marker.COMMIT if committed else Marker.ABORT,
            producer_id=producer,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=self.now.wall_ms,
        )
        offset = self._append(marker)
        first = self._first.pop(producer)
        if not committed:
            stable = min(self._first.values(), default=offset + 1)
            self.aborted.append(AbortedEntry(producer, first, offset, stable))
        self.shard.apply_marker(producer, committed=committed)

    def _append(self, body: bytes) -> int:
        batch = Batch(body)
        base = self.end_offset
        self.batches.append(b"".join(batch.placed(base, _LEADER_EPOCH)))
        self.end_offset = base + batch.last_offset_delta + 1
        return base
