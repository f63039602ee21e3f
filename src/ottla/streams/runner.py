"""Runs a topology in this process over a cluster's topics: reads, processes, and commits, exactly once.

A batch is one transaction: results, changed entries of stores and the offsets that were read become visible together.
Instances of one application id are members of one consumer group, and share the tasks.
"""

from __future__ import annotations

import logging
import re
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

from ottla.client import (
    Admin,
    ApiError,
    CommittedOffset,
    ConsumedRecord,
    Consumer,
    ErrorCode,
    ProducerFenced,
    TopicPartition,
    TransactionMustAbort,
)
from ottla.client.blocking.runs import RunProducer
from ottla.streams import letters
from ottla.streams.changelog import to_record
from ottla.streams.connection import ClusterConnection, connection, told_partitions
from ottla.streams.engine.task import Results, Task
from ottla.streams.global_tables import GlobalTables
from ottla.streams.graph import Topology
from ottla.streams.layout import TIMES, TaskLayout
from ottla.streams.letters import choices
from ottla.streams.live import Live
from ottla.streams.naming import checked
from ottla.streams.on_error import OnError
from ottla.streams.pace import Pace
from ottla.streams.patterns import SourceOf, subscription
from ottla.streams.restoring import TaskId, restore
from ottla.streams.sending import BatchSending
from ottla.streams.serdes import INT64
from ottla.streams.served import served
from ottla.streams.stopping import STOP_WITHIN_S, stopped_by_signals
from ottla.streams.stores.disk import MEMORY, StoreDatabase, check_stores, database
from ottla.streams.topics import begin_at_ends, laid_out, prepared
from ottla.streams.values import Input, Place

_POLL_MS = 200
REJOIN_S = 1.0
"""An instance waits for so long until it joins its group anew where others do not read the same topics yet."""
PURGE_S = 30.0
"""The time between two deletions of what was read of repartition topics, as in Kafka."""
_log = logging.getLogger(__name__)
_OVERTAKEN = {
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
}
"""Errors that say that another instance may have the tasks."""


def run(
    topology: Topology,
    *,
    application_id: str,
    bootstrap: str | Sequence[str] = "localhost:9092",
    max_poll_records: int = 10_000,
    session_timeout_ms: int = 10_000,
    transaction_timeout_ms: int = 10_000,
    replication_factor: int = -1,
    on_error: str | OnError | None = None,
    dead_letter: str | None = None,
    query_port: int | None = None,
    query_host: str = "127.0.0.1",
    stores: str = MEMORY,
    kafka: Mapping[str, str] | None = None,
    stop: threading.Event | None = None,
) -> None:
    """Run until SIGTERM, Ctrl-C or `stop`; the batch at work is committed first.

    A signal ends the run after five seconds even so, where no broker answers: the batch is then done by the next start.
    A batch is as many records as take a tenth of a second, from 500 up to `max_poll_records`.
    `application_id` is the consumer group, and begins the names of the application's own topics, which are made here.
    `on_error`, of records that cannot be read, processed or written: fail (the default), skip, or dead-letter, which
    keeps them in the topic `dead_letter`; or a choice for each stage (`deserialization=skip,processing=dead-letter`).
    `query_port`: answer queries of this instance's stores over HTTP. `stores`: memory, or disk for larger state.
    `kafka`: properties of the client, such as security.protocol.
    Raises ProcessingError (the batch leaves nothing), TopologyError where topics do not fit, ApiError and ClientError.
    """
    checked(application_id)
    errors, stop = choices(on_error, dead_letter), stop or threading.Event()
    check_stores(stores)
    where = connection(bootstrap, kafka)
    with where.admin() as admin:
        plan = prepared(admin, topology, application_id, replication_factor)
        begin_at_ends(admin, topology, application_id)
        if dead_letter is not None:
            reads, own = SourceOf(topology.sources()).reads, plan.read()
            letters.prepare(admin, dead_letter, lambda topic: topic in own or reads(topic), replication_factor)
    live = Live(topology, plan)
    options = _Options(errors, dead_letter, live, stores, max_poll_records)
    serving = served(live, topology, where, query_host, query_port)
    with stopped_by_signals(stop, within_s=STOP_WITHIN_S), serving:
        while not stop.is_set():
            if topology.patterns():  # other topics may match since
                with where.admin() as admin:
                    plan = prepared(admin, topology, application_id, replication_factor)
                live.plan_for(plan)
            consumer = _consumer(where, application_id, max_poll_records, session_timeout_ms)
            name = f"{application_id}-{uuid.uuid4()}"
            producer = RunProducer(
                bootstrap, settings=where.settings, transactional_id=name, transaction_timeout_ms=transaction_timeout_ms
            )
            with producer, consumer, closing(GlobalTables(topology, where, stores)) as tables:
                _Instance(topology, plan, where, consumer, producer, tables, options).work(stop)


def _consumer(where: ClusterConnection, group: str, max_poll_records: int, session_timeout_ms: int) -> Consumer:
    """A member of the application's group."""
    return Consumer(
        where.bootstrap,
        settings=where.settings,
        group_id=group,
        assignors="range",  # gives equal partitions of all topics to one member
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
        max_poll_records=max_poll_records,
        session_timeout_ms=session_timeout_ms,
        heartbeat_interval_ms=max(1, min(3_000, session_timeout_ms // 3)),
    )


@dataclass(frozen=True, slots=True)
class _Options:
    """Settings of all instances of a run, and the place where queries see them."""

    errors: OnError
    dead_letter: str | None
    live: Live
    stores: str
    most_records: int


class _Instance:
    """One member of the group with its tasks, until it is stopped or another member may have its tasks."""

    def __init__(
        self,
        topology: Topology,
        plan: TaskLayout,
        where: ClusterConnection,
        consumer: Consumer,
        producer: RunProducer,
        tables: GlobalTables,
        options: _Options,
    ) -> None:
        self._topology, self._plan, self._where, self._options = topology, plan, where, options
        self._consumer, self._producer, self._tables = consumer, producer, tables
        self._read = plan.read()
        self._tasks: dict[TaskId, Task] = {}
        self._databases: list[StoreDatabase] = []
        self._changed = False
        self._batch = 0
        self._pace = Pace(options.most_records)
        self._done: dict[TopicPartition, int] = {}
        self._purged_at = time.monotonic()

    def work(self, stop: threading.Event) -> None:
        """Read, process and commit until stopped, or until a commit is refused because the group has moved on."""
        self._producer.init_transactions()
        self._consumer.subscribe(self._wanted(), on_assign=self._note, on_revoke=self._note)
        while not stop.is_set():
            with self._options.live.lock:
                self._tables.read_to(self._tables.ends())
            records = self._consumer.poll(_POLL_MS, self._pace.records)
            if self._changed:
                if not self._fits():
                    stop.wait(REJOIN_S)
                    return
                self._restore()
            try:
                with self._hidden():
                    self._process(records)
                    self._options.live.reached(self._positions())
                self._purge()
            except (TransactionMustAbort, ProducerFenced, ApiError) as fault:
                if not _overtaken(fault):
                    raise
                _log.warning("another instance may have the tasks of this one; restoring them first: %s", fault)
                return

    def _wanted(self) -> list[str] | re.Pattern[str]:
        """The topics to read: by their names, or by one pattern for all if the topology has patterns."""
        pattern = subscription(self._topology)
        if pattern is None:
            return sorted(self._read)
        own = (re.escape(topic) for topic, name in self._read.items() if name in self._plan.repartitions)
        return re.compile("|".join((pattern, *own)))

    def _fits(self) -> bool:
        """True if the topics are those that are planned for, and every task is here with all its partitions.

        Instances learn one after the other of a topic that matches a pattern. Meanwhile the partitions of one task may
        lie with two of them, and both would run it.
        """
        if not self._topology.patterns():
            return True
        assigned, part_of = self._consumer.assignment, self._plan.part_of
        with self._where.admin() as admin:
            if laid_out(admin, self._topology, self._plan.application_id) != self._plan:
                _log.warning("other topics match the patterns of the topology since: planning anew")
                return False
        mine = {(part_of[self._read[one.topic]], one.partition) for one in assigned if one.topic in self._read}
        whole = {
            TopicPartition(topic, at) for part, at in mine for topic, n in self._read.items() if part_of[n] == part
        }
        if whole != assigned:
            _log.warning("other instances do not read the same topics yet: joining the group again")
        return whole == assigned

    def _positions(self) -> dict[TopicPartition, int]:
        return {partition: self._consumer.position(partition) for partition in sorted(self._consumer.assignment)}

    @contextmanager
    def _hidden(self) -> Iterator[None]:
        """Queries wait for a block, and see no tasks if it fails: they may hold what was not committed."""
        with self._options.live.lock:
            try:
                yield
            except BaseException:
                self._options.live.end()
                raise

    def _note(self, _: Sequence[TopicPartition]) -> None:
        """Tasks end with every change of the assignment: other instances may have changed their state meanwhile."""
        self._tasks = {}
        self._options.live.end()
        self._close()
        self._changed = True

    def _close(self) -> None:
        """Give back the room of stores on disk."""
        for one in self._databases:
            one.close()
        self._databases = []

    def _rows(self) -> StoreDatabase | None:
        """The place of the stores of one more task; None for memory."""
        made = database(self._options.stores)
        self._databases += [made] if made else []
        return made

    def _restore(self) -> None:
        """Make the tasks of the assigned partitions, with the state that is committed."""
        assigned = self._consumer.assignment
        # A position waits for an open transaction that commits its offset.
        positions = self._positions()
        ids = {(self._plan.part_of[self._read[one.topic]], one.partition) for one in assigned}
        now_ms = int(time.time() * 1000)
        self._tasks = {
            (part, partition): Task(
                self._topology,
                sub_topologies=[part],
                loops_back=False,
                wall_clock_ms=now_ms,
                shared=self._tables.stores,
                on_error=self._options.errors,
                rows=self._rows(),
                partitions_of=self._partitions_of,
            )
            for part, partition in sorted(ids)
        }
        restore(self._where, self._plan, self._tasks)
        self._options.live.begin(self._tasks, positions)
        self._changed = False

    def _partitions_of(self, topic: str) -> int:
        with told_partitions(topic):
            return self._producer.partitions_of(topic)[1]

    def _process(self, records: list[ConsumedRecord]) -> None:
        """One batch, in one transaction if it made or read anything."""
        inputs: dict[TaskId, list[Input]] = {}
        offsets: dict[TopicPartition, CommittedOffset] = {}
        for record in records:
            topic = self._read[record.topic]
            place = Place(topic, record.partition, record.offset)
            read = Input(place, record.key, record.value, record.timestamp, record.headers)
            inputs.setdefault((self._plan.part_of[topic], record.partition), []).append(read)
            offsets[TopicPartition(record.topic, record.partition)] = CommittedOffset(record.offset + 1)
        assert inputs.keys() <= self._tasks.keys()
        now_ms, began = int(time.time() * 1000), time.monotonic()
        made: list[tuple[TaskId, Results]] = []
        for task_id, task in self._tasks.items():
            task.feed(*inputs.get(task_id, ()))
            task.advance(max(now_ms, task.wall_clock_ms))
            results = task.take(self._batch)
            if results.outputs or results.changes or results.faults or results.dropped:
                made.append((task_id, results))
        self._pace.took(len(records), time.monotonic() - began)
        self._batch += 1
        if not offsets and not made:
            return
        with self._producer.transaction():
            sending = BatchSending(self._producer)
            for task_id, results in made:
                self._write(sending, task_id, results, now_ms)
            sending.send()
            if offsets:
                self._producer.send_offsets_to_transaction(offsets, self._consumer.group_metadata)
        consumed = {
            (task, topic): count
            for task, records in inputs.items()
            for topic, count in Counter(self._plan.topic(record.place.topic) for record in records).items()
        }
        self._tell(made, self._options.live.committed(consumed, dict(made)))
        self._done |= {at: one.offset for at, one in offsets.items() if self._read[at.topic] in self._plan.repartitions}

    def _purge(self) -> None:
        """Delete the records of repartition topics that are committed; a failure is only told."""
        if not self._done or time.monotonic() < self._purged_at + PURGE_S:
            return
        self._purged_at = time.monotonic()
        outcomes = Admin(cluster=self._consumer.cluster).delete_records(self._done)
        for partition, outcome in outcomes.items():
            if isinstance(outcome, Exception):
                _log.warning("could not delete what was read of %s-%d: %s", *partition, outcome)
        self._done.clear()

    def _tell(self, made: list[tuple[TaskId, Results]], failed: int) -> None:
        """Write one line of the log about the records that failed in a committed batch."""
        faults = [fault for _, results in made for fault in results.faults]
        if faults:
            more = f" (and {len(faults) - 1} more in this batch)" if len(faults) > 1 else ""
            kept = f"kept in {self._options.dead_letter}" if faults[0].letter else "left out"
            _log.warning("%s%s; %s; %d so far", faults[0].reason, more, kept, failed)

    def _write(self, sending: BatchSending, task_id: TaskId, results: Results, now_ms: int) -> None:
        part, partition = task_id
        for fault in results.faults:
            if fault.letter and self._options.dead_letter is not None:
                kept = letters.letter(fault, self._plan)
                dead = self._options.dead_letter
                sending.add(dead, kept.key, kept.value, kept.timestamp, tuple(kept.headers))
        for output in results.outputs:
            topic = self._plan.topic(output.topic)
            at = output.partition
            sending.add(topic, output.key, output.value, output.timestamp, output.headers, partition=at)
        for store, entries in results.changes.items():
            topic = self._plan.changelog(store or TIMES)
            for key, entry in entries.items():
                if store:
                    data, value, at = to_record(self._tasks[task_id].stores[store], key, entry)
                else:
                    data, value, at = f"{part} {key[0]}".encode(), INT64.write(entry), None
                sending.add(topic, data, value, now_ms if at is None else at, partition=partition)


def _overtaken(fault: Exception) -> bool:
    cause = fault.__cause__ if isinstance(fault, TransactionMustAbort) else fault
    return isinstance(cause, ProducerFenced) or (isinstance(cause, ApiError) and cause.code in _OVERTAKEN)
