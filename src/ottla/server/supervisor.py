"""Several brokers of this machine under one process: started, watched and brought back, until it is told to stop.

Each broker is a process of its own (broker_child.py); they share a store in DIR/store. `ottla cluster up`
(cluster_up.py) and `ottla start --brokers` (several_brokers.py) say how each is started, and what is shown.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

from ottla.server.beside import AllBeside, BesideFailed
from ottla.server.broker_child import BrokerChild, Launch
from ottla.server.cluster_control import Control
from ottla.server.cluster_table import Display
from ottla.server.signals import stopping_signals

STATE_FILE = "cluster.json"
STORE = "store"
LOCK = ".lock"
_BROKER_DIRECTORY = re.compile(r"broker-([0-9]+)\Z")


class AlreadyUp(Exception):
    """Another process runs the brokers of a directory."""


@contextlib.contextmanager
def locked(directory: str) -> Iterator[None]:
    """Hold a directory, made where it is missing, against another supervisor; AlreadyUp if there is one."""
    from ottla.storage.disk.local import LocalDisk

    os.makedirs(directory, exist_ok=True)
    lock = LocalDisk().lock(os.path.join(directory, LOCK))
    if lock is None:
        raise AlreadyUp(f"a cluster is up in {directory} already; `ottla cluster down --data {directory}` ends it")
    try:
        yield
    finally:
        lock.release()


def broker_directory(directory: str, number: int) -> str:
    """The folder of one broker inside the directory of all."""
    return os.path.join(directory, f"broker-{number}")


def brokers_in(directory: str) -> list[int]:
    """The numbers of the brokers that have a folder in a directory."""
    try:
        names = os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = (_BROKER_DIRECTORY.match(name) for name in names if os.path.isdir(os.path.join(directory, name)))
    return sorted(int(name[1]) for name in found if name is not None)


class BrokerSupervisor:
    """Runs and watches the brokers."""

    def __init__(
        self,
        directory: str,
        launches: Sequence[Launch],
        *,
        restarts: bool,
        display: Display,
        greet: Callable[[list[str]], None],
        beside: AllBeside | None = None,
        first: int | None = None,
    ) -> None:
        """`greet` is told the addresses once all serve; `beside` is started then.

        `first`: the number of a broker that is to serve before the others are started.
        """
        self.directory = directory
        self.all_served = False
        self.brokers = [
            BrokerChild(
                launch, os.path.join(directory, f"broker-{launch.number}.log"),
                restarts=restarts, tell=self._tell, on_change=self._changed,
            )
            for launch in launches
        ]  # fmt: skip
        self._state_path = os.path.join(directory, STATE_FILE)
        self._display = display
        self._greet = greet
        self._beside = beside
        self._ready = asyncio.Event()
        self._first = first
        self._first_serves = asyncio.Event()
        self._ended = False
        self._control: Control | None = None

    @property
    def addresses(self) -> list[str]:
        """HOST:PORT of the brokers that serve."""
        return [f"{broker.address[0]}:{broker.address[1]}" for broker in self.brokers if broker.address]

    async def run(self, view: Coroutine[Any, Any, None] | None = None) -> int:
        """Run the brokers, and a view of them, until a signal or `ottla cluster down`; the exit status."""
        loop = asyncio.get_running_loop()
        stopping = asyncio.Event()
        await self._open_control(stopping)
        for number in stopping_signals():
            loop.add_signal_handler(number, stopping.set)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._state_path)
        keeping = [loop.create_task(self._keep(broker)) for broker in self.brokers]
        viewing = [] if view is None else [loop.create_task(view)]
        stopped = loop.create_task(stopping.wait())
        refused = loop.create_task(self._accompany())
        gone = loop.create_task(self._gone(keeping))
        await asyncio.wait({stopped, refused, gone}, return_when=asyncio.FIRST_COMPLETED)
        told_to = stopping.is_set() and not refused.done()
        for running in (refused, *viewing):
            running.cancel()
        if self._beside is not None:
            await self._beside.stop()
        killed = await self._stop_all()
        for task in (gone, stopped):
            task.cancel()
        await asyncio.gather(*keeping, gone, stopped, refused, *viewing, return_exceptions=True)
        if self.all_served:
            self._write_state()
        if self._control is not None:
            self._control.close(killed=killed)
        return 0 if told_to else 1

    async def _keep(self, broker: BrokerChild) -> None:
        if self._first not in (None, broker.number):
            await self._first_serves.wait()
        await broker.keep()

    async def _open_control(self, stopping: asyncio.Event) -> None:
        control = Control(self.directory, stopping.set)
        try:
            await control.open()
        except OSError as fault:  # a file system that has no sockets
            control.close(killed=0)
            self._tell(f"`ottla cluster down` will not find this cluster: {fault.strerror}")
        else:
            self._control = control

    async def _accompany(self) -> None:
        """Start what runs beside the brokers once all serve; end only where that is refused."""
        await self._ready.wait()
        if self._beside is not None:
            try:
                await self._beside.start(",".join(self.addresses))
            except BesideFailed as fault:
                self._tell(f"cannot start: {fault}")
                return
        await asyncio.Event().wait()

    async def _stop_all(self) -> int:
        """Stop all brokers; return how many had to be killed."""
        self._ended = True
        self._display.end()
        self._tell("stopping all brokers")
        stopped = await asyncio.gather(*(broker.stop() for broker in self.brokers))
        self._first_serves.set()  # brokers that waited for the first find that they are stopped
        return stopped.count(False)

    async def _gone(self, keeping: list[asyncio.Task[None]]) -> None:
        """End when going on makes no sense: a broker never started, or all are gone for good."""
        waiting = set(keeping)
        while waiting:
            _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if not self.all_served:
                return

    def _tell(self, sentence: str) -> None:
        self._display.say(sentence)
        if self._control is not None:
            self._control.say(sentence)

    def _changed(self) -> None:
        """Note that a broker started or ended."""
        if self._ended:
            return
        if any(broker.number == self._first and broker.address is not None for broker in self.brokers):
            self._first_serves.set()
        if not self.all_served and all(broker.address is not None for broker in self.brokers):
            self.all_served = True
            self._write_state()
            self._greet(self.addresses)
            self._ready.set()
        elif self.all_served:
            self._write_state()

    def _write_state(self) -> None:
        """Write the state file as a whole: a reader sees one state at any moment."""
        brokers = [
            {"id": broker.number, "pid": broker.pid, "host": broker.address[0], "port": broker.address[1]}
            for broker in self.brokers
            if broker.address is not None
        ]
        try:
            with open(self._state_path + ".tmp", "w", encoding="utf-8") as file:
                json.dump({"brokers": brokers}, file)
                file.write("\n")
            os.replace(self._state_path + ".tmp", self._state_path)
        except OSError as error:  # the brokers run on, and the next change is written
            self._tell(f"cannot write {STATE_FILE}: {error.strerror}")
