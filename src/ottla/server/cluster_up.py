"""`ottla cluster up`: several brokers on this machine under one supervisor (supervisor.py), and a view of them.

client/blocking/looks.py looks at the cluster, and cluster_table.py shows it. cluster_down.py ends it from elsewhere.
"""

from __future__ import annotations

import asyncio
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
from ottla.server.broker_child import BrokerChild, Launch
from ottla.server.cluster_table import display
from ottla.server.kept_ports import USUAL_LISTENER
from ottla.server.main import assignments
from ottla.server.supervisor import STATE_FILE, STORE, AlreadyUp, BrokerSupervisor, broker_directory, locked

if TYPE_CHECKING:
    from ottla.client.blocking.admin import Admin

DEFAULT_DATA = "./ottla-cluster"
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
    try:
        with locked(directory):
            cluster = ClusterUp(options, directory)
            cluster.give_ports(options.port)
            return asyncio.run(cluster.run())
    except (AlreadyUp, cluster_ports.PortTaken) as fault:
        print(f"ottla: {fault}", file=sys.stderr)
        return 1


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
    """Looks at the brokers of one supervisor, and shows the state of the cluster."""

    def __init__(self, options: UpOptions, directory: str) -> None:
        self._options = options
        self._defaults = defaults_for(options.brokers)
        self._display = display(options.format)
        arguments = ["--join", _join(options, directory), "--log-level", options.log_level]
        arguments += ["--port", "0"] if options.config is None else ["--config", options.config]
        for name, value in {**self._defaults, **assignments(options.set)}.items():
            arguments += ["--set", f"{name}={value}"]
        self._supervisor = BrokerSupervisor(
            directory,
            [
                Launch(number, broker_directory(directory, number), arguments)
                for number in range(1, options.brokers + 1)
            ],
            restarts=options.restart,
            display=self._display,
            greet=self._greet,
        )

    def give_ports(self, base: int | None) -> None:
        """Choose the ports before anything is started; cluster_ports.PortTaken if one of them cannot be had."""
        brokers = self._supervisor.brokers
        directories = {broker.number: broker.directory for broker in brokers}
        preferred = cluster_ports.give_ports(directories, base, self._options.listener)
        for broker in brokers:
            broker.preferred_port = preferred.get(broker.number)

    async def run(self) -> int:
        return await self._supervisor.run(self._show())

    def _greet(self, addresses: list[str]) -> None:
        directory = self._supervisor.directory
        self._options.tell_addresses(",".join(addresses))
        defaults = ", ".join(f"{name}={value}" for name, value in self._defaults.items())
        told = ", ".join(self._options.set)
        self._display.greet(
            f"ottla {__version__} cluster ready: ",
            addresses,
            [
                f"  data      {directory}",
                f"  state     {os.path.join(directory, STATE_FILE)}",
                f"  topics    {defaults}" + (f" ({told} was said)" if told else ""),
                f"  try       ottla cluster status -b {addresses[0]}{self._as_client()}",
                f"  end       Ctrl-C, or elsewhere: ottla cluster down --data {directory}",
            ],
        )

    def _as_client(self) -> str:
        return "" if self._options.client is None else f" --command-config {self._options.client}"

    async def _show(self) -> None:
        """Look at the cluster at intervals."""
        from ottla.client.blocking.admin import Admin
        from ottla.client.model import ClientSettings

        admin: Admin | None = None
        meter = Meter()
        loop = asyncio.get_running_loop()
        supervisor = self._supervisor
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            seen: ClusterOverview | None = None
            loads: Mapping[int, Load] = {}
            if supervisor.addresses and supervisor.all_served:
                if admin is None:
                    settings = ClientSettings(
                        "ottla-cluster-up", api_timeout_ms=_LOOK_WITHIN_MS, security=self._options.security
                    )
                    admin = Admin(supervisor.addresses, settings=settings)
                seen, loads = await loop.run_in_executor(None, _try_to_ask, admin, meter)
            lines = [_line(broker, seen, loads) for broker in supervisor.brokers]
            lines += joined_lines(seen, loads, {broker.number for broker in supervisor.brokers})
            self._display.show(lines, seen, all_served=supervisor.all_served)


def _line(broker: BrokerChild, seen: ClusterOverview | None, loads: Mapping[int, Load]) -> BrokerLine:
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
