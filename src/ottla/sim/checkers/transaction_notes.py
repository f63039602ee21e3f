"""Notes what coordinators and leaders do in transactions, from inside and at the time when they do it.

The notes go into the history for `decisions.py`: entries of coordinators' logs as they are committed, batches and
markers as leaders append them, and how far the logs reach when a producer takes over a transactional id.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.broker.coordinators.group_coordinator import OFFSETS_TOPIC
from ottla.broker.coordinators.transaction_coordinator import TRANSACTION_TOPIC
from ottla.groups.entries import decode_entry
from ottla.groups.offsets import NO_PRODUCER
from ottla.kernel.ids import TopicPartition
from ottla.messages.group_records import OffsetCommitKey, OffsetCommitValue
from ottla.records.batch import Batch
from ottla.records.control import Marker, read_marker
from ottla.records.reader import read_records
from ottla.sim.checkers.history import History, LogKey
from ottla.sim.checkers.state_log import steps_in
from ottla.sim.checkers.transaction_history import (
    Appended,
    ContestedEnded,
    ContestedStored,
    Owned,
    Stepped,
    TakenOver,
)
from ottla.sim.contested_group import CONTESTED_GROUP
from ottla.sim.peek import batches

if TYPE_CHECKING:
    from ottla.broker.replicas.partition import Partition
    from ottla.kernel.ids import BrokerId
    from ottla.sim.loop import SimLoop
    from ottla.sim.machine import Machine
    from ottla.sim.plan import TransactionPlan


class TransactionNotes:
    """The observer of one world; it notes nothing in a world without transactions."""

    def __init__(self, loop: SimLoop, history: History, plan: TransactionPlan | None) -> None:
        self._loop = loop
        self._history = history
        self._ledger = None if plan is None else plan.ledger.name
        self._contests = plan is not None and plan.contests
        self._committed: dict[tuple[str, int], int] = {}
        """By partition of the coordinators' topics, the offset up to which committed entries are noted."""
        self._ends: dict[tuple[BrokerId, LogKey], int] = {}
        """The end of each replica of the ledger when it was last looked at."""
        self._reached: dict[LogKey, int] = {}

    def moved(self, machine: Machine, partition: Partition) -> None:
        """Look at a replica whose offsets have changed."""
        if self._ledger is None:
            return
        if partition.topic == TRANSACTION_TOPIC:
            self._note_entries(machine, partition)
        elif partition.topic == OFFSETS_TOPIC and self._contests:
            self._note_offsets(machine, partition)
        elif partition.topic == self._ledger:
            self._note_appends(machine, partition)

    def owned(self, event: Owned) -> None:
        """Note a take-over, with the ends of all logs."""
        if event.takes_over:
            owner = event.transactional_id, event.producer_id, event.epoch
            self._history.add(TakenOver(self._loop.now_us, *owner, tuple(self._reached.items())))

    def _note_entries(self, machine: Machine, partition: Partition) -> None:
        for body in self._newly_committed(machine, partition):
            for transactional_id, step in steps_in(body):
                self._history.add(Stepped(self._loop.now_us, transactional_id, step))

    def _newly_committed(self, machine: Machine, partition: Partition) -> Iterator[bytes]:
        """The batches of a coordinator's log that no replica had as committed before."""
        log, place = partition.log, (partition.topic, partition.index)
        known, watermark = self._committed.get(place, 0), log.high_watermark
        if watermark <= known:
            return
        self._committed[place] = watermark
        for _, following, body in batches(machine.disk, log.directory, known, durable=False):
            if following > watermark:
                break
            yield body

    def _note_offsets(self, machine: Machine, partition: Partition) -> None:
        """Note the offsets of the contested group, and the markers in its log."""
        for body in self._newly_committed(machine, partition):
            batch = Batch(body)
            if batch.is_control:
                marker = read_marker(batch)
                if marker is not None:
                    committed = marker.marker is Marker.COMMIT
                    ended = ContestedEnded(self._loop.now_us, batch.base_offset, batch.producer_id, committed)
                    self._history.add(ended)
                continue
            producer = batch.producer_id if batch.is_transactional else NO_PRODUCER
            for record in read_records(batch):
                entry = decode_entry(bytes(record.key or b""), None if record.value is None else bytes(record.value))
                if entry is None or not isinstance(entry.key, OffsetCommitKey) or entry.key.group != CONTESTED_GROUP:
                    continue
                assert entry.value is None or isinstance(entry.value, OffsetCommitValue)
                place = TopicPartition(entry.key.topic, entry.key.partition)
                offset = None if entry.value is None else entry.value.offset
                self._history.add(ContestedStored(self._loop.now_us, place, record.offset, offset, producer))

    def _note_entries_first(self, machine: Machine) -> None:
        """Note the entries first: in one turn a leader may append what an entry committed in this turn has admitted."""
        if machine.current is not None:
            for replica in machine.current.node.replicas.by_id.values():
                if replica.topic == TRANSACTION_TOPIC:
                    self._note_entries(machine, replica)

    def _note_appends(self, machine: Machine, partition: Partition) -> None:
        log = LogKey(partition.topic_id.hex(), partition.index)
        place, end = (machine.broker_id, log), partition.log.end_offset
        known, self._ends[place] = self._ends.get(place, 0), end
        self._reached[log] = max(end, self._reached.get(log, 0))
        if partition.leader is None or end <= known:
            return
        self._note_entries_first(machine)
        for base, _, body in batches(machine.disk, partition.log.directory, known, durable=False):
            batch = Batch(body)
            if batch.is_transactional:
                marker = read_marker(batch)
                commits = None if marker is None else marker.marker is Marker.COMMIT
                producer = batch.producer_id, batch.producer_epoch
                self._history.add(Appended(self._loop.now_us, log, base, *producer, commits))
