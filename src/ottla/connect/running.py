"""The tasks that one worker runs: begun, paused, restarted and ended as the tables say."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass

from ottla.connect.machine.assignment import OWNER, Unit
from ottla.connect.machine.records import Target
from ottla.connect.machine.state import Config, Configs, ConnectorState
from ottla.connect.machine.validation import plugin_of
from ottla.connect.tasks.counts import Measured
from ottla.connect.tasks.plan import TaskPlan
from ottla.jobs.running_async import RunningAsync
from ottla.jobs.states import Event, JobState, JobStatus

OnState = Callable[[str, int, JobStatus], None]
OnTopics = Callable[[str, int, Iterable[str]], None]
MakeTask = Callable[[TaskPlan, Callable[[JobStatus], None], Callable[[Iterable[str]], None]], RunningAsync]
"""Makes a task that is not begun, with those who are told its states and its topics."""


@dataclass(slots=True)
class _Task:
    running: RunningAsync
    configs: tuple[Config, Config]
    """Those of the connector and of the task, as it was begun."""
    target: Target
    job: asyncio.Task[int]
    plan: TaskPlan

    async def end(self) -> None:
        if not self.job.done():
            self.running.ask(Event.STOP)
        await asyncio.wait((self.job,))

    def restart(self) -> None:
        if self.job.done():
            self.job = asyncio.create_task(self.running.run(Event.RESTART))
        else:
            self.running.ask(Event.RESTART)


class RunningTasks:
    """All tasks of one worker."""

    def __init__(self, make: MakeTask, properties: Mapping[str, str], on_state: OnState, on_topics: OnTopics) -> None:
        self._make, self._properties = make, properties
        self._on_state, self._on_topics = on_state, on_topics
        self._tasks: dict[Unit, _Task] = {}

    async def agree(self, configs: Configs, units: set[Unit]) -> None:
        """Run the tasks among these units that the configs topic has, and no others."""
        wanted = {unit: found for unit in units if (found := _task_of(configs, unit)) is not None}
        ending: list[Awaitable[None]] = []
        for unit, task in list(self._tasks.items()):
            if unit not in wanted or (wanted[unit].config, wanted[unit].tasks[unit.partition]) != task.configs:
                ending.append(self._tasks.pop(unit).end())
        await asyncio.gather(*ending)
        for unit, connector in wanted.items():
            if unit not in self._tasks:
                self._tasks[unit] = self._begin(connector, unit.partition)
            elif self._tasks[unit].target is not connector.target:
                self._aim(self._tasks[unit], connector.target)

    def measured(self) -> list[Measured]:
        """All tasks with their counts and states."""
        return [
            Measured(unit.topic, unit.partition, each.plan.plugin.kind, each.plan.counts, each.running.status)
            for unit, each in sorted(self._tasks.items())
        ]

    async def ended(self) -> None:
        """Wait until all tasks have ended."""
        if self._tasks:
            await asyncio.wait([each.job for each in self._tasks.values()])

    def restart(self, name: str, task: int | None = None, *, only_failed: bool = False) -> None:
        """Restart the tasks of a connector that run here, or one of them."""
        for unit, each in self._tasks.items():
            if unit.topic != name or task not in (None, unit.partition):
                continue
            if not only_failed or each.running.status.state is JobState.FAILED:
                each.restart()

    def _begin(self, connector: ConnectorState, number: int) -> _Task:
        name, config, own = connector.name, connector.config, connector.tasks[number]
        plan = TaskPlan(name, number, plugin_of(config), config, own, self._properties)
        running = self._make(
            plan,
            lambda status: self._on_state(name, number, status),
            lambda topics: self._on_topics(name, number, topics),
        )
        first = Event.PAUSE if connector.target is Target.PAUSED else Event.RESUME
        return _Task(running, (config, own), connector.target, asyncio.create_task(running.run(first)), plan)

    def _aim(self, task: _Task, target: Target) -> None:
        task.target = target
        if not task.job.done():
            task.running.ask(Event.PAUSE if target is Target.PAUSED else Event.RESUME)


def _task_of(configs: Configs, unit: Unit) -> ConnectorState | None:
    """The connector of a task that there is."""
    found = configs.get(unit.topic)
    if found is None or unit.partition == OWNER or unit.partition >= len(found.tasks):
        return None
    return found
