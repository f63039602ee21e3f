"""Connectors and their states as REST shows them. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.connect.machine.records import Status
from ottla.connect.machine.refusals import CallRefused
from ottla.connect.machine.state import Configs, ConnectorState, Statuses
from ottla.connect.plugins.known import kind_of

Changed = Callable[[Status], Status]


def info(connector: ConnectorState) -> dict[str, Any]:
    """A connector with its configuration."""
    tasks = [{"connector": connector.name, "task": number} for number in range(len(connector.tasks))]
    kind = kind_of(connector.config)
    return {"name": connector.name, "config": dict(connector.config), "tasks": tasks, "type": kind}


def status(
    configs: Configs,
    statuses: Statuses,
    name: str,
    *,
    of_connector: Changed | None = None,
    of_tasks: Changed | None = None,
) -> dict[str, Any]:
    """The states of a connector and its tasks; Refused where nobody reported one.

    `of_connector`, `of_tasks`: changes that are under way, which the workers have not reported yet.
    """
    found = statuses.connectors.get(name)
    if found is None:
        raise CallRefused(404, f"No status found for connector {name}")
    known = configs.get(name)
    tasks = [
        {"id": number, **_shown(of_tasks(each) if of_tasks else each)} for number, each in statuses.tasks(name).items()
    ]
    own = _shown(of_connector(found) if of_connector else found)
    return {"name": name, "connector": own, "tasks": tasks, "type": kind_of(known.config if known else None)}


def task_status(statuses: Statuses, name: str, task: int) -> dict[str, Any]:
    """The state of one task."""
    found = statuses.tasks(name).get(task)
    if found is None:
        raise CallRefused(404, f"No status found for task {name}-{task}")
    return {"id": task, **_shown(found)}


def _shown(found: Status) -> dict[str, Any]:
    more = {"trace": found.trace, "phase": found.phase}
    given = {name: value for name, value in more.items() if value is not None}
    return {"state": found.state, "worker_id": found.worker_id, "version": found.version, **given}
