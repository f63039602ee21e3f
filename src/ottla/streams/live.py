"""The tasks of a running instance as queries see them: between two batches, so that nothing uncommitted is seen.

Shared by the thread that processes, which holds `lock` while it does, and by those that ask.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from ottla.client import TopicPartition
from ottla.metrics.metric import Sample
from ottla.streams.counts import Counts, TaskId, samples
from ottla.streams.engine.task import Results, Task
from ottla.streams.graph import Topology, global_stores
from ottla.streams.layout import TaskLayout
from ottla.streams.queries import Age, Answer, Query, answer, checked
from ottla.streams.stores import Store

Ends = Callable[[list[TopicPartition]], Mapping[TopicPartition, int]]
"""The offsets at which partitions end now."""


class Restoring(RuntimeError):
    """The instance has no tasks now: it joins its group, or restores its state."""


class Live:
    """Tasks with the input that they have processed, and counts of what was left out."""

    def __init__(self, topology: Topology, plan: TaskLayout) -> None:
        self.lock = threading.RLock()
        self._topology, self._plan = topology, plan
        self._tasks: dict[tuple[int, int], Task] = {}
        self._positions: dict[TopicPartition, int] = {}
        self._committed_ms = 0
        self._counts = Counts()

    def begin(self, tasks: Mapping[tuple[int, int], Task], positions: Mapping[TopicPartition, int]) -> None:
        """Tasks were restored, up to these positions."""
        with self.lock:
            self._tasks, self._positions = dict(tasks), dict(positions)

    def plan_for(self, plan: TaskLayout) -> None:
        """Other topics match the topology's patterns since; there are no tasks yet."""
        with self.lock:
            self._plan = plan

    def end(self) -> None:
        """The tasks are no more, or hold what was not committed."""
        with self.lock:
            self._tasks, self._positions = {}, {}

    def reached(self, positions: Mapping[TopicPartition, int]) -> None:
        """All that was read below these positions is processed and committed."""
        self._positions = dict(positions)

    def committed(self, consumed: Mapping[tuple[TaskId, str], int], made: Mapping[TaskId, Results]) -> int:
        """A batch was committed now; the number of failures so far."""
        self._committed_ms = int(time.time() * 1000)
        self._counts.committed(consumed, made)
        return self._counts.failed.total()

    def status(self, ends: Ends) -> dict[str, Any]:
        """The instance in numbers."""
        with self.lock:
            tasks, positions = self._tasks, dict(self._positions)
            shown = {
                "application": self._plan.application_id,
                "state": "running" if tasks else "restoring",
                "tasks": [f"{part}_{partition}" for part, partition in sorted(tasks)],
                "committed_ms": self._committed_ms or None,
                "stores": self._all_rows(),
                "dropped": dict(self._counts.by_node),
                "failed": {f"{node} {stage}": count for (node, stage), count in self._counts.failed.items()},
            }
        return {**shown, "lag": sum(_lags(positions, ends).values())}

    def metrics(self, ends: Ends) -> list[Sample]:
        """The instance in metrics for Prometheus."""
        with self.lock:
            counts, tasks = copy.deepcopy(self._counts), len(self._tasks)
            rows, positions = self._all_rows(), dict(self._positions)
        return list(samples(counts, tasks, rows, _lags(positions, ends)))

    def ask(self, name: str, query: Callable[[Store], Query], ends: Ends) -> Answer:
        """The answer of this instance's partitions; Restoring while it has none."""
        wanted = query(checked(self._topology, name))
        with self.lock:
            mine = self._partitions(name)
            if not mine:
                why = f"holds no partition of the store {name}" if self._tasks else "is joining its group or restoring"
                raise Restoring(f"this instance {why}: ask another one, or ask again")
            positions = dict(self._positions)
            of = 1 if name in global_stores(self._topology.nodes) else self._plan.changelogs[name]
            found = answer(name, mine, wanted, of, Age(0, int(time.time() * 1000)))
        age = Age(sum(_lags(positions, ends).values()), int(time.time() * 1000))
        return Answer(found.store, found.rows, found.more, found.partitions, found.of, age)

    def _partitions(self, name: str) -> list[tuple[int, Store]]:
        """The store of each partition; a global one is the same in all tasks."""
        mine = [(at, task.stores[name]) for (_, at), task in sorted(self._tasks.items()) if name in task.stores]
        return mine[:1] if name in global_stores(self._topology.nodes) else mine

    def _all_rows(self) -> dict[str, int]:
        names = sorted(self._topology.stores)
        return {name: sum(len(store) for _, store in self._partitions(name)) for name in names}


def _lags(positions: Mapping[TopicPartition, int], ends: Ends) -> dict[TopicPartition, int]:
    now = ends(sorted(positions)) if positions else {}
    return {partition: max(0, now[partition] - position) for partition, position in positions.items()}
