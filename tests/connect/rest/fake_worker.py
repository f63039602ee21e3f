"""A worker without topics and tasks: what it decides counts at once, and its tasks run or fail as it is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ottla.connect.errors import ConfigException
from ottla.connect.machine.connector_options import WorkerView
from ottla.connect.machine.decide import ConnectDecision, set_tasks, task_configs
from ottla.connect.machine.offsets import Change, require_stopped, sink_changes, sink_offset
from ottla.connect.machine.records import ConnectorStatus, Status, Target, TaskStatus, TopicInUse
from ottla.connect.machine.refusals import CallRefused
from ottla.connect.machine.state import Configs, ConnectorState, Statuses
from ottla.connect.machine.validation import plugin_of
from ottla.connect.plugins.base import SourceConnector
from ottla.connect.tasks.offsets import SourceOffsets
from ottla.kernel.ids import TopicPartition

T = TypeVar("T")
WORKER = "<worker>"


class FakeWorker:
    """The service behind the REST interface."""

    def __init__(
        self,
        *,
        tracks_topics: bool = True,
        resets_topics: bool = True,
        exactly_once: bool = False,
        is_alone: bool = False,
        beside: FakeWorker | None = None,
    ) -> None:
        """`beside`: another worker of the same group."""
        self.view = WorkerView(exactly_once=exactly_once)
        self.configs = Configs() if beside is None else beside.configs
        self.statuses = Statuses() if beside is None else beside.statuses
        self.cluster_id = "<cluster>"
        self.makes_tasks_at_once = is_alone
        self.tracks_topics = tracks_topics
        self.resets_topics = resets_topics
        self.source_offsets = SourceOffsets() if beside is None else beside.source_offsets
        self.sink_offsets: dict[str, dict[TopicPartition, int]] = {}
        self.topics = {"lines": 1}
        """Topics that exist, with the number of their partitions."""
        self.faults: dict[str, str] = {}
        """Traces of the tasks that fail, by the file of their connector."""

    def metrics(self):
        return []

    async def fresh(self) -> None:
        pass

    async def write(self, decide: Callable[[], ConnectDecision[T]]) -> T:
        decision = decide()
        for record in decision.records:
            self.configs.apply(record)
        self._settle()
        return decision.answer

    async def forget_topics(self, name: str) -> None:
        for topic in self.statuses.topics(name):
            self.statuses.apply(TopicInUse(name, topic, discovered_ms=None))
        self._settle()

    async def offsets(self, connector: ConnectorState) -> list[Any]:
        if plugin_of(connector.config).kind == "sink":
            return [sink_offset(*each) for each in self.sink_offsets.get(connector.name, {}).items()]
        kept = self.source_offsets.all(connector.name)
        return [{"partition": dict(partition), "offset": dict(offset)} for partition, offset in kept]

    async def alter_offsets(self, connector: ConnectorState, changes: Sequence[Change] | None) -> None:
        require_stopped(connector)
        plugin = plugin_of(connector.config)
        if plugin.kind == "sink":
            self._alter_group(connector.name, changes)
            return
        assert issubclass(plugin, SourceConnector)
        if changes is None:
            changes = [(partition, None) for partition, _ in self.source_offsets.all(connector.name)]
        try:
            plugin.check_offsets(connector.config, changes)
        except ConfigException as fault:
            raise CallRefused(500, str(fault)) from fault
        for partition, offset in changes:
            key, value = self.source_offsets.record(connector.name, partition, offset)
            self.source_offsets.apply(key, value)

    def _alter_group(self, name: str, changes: Sequence[Change] | None) -> None:
        if changes is None:
            self.sink_offsets.pop(name, None)
            return
        for place, offset in sink_changes(changes).items():
            if not 0 <= place.partition < self.topics.get(place.topic, 0):
                raise CallRefused(500, f"Failed to alter consumer group offsets for connector {name}")
            group = self.sink_offsets.setdefault(name, {})
            if offset is None:
                group.pop(place, None)
            else:
                group[place] = offset

    def _settle(self) -> None:
        """Do what owners and tasks would do by and by."""
        for name in list(self.statuses.connectors):
            if self.configs.get(name) is None:
                self.statuses.apply(ConnectorStatus(name, None))
                self._drop_tasks(name, 0)
        for name in self.configs.names:
            self._settle_one(name)

    def _settle_one(self, name: str) -> None:
        found = self.configs.get(name)
        assert found is not None
        if found.target is Target.STARTED:
            tasks = task_configs(plugin_of(found.config), found.config)
            for record in set_tasks(self.configs, name, found.config, tasks).records:
                self.configs.apply(record)
            found = self.configs.get(name)
            assert found is not None
        shown = "RUNNING" if found.target is Target.STARTED else found.target.value
        self.statuses.apply(ConnectorStatus(name, _status(shown)))
        file = found.config.get("file", "")
        for number in range(len(found.tasks)):
            failed = self.faults.get(file)
            status = _status(shown) if failed is None else _status("FAILED", failed)
            self.statuses.apply(TaskStatus(name, number, status))
        self._drop_tasks(name, len(found.tasks))
        if self.tracks_topics and found.tasks and shown == "RUNNING" and not file.endswith("/none"):
            self.statuses.apply(TopicInUse(name, "lines"))

    def _drop_tasks(self, name: str, remaining: int) -> None:
        for number in self.statuses.tasks(name):
            if number >= remaining:
                self.statuses.apply(TaskStatus(name, number, None))


def _status(state: str, trace: str | None = None) -> Status:
    return Status(state, WORKER, 1, trace, "4.3.1")
