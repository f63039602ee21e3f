"""A standalone worker: connectors from files, their tasks in this process, their offsets in a file."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from ottla.config.properties import parse_properties
from ottla.connect.errors import ConfigException
from ottla.connect.machine.connector_options import WorkerView
from ottla.connect.machine.decide import task_configs
from ottla.connect.machine.refusals import Refused
from ottla.connect.machine.validation import validated
from ottla.connect.tasks.clients import bootstrap, producer_of
from ottla.connect.tasks.conversion import Conversion
from ottla.connect.tasks.offset_file import OffsetFile
from ottla.connect.tasks.plan import TaskPlan
from ottla.connect.tasks.secrets import providers_of, resolved
from ottla.connect.tasks.task import run_task
from ottla.connect.tasks.topic_creation import groups_of
from ottla.connect.tasks.worker_options import check
from ottla.jobs.running_async import Running
from ottla.jobs.states import Event, State

log = logging.getLogger("ottla.connect")


def read_worker(path: str) -> dict[str, str]:
    """A worker's properties; ConfigException for what cannot be used, a warning for each key without effect."""
    found = {name: value.strip() for name, value in parse_properties(_text(path)).items()}
    check(found, ("offset.storage.file.filename",))
    bootstrap(found)
    if not found.get("offset.storage.file.filename"):
        raise ConfigException(
            'Missing required configuration "offset.storage.file.filename" which has no default value.'
        )
    return found


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
    whole = resolved(config, providers_of(worker))
    try:
        verdict = validated(whole, WorkerView())
        if verdict.errors:
            raise ConfigException(verdict.errors[0])
        made = task_configs(verdict.plugin, whole)
    except Refused as refusal:
        raise ConfigException(refusal.message) from None
    strange = Conversion(worker, whole).strange
    producer_of(worker, whole, "check")
    if verdict.plugin.kind == "source":
        groups_of(whole)
    for sentence in [*verdict.unknown, *strange]:
        log.warning("%s: %s", config["name"], sentence)
    own = [_unresolved(each, config, whole) for each in made]
    return [TaskPlan(config["name"], number, verdict.plugin, config, each, worker) for number, each in enumerate(own)]


def _unresolved(made: Mapping[str, str], config: Mapping[str, str], whole: Mapping[str, str]) -> dict[str, str]:
    """A task's configuration with the connector's variables in it: a task resolves them as it begins."""
    return {name: config[name] if whole.get(name) == value else value for name, value in made.items()}


class Standalone:
    """The tasks of all connectors of one process."""

    def __init__(self, worker: Mapping[str, str], configs: Sequence[Mapping[str, str]]) -> None:
        """Nothing is begun; `ConfigException` for what cannot be used."""
        names = [config.get("name", "") for config in configs]
        for name in names:
            if names.count(name) > 1:
                raise ConfigException(f"two connectors have the name {name!r}: give each one of its own")
        self._offsets = OffsetFile(worker["offset.storage.file.filename"])
        plans = [plan for config in configs for plan in plans_of(worker, config)]
        self.tasks: list[Running] = [run_task(plan, self._offsets) for plan in plans]

    async def run(self) -> int:
        """Run all tasks until they are stopped or have ended; the exit status: 1 where one has failed for good."""
        return max(await asyncio.gather(*(task.run() for task in self.tasks)), default=0)

    def stop(self) -> None:
        """Have all tasks end: deliver, flush, keep their offsets."""
        for task in self.tasks:
            if task.status.state is not State.FAILED:
                task.ask(Event.STOP)
