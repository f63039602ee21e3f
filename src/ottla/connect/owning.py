"""The work of a connector's owner: it makes the set of its tasks, and reports the states of connectors and tasks.

A worker alone owns all connectors, a worker of a group those that it was given.
"""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from ottla.connect.machine.connector_options import WorkerView
from ottla.connect.machine.decide import ConnectDecision, set_tasks
from ottla.connect.machine.records import (
    ConnectorStatus,
    LoggerLevel,
    RestartWish,
    Status,
    StatusRecord,
    Target,
    TaskRestartWish,
    TaskStatus,
    TopicInUse,
)
from ottla.connect.machine.state import Config, Configs, ConnectorState, Statuses
from ottla.connect.machine.validation import plugin_of, validated
from ottla.connect.plugin import KAFKA_VERSION
from ottla.connect.running import RunningTasks
from ottla.connect.tasks.secrets import Secrets, tasks_of
from ottla.jobs.states import JobState, JobStatus

T = TypeVar("T")
_SHOWN: Final = {Target.STARTED: "RUNNING", Target.PAUSED: "PAUSED", Target.STOPPED: "STOPPED"}
_log = logging.getLogger("ottla.connect")


class Owned(Protocol):
    """The worker around its connectors."""

    worker_id: str
    view: WorkerView
    configs: Configs
    statuses: Statuses
    tracks_topics: bool

    async def write(self, decide: Callable[[], ConnectDecision[T]]) -> T:
        """Decide on the configs as they are now, and keep the records."""

    def report(self, record: StatusRecord) -> None:
        """Keep a state, and tell others of it."""

    @property
    def generation(self) -> int:
        """The generation of the group, 0 for a worker alone."""


@dataclass(slots=True)
class Owning:
    """The connectors that one worker owns."""

    worker: Owned
    secrets: Secrets
    set_level: Callable[[str, str], object] = lambda name, level: None
    """Gives a logger a level, where somebody wishes it for all workers."""
    _made_from: dict[str, Config] = field(default_factory=dict)
    """The configuration of each connector, as its tasks were made of it."""

    async def own(self, name: str) -> None:
        """Make the set of a connector's tasks where its configuration is new, and report its state."""
        found = self.worker.configs.get(name)
        if found is None:
            return
        known = self.worker.statuses.connectors.get(name)
        state, trace = _SHOWN[found.target], None
        is_new = self._made_from.get(name) != found.config
        if found.target is Target.STARTED and (is_new or not found.complete or not found.tasks):
            trace = await self._make_tasks(found, is_new=is_new)
            state = "RUNNING" if trace is None else "FAILED"
        elif found.target is Target.STARTED and known is not None and known.state == "FAILED":
            state, trace = known.state, known.trace
        if known is None or (known.state, known.trace, known.worker_id) != (state, trace, self.worker.worker_id):
            self.worker.report(ConnectorStatus(name, self._status(state, trace)))

    async def _make_tasks(self, found: ConnectorState, *, is_new: bool) -> str | None:
        """Make the tasks of a connector; the trace where it fails."""
        name, config = found.name, found.config
        if is_new:
            for sentence in validated(config, self.worker.view).unknown:
                _log.warning("%s: %s", name, sentence)
        try:
            tasks = tasks_of(plugin_of(config), config, self.secrets)
        except Exception as fault:  # a plugin may raise anything
            self._made_from[name] = config
            return self.secrets.hidden("".join(traceback.format_exception(fault)), config)
        await self.worker.write(lambda: set_tasks(self.worker.configs, name, config, tasks))
        self._made_from[name] = config
        return None

    def forget(self, keep: Callable[[str], bool]) -> None:
        """Let go of all connectors but some: whoever has one next makes its tasks anew."""
        for name in [each for each in self._made_from if not keep(each)]:
            del self._made_from[name]

    def grant_wishes(self, tasks: RunningTasks) -> None:
        """Do what calls wished of all workers."""
        wishes = self.worker.configs.wishes
        while wishes:
            match wishes.pop(0):
                case LoggerLevel(namespace, level):
                    self.set_level(namespace, level)
                case TaskRestartWish(name, task):
                    tasks.restart(name, task)
                case RestartWish(name, include_tasks, only_failed):
                    self._made_from.pop(name, None)
                    if include_tasks:
                        tasks.restart(name, only_failed=only_failed)

    def clear_statuses(self) -> None:
        """Remove the states of connectors and tasks that are no more."""
        configs, statuses = self.worker.configs, self.worker.statuses
        for name in list(statuses.connectors):
            if configs.get(name) is None:
                self.worker.report(ConnectorStatus(name, None))
        for name, number in statuses.all_tasks():
            found = configs.get(name)
            if found is None or number >= len(found.tasks):
                self.worker.report(TaskStatus(name, number, None))
        for name, topic in statuses.all_topics():
            if configs.get(name) is None:
                self.worker.report(TopicInUse(name, topic, discovered_ms=None))

    def task_changed(self, name: str, number: int, status: JobStatus) -> None:
        """Report the state of a task."""
        if self.worker.configs.get(name) is None:
            return
        state = "UNASSIGNED" if status.state is JobState.STOPPED else status.state.connect_name
        trace = None if status.fault is None else status.fault.trace or status.fault.reason
        self.worker.report(TaskStatus(name, number, self._status(state, trace, status.phase or None)))

    def topics_used(self, name: str, number: int, topics: Iterable[str]) -> None:
        """Report topics that no task of the connector was seen to use before."""
        if not self.worker.tracks_topics or self.worker.configs.get(name) is None:
            return
        for topic in topics:
            if not self.worker.statuses.uses(name, topic):
                self.worker.report(TopicInUse(name, topic, number, int(time.time() * 1000)))

    def _status(self, state: str, trace: str | None, phase: str | None = None) -> Status:
        return Status(state, self.worker.worker_id, self.worker.generation, trace, KAFKA_VERSION, phase)
