"""The base of the group and transaction coordinators: a runner for each partition of their topic that we lead.

Handlers call it through group_coordinator.py and transaction_coordinator.py; it drives shard_runner.py. It also has the
one clock of all shards, which postpones deadlines by the time in which this process stood still (rule A5).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Generic

from ottla.broker.coordinators.shard_runner import Decide, RunnerPhase, S, ShardRunner
from ottla.broker.replicas.partition import Partition
from ottla.broker.replicas.surroundings import Surroundings
from ottla.broker.waiting import Deadline, next_turn
from ottla.kernel.errors import ErrorCode
from ottla.kernel.shards import partition_for
from ottla.kernel.story import Slot

PROBE_MS = 500
"""The longest pause between two checks for a process that stood still."""
LATE_MS = 50
"""A timer that is later than this shows that the process could not read all sockets in time."""


class Coordinator(ABC, Generic[S]):
    """Every shard of one topic on this broker. `partitions` says how many the topic has, 0 while there is none."""

    def __init__(self, around: Surroundings, partitions: Callable[[], int]) -> None:
        self._around = around
        self._partitions = partitions
        self._runners: dict[int, ShardRunner[S]] = {}
        self._not_before_ms: dict[int, int] = {}
        """By partition, the time until which a former leader may answer; we must not contradict it (rule A12)."""
        self._timer: Deadline | None = None
        self._ticking = False
        self._laid_down = False
        self.answers_from_ms: Callable[[], int] = _at_once
        """The time until which a former coordinator may answer; we must not contradict it before then (rule A12)."""

    @abstractmethod
    def _run(self, partition: Partition, answers_from_ms: Callable[[], int]) -> ShardRunner[S]:
        """Make a runner with a new shard."""

    def _ended(self, runner: ShardRunner[S]) -> None:
        """Note that a runner's leadership is over."""

    # Roles

    def lead(self, partition: Partition, *, not_before_ms: int = 0) -> None:
        """This broker leads a partition of the topic in a new epoch: load its shard anew."""
        index = partition.index
        self.resign(index)
        self._not_before_ms[index] = max(not_before_ms, self._not_before_ms.get(index, 0))
        if self._laid_down:
            return
        self._runners[index] = self._run(partition, lambda: max(self.answers_from_ms(), self._not_before_ms[index]))

    def resign(self, index: int) -> None:
        """This broker no longer leads the partition."""
        runner = self._runners.pop(index, None)
        if runner is not None:
            runner.end()
            self._ended(runner)

    def lay_down(self) -> None:
        """Stop coordinating until it is known which partitions this broker still leads."""
        self._laid_down = True
        self.close()

    def take_up(self, led: Iterable[Partition]) -> None:
        """Coordinate again for the partitions that are led here."""
        self._laid_down = False
        for partition in led:
            self.resume(partition)

    def resume(self, partition: Partition) -> None:
        """Coordinate again for a partition that this broker still leads, if only that one was laid down."""
        if not self._laid_down and partition.index not in self._runners:
            self.lead(partition)

    def close(self) -> None:
        for index in list(self._runners):
            self.resign(index)

    # Asking

    def partition_for(self, name: str) -> int | None:
        """The partition of the topic that a group or transactional id lives in; None while there is no such topic."""
        partitions = self._partitions()
        return partition_for(name, partitions) if partitions else None

    def runner_of(self, name: str) -> ShardRunner[S] | None:
        """The runner of the shard of a group or transactional id, if this broker leads it."""
        index = self.partition_for(name)
        return None if index is None else self._runners.get(index)

    def runner_at(self, index: int) -> ShardRunner[S] | None:
        """The runner of a partition of the topic, if this broker leads it."""
        return self._runners.get(index)

    def ask(self, name: str, decide: Decide[S]) -> Slot[Any]:
        """Ask a shard; the slot holds its answer, or an ErrorCode that refuses the whole request."""
        runner = self.runner_of(name)
        if runner is None:
            slot: Slot[Any] = Slot()
            slot.fill(ErrorCode.NOT_COORDINATOR)
            return slot
        return runner.ask(decide)

    async def ask_all(self, decide: Decide[S]) -> list[Any]:
        """The answers of all shards here, in the order of their partitions; each is asked in a turn of its own."""
        asked: list[Slot[Any]] = []
        for index in sorted(self._runners):
            if asked:
                await next_turn(self._around.clock)
            runner = self._runners.get(index)
            if runner is not None:
                asked.append(runner.ask(decide))
        return [await slot for slot in asked]

    @property
    def loading(self) -> bool:
        """True while some shard does not serve yet."""
        return any(runner.phase is RunnerPhase.LOADING for runner in self._runners.values())

    def runners(self) -> list[ShardRunner[S]]:
        """The runners of all partitions that this broker leads."""
        return list(self._runners.values())

    def shards(self) -> list[S]:
        """The shards that serve, for metrics: to be read only."""
        return [runner.shard for runner in self._runners.values() if runner.phase is RunnerPhase.SERVING]

    # Time

    def _wake_at(self, at_ms: int) -> None:
        """Set the timer to `at_ms` at the latest, and to PROBE_MS from now at the latest."""
        if self._ticking or (self._timer is not None and self._timer.at_ms <= at_ms):
            return
        at_ms = min(at_ms, self._around.clock.mono_ms() + PROBE_MS)
        if self._timer is not None:
            if self._timer.at_ms <= at_ms:
                return
            self._timer.cancel()
        self._timer = self._around.deadlines.at(at_ms, self._ring)

    def _ring(self) -> None:
        """Drain the sockets in a turn of the loop before any member expires.

        Without a valid lease requests of members are refused, so deadlines are postponed by that time as well.
        """
        assert self._timer is not None
        late_ms = self._around.clock.mono_ms() - self._timer.at_ms
        if not self._around.may_lead():
            late_ms += PROBE_MS
        self._timer = None
        if late_ms > LATE_MS:
            for runner in self._runners.values():
                runner.shard.postpone(late_ms)
        if not self._ticking:
            self._ticking = True
            self._around.clock.call_soon(lambda: self._around.clock.call_soon(self._tick))

    def _tick(self) -> None:
        done = True
        for runner in list(self._runners.values()):
            done &= runner.tick()
        if done:
            self._ticking = False
            wanted = [at for runner in self._runners.values() if (at := runner.shard.next_deadline_ms) is not None]
            if wanted:
                self._wake_at(min(wanted))
        else:
            self._around.clock.call_soon(self._tick)


def _at_once() -> int:
    return 0
