"""A distributed worker: follows the group's topics, answers calls from them, and runs its share of the work.

Any worker writes, by compare-and-set; the member of the group that leads only assigns.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

from ottla.client.aio.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.connect.connector_offsets import ConnectorOffsets
from ottla.connect.fencing import Fencing
from ottla.connect.group import WorkerMembership
from ottla.connect.machine.assignment import OWNER, Unit, units_of
from ottla.connect.machine.connector_options import CONVERTER_KINDS, view_of
from ottla.connect.machine.decide import ConnectDecision
from ottla.connect.machine.offsets import Change, require_stopped
from ottla.connect.machine.records import ConfigsRecord, StatusRecord, TopicInUse, configs_pair, status_pair
from ottla.connect.machine.state import Config, Configs, ConnectorState, Statuses
from ottla.connect.machine.validation import plugin_of
from ottla.connect.owning import Owning
from ottla.connect.plugins.known import kind_of
from ottla.connect.running import RunningTasks
from ottla.connect.tasks.clients import client_of, require_login
from ottla.connect.tasks.counts import samples
from ottla.connect.tasks.exactly_once import ExactlyOnce
from ottla.connect.tasks.plan import TaskPlan
from ottla.connect.tasks.secrets import Secrets
from ottla.connect.tasks.task import run_task
from ottla.connect.topics import LayeredOffsets, TopicOffsets, configs_topic, status_topic
from ottla.jobs.running_async import RunningAsync
from ottla.jobs.states import JobStatus
from ottla.kernel.errors import ApiError
from ottla.metrics.metric import Sample

T = TypeVar("T")
_PAUSE_S: Final = 1.0
_STOP_S: Final = 10.0
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
    exactly_once: bool = False
    """`exactly.once.source.support` is enabled: all source tasks write in transactions."""
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
        secrets = Secrets(settings.properties)
        self.view = view_of(settings.properties, secrets.text, exactly_once=settings.exactly_once)
        self.owning = Owning(self, secrets)
        addresses, client = client_of({"bootstrap.servers": settings.bootstrap, **settings.properties})
        self._clusters = [Cluster(addresses, settings=client) for _ in range(3 + settings.status_partitions)]
        main, following, grouped = self._clusters[:3]
        factor = settings.replication_factor
        self._configs_topic = configs_topic(main, settings.config_topic, factor, self._apply_config)
        self._status_topic = status_topic(
            main, settings.status_topic, settings.status_partitions, factor, self._apply_status
        )
        self._shared = TopicOffsets(main, settings.offset_topic, settings.offset_partitions, factor)
        self._own_topics: dict[str, TopicOffsets] = {}
        self._offsets = ConnectorOffsets(main, self._store_of, secrets.config)
        self._main, self._following = main, following
        self._member = WorkerMembership(
            grouped,
            settings.group_id,
            wanted=self._all_units,
            take=self._take,
            session_timeout_ms=settings.session_timeout_ms,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
        )
        converters = {f"{kind}.converter": self.view.converter(kind) for kind in CONVERTER_KINDS}
        properties = {"bootstrap.servers": settings.bootstrap, **converters, **settings.properties}
        self._fencing: Fencing | None = None
        if settings.exactly_once:
            self._fencing = Fencing(self, main, settings.group_id, lambda unit: unit in self._member.held)
        self._tasks = RunningTasks(self._make_task, properties, self.owning.task_changed, self.owning.topics_used)
        self._writing, self._agreeing = asyncio.Lock(), asyncio.Lock()
        self._stirred = asyncio.Event()
        self._outbox: asyncio.Queue[StatusRecord] = asyncio.Queue()
        self._background: list[asyncio.Task[Any]] = []

    async def __aenter__(self) -> Worker:
        try:
            await self._configs_topic.open()
            self.configs.wishes.clear()  # they were for the workers of then
            await self._status_topic.open()
            await self._shared.open()
            self.cluster_id = self._main.plan.metadata.cluster_id or ""
        except BaseException as fault:
            await self._close_clusters()
            require_login(fault)
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
        if self._fencing is not None:
            await self._fencing.close()
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

    async def write(self, decide: Callable[[], ConnectDecision[T]]) -> T:
        """Decide at the end of the configs topic and append; decide again where others were faster."""

        def decided() -> tuple[T, list[tuple[bytes, bytes | None]]]:
            decision = decide()
            return decision.answer, [configs_pair(record) for record in decision.records]

        async with self._writing:
            return await self._configs_topic.write(decided)

    def metrics(self) -> Iterable[Sample]:
        """The counts of the connectors and tasks that run here."""
        return samples(sum(unit.partition == OWNER for unit in self._member.held), self._tasks.measured())

    async def forget_topics(self, name: str) -> None:
        """Count no topic as used by a connector."""
        for topic in self.statuses.topics(name):
            self.report(TopicInUse(name, topic, discovered_ms=None))

    async def offsets(self, connector: ConnectorState) -> list[Any]:
        """The offsets of a connector, as REST shows them."""
        return await self._offsets.shown(connector)

    async def alter_offsets(self, connector: ConnectorState, changes: Sequence[Change] | None) -> None:
        """Set some offsets of a stopped connector, or with None remove all. What its tasks still write is fenced."""
        if self._fencing is not None and plugin_of(connector.config).kind == "source":
            require_stopped(connector)
            await self._fencing.round(connector.name)
        await self._offsets.alter(connector, changes)

    def _store_of(self, config: Config) -> TopicOffsets | LayeredOffsets:
        """The store of a source's offsets: the workers' topic, or the connector's own above it."""
        topic = config.get("offsets.storage.topic", self._shared.name)
        if topic == self._shared.name:
            return self._shared
        if topic not in self._own_topics:
            settings = self.settings
            self._own_topics[topic] = TopicOffsets(
                self._main, topic, settings.offset_partitions, settings.replication_factor
            )
        return LayeredOffsets(self._own_topics[topic], self._shared)

    def _make_task(
        self, plan: TaskPlan, on_state: Callable[[JobStatus], None], on_topics: Callable[[Iterable[str]], None]
    ) -> RunningAsync:
        store, once = self._store_of(plan.connector_config), None
        if self._fencing is not None:
            once = ExactlyOnce(self.settings.group_id, store, self._fencing)
        return run_task(plan, store, on_state, on_topics=on_topics, once=once)

    # Records of the topics.

    def _apply_config(self, record: ConfigsRecord) -> None:
        self.configs.apply(record)
        self._stirred.set()
        if self._fencing is not None:
            self._fencing.stir()

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
        self.owning.forget(lambda name: Unit(name, OWNER) in units)
        async with self._agreeing:
            await self._tasks.agree(self.configs, units)
        self._stirred.set()

    async def _agree_for_ever(self) -> None:
        self._stirred.set()  # a fault may have cut the last look short
        while True:
            await self._stirred.wait()
            self._stirred.clear()
            self.owning.grant_wishes(self._tasks)
            for name in [unit.topic for unit in sorted(self._member.held) if unit.partition == OWNER]:
                await self.owning.own(name)
            async with self._agreeing:
                await self._tasks.agree(self.configs, self._member.held)
            self._begin_rounds()
            if self._member.leads:
                self.owning.clear_statuses()
                if set(units_of(self.configs)) != set(self._member.shared_out):
                    self._member.rejoin()

    def _begin_rounds(self) -> None:
        """Fence the producers of earlier tasks of the sources that this worker owns."""
        for unit in self._member.held if self._fencing is not None else ():
            found = self.configs.get(unit.topic) if unit.partition == OWNER else None
            if found is not None and found.tasks and kind_of(found.config) == "source":
                assert self._fencing is not None
                self._fencing.begin(unit.topic)

    @property
    def generation(self) -> int:
        """The generation of the group that this worker is in."""
        return self._member.generation

    def report(self, record: StatusRecord) -> None:
        """Keep a state, and write it into the topic."""
        self.statuses.apply(record)
        self._outbox.put_nowait(record)

    async def _report_for_ever(self) -> None:
        while True:
            record = await self._outbox.get()
            await _until_done(partial(self._status_topic.put, [status_pair(record)]))
            self._outbox.task_done()


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
