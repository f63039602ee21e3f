"""`ottla cluster up`: several brokers on this machine, started, watched and brought back, until it is told to stop.

Each broker is a process of its own (broker_child.py); they share a store in DIR/store. client/blocking/looks.py
looks at the cluster, and cluster_table.py shows it. cluster_down.py ends it from elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla import __version__
from ottla.client.admin.broker_table import SERVING, BrokerLine
from ottla.client.admin.loads import NOTHING, Load
from ottla.client.admin.overview import ClusterOverview
from ottla.client.blocking.looks import Meter, cluster_overview
from ottla.client.security import PLAINTEXT, Security
from ottla.server import cluster_ports
from ottla.server.broker_child import BrokerChild
from ottla.server.cluster_control import Control
from ottla.server.cluster_table import display
from ottla.server.kept_ports import USUAL_LISTENER
from ottla.server.main import assignments
from ottla.server.signals import stopping_signals

if TYPE_CHECKING:
    from ottla.client.blocking.admin import Admin

DEFAULT_DATA = "./ottla-cluster"
STATE_FILE = "cluster.json"
STORE = "store"
LOCK = ".lock"
_LOOK_EVERY_S = 2.0
_LOOK_WITHIN_MS = 3000


def _nothing(_addresses: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class UpOptions:
    """The options of `ottla cluster up`; cli/cluster_local.py says what each is for."""

    brokers: int = 3
    data: str = DEFAULT_DATA
    port: int | None = None
    zookeeper: str | None = None
    restart: bool = True
    set: Sequence[str] = ()
    log_level: str = "warning"
    format: str = "text"
    config: str | None = None
    """The server.properties of all brokers, for one listener on port 0."""
    listener: str = USUAL_LISTENER
    """The name of that listener."""
    client: str | None = None
    """The file with options of clients by which this process looks at the cluster."""
    security: Security = PLAINTEXT
    """The security of these options."""
    tell_addresses: Callable[[str], None] = _nothing
    """Told the brokers' addresses, HOST:PORT,..., once all of them serve."""


def up(options: UpOptions) -> int:
    """Run the cluster until a signal or `ottla cluster down` ends it; the exit status."""
    directory = os.path.abspath(options.data)
    if (wrong := _problem(options, directory)) is not None:
        print(f"ottla: {wrong}", file=sys.stderr)
        return 2
    os.makedirs(directory, exist_ok=True)
    from ottla.storage.disk.local import LocalDisk

    lock = LocalDisk().lock(os.path.join(directory, LOCK))
    if lock is None:
        print(f"ottla: a cluster is up in {directory} already; `ottla cluster down` ends it", file=sys.stderr)
        return 1
    try:
        cluster = ClusterUp(options, directory)
        cluster.give_ports(options.port)
        return asyncio.run(cluster.run())
    except cluster_ports.PortTaken as fault:
        print(f"ottla: {fault}", file=sys.stderr)
        return 1
    finally:
        lock.release()


def _problem(options: UpOptions, directory: str) -> str | None:
    from ottla.config.resolve import read_static
    from ottla.server.stores import check_join

    if not 1 <= options.brokers <= 100:
        return f"--brokers {options.brokers}: 1 to 100 are possible on a machine"
    if (wrong := cluster_ports.problem(options.port, options.brokers)) is not None:
        return wrong
    if os.path.exists(os.path.join(directory, "meta.properties")):
        return (
            f"{directory} is the data directory of one broker; others join it by "
            f"`ottla start --id 2 --data ANOTHER --join sqlite:{directory}`"
        )
    try:
        read_static(file=options.config, command_line=assignments(options.set))
        check_join(_join(options, directory))
    except ValueError as fault:
        return str(fault)
    return None


def _join(options: UpOptions, directory: str) -> str:
    if options.zookeeper is not None:
        return f"zookeeper://{options.zookeeper}"
    return "sqlite:" + os.path.join(directory, STORE)


class ClusterUp:
    """Runs and watches the brokers."""

    def __init__(self, options: UpOptions, directory: str) -> None:
        self._directory = directory
        self._state_path = os.path.join(directory, STATE_FILE)
        self._options = options
        self._defaults = defaults_for(options.brokers)
        self._told = list(options.set)
        arguments = ["--join", _join(options, directory), "--log-level", options.log_level]
        if options.config is not None:
            arguments += ["--config", options.config]
        for name, value in {**self._defaults, **assignments(options.set)}.items():
            arguments += ["--set", f"{name}={value}"]
        self._brokers = [
            BrokerChild(
                number, directory, arguments,
                restarts=options.restart, tell=self._tell, on_change=self._changed,
            )
            for number in range(1, options.brokers + 1)
        ]  # fmt: skip
        self._all_served = False
        self._ended = False
        self._display = display(options.format)
        self._control: Control | None = None

    def give_ports(self, base: int | None) -> None:
        """Choose the ports before anything is started; cluster_ports.PortTaken if one of them cannot be had."""
        directories = {broker.number: broker.directory for broker in self._brokers}
        preferred = cluster_ports.give_ports(directories, base, self._options.listener)
        for broker in self._brokers:
            broker.preferred_port = preferred.get(broker.number)

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        stopping = asyncio.Event()
        await self._open_control(stopping)
        for number in stopping_signals():
            loop.add_signal_handler(number, stopping.set)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._state_path)
        keeping = [loop.create_task(broker.keep()) for broker in self._brokers]
        showing = loop.create_task(self._show())
        stopped = loop.create_task(stopping.wait())
        gone = loop.create_task(self._gone(keeping))
        await asyncio.wait({stopped, gone}, return_when=asyncio.FIRST_COMPLETED)
        told_to = stopping.is_set()
        showing.cancel()
        killed = await self._stop_all()
        for task in (gone, stopped):
            task.cancel()
        await asyncio.gather(*keeping, gone, stopped, showing, return_exceptions=True)
        if self._all_served:
            self._write_state()
        if self._control is not None:
            self._control.close(killed=killed)
        return 0 if told_to else 1

    async def _open_control(self, stopping: asyncio.Event) -> None:
        control = Control(self._directory, stopping.set)
        try:
            await control.open()
        except OSError as fault:  # a file system that has no sockets
            control.close(killed=0)
            self._tell(f"`ottla cluster down` will not find this cluster: {fault.strerror}")
        else:
            self._control = control

    async def _stop_all(self) -> int:
        """Stop all brokers; return how many had to be killed."""
        self._ended = True
        self._display.end()
        self._tell("stopping all brokers")
        return sum(not stopped for stopped in await asyncio.gather(*(broker.stop() for broker in self._brokers)))

    async def _gone(self, keeping: list[asyncio.Task[None]]) -> None:
        """End when going on makes no sense: a broker never started, or all are gone for good."""
        waiting = set(keeping)
        while waiting:
            _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if not self._all_served:
                return

    # --- events ---

    def _tell(self, sentence: str) -> None:
        self._display.say(sentence)
        if self._control is not None:
            self._control.say(sentence)

    def _changed(self) -> None:
        """Note that a broker started or ended."""
        if self._ended:
            return
        if not self._all_served and all(broker.address is not None for broker in self._brokers):
            self._all_served = True
            self._write_state()
            self._greet()
        elif self._all_served:
            self._write_state()

    def _write_state(self) -> None:
        """Write the state file as a whole: a reader sees one state at any moment."""
        brokers = [
            {"id": broker.number, "pid": broker.pid, "host": broker.address[0], "port": broker.address[1]}
            for broker in self._brokers
            if broker.address is not None
        ]
        try:
            with open(self._state_path + ".tmp", "w", encoding="utf-8") as file:
                json.dump({"brokers": brokers}, file)
                file.write("\n")
            os.replace(self._state_path + ".tmp", self._state_path)
        except OSError as error:  # the brokers run on, and the next change is written
            self._tell(f"cannot write {STATE_FILE}: {error.strerror}")

    def _greet(self) -> None:
        addresses = self._addresses()
        self._options.tell_addresses(",".join(addresses))
        defaults = ", ".join(f"{name}={value}" for name, value in self._defaults.items())
        self._display.greet(
            f"ottla {__version__} cluster ready: ",
            addresses,
            [
                f"  data      {self._directory}",
                f"  state     {self._state_path}",
                f"  topics    {defaults}" + (f" ({', '.join(self._told)} was said)" if self._told else ""),
                f"  try       ottla cluster status -b {addresses[0]}{self._as_client()}",
                f"  end       Ctrl-C, or elsewhere: ottla cluster down --data {self._directory}",
            ],
        )

    def _as_client(self) -> str:
        return "" if self._options.client is None else f" --command-config {self._options.client}"

    def _addresses(self) -> list[str]:
        return [f"{broker.address[0]}:{broker.address[1]}" for broker in self._brokers if broker.address]

    # --- the view ---

    async def _show(self) -> None:
        """Look at the cluster at intervals."""
        from ottla.client.blocking.admin import Admin
        from ottla.client.model import ClientSettings

        admin: Admin | None = None
        meter = Meter()
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            seen: ClusterOverview | None = None
            loads: Mapping[int, Load] = {}
            if self._addresses() and self._all_served:
                if admin is None:
                    settings = ClientSettings(
                        "ottla-cluster-up", api_timeout_ms=_LOOK_WITHIN_MS, security=self._options.security
                    )
                    admin = Admin(self._addresses(), settings=settings)
                seen, loads = await loop.run_in_executor(None, _try_to_ask, admin, meter)
            lines = [self._line(broker, seen, loads) for broker in self._brokers]
            lines += joined_lines(seen, loads, {broker.number for broker in self._brokers})
            self._display.show(lines, seen, all_served=self._all_served)

    def _line(self, broker: BrokerChild, seen: ClusterOverview | None, loads: Mapping[int, Load]) -> BrokerLine:
        return BrokerLine(
            broker.number,
            broker.state,
            f"{broker.address[0]}:{broker.address[1]}" if broker.address is not None else None,
            seen.shares.get(broker.number) if seen is not None else None,
            loads.get(broker.number, NOTHING),
            caretaker=seen is not None and seen.caretaker == broker.number,
            pid=broker.pid,
        )


def joined_lines(seen: ClusterOverview | None, loads: Mapping[int, Load], ours: Collection[int]) -> list[BrokerLine]:
    """Brokers of the cluster that others started, with `ottla start --join`."""
    return [
        BrokerLine(
            number,
            SERVING,
            f"{broker.host}:{broker.port}",
            seen.shares.get(number),
            loads.get(number, NOTHING),
            caretaker=number == seen.caretaker,
            rack=broker.rack,
        )
        for number, broker in sorted(seen.brokers.items() if seen is not None else ())
        if seen is not None and number not in ours
    ]


def defaults_for(brokers: int) -> dict[str, str]:
    """The options of a cluster of so many brokers: with enough brokers, replicas that bear the loss of one."""
    replicas = min(3, brokers)
    defaults = {"default.replication.factor": str(replicas), "offsets.topic.replication.factor": str(replicas)}
    if brokers >= 3:
        defaults["min.insync.replicas"] = "2"
    return defaults


def _try_to_ask(admin: Admin, meter: Meter) -> tuple[ClusterOverview | None, Mapping[int, Load]]:
    from ottla.client.errors import ClientError
    from ottla.kernel.errors import ApiError

    try:
        return cluster_overview(admin), meter.look(admin)
    except (ClientError, ApiError, OSError):
        return None, {}
