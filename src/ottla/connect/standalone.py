"""A standalone worker: connectors from files, their tasks in this process, their offsets in a file."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from ottla.client.aio.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.config.properties import parse_properties
from ottla.connect.connector_offsets import ConnectorOffsets
from ottla.connect.errors import ConfigException
from ottla.connect.machine.assignment import units_of
from ottla.connect.machine.connector_options import view_of
from ottla.connect.machine.decide import ConnectDecision
from ottla.connect.machine.offsets import Change
from ottla.connect.machine.records import ConnectorConfig, StatusRecord, TaskConfig, TasksCommit, TopicInUse
from ottla.connect.machine.refusals import CallRefused
from ottla.connect.machine.state import Configs, ConnectorState, Statuses
from ottla.connect.machine.validation import validated
from ottla.connect.owning import Owning
from ottla.connect.rest.listener import TOKENS, USERS
from ottla.connect.running import RunningTasks
from ottla.connect.tasks.clients import bootstrap, client_of, producer_of, require_login
from ottla.connect.tasks.conversion import Conversion
from ottla.connect.tasks.counts import samples
from ottla.connect.tasks.offset_file import OffsetFile
from ottla.connect.tasks.plan import TaskPlan
from ottla.connect.tasks.secrets import Secrets, tasks_of
from ottla.connect.tasks.task import run_task
from ottla.connect.tasks.topic_creation import groups_of
from ottla.connect.tasks.worker_options import check, flag
from ottla.jobs.running_async import RunningAsync
from ottla.jobs.states import JobState, JobStatus
from ottla.kernel.errors import ApiError
from ottla.metrics.metric import Sample

T = TypeVar("T")
_OWN: Final = (
    "offset.storage.file.filename", "listeners", "topic.tracking.enable", "topic.tracking.allow.reset",
    "exactly.once.source.support", USERS, TOKENS,
)  # fmt: skip
_NO_TOPIC: Final = "offsets.storage.topic: a worker alone keeps offsets in its file; only a group has topics for them"
log = logging.getLogger("ottla.connect")


def read_worker(path: str) -> dict[str, str]:
    """A worker's properties; ConfigException for what cannot be used, a warning for each key without effect."""
    found = {name: value.strip() for name, value in parse_properties(_text(path)).items()}
    check(found, _OWN)
    bootstrap(found)
    if found.get("exactly.once.source.support", "disabled").lower() != "disabled":
        raise ConfigException(
            "exactly.once.source.support: Kafka Connect in standalone mode does not support exactly-once source "
            "connectors. Run a group of workers, of one if you like: leave the connectors' files away"
        )
    if not found.get("offset.storage.file.filename"):
        raise ConfigException(
            'Missing required configuration "offset.storage.file.filename" which has no default value.'
        )
    return found


def is_alone(path: str) -> bool:
    """True for the file of a worker alone: it names a file for its offsets, and no group."""
    found = parse_properties(_text(path))
    return "offset.storage.file.filename" in found and "group.id" not in found


def read_connector(path: str) -> dict[str, str]:
    """A connector's configuration, as properties, or as JSON: an object of options, or one with name and config."""
    text = _text(path)
    if not text.lstrip().startswith("{"):
        return {name: value.strip() for name, value in parse_properties(text).items()}
    try:
        given = json.loads(text)
    except ValueError as fault:
        raise ConfigException(f"the file {path} is neither properties nor JSON: {fault}") from None
    if isinstance(given.get("config"), dict):
        given = {"name": given.get("name"), **given["config"]}
    wrong = [name for name, value in given.items() if not isinstance(value, str | int | float)]
    if wrong:
        raise ConfigException(f"the file {path}: {wrong[0]} is not text")
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in given.items()}


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise ConfigException(f"the file {path} cannot be read: {fault}") from None


def plans_of(worker: Mapping[str, str], config: Mapping[str, str]) -> list[TaskPlan]:
    """The tasks of a connector. All that can be known to be wrong is refused here, before the first record."""
    if not config.get("connector.class"):
        raise ConfigException('Missing required configuration "connector.class" which has no default value.')
    secrets = Secrets(worker)
    whole = secrets.config(config)
    try:
        verdict = validated(config, view_of({}, secrets.text))
        if verdict.errors:
            raise ConfigException(verdict.errors[0])
        made = tasks_of(verdict.plugin, config, secrets)
    except CallRefused as refusal:
        raise ConfigException(refusal.message) from None
    if "offsets.storage.topic" in config:
        raise ConfigException(_NO_TOPIC)
    strange = Conversion(worker, whole).strange
    producer_of(worker, whole, "check")
    if verdict.plugin.kind == "source":
        groups_of(whole)
    for sentence in [*verdict.unknown, *strange]:
        log.warning("%s: %s", config["name"], sentence)
    return [TaskPlan(config["name"], number, verdict.plugin, config, each, worker) for number, each in enumerate(made)]


class Standalone:
    """The connectors of one process: the service behind its REST interface, where it has one.

    Connectors and states are in memory, and offsets in a file. What is made over HTTP is gone when the process ends, as
    in Kafka.
    """

    makes_tasks_at_once = True
    generation = 0

    def __init__(
        self, worker: Mapping[str, str], configs: Sequence[Mapping[str, str]], worker_id: str = "standalone"
    ) -> None:
        """Nothing is begun; `ConfigException` for what cannot be used."""
        names = [config.get("name", "") for config in configs]
        for name in names:
            if names.count(name) > 1:
                raise ConfigException(f"two connectors have the name {name!r}: give each one of its own")
        self.task_names = [plan.name for config in configs for plan in plans_of(worker, config)]
        self.worker_id, self.cluster_id = worker_id, ""
        secrets = Secrets(worker)
        self.view = view_of(worker, secrets.text)
        self.configs, self.statuses = Configs(), Statuses()
        for config in configs:
            self.configs.apply(ConnectorConfig(config["name"], config))
        self.tracks_topics = flag(worker, "topic.tracking.enable")
        self.resets_topics = flag(worker, "topic.tracking.allow.reset")
        self._file = OffsetFile(worker["offset.storage.file.filename"])
        self.owning = Owning(self, secrets)
        self._running = RunningTasks(self._make_task, worker, self.owning.task_changed, self.owning.topics_used)
        self._begun: dict[str, RunningAsync] = {}
        self._settling, self._stopping = asyncio.Lock(), asyncio.Event()
        addresses, client = client_of(worker)
        self._cluster = Cluster(addresses, settings=client)
        self._offsets = ConnectorOffsets(self._cluster, lambda config: self._file, secrets.config)

    @property
    def tasks(self) -> list[RunningAsync]:
        """All tasks that were begun, the last of each name."""
        return list(self._begun.values())

    async def run(self) -> int:
        """Run the connectors until they are stopped or all tasks have ended.

        The exit status: 1 where a task has failed for good.
        """
        await self._settle()
        return await self._until(self._running.ended())

    async def serve(self) -> int:
        """Run the connectors until they are stopped, while calls change them; ConfigException for a wrong password."""
        try:
            await self._cluster.topics()
        except (ApiError, ClientError) as fault:
            require_login(fault)
            log.warning("the brokers are away, and connectors wait for them: %s", fault)
        self.cluster_id = self._cluster.plan.metadata.cluster_id or ""
        await self._settle()
        return await self._until(asyncio.Event().wait())

    async def _until(self, end: Awaitable[object]) -> int:
        waits = [asyncio.ensure_future(end), asyncio.ensure_future(self._stopping.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
            failed = any(task.status.state is JobState.FAILED for task in self.tasks)
            await self._running.agree(self.configs, set())
            await self._cluster.close()
        return int(failed or any(task.status.state is JobState.FAILED for task in self.tasks))

    def stop(self) -> None:
        """Have all tasks end: deliver, flush, keep their offsets."""
        self._stopping.set()

    # The REST interface's side.

    async def fresh(self) -> None:
        """Nobody else changes anything."""

    async def write(self, decide: Callable[[], ConnectDecision[T]]) -> T:
        """Decide, and have it so when this returns; CallRefused where a connector cannot be begun."""
        decision = decide()
        for record in decision.records:
            if isinstance(record, ConnectorConfig) and "offsets.storage.topic" in (record.properties or {}):
                raise CallRefused(400, _NO_TOPIC)
        for record in decision.records:
            self.configs.apply(record)
        if all(isinstance(record, TaskConfig | TasksCommit) for record in decision.records):
            return decision.answer  # nothing, or a set of tasks: the one who settles made it
        await self._settle()
        for record in decision.records:
            if isinstance(record, ConnectorConfig) and self._has_failed(record.name):
                raise CallRefused(500, f"Failed to transition connector {record.name} to state STARTED")
        return decision.answer

    def report(self, record: StatusRecord) -> None:
        """Keep a state."""
        self.statuses.apply(record)

    def metrics(self) -> Iterable[Sample]:
        """The counts of all connectors and tasks."""
        return samples(len(self.configs.names), self._running.measured())

    async def forget_topics(self, name: str) -> None:
        """Count no topic as used by a connector."""
        for topic in self.statuses.topics(name):
            self.report(TopicInUse(name, topic, discovered_ms=None))

    async def offsets(self, connector: ConnectorState) -> list[Any]:
        """The offsets of a connector, as REST shows them."""
        return await self._offsets.shown(connector)

    async def alter_offsets(self, connector: ConnectorState, changes: Sequence[Change] | None) -> None:
        """Set some offsets of a stopped connector, or with None remove all."""
        await self._offsets.alter(connector, changes)

    def _has_failed(self, name: str) -> bool:
        known = self.statuses.connectors.get(name)
        return known is not None and known.state == "FAILED"

    def _make_task(
        self, plan: TaskPlan, on_state: Callable[[JobStatus], None], on_topics: Callable[[Iterable[str]], None]
    ) -> RunningAsync:
        made = run_task(plan, self._file, on_state, on_topics=on_topics)
        self._begun[plan.name] = made
        return made

    async def _settle(self) -> None:
        """Do at once what the configs say."""
        async with self._settling:
            self.owning.grant_wishes(self._running)
            for name in self.configs.names:
                await self.owning.own(name)
            await self._running.agree(self.configs, set(units_of(self.configs)))
            self.owning.clear_statuses()
