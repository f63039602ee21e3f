"""Notes what coordinators and leaders do in transactions, from inside and at the time when they do it.

The notes go into the history for `decisions.py`: entries of coordinators' logs as they are committed, batches and
markers as leaders append them, and how far the logs reach when a producer takes over a transactional id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.transaction_coordinator import TRANSACTION_TOPIC
from ottla.records.batch import Batch
from ottla.records.control import Marker, read_marker
from ottla.sim.checkers.history import History, LogKey
from ottla.sim.checkers.state_log import steps_in
from ottla.sim.checkers.transaction_history import Appended, Owned, Stepped, TakenOver
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
        self._committed: dict[int, int] = {}
        """By partition of the coordinators' topic, the offset up to which committed entries are noted."""
        self._ends: dict[tuple[BrokerId, LogKey], int] = {}
        """The end of each replica of the ledger when it was last looked at."""
        self._reached: dict[LogKey, int] = {}

    def moved(self, machine: Machine, partition: Partition) -> None:
        """Look at a replica whose offsets have changed."""
        if self._ledger is None:
            return
        if partition.topic == TRANSACTION_TOPIC:
            self._note_entries(machine, partition)
        elif partition.topic == self._ledger:
            self._note_appends(machine, partition)

    def owned(self, event: Owned) -> None:
        """Note a take-over, with the ends of all logs."""
        if event.takes_over:
            owner = event.transactional_id, event.producer_id, event.epoch
            self._history.add(TakenOver(self._loop.now_us, *owner, tuple(self._reached.items())))

    def _note_entries(self, machine: Machine, partition: Partition) -> None:
        log = partition.log
        known, watermark = self._committed.get(partition.index, 0), log.high_watermark
        if watermark <= known:
            return
        self._committed[partition.index] = watermark
        for _, following, body in batches(machine.disk, log.directory, known, durable=False):
            if following > watermark:
                break
            for transactional_id, step in steps_in(body):
                self._history.add(Stepped(self._loop.now_us, transactional_id, step))

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
