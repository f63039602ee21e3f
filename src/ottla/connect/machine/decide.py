"""Decide calls: records for the configs topic, or a refusal in Kafka's words. Pure.

Any worker decides, on the topic as it has read it, and appends only where nobody else has appended since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ottla.connect.machine.connector_options import WorkerView, values_of
from ottla.connect.machine.records import (
    ConfigsRecord,
    ConnectorConfig,
    RestartWish,
    Target,
    TargetState,
    TaskConfig,
    TaskCount,
    TaskRestartWish,
    TasksCommit,
)
from ottla.connect.machine.refusals import CallRefused, connector_not_found
from ottla.connect.machine.state import Config, Configs, ConnectorState
from ottla.connect.machine.validation import Given, require_valid
from ottla.connect.plugins.base import RUNNER
from ottla.connect.plugins.known import AnyConnector

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ConnectDecision(Generic[T]):
    """An answer, and the records that make it true."""

    answer: T
    records: Sequence[ConfigsRecord] = ()


@dataclass(frozen=True, slots=True)
class Put:
    """The answer to a changed configuration."""

    connector: ConnectorState
    created: bool


def create(
    configs: Configs, worker: WorkerView, name: str, given: Given, initial: Target = Target.STARTED
) -> ConnectDecision[Put]:
    """Make a connector in a state."""
    config = _named(name, given)
    require_valid(name, config, worker)
    if configs.get(name) is not None:
        raise CallRefused(409, f"Connector {name} already exists")
    made = ConnectorConfig(name, _text(config))
    records: list[ConfigsRecord] = [made] if initial is Target.STARTED else [TargetState(name, initial), made]
    return ConnectDecision(Put(ConnectorState(name, _text(config), initial, ()), created=True), records)


def put(configs: Configs, worker: WorkerView, name: str, given: Given) -> ConnectDecision[Put]:
    """Make a connector, or give it another configuration."""
    config = _named(name, given)
    require_valid(name, config, worker)
    known = configs.get(name)
    target, tasks = (Target.STARTED, ()) if known is None else (known.target, known.tasks)
    answer = Put(ConnectorState(name, _text(config), target, tasks), created=known is None)
    return ConnectDecision(answer, [ConnectorConfig(name, _text(config))])


def patch(configs: Configs, worker: WorkerView, name: str, changes: Given) -> ConnectDecision[Put]:
    """Change some keys of a configuration; None removes one.

    Kafka lets a patch put another name into the configuration; that is refused here, as everywhere else.
    """
    known = _existing(configs, name)
    merged = {**known.config, **{key: value for key, value in changes.items() if value is not None}}
    for key, value in changes.items():
        if value is None:
            merged.pop(key, None)
    return put(configs, worker, name, merged)


def delete(configs: Configs, name: str) -> ConnectDecision[None]:
    """Delete a connector. Its task records stay in the topic, and count for nothing."""
    _existing(configs, name)
    return ConnectDecision(None, [ConnectorConfig(name, None), TargetState(name, None)])


def set_target(configs: Configs, name: str, target: Target) -> ConnectDecision[None]:
    """Pause, resume or stop a connector. A stopped one has no tasks."""
    known = configs.get(name)
    if known is None:
        raise CallRefused(404, f"Unknown connector {name}")
    if known.target is target and not (target is Target.STOPPED and known.tasks):
        return ConnectDecision(None)
    emptied = [TasksCommit(name, 0)] if target is Target.STOPPED else []
    return ConnectDecision(None, [*emptied, TargetState(name, target)])


def restart(configs: Configs, name: str, *, include_tasks: bool, only_failed: bool) -> ConnectDecision[ConnectorState]:
    """Restart a connector; with its tasks, or what failed of them."""
    known = configs.get(name)
    if known is None:
        raise CallRefused(404, f"Unknown connector: {name}")
    return ConnectDecision(known, [RestartWish(name, include_tasks, only_failed)])


def restart_task(configs: Configs, name: str, task: int) -> ConnectDecision[None]:
    """Restart one task, wherever it runs."""
    known = configs.get(name)
    if known is None:
        raise CallRefused(404, f"Unknown connector: {name}")
    if not 0 <= task < len(known.tasks):
        raise CallRefused(404, f"Unknown task: {name}-{task}")
    return ConnectDecision(None, [TaskRestartWish(name, task)])


def set_tasks(configs: Configs, name: str, decided_on: Config, tasks: Sequence[Config]) -> ConnectDecision[bool]:
    """The set of a connector's tasks, as its owner made it; nothing where it is as it was or is not wanted now.

    `decided_on`: the configuration that the set was made of. Where the connector has another by now, the owner makes
    the set again.
    """
    known = configs.get(name)
    if known is None or known.target is not Target.STARTED or known.config != decided_on:
        return ConnectDecision(False)
    if known.complete and list(known.tasks) == [dict(each) for each in tasks]:
        return ConnectDecision(True)
    records: list[ConfigsRecord] = [TaskConfig(name, number, dict(each)) for number, each in enumerate(tasks)]
    return ConnectDecision(True, [*records, TasksCommit(name, len(tasks))])


def count_tasks(configs: Configs, name: str, of_round: int) -> ConnectDecision[bool]:
    """Record that the producers of all sets of tasks before this round are fenced; nothing if it is over."""
    known = configs.get(name)
    if known is None or configs.round(name) != of_round or configs.unfenced(name) is None:
        return ConnectDecision(False)
    return ConnectDecision(True, [TaskCount(name, len(known.tasks))])


def task_configs(plugin: AnyConnector, config: Config) -> list[dict[str, str]]:
    """The configurations of a connector's tasks, with the keys that Kafka adds; raises what the plugin raises."""
    common = values_of(plugin.kind, config)
    most = 1 if config.get(RUNNER) == "spark" else common["tasks.max"]  # that one hands its work to Spark
    added = {"task.class": f"{plugin.java_class.removesuffix('Connector')}Task"}
    if plugin.kind == "sink":
        added |= {key: config[key] for key in ("topics", "topics.regex") if config.get(key)}
    made = plugin.tasks(config, most)
    if len(made) > most and common["tasks.max.enforce"]:
        raise CallRefused(
            500,
            f"The connector {config['name']} made {len(made)} tasks, and tasks.max is {most}; raise it, or set "
            "tasks.max.enforce=false",
        )
    return [{**each, **added} for each in made]


def _named(name: str, given: Given) -> dict[str, str | None]:
    """The configuration with the connector's name; CallRefused where it has another one."""
    own = given.get("name", name)
    if own != name:
        raise CallRefused(400, f"Connector name configuration ({own}) doesn't match connector name in the URL ({name})")
    return {**given, "name": name}


def _text(config: Given) -> dict[str, str]:
    return {key: value for key, value in config.items() if value is not None}


def _existing(configs: Configs, name: str) -> ConnectorState:
    known = configs.get(name)
    if known is None:
        raise connector_not_found(name)
    return known


def config_of(configs: Configs, name: str) -> Mapping[str, str]:
    """A connector's configuration; CallRefused where there is none."""
    return _existing(configs, name).config
