"""Connectors of the workers that were named: states, traces, configurations; pause, resume, stop, restart."""

from __future__ import annotations

import asyncio
import shlex
from typing import Any

from ottla.console import lists
from ottla.console.beside import unless_refused
from ottla.console.change import AskedChange
from ottla.console.desk import Desk
from ottla.console.links import LinkedServer, LinkRefused
from ottla.console.lists import listing
from ottla.console.urls import url
from ottla.console.view import PageQuery, View, wrong
from ottla.web.exchange import HttpError

PARAMETERS = lists.PARAMETERS
COLUMNS = ("name", "state", "kind")
_STARS = "••••"
_SECRET_WORDS = ("password", "secret", "token", "credential", "jaas", "private.key", "access.key")
_VERBS = {"pause": "PUT", "resume": "PUT", "stop": "PUT", "restart": "POST"}


async def connectors(desk: Desk, query: PageQuery) -> View:
    """All connectors; a worker that does not answer is named."""
    rows: list[dict[str, Any]] = []
    faults: list[str] = []
    for number, link in enumerate(desk.workers):
        try:
            found = await link.ask("GET", "connectors", query="?expand=status")
        except LinkRefused as fault:
            faults.append(str(fault))
            continue
        rows += [_row(number, name, one["status"]) for name, one in found.items()]
    values = {
        "list": listing(rows, query, COLUMNS),
        "faults": faults,
        "workers": [link.url for link in desk.workers],
        "columns": COLUMNS,
    }
    return View("connectors.html", "Connectors", values)


def _row(number: int, name: str, status: dict[str, Any]) -> dict[str, Any]:
    states = [str(task["state"]) for task in status["tasks"]]
    return {
        "worker": number,
        "name": name,
        "state": status["connector"]["state"],
        "kind": status.get("type", ""),
        "tasks": len(states),
        "failed": states.count("FAILED"),
    }


async def connector(desk: Desk, query: PageQuery) -> View:
    """One connector. A user who may not see its configuration reads so in its place."""
    number, name = query.count("worker", 0), query.need("name")
    link = _link(desk, number)
    faults: list[str] = []
    status, config, topics = await asyncio.gather(
        link.ask("GET", "connectors", name, "status"),
        unless_refused(link.ask("GET", "connectors", name, "config"), {}, faults),
        link.ask("GET", "connectors", name, "topics"),
    )
    values = {
        "name": name,
        "worker": number,
        "worker_url": link.url,
        "state": status["connector"]["state"],
        "at": status["connector"].get("worker_id", ""),
        "kind": status.get("type", ""),
        "trace": status["connector"].get("trace", ""),
        "tasks": [{"trace": "", **task} for task in status["tasks"]],
        "topics": sorted(topics.get(name, {}).get("topics", ())),
        "config": [{"name": key, "value": covered(key, str(value))} for key, value in sorted(config.items())],
        "faults": faults,
    }
    return View("connector.html", name, values)


def covered(name: str, value: str) -> str:
    """The value of an option, with stars for a secret; a reference to one, as in ${file:…}, is none."""
    secret = any(word in name.lower() for word in _SECRET_WORDS)
    return _STARS if secret and value and not value.startswith("${") else value


async def change(desk: Desk, form: PageQuery) -> AskedChange:
    """Another state of a connector, or of one task."""
    number, name, verb = form.count("worker", 0), form.need("name"), form.choice("verb", (*_VERBS, "delete"), "pause")
    link, task = _link(desk, number), form.text("task")
    if task and (verb != "restart" or not task.isdecimal()):
        raise wrong("a task can be restarted only, by its number")
    await link.ask("GET", "connectors", name, "status")
    method, path, query = "DELETE", [name], ""
    if verb != "delete":
        method = _VERBS[verb]
        path = [name, "tasks", task, verb] if task else [name, verb]
        query = "?includeTasks=true" if verb == "restart" and not task else ""

    async def carry_out() -> str:
        await link.ask(method, "connectors", *path, query=query)
        return f"{name}{f', task {task}' if task else ''}: {verb} was taken by the worker."

    told = {"stop": ["Its tasks end; its configuration and offsets stay."], "delete": ["Its configuration is lost."]}
    words = ["ottla", "connect", verb, name, "--url", link.url, *(["--task", task] if task else [])]
    return AskedChange(
        f"{verb.capitalize()} {name}",
        shlex.join(words),
        carry_out,
        url("connectors") if verb == "delete" else url("connector", worker=number, name=name),
        told.get(verb, ()),
        is_loss=verb == "delete",
    )


def _link(desk: Desk, number: int) -> LinkedServer:
    if number >= len(desk.workers):
        raise HttpError(404, "no such worker of Connect was given: start the console with --connect URL")
    return desk.workers[number]
