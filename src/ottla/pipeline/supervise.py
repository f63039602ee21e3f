"""Runs a pipeline: a broker where one is wanted, a worker of Connect, then what the plan changes, then every part.

Each part is a process and a job: a fault that may pass begins it again after a while, and the others go on.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from ottla.cli.connect import admin as admin_of
from ottla.client.registry_client import RegistryClient, registry_urls
from ottla.connect.commands.asking import CallFailed, ask
from ottla.jobs.running_async import RunningAsync
from ottla.jobs.states import Event, JobState, JobStatus
from ottla.pipeline.alerts import watch
from ottla.pipeline.apply import Memory, NotApplied, carried_out, planned
from ottla.pipeline.children import (
    Child,
    Say,
    broker_command,
    command_of,
    fault_of,
    program_environment,
    worker_command,
)
from ottla.pipeline.parts import Pipeline, PipelinePart

RUN = ("programs", "streams", "lakes", "mirrors", "alerts")
"""Sections whose parts are jobs of the supervisor; connectors are the worker's."""
_GRACE_MS = 60_000
"""A load or a batch at work is ended whole; a broker writes what it holds."""
_CONNECTORS_S = 2.0
_ENDED = (JobState.STOPPED, JobState.FAILED)


class NotRun(Exception):
    """The pipeline cannot run; the sentence says why."""


class Supervisor:
    """One run of a pipeline."""

    def __init__(
        self,
        pipeline: Pipeline,
        state: Path,
        say: Say,
        *,
        only: Collection[str] = (),
        but: Collection[str] = (),
        prune: bool = False,
        client: dict[str, str] | None = None,
    ) -> None:
        """`only` and `but` choose parts by name; `client` are options of clients."""
        self._pipeline, self._state, self._say, self._prune = pipeline, state, say, prune
        self._client = client or {}
        self._chosen = [part for part in pipeline.parts if (not only or part.name in only) and part.name not in but]
        self._jobs: dict[str, RunningAsync] = {}
        self._running: dict[str, asyncio.Task[int]] = {}
        self._waiting: dict[str, asyncio.Task[None]] = {}
        """Parts that wait for others to end."""
        self._connectors: dict[str, str] = {}
        self._told: dict[str, JobState] = {}
        self.bootstrap = str(pipeline.cluster["bootstrap"])
        self.registry = str(pipeline.cluster["registry"])
        self._worker: Child | None = None

    @property
    def connect(self) -> str:
        """The URL of the worker; one of our own has another address after each start."""
        here = self._worker.addresses.get("connect", "") if self._worker is not None else ""
        return here or str(self._pipeline.cluster["connect"])

    async def run(self) -> int:
        """Run until a signal, or until every part has ended; 1 where a part has failed for good."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        stopping = asyncio.create_task(stop.wait())
        try:
            await self._or_stopped(self._start(), stopping)
            if not stop.is_set():
                await self._or_stopped(self._until_all_ended(), stopping)
        finally:
            stopping.cancel()
            failed = [name for name, job in self._jobs.items() if job.status.state is JobState.FAILED]
            await self._stop_all()
            self._write_status(ended=True)
        return 1 if failed else 0

    async def _or_stopped(self, work: Any, stopping: asyncio.Task[bool]) -> None:
        task = asyncio.create_task(work)
        await asyncio.wait((task, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def _start(self) -> None:
        cluster = self._pipeline.cluster
        if not self.bootstrap:
            with_registry = not self.registry
            kept = self._pipeline.path(cluster["data"]) if cluster["data"] else self._state / "broker"
            data = str(kept.absolute())
            ready = ["broker", "registry"] if with_registry else ["broker"]
            child = self._child("broker", broker_command(data, cluster["port"], registry=with_registry), ready)
            await self._listening("broker", child)
            self.bootstrap = child.addresses["broker"]
            self.registry = self.registry or child.addresses["registry"]
        connectors = [part for part in self._chosen if part.section == "connectors"]
        if connectors and not self.connect:
            self._worker = self._child("worker", worker_command(self.bootstrap), ["connect"])
            await self._listening("worker", self._worker)
        await self._applied()
        for part in self._chosen:
            if part.section in RUN:
                self._begin(part)
        if connectors:
            self._running["connectors"] = asyncio.create_task(
                self._watch_connectors([each.name for each in connectors])
            )
        self._write_status()

    def _child(self, label: str, command: Sequence[str], ready: Sequence[str] = ()) -> Child:
        child = Child(label, command, self._pipeline.folder, self._say, ready=ready)
        self._job(label, child.work)
        return child

    def _begin(self, part: PipelinePart) -> None:
        if part.section == "alerts":
            self._job(part.label, partial(watch, part, self.bootstrap, self._client, partial(self._say, part.label)))
            return
        client = str(self._pipeline.cluster["command_config"] or "")
        command = command_of(part, self.bootstrap, self.registry, client)
        environment = program_environment(self.bootstrap, self.registry) if part.section == "programs" else None
        child = Child(part.label, command, self._pipeline.folder, self._say, environment=environment)
        before = [each.label for each in self._chosen if each.ends and each.name in part.after]
        self._job(part.label, child.work, begin=Event.PAUSE if before else Event.RESUME)
        if before:
            self._say(part.label, f"waits for {', '.join(before)}")
            self._waiting[part.label] = asyncio.create_task(self._begin_after(part.label, before))

    async def _begin_after(self, label: str, before: Sequence[str]) -> None:
        """Begin a part once others have ended well; end it where one has failed for good."""
        await asyncio.wait([self._running[each] for each in before])
        failed = [each for each in before if self._jobs[each].status.state is JobState.FAILED]
        if failed:
            self._say(label, f"does not begin: {failed[0]} has failed")
        if label in self._running:
            self._jobs[label].ask(Event.STOP if failed else Event.RESUME)

    def _job(self, label: str, work: Callable[..., Any], *, begin: Event = Event.RESUME) -> None:
        job = RunningAsync(label, work, fault_of=fault_of, on_state=partial(self._on_state, label), grace_ms=_GRACE_MS)
        self._jobs[label] = job
        self._running[label] = asyncio.create_task(job.run(begin))

    def _on_state(self, label: str, status: JobStatus) -> None:
        """Say each new state once, and keep it for `ottla pipeline status`."""
        if self._told.get(label) is not status.state:
            self._told[label] = status.state
            if status.state not in (JobState.STARTING, JobState.PAUSED):
                self._say(label, status.text())
        self._write_status()

    async def _listening(self, label: str, child: Child) -> None:
        waiting = asyncio.create_task(child.listening.wait())
        await asyncio.wait((waiting, self._running[label]), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if not child.listening.is_set():
            raise NotRun(f"the {label} did not start: {self._jobs[label].status.text()}")

    async def _applied(self) -> None:
        """Make what is declared; the clients' calls wait, so they are made in a thread."""
        await asyncio.to_thread(self._apply)

    def _apply(self) -> None:
        memory = Memory(self._state)
        registry = RegistryClient(registry_urls(self.registry)) if self.registry else None
        kept = Pipeline(self._pipeline.name, self._pipeline.folder, self._pipeline.cluster, self._chosen)
        with admin_of(self.bootstrap, self._client) as admin:
            found = planned(kept, admin, registry, self.connect or None, memory, prune=self._prune)
            if found.refusals:
                raise NotRun("; ".join(found.refusals))
            try:
                carried_out(found.changes, admin, registry, self.connect or None, memory, partial(self._say, "plan"))
            except NotApplied as fault:
                raise NotRun(str(fault)) from None

    async def _watch_connectors(self, names: Sequence[str]) -> int:
        """Tell each new state of a connector and its tasks. The worker starts failed tasks again itself."""
        while True:
            with suppress(CallFailed):
                answer = await asyncio.to_thread(ask, self.connect, "GET", "/connectors?expand=status")
                for name in names:
                    self._tell_connector(name, answer.get(name, {}).get("status"))
            await asyncio.sleep(_CONNECTORS_S)

    def _tell_connector(self, name: str, status: dict[str, Any] | None) -> None:
        if status is None:
            return
        states = [status["connector"]["state"], *(task["state"] for task in status["tasks"])]
        traces = [_reason(task["trace"]) for task in status["tasks"] if task.get("trace")]
        text = states[0].lower() if len(set(states)) == 1 else ", ".join(state.lower() for state in states)
        text += f": {traces[0]}" if traces else ""
        if self._connectors.get(name) != text:
            self._connectors[name] = text
            self._say(f"connector {name}", text)
            self._write_status()

    async def _until_all_ended(self) -> None:
        """Return once nothing but the broker and the worker is left, and no connector keeps them."""
        parts = [task for label, task in self._running.items() if label not in ("broker", "worker")]
        if parts:
            await asyncio.gather(*parts)
        else:
            await asyncio.Event().wait()

    async def _stop_all(self) -> None:
        """End the parts, then the worker, then the broker: each while what it writes to is there."""
        if (watching := self._running.pop("connectors", None)) is not None:
            watching.cancel()
        for waiting in self._waiting.values():
            waiting.cancel()
        last = [label for label in ("worker", "broker") if label in self._running]
        parts = [label for label in self._running if label not in last]
        groups: list[list[str]] = [parts, *([str(label)] for label in last)]
        for labels in groups:
            for label in labels:
                if self._jobs[label].status.state not in _ENDED:
                    self._jobs[label].ask(Event.STOP)
            await asyncio.gather(*(self._running[label] for label in labels), return_exceptions=True)

    def _write_status(self, *, ended: bool = False) -> None:
        parts = {label: job.status.text() for label, job in self._jobs.items()}
        parts |= {f"connector {name}": text for name, text in self._connectors.items()}
        found = {
            "pipeline": self._pipeline.name, "pid": None if ended else os.getpid(), "at": int(time.time() * 1000),
            "bootstrap": self.bootstrap, "registry": self.registry, "connect": self.connect, "parts": parts,
        }  # fmt: skip
        self._state.mkdir(parents=True, exist_ok=True)
        fresh = self._state / "status.new"
        fresh.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        fresh.replace(self._state / "status.json")


def _reason(trace: str) -> str:
    """The sentence of a trace: Java's is its first line, Python's its last."""
    lines = trace.strip().splitlines()
    return lines[-1] if lines[0].startswith("Traceback") else lines[0]
