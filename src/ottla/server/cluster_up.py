"""`ottla cluster up`: several brokers on this machine, started, watched and brought back, until it is told to stop.

Each broker is a process of its own (broker_child.py); they share a store in DIR/store. What is seen of the cluster
comes from client/admin/sight.py.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Sequence

from ottla import __version__
from ottla.client.admin.sight import Sight, look
from ottla.server.broker_child import BrokerChild
from ottla.server.cluster_table import Row, Screen, plain, table

DEFAULT_DATA = "./ottla-cluster"
STATE_FILE = "cluster.json"
STORE = "store"
FIRST_PORT = 9092
_LOOK_EVERY_S = 2.0
_LOOK_WITHIN_MS = 3000


def command(arguments: Sequence[str]) -> int:
    """Run the cluster until SIGINT or SIGTERM; the exit status."""
    options = _parser().parse_args(arguments)
    directory = os.path.abspath(options.data)
    if (wrong := _problem(options, directory)) is not None:
        print(f"ottla: {wrong}", file=sys.stderr)
        return 2
    os.makedirs(directory, exist_ok=True)
    from ottla.storage.disk.local import LocalDisk

    lock = LocalDisk().lock(os.path.join(directory, ".lock"))
    if lock is None:
        print(f"ottla: a cluster is up in {directory} already", file=sys.stderr)
        return 1
    try:
        return asyncio.run(ClusterUp(options, directory).run())
    finally:
        lock.release()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ottla cluster up",
        description="Run a cluster of brokers on this machine until Ctrl-C.",
        epilog="From three brokers on, topics have three replicas and min.insync.replicas is 2, unless --set says "
        "otherwise.",
    )
    parser.add_argument("--brokers", type=int, default=3, metavar="N", help="how many (default 3)")
    parser.add_argument(
        "--data", default=DEFAULT_DATA, metavar="DIR", help=f"where data lives (default {DEFAULT_DATA})"
    )
    parser.add_argument(
        "--zookeeper", metavar="HOSTS[/CHROOT]", help="keep the metadata in a ZooKeeper ensemble, not in DIR/store"
    )
    parser.add_argument("--no-restart", action="store_true", help="leave a broker that died dead")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="set an option of all brokers")
    parser.add_argument(
        "--log-level", default="warning", metavar="LEVEL", help="how much brokers log, in DIR/broker-N.log"
    )
    return parser


def _problem(options: argparse.Namespace, directory: str) -> str | None:
    from ottla.server.stores import check_join

    if not 1 <= options.brokers <= 100:
        return f"--brokers {options.brokers}: 1 to 100 are possible on a machine"
    if os.path.exists(os.path.join(directory, "meta.properties")):
        return (
            f"{directory} is the data directory of one broker; others join it by "
            f"`ottla start --id 2 --data ANOTHER --join sqlite:{directory}`"
        )
    try:
        check_join(_join(options, directory))
    except ValueError as fault:
        return str(fault)
    return None


def _join(options: argparse.Namespace, directory: str) -> str:
    if options.zookeeper is not None:
        return f"zookeeper://{options.zookeeper}"
    return "sqlite:" + os.path.join(directory, STORE)


class ClusterUp:
    """The supervisor."""

    def __init__(self, options: argparse.Namespace, directory: str) -> None:
        self._directory = directory
        self._state_path = os.path.join(directory, STATE_FILE)
        self._defaults = defaults_for(options.brokers)
        self._told = [text for text in options.set if "=" in text]
        arguments = ["--join", _join(options, directory), "--log-level", options.log_level]
        for name, value in self._defaults.items():
            arguments += ["--set", f"{name}={value}"]
        for text in options.set:
            arguments += ["--set", text]
        self._brokers = [
            BrokerChild(
                number, directory, arguments,
                restarts=not options.no_restart, tell=self._tell, on_change=self._changed,
            )
            for number in range(1, options.brokers + 1)
        ]  # fmt: skip
        self._all_served = False
        self._ended = False
        self._screen = Screen() if sys.stdout.isatty() else None
        self._lines: dict[int, str] = {}
        self._news: list[str] = []

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        stopping = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopping.set)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._state_path)
        for broker in self._brokers:
            broker.prefer_port(FIRST_PORT + broker.number - 1)
        keeping = [loop.create_task(broker.keep()) for broker in self._brokers]
        showing = loop.create_task(self._show())
        stopped = loop.create_task(stopping.wait())
        gone = loop.create_task(self._gone(keeping))
        await asyncio.wait({stopped, gone}, return_when=asyncio.FIRST_COMPLETED)
        told_to = stopping.is_set()
        showing.cancel()
        self._ended = True
        await asyncio.gather(*(broker.stop() for broker in self._brokers))
        for task in (gone, stopped):
            task.cancel()
        await asyncio.gather(*keeping, gone, stopped, showing, return_exceptions=True)
        if self._all_served:
            self._write_state()
        return 0 if told_to else 1

    async def _gone(self, keeping: list[asyncio.Task[None]]) -> None:
        """Ends when it makes no sense to go on: a broker never came up, or all are gone for good."""
        waiting = set(keeping)
        while waiting:
            _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if not self._all_served:
                return

    # --- what has happened ---

    def _tell(self, sentence: str) -> None:
        line = f"{time.strftime('%H:%M:%S')} {sentence}"
        if self._screen is None:
            with contextlib.suppress(OSError):  # whoever read it has gone
                print(line, flush=True)
        else:
            self._news = [*self._news[-4:], line]

    def _changed(self) -> None:
        """A broker came or went."""
        if self._ended:
            return
        if not self._all_served and all(broker.address is not None for broker in self._brokers):
            self._all_served = True
            self._write_state()
            with contextlib.suppress(OSError):
                self._greet()
        elif self._all_served:
            self._write_state()

    def _write_state(self) -> None:
        """Whole or not at all: whoever reads it at any moment reads one state."""
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
        except OSError as error:  # brokers are watched on, and the next change is written
            self._tell(f"cannot write {STATE_FILE}: {error.strerror}")

    def _greet(self) -> None:
        addresses = [f"{broker.address[0]}:{broker.address[1]}" for broker in self._brokers if broker.address]
        if self._screen is not None:
            self._screen.leave()
        print(f"ottla {__version__} cluster ready: {','.join(addresses)}", flush=True)
        defaults = ", ".join(f"{name}={value}" for name, value in self._defaults.items())
        lines = [
            f"  data      {self._directory}",
            f"  state     {self._state_path}",
            f"  topics    {defaults}" + (f" ({', '.join(self._told)} was said)" if self._told else ""),
            f"  try       ottla cluster status -b {addresses[0]}",
        ]
        print("\n".join(lines), file=sys.stderr, flush=True)

    # --- what it looks like ---

    async def _show(self) -> None:
        """Look now and then; a table that stays in its place on a terminal, lines of what is new elsewhere."""
        from ottla.client.blocking.admin import Admin
        from ottla.client.model import ClientSettings

        admin: Admin | None = None
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            addresses = [f"{broker.address[0]}:{broker.address[1]}" for broker in self._brokers if broker.address]
            seen: Sight | None = None
            if addresses and self._all_served:
                if admin is None:
                    admin = Admin(
                        addresses, settings=ClientSettings("ottla-cluster-up", api_timeout_ms=_LOOK_WITHIN_MS)
                    )
                seen = await loop.run_in_executor(None, _try_to_look, admin)
            self._display(seen)

    def _display(self, seen: Sight | None) -> None:
        rows = [self._row(broker, seen) for broker in self._brokers]
        summary = "nobody answers" if seen is None else seen.summary
        if self._screen is not None:
            self._screen.show([*table(rows, summary), *self._news])
            return
        if not self._all_served or seen is None:
            return
        said = {row.broker: plain(row) for row in rows} | {0: summary}
        for number, line in said.items():
            if self._lines.get(number) != line:
                self._tell(line)
        self._lines = said

    def _row(self, broker: BrokerChild, seen: Sight | None) -> Row:
        address = f"{broker.address[0]}:{broker.address[1]}" if broker.address is not None else None
        share = seen.shares.get(broker.number) if seen is not None else None
        controller = seen is not None and seen.controller == broker.number
        return Row(broker.number, broker.state, address, broker.pid, share, controller)


def defaults_for(brokers: int) -> dict[str, str]:
    """Options of a cluster of so many brokers: as many replicas as bear the loss of one, where there are enough."""
    replicas = min(3, brokers)
    said = {"default.replication.factor": str(replicas), "offsets.topic.replication.factor": str(replicas)}
    if brokers >= 3:
        said["min.insync.replicas"] = "2"
    return said


def _try_to_look(admin: object) -> Sight | None:
    from ottla.client.blocking.admin import Admin
    from ottla.client.errors import ClientError
    from ottla.kernel.errors import ApiError

    assert isinstance(admin, Admin)
    try:
        return look(admin)
    except (ClientError, ApiError, OSError):
        return None
