"""The base of the group and transaction coordinators: a runner for each partition of their topic that we lead.

Handlers come here through group_coordinator.py and transaction_coordinator.py; next door is shard_runner.py. Here too
is the one clock of all shards, which forgives members what they could not help: time in which this process stood still
(rule A5).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Generic

from ottla.broker.coordinators.shard_runner import Decide, Phase, S, ShardRunner
from ottla.broker.replicas.partition import Partition, Surroundings
from ottla.broker.requests.waiting import Deadline
from ottla.kernel.errors import ErrorCode
from ottla.kernel.shards import partition_for
from ottla.kernel.story import Slot

PROBE_MS = 500
"""The longest pause between two looks at whether time passes as it should."""
LATE_MS = 50
"""A ring later than this says that the process could not hear everybody."""


class Coordinator(ABC, Generic[S]):
    """Every shard of one topic on this broker. `partitions` says how many the topic has, 0 while there is none."""

    def __init__(self, around: Surroundings, partitions: Callable[[], int]) -> None:
        self._around = around
        self._partitions = partitions
        self._runners: dict[int, ShardRunner[S]] = {}
        self._not_before_ms: dict[int, int] = {}
        """By partition, where a leader before us may answer until then, which must not be contradicted (rule A12)."""
        self._timer: Deadline | None = None
        self._ticking = False
        self._laid_down = False
        self.answers_from_ms: Callable[[], int] = _at_once
        """Until when a coordinator before us may answer, which must not be contradicted (rule A12)."""

    @abstractmethod
    def _run(self, partition: Partition, answers_from_ms: Callable[[], int]) -> ShardRunner[S]:
        """A runner with a new shard."""

    def _ended(self, runner: ShardRunner[S]) -> None:
        """A runner's leadership is over."""

    # Roles

    def lead(self, partition: Partition, *, not_before_ms: int = 0) -> None:
        """This broker leads a partition of the topic in a new epoch: load it afresh."""
        index = partition.index
        self.resign(index)
        self._not_before_ms[index] = max(not_before_ms, self._not_before_ms.get(index, 0))
        if self._laid_down:
            return
        self._runners[index] = self._run(partition, lambda: max(self.answers_from_ms(), self._not_before_ms[index]))

    def resign(self, index: int) -> None:
        """This broker leads the partition no more."""
        runner = self._runners.pop(index, None)
        if runner is not None:
            runner.end()
            self._ended(runner)

    def lay_down(self) -> None:
        """Coordinate nothing, whatever is led here, until it is known what is."""
        self._laid_down = True
        self.close()

    def take_up(self, led: Iterable[Partition]) -> None:
        """Coordinate again for the partitions that are led here."""
        self._laid_down = False
        for partition in led:
            self.resume(partition)

    def resume(self, partition: Partition) -> None:
        """This broker leads the partition, and may have laid it down alone."""
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
        """The runner of the shard that a group or transactional id lives in, where it is led here."""
        index = self.partition_for(name)
        return None if index is None else self._runners.get(index)

    def runner_at(self, index: int) -> ShardRunner[S] | None:
        """The runner of a partition of the topic, where it is led here."""
        return self._runners.get(index)

    def ask(self, name: str, decide: Decide[S]) -> Slot[Any]:
        """The answer of a shard once it may leave, or an ErrorCode that refuses the whole request."""
        runner = self.runner_of(name)
        if runner is None:
            slot: Slot[Any] = Slot()
            slot.fill(ErrorCode.NOT_COORDINATOR)
            return slot
        return runner.ask(decide)

    def ask_all(self, decide: Decide[S]) -> list[Slot[Any]]:
        """The answers of all shards here, in the order of their partitions."""
        return [self._runners[index].ask(decide) for index in sorted(self._runners)]

    @property
    def loading(self) -> bool:
        """Whether some shard does not serve yet."""
        return any(runner.phase is Phase.LOADING for runner in self._runners.values())

    def runners(self) -> list[ShardRunner[S]]:
        """Those of every partition that is led here."""
        return list(self._runners.values())

    def shards(self) -> list[S]:
        """The shards that serve, for metrics: to be read only."""
        return [runner.shard for runner in self._runners.values() if runner.phase is Phase.SERVING]

    # Time

    def _wake_at(self, at_ms: int) -> None:
        """See that the timer rings by then, and now and then anyway."""
        if self._ticking or (self._timer is not None and self._timer.at_ms <= at_ms):
            return
        at_ms = min(at_ms, self._around.clock.mono_ms() + PROBE_MS)
        if self._timer is not None:
            if self._timer.at_ms <= at_ms:
                return
            self._timer.cancel()
        self._timer = self._around.deadlines.at(at_ms, self._ring)

    def _ring(self) -> None:
        """Before anybody is counted out, the sockets are drained: a turn of the loop goes by first.

        While the lease has run out nobody is heard, however often they come: that time is forgiven as well.
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
