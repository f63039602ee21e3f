"""A distributed worker: follows the group's topics, answers calls from them, and runs its share of the work.

Any worker writes, by compare-and-set; the member of the group that leads only assigns.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

from ottla.client.admin.groups import delete_groups, delete_offsets
from ottla.client.aio.cluster import Cluster
from ottla.client.consume.offsets import commit_offsets, committed_offsets
from ottla.client.errors import ClientError
from ottla.client.model import CommittedOffset
from ottla.connect.errors import ConfigException
from ottla.connect.group import Member
from ottla.connect.machine.assignment import OWNER, Unit, units_of
from ottla.connect.machine.connector_options import WorkerView
from ottla.connect.machine.decide import Decision, set_tasks, task_configs
from ottla.connect.machine.offsets import Change, require_stopped, sink_changes, sink_offset
from ottla.connect.machine.records import (
    ConfigsRecord,
    ConnectorStatus,
    LoggerLevel,
    RestartWish,
    Status,
    StatusRecord,
    Target,
    TaskRestartWish,
    TaskStatus,
    TopicInUse,
    configs_pair,
    status_pair,
)
from ottla.connect.machine.refusals import Refused
from ottla.connect.machine.state import Config, Configs, Connector, Statuses
from ottla.connect.machine.validation import plugin_of, validated
from ottla.connect.plugin import KAFKA_VERSION
from ottla.connect.plugins.base import SourceConnector
from ottla.connect.running import RunningTasks
from ottla.connect.topics import TopicOffsets, configs_topic, status_topic
from ottla.jobs.states import State
from ottla.jobs.states import Status as JobStatus
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition

T = TypeVar("T")
_PAUSE_S: Final = 1.0
_STOP_S: Final = 10.0
_SHOWN: Final = {Target.STARTED: "RUNNING", Target.PAUSED: "PAUSED", Target.STOPPED: "STOPPED"}
_log = logging.getLogger("ottla.connect")


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """The properties of a distributed worker, by Kafka's names and defaults."""

    bootstrap: str
    group_id: str = "connect-cluster"
    config_topic: str = "connect-configs"
    status_topic: str = "connect-status"
    status_partitions: int = 5
    offset_topic: str = "connect-offsets"
    offset_partitions: int = 25
    replication_factor: int = -1
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 3_000
    tracks_topics: bool = True
    resets_topics: bool = True
    properties: Mapping[str, str] = field(default_factory=dict)
    """All of them, for the tasks: converters, client options."""


class Worker:
    """An async context manager. `worker_id` is where its REST interface listens, as HOST:PORT."""

    makes_tasks_at_once = False

    def __init__(self, settings: WorkerSettings, worker_id: str) -> None:
        self.settings, self.worker_id = settings, worker_id
        self.configs, self.statuses = Configs(), Statuses()
        self.cluster_id = ""
        self.tracks_topics, self.resets_topics = settings.tracks_topics, settings.resets_topics
        given = settings.properties
        self.view = WorkerView(
            converters={
                kind: given[f"{kind}.converter"] for kind in ("key", "value", "header") if f"{kind}.converter" in given
            }
        )
        self.set_level: Callable[[str, str], object] = lambda name, level: None
        """Gives a logger a level, where somebody wishes it for all workers."""
        self._clusters = [Cluster(settings.bootstrap) for _ in range(3 + settings.status_partitions)]
        main, following, grouped = self._clusters[:3]
        factor = settings.replication_factor
        self._configs_topic = configs_topic(main, settings.config_topic, factor, self._apply_config)
        self._status_topic = status_topic(
            main, settings.status_topic, settings.status_partitions, factor, self._apply_status
        )
        self._offsets = TopicOffsets(main, settings.offset_topic, settings.offset_partitions, factor)
        self._main, self._following = main, following
        self._member = Member(
            grouped,
            settings.group_id,
            wanted=self._all_units,
            take=self._take,
            session_timeout_ms=settings.session_timeout_ms,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
        )
        converters = {f"{kind}.converter": self.view.converter(kind) for kind in ("key", "value", "header")}
        properties = {"bootstrap.servers": settings.bootstrap, **converters, **given}
        self._tasks = RunningTasks(self._offsets, properties, self._report_task, self._report_topics)
        self._writing, self._agreeing = asyncio.Lock(), asyncio.Lock()
        self._stirred = asyncio.Event()
        self._outbox: asyncio.Queue[StatusRecord] = asyncio.Queue()
        self._made_from: dict[str, Config] = {}
        """The configuration of each connector that this worker owns, as its tasks were made of it."""
        self._background: list[asyncio.Task[Any]] = []

    async def __aenter__(self) -> Worker:
        try:
            await self._configs_topic.open()
            self.configs.wishes.clear()  # they were for the workers of then
            await self._status_topic.open()
            await self._offsets.topic.open()
            self.cluster_id = self._main.plan.metadata.cluster_id or ""
        except BaseException:
            await self._close_clusters()
            raise
        followers = [(self._configs_topic, self._following)]
        followers += list(zip(self._status_topic.parts, self._clusters[3:], strict=True))
        stories = [_again("following a topic", partial(topic.follow, cluster)) for topic, cluster in followers]
        stories += [
            _again("agreeing with the topics", self._agree_for_ever),
            _again("reporting states", self._report_for_ever),
            _again("the membership of the group", self._member.run),
        ]
        self._background = [asyncio.create_task(story) for story in stories]
        return self

    async def __aexit__(self, *_: object) -> None:
        """End all tasks, say so, leave the group."""
        *others, reporting, member = self._background
        for task in (*others, member):
            task.cancel()
        await asyncio.gather(*others, member, return_exceptions=True)
        await self._tasks.agree(self.configs, set())
        with contextlib.suppress(ApiError, ClientError):  # the group notices by the session timeout
            await self._member.leave()
        with contextlib.suppress(TimeoutError):  # without brokers the states stay as they were
            await asyncio.wait_for(self._outbox.join(), _STOP_S)
        reporting.cancel()
        await asyncio.gather(reporting, return_exceptions=True)
        await self._close_clusters()

    async def _close_clusters(self) -> None:
        for cluster in self._clusters:
            await cluster.close()

    # The REST interface's side.

    async def fresh(self) -> None:
        """Read the configs topic to its end."""
        await self._configs_topic.catch_up()

    async def write(self, decide: Callable[[], Decision[T]]) -> T:
        """Decide at the end of the configs topic and append; decide again where others were faster."""

        def decided() -> tuple[T, list[tuple[bytes, bytes | None]]]:
            decision = decide()
            return decision.answer, [configs_pair(record) for record in decision.records]

        async with self._writing:
            return await self._configs_topic.write(decided)

    async def forget_topics(self, name: str) -> None:
        """Count no topic as used by a connector."""
        for topic in self.statuses.topics(name):
            self._report(TopicInUse(name, topic, discovered_ms=None))

    async def offsets(self, connector: Connector) -> list[Any]:
        """The offsets of a connector, as REST shows them."""
        if plugin_of(connector.config).kind == "source":
            kept = await self._offsets.all(connector.name)
            return [{"partition": dict(partition), "offset": dict(offset)} for partition, offset in kept]
        found = await self._main.run(committed_offsets(self._main.plan, _group_of(connector)))
        return [sink_offset(place, committed.offset) for place, committed in sorted(found.items())]

    async def alter_offsets(self, connector: Connector, changes: Sequence[Change] | None) -> None:
        """Set some offsets of a stopped connector, or with None remove all."""
        require_stopped(connector)
        plugin = plugin_of(connector.config)
        if not issubclass(plugin, SourceConnector):
            try:
                plugin.check_offsets(connector.config)
            except ConfigException as fault:
                raise Refused(400, str(fault)) from fault
            await self._alter_group(connector, None if changes is None else sink_changes(changes))
            return
        if changes is None:
            changes = [(partition, None) for partition, _ in await self._offsets.all(connector.name)]
        try:
            plugin.check_offsets(connector.config, changes)
        except ConfigException as fault:
            raise Refused(500, str(fault)) from fault
        await self._offsets.write(connector.name, changes)

    async def _alter_group(self, connector: Connector, changes: Mapping[TopicPartition, int | None] | None) -> None:
        plan, group = self._main.plan, _group_of(connector)
        if changes is None:
            outcome = (await self._main.run(delete_groups(plan, [group])))[group]
            faults = [outcome] if outcome is not None and outcome.code is not ErrorCode.GROUP_ID_NOT_FOUND else []
        else:
            new = {place: CommittedOffset(offset) for place, offset in changes.items() if offset is not None}
            gone = [place for place, offset in changes.items() if offset is None]
            outcomes = await self._main.run(commit_offsets(plan, group, new)) if new else {}
            outcomes |= await self._main.run(delete_offsets(plan, group, gone)) if gone else {}
            faults = [fault for fault in outcomes.values() if fault is not None]
        if faults:
            _log.warning("%s: its offsets cannot be set: %s", connector.name, faults[0])
            raise Refused(500, f"Failed to alter consumer group offsets for connector {connector.name}")

    # Records of the topics.

    def _apply_config(self, record: ConfigsRecord) -> None:
        self.configs.apply(record)
        self._stirred.set()

    def _apply_status(self, record: StatusRecord) -> None:
        self.statuses.apply(record)
        name = record.name
        if self.configs.get(name) is None:
            self._stirred.set()

    async def _all_units(self) -> list[Unit]:
        await self.fresh()
        return units_of(self.configs)

    async def _take(self, units: set[Unit]) -> None:
        """Run this share of the work; what is no longer in it has ended when this returns."""
        for name in list(self._made_from):
            if Unit(name, OWNER) not in units:
                del self._made_from[name]
        async with self._agreeing:
            await self._tasks.agree(self.configs, units)
        self._stirred.set()

    async def _agree_for_ever(self) -> None:
        self._stirred.set()  # a fault may have cut the last look short
        while True:
            await self._stirred.wait()
            self._stirred.clear()
            await self._grant_wishes()
            for name in [unit.topic for unit in sorted(self._member.held) if unit.partition == OWNER]:
                await self._own(name)
            async with self._agreeing:
                await self._tasks.agree(self.configs, self._member.held)
            if self._member.leads:
                self._clear_statuses()
                if set(units_of(self.configs)) != set(self._member.shared_out):
                    self._member.rejoin()

    async def _grant_wishes(self) -> None:
        while self.configs.wishes:
            wish = self.configs.wishes.pop(0)
            match wish:
                case LoggerLevel(namespace, level):
                    self.set_level(namespace, level)
                case TaskRestartWish(name, task):
                    self._tasks.restart(name, task)
                case RestartWish(name, include_tasks, only_failed):
                    self._made_from.pop(name, None)
                    if include_tasks:
                        self._tasks.restart(name, only_failed=only_failed)

    async def _own(self, name: str) -> None:
        """Make the set of a connector's tasks where its configuration is new, and report its state."""
        found = self.configs.get(name)
        if found is None:
            return
        state, trace = _SHOWN[found.target], None
        if found.target is Target.STARTED and (
            self._made_from.get(name) != found.config or not found.complete or not found.tasks
        ):
            config = found.config
            if self._made_from.get(name) != config:
                for sentence in validated(config, self.view).unknown:
                    _log.warning("%s: %s", name, sentence)
            try:
                tasks = task_configs(plugin_of(config), config)
            except Exception as fault:  # a plugin may raise anything
                state, trace = "FAILED", "".join(traceback.format_exception(fault))
            else:
                await self.write(lambda: set_tasks(self.configs, name, config, tasks))
            self._made_from[name] = config
        elif found.target is Target.STARTED and name in self.statuses.connectors:
            state, trace = self.statuses.connectors[name].state, self.statuses.connectors[name].trace
            state, trace = (state, trace) if state == "FAILED" else ("RUNNING", None)
        known = self.statuses.connectors.get(name)
        if known is None or (known.state, known.trace, known.worker_id) != (state, trace, self.worker_id):
            self._report(ConnectorStatus(name, self._status(state, trace)))

    def _clear_statuses(self) -> None:
        """Remove the states of connectors and tasks that are no more."""
        for name in list(self.statuses.connectors):
            if self.configs.get(name) is None:
                self._report(ConnectorStatus(name, None))
        for name, number in self.statuses.all_tasks():
            found = self.configs.get(name)
            if found is None or number >= len(found.tasks):
                self._report(TaskStatus(name, number, None))
        for name, topic in self.statuses.all_topics():
            if self.configs.get(name) is None:
                self._report(TopicInUse(name, topic, discovered_ms=None))

    def _report_topics(self, name: str, number: int, topics: Iterable[str]) -> None:
        """Report topics that no task of the connector was seen to use before."""
        if not self.tracks_topics or self.configs.get(name) is None:
            return
        for topic in topics:
            if not self.statuses.uses(name, topic):
                self._report(TopicInUse(name, topic, number, int(time.time() * 1000)))

    def _report_task(self, name: str, number: int, status: JobStatus) -> None:
        if self.configs.get(name) is None:
            return
        state = "UNASSIGNED" if status.state is State.STOPPED else status.state.connect_name
        trace = None if status.fault is None else status.fault.trace or status.fault.reason
        self._report(TaskStatus(name, number, self._status(state, trace)))

    def _status(self, state: str, trace: str | None) -> Status:
        return Status(state, self.worker_id, self._member.generation, trace, KAFKA_VERSION)

    def _report(self, record: StatusRecord) -> None:
        self.statuses.apply(record)
        self._outbox.put_nowait(record)

    async def _report_for_ever(self) -> None:
        while True:
            record = await self._outbox.get()
            await _until_done(partial(self._status_topic.put, [status_pair(record)]))
            self._outbox.task_done()


def _group_of(connector: Connector) -> str:
    return connector.config.get("consumer.override.group.id", f"connect-{connector.name}")


async def _until_done(write: Callable[[], Any]) -> None:
    """Write until the brokers take it: a state must not be lost, nor overtaken by a later one."""
    while True:
        try:
            await write()
            return
        except (ApiError, ClientError) as fault:
            _log.warning("a state cannot be written, and is written again: %s", fault)
            await asyncio.sleep(_PAUSE_S)


async def _again(what: str, story: Callable[[], Any]) -> None:
    """Run a story that has no end, anew after each fault."""
    while True:
        try:
            await story()
        except Exception as fault:
            _log.warning("%s failed, and begins again: %s", what, fault or type(fault).__name__)
            await asyncio.sleep(_PAUSE_S)
