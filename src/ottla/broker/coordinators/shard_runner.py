"""Runs one shard of a coordinator: decide, append, apply, and hold answers and effects until they are committed.

coordinator.py passes on requests and the time; the machine is groups/shard.py or transactions/shard.py, the log is
that of one partition of `__consumer_offsets` or `__transaction_state`. A runner lives for one leadership; after it, a
new one replays the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from ottla.broker.coordinators.damaged_log import DamagedShard, behind_damage, say_unreadable
from ottla.broker.coordinators.early_asks import EarlyAsks
from ottla.broker.coordinators.replay import ReplayTarget, replay
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.surroundings import Surroundings
from ottla.broker.waiting import Deadline
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import LeaderEpoch
from ottla.kernel.seams import Buffer
from ottla.kernel.shards import Moment, Outcome, Reply, Ticket, TransactionalWriter, coordinator_error
from ottla.kernel.story import Slot
from ottla.records.batch import Batch, iterate_batches
from ottla.records.builder import build_batch
from ottla.records.control import Marker, build_marker
from ottla.records.faults import CorruptRecords
from ottla.records.reader import Record
from ottla.storage.values import Appended, Origin

S = TypeVar("S", bound="Shard")
Decide = Callable[[S, Ticket, Moment], Outcome[Any]]


class Shard(ReplayTarget, DamagedShard, Protocol):
    """A machine over one log. Entries are its own; the runner hands them on."""

    def encode(self, entry: Any) -> tuple[bytes, bytes | None]: ...

    def loaded(self, now: Moment) -> Outcome[Any]: ...

    def refused(self, decision: Any, error: ErrorCode, now: Moment) -> Outcome[Any]: ...

    def parked(self) -> list[Ticket]: ...

    @property
    def next_deadline_ms(self) -> int | None: ...

    def postpone(self, late_ms: int) -> None: ...

    def tick(self, now: Moment) -> Outcome[Any] | None: ...


class TransactionEnd(NamedTuple):
    """A transaction that ends in this log."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    bumps: bool
    """True if each transaction of the producer has an epoch of its own."""


SLICE_MS = 5
"""The longest time that loading and ticking hold the loop (rule D1)."""
LOOK_AGAIN_MS = 100
_READ_BYTES = 256 * 1024
_ENTRIES_PER_BATCH = 1000
_REFUSED = -1
_REFUSED_MS = 1000
"""The pause of loading if the log cannot be read: another replica leads soon, or an administrator must act."""


class RunnerPhase(Enum):
    """The states of a runner."""

    LOADING = "loading"
    """Reading the log, or waiting for its end to be committed, or for the end of a lease."""
    SERVING = "serving"
    GONE = "gone"


class _Held(NamedTuple):
    through: int
    deadline_ms: int
    replies: list[Reply]


class ShardRunner(Generic[S]):
    """One shard while this broker leads its partition in one epoch.

    `on_deadline` is told of the shard's next deadline whenever it may have moved, `on_effect` of what leaves the shard
    beside replies, once it is committed. Before `answers_from_ms` it does not
    serve: a coordinator that was fenced early may still answer (rule A12).
    """

    def __init__(
        self,
        partition: Partition,
        shard: S,
        around: Surroundings,
        *,
        commit_timeout_ms: int,
        on_deadline: Callable[[int], None],
        answers_from_ms: Callable[[], int],
        on_effect: Callable[[ShardRunner[S], object], None] | None = None,
    ) -> None:
        self.phase = RunnerPhase.LOADING
        self.shard = shard
        self.epoch: LeaderEpoch = partition.leader_epoch
        self._on_effect = on_effect
        self._partition = partition
        self._around = around
        self._commit_timeout_ms = commit_timeout_ms
        self._on_deadline = on_deadline
        self._answers_from_ms = answers_from_ms
        self._through = 0
        """The offset after all records that this shard knows of: no answer leaves before it is committed."""
        self._held: deque[_Held] = deque()
        self._leaving: deque[tuple[int, object]] = deque()
        """Effects, each with the offset that must be committed before it."""
        self._check: Deadline | None = None
        self._replay = self._read_log()
        self._replay_ended = False
        self._waits_for_lease = False
        self._told: list[Callable[[S], Outcome[Any]]] = []
        self._early: EarlyAsks[Decide[S]] = EarlyAsks(around.deadlines)
        partition.readers.when_committed(self._committed)
        around.clock.call_soon(self._load)

    # Asking

    def ask(self, decide: Decide[S]) -> Slot[Any]:
        """Ask the shard. The slot is filled when the answer may leave, or with an ErrorCode if it does not serve.

        A request waits for a shard that is loading (early_asks.py), and for those that came before it.
        """
        error = self._not_serving()
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS or (self._early and not error):
            return self._early.put(decide)
        slot: Slot[Any] = Slot()
        self._answer(decide, slot)
        return slot

    def _answer(self, decide: Decide[S], slot: Slot[Any]) -> None:
        error = self._not_serving()
        if error:
            slot.fill(error)
        else:
            self._carry_out(decide(self.shard, slot, self._now()))
            self._say_deadline()

    def _answer_early(self) -> None:
        """Answer requests that came before the shard served, a slice at a time."""
        end_ms = self._around.clock.mono_ms() + SLICE_MS
        while (asked := self._early.take()) is not None:
            self._answer(*asked)
            if self._around.clock.mono_ms() >= end_ms:
                self._around.clock.call_soon(self._answer_early)
                return

    def end_transaction(self, end: TransactionEnd) -> Slot[Any]:
        """Write a marker into this log and apply it; NONE once it is committed."""
        slot: Slot[Any] = Slot()
        error = self._not_serving() or self._write_marker(end)
        if error:
            slot.fill(coordinator_error(error))
        else:
            self._hold([Reply(slot, ErrorCode.NONE)])
        return slot

    def settled(self) -> S | None:
        """The shard, to be read only, where it serves and all that it knows is committed; else `ask` has to wait."""
        if self._not_serving() or self._partition.log.high_watermark < self._through:
            return None
        return self.shard

    @property
    def gone(self) -> bool:
        """True once the leadership of this runner is over."""
        return self.phase is RunnerPhase.GONE

    def guard(self, producer_id: int, producer_epoch: int, *, bumps: bool) -> object | ErrorCode | None:
        """The guard for the first offsets of a transaction in this log, as `Partition.guard` gives it."""
        error = self._not_serving()
        return error or self._partition.guard(producer_id, producer_epoch, -1, bumps=bumps)

    def forget_guard(self, producer_id: int, guard: object) -> None:
        """Drop a guard that the transaction's coordinator has refused."""
        self._partition.log.producers.forget_guard(producer_id, guard)

    def _not_serving(self) -> ErrorCode:
        if self.phase is RunnerPhase.GONE or not self._around.may_lead():
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if self.phase is RunnerPhase.LOADING else ErrorCode.NONE

    def tick(self) -> bool:
        """Handle deadlines that have passed; False if the slice was too short for all of them."""
        if self.phase is not RunnerPhase.SERVING:
            return True
        end_ms = self._around.clock.mono_ms() + SLICE_MS
        while True:
            decision = self.shard.tick(self._now())
            if decision is None:
                return True
            self._carry_out(decision)
            if self._around.clock.mono_ms() >= end_ms:
                return False

    def tell(self, decide: Callable[[S], Outcome[Any]]) -> None:
        """Let the shard decide something without an answer; a loading shard does so once it serves."""
        if self.phase is RunnerPhase.SERVING:
            self._carry_out(decide(self.shard))
        elif self.phase is RunnerPhase.LOADING:
            self._told.append(decide)

    def end(self) -> None:
        """Leadership is lost: drop the shard, and tell all waiting clients to look for another coordinator."""
        if self.phase is RunnerPhase.GONE:
            return
        self.phase = RunnerPhase.GONE
        self._partition.readers.forget_listener(self._committed)
        if self._check is not None:
            self._check.cancel()
        self._leaving.clear()
        while (asked := self._early.take()) is not None:
            asked.slot.fill(ErrorCode.NOT_COORDINATOR)
        held, self._held = self._held, deque()
        tickets = [reply.ticket for each in held for reply in each.replies] + self.shard.parked()
        for ticket in tickets:
            ticket.fill(ErrorCode.NOT_COORDINATOR)

    def _say_deadline(self) -> None:
        at_ms = self.shard.next_deadline_ms
        if at_ms is not None:
            self._on_deadline(at_ms)

    def _now(self) -> Moment:
        clock = self._around.clock
        return Moment(clock.mono_ms(), clock.wall_ms(), self._around.time.aged)

    # Carrying out

    def _carry_out(self, decision: Outcome[Any]) -> None:
        error = self._write(decision)
        if error:
            decision = self.shard.refused(decision, error, self._now())
            self._write(decision)
        if decision.effects:
            self._leaving.extend((self._through, effect) for effect in decision.effects)
            self._let_leave(self._partition.log.high_watermark)
        if decision.replies:
            self._hold(decision.replies)

    def _write(self, decision: Outcome[Any]) -> ErrorCode:
        """Append and apply at once. Many entries need more than one batch: none is appended if one is too large."""
        entries, writer = decision.entries, decision.writer
        at_once = len(entries) if decision.whole else _ENTRIES_PER_BATCH
        wall_ms = self._around.clock.wall_ms()
        batches = []
        for start in range(0, len(entries), at_once or 1):
            some = entries[start : start + at_once]
            batch = self._batch(some, writer, wall_ms)
            if batch.size > self._partition.config.max_message_bytes:
                return ErrorCode.MESSAGE_TOO_LARGE
            batches.append((batch, some))
        producer, guard = (-1, None) if writer is None else (writer.producer_id, writer.guard)
        for batch, some in batches:
            appended = self._append(batch, wall_ms, guard=guard)
            if isinstance(appended, ErrorCode):
                return appended
            for place, entry in enumerate(some):
                self.shard.apply(entry, appended.base_offset + place, producer)
        return ErrorCode.NONE

    def _batch(self, entries: Sequence[Any], writer: TransactionalWriter | None, wall_ms: int) -> Batch:
        records = [Record(0, wall_ms, *self.shard.encode(entry)) for entry in entries]
        if writer is None:
            return Batch(build_batch(records))
        producer, epoch, _ = writer
        return Batch(build_batch(records, producer_id=producer, producer_epoch=epoch, is_transactional=True))

    def _write_marker(self, end: TransactionEnd) -> ErrorCode:
        wall_ms = self._around.clock.wall_ms()
        marker = build_marker(
            Marker.COMMIT if end.committed else Marker.ABORT,
            producer_id=end.producer_id,
            producer_epoch=end.producer_epoch,
            coordinator_epoch=end.coordinator_epoch,
            timestamp=wall_ms,
        )
        appended = self._append(Batch(marker), wall_ms, bumps=end.bumps)
        if isinstance(appended, ErrorCode):
            return appended
        self.shard.apply_marker(end.producer_id, committed=end.committed)
        return ErrorCode.NONE

    def _append(
        self, batch: Batch, wall_ms: int, *, guard: object | None = None, bumps: bool = False
    ) -> Appended | ErrorCode:
        leader = self._partition.leader
        if leader is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if not leader.enough_in_sync:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        appended = self._partition.append(batch, Origin.COORDINATOR, wall_ms, guard=guard, bumps=bumps)
        if isinstance(appended, Appended):
            self._through = appended.next_offset
        return appended

    # Holding

    def _hold(self, replies: list[Reply]) -> None:
        if not self._held and self._partition.log.high_watermark >= self._through:
            self._release(replies)
            return
        deadline_ms = self._around.clock.mono_ms() + self._commit_timeout_ms
        self._held.append(_Held(self._through, deadline_ms, replies))
        if self._check is None:
            self._check = self._around.deadlines.at(deadline_ms, self._overdue)

    def _release(self, replies: list[Reply]) -> None:
        """Let answers leave, if the lease is still valid (rule A12); else send the clients to another coordinator."""
        may_answer = self._around.may_lead()
        for ticket, answer in replies:
            ticket.fill(answer if may_answer else ErrorCode.NOT_COORDINATOR)

    def _let_leave(self, high_watermark: int) -> None:
        """Let effects leave once they are committed, also without a valid lease."""
        leaving = self._leaving
        while leaving and leaving[0][0] <= high_watermark:
            effect = leaving.popleft()[1]
            assert self._on_effect is not None
            self._on_effect(self, effect)

    def _committed(self, high_watermark: int) -> None:
        held = self._held
        while held and held[0].through <= high_watermark:
            self._release(held.popleft().replies)
        self._let_leave(high_watermark)  # after the replies: whoever asked goes on meanwhile
        if not held and self._check is not None:
            self._check.cancel()
            self._check = None
        if self.phase is RunnerPhase.LOADING and self._replay_ended:
            self._serve_if_committed()

    def _overdue(self) -> None:
        """End the waits whose records were not committed in time: these clients learn that the outcome is unknown."""
        self._check = None
        now_ms = self._around.clock.mono_ms()
        error = coordinator_error(ErrorCode.REQUEST_TIMED_OUT)
        while self._held and self._held[0].deadline_ms <= now_ms:
            for ticket, _ in self._held.popleft().replies:
                ticket.fill(error)
        if self._held and self._check is None:
            self._check = self._around.deadlines.at(self._held[0].deadline_ms, self._overdue)

    # Loading

    def _load(self) -> None:
        """Replay the log slice by slice up to its end; serve once that end is committed."""
        if self.phase is not RunnerPhase.LOADING:
            return
        clock = self._around.clock
        end_ms = clock.mono_ms() + SLICE_MS
        try:
            while clock.mono_ms() < end_ms:
                step = next(self._replay, None)
                if step is None:
                    self._replay_ended = True
                    self._serve_if_committed()
                    return
                if step == _REFUSED:
                    self._around.deadlines.after(_REFUSED_MS, self._load)
                    return
        except OSError as error:
            self._around.disk_failed(error)
            return
        clock.call_soon(self._load)

    def _serve_if_committed(self) -> None:
        if self.phase is not RunnerPhase.LOADING or self._partition.log.high_watermark < self._through:
            return
        now_ms = self._around.clock.mono_ms()
        if (wait_ms := self._answers_from_ms() - now_ms) > 0:  # ends sooner if the other broker comes back
            if not self._waits_for_lease:
                self._waits_for_lease = True
                self._around.deadlines.at(now_ms + min(wait_ms, LOOK_AGAIN_MS), self._look_again)
            return
        self.phase = RunnerPhase.SERVING
        self._carry_out(self.shard.loaded(self._now()))
        told, self._told = self._told, []
        for decide in told:
            self._carry_out(decide(self.shard))
        self._say_deadline()
        self._early.serve()
        self._answer_early()

    def _look_again(self) -> None:
        self._waits_for_lease = False
        self._serve_if_committed()

    def _read_log(self) -> Iterator[int]:
        """Replay the log; yield after every few records, so that the caller may pause."""
        offset, reported = self._partition.log.log_start_offset, -1
        while offset < self._partition.log.end_offset:
            partition_log = self._partition.log  # a new one if the replica has moved to another log directory
            read = partition_log.read(offset, _READ_BYTES, limit_offset=partition_log.end_offset)
            if isinstance(read, ErrorCode):
                if offset >= partition_log.log_start_offset:
                    if (behind := behind_damage(self._partition, self.shard, offset)) is not None:
                        offset = behind
                        continue
                    if offset != reported:
                        reported = offset
                        say_unreadable(self._partition, offset, read)
                    self._partition.suspect(offset)
                    yield _REFUSED
                offset = max(offset, partition_log.log_start_offset)
                continue
            before = offset
            batches = _sound_batches(read.data(), offset)
            offset = yield from replay(self.shard, batches, self._partition.topic, offset)
            if offset == before:
                if not read.bytes:
                    break
                self._partition.suspect(offset)
                yield _REFUSED
        self._through = self._partition.log.end_offset


def _sound_batches(body: Buffer, offset: int) -> Iterator[Batch]:
    """Batches from `offset` on, up to a damaged one, which must neither be applied nor count as the end."""
    try:
        for batch in iterate_batches(body):
            if not batch.crc_holds():
                return
            if batch.next_offset > offset:
                yield batch
    except CorruptRecords:
        return
