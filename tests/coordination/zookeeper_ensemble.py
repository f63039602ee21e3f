"""A ZooKeeper ensemble of three servers for tests, from the jars of `tools/jars.py zookeeper`."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from tests.ports import free_ports

PROOF = "zookeeper-3.9.4.jar"
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
SERVERS = (1, 2, 3)


def zookeeper_jars() -> Path | None:
    root = Path(__file__).resolve().parents[2]
    for folder in (os.environ.get("OTTLA_ZOOKEEPER_JARS"), root / ".cache" / "zookeeper" / "libs"):
        if folder and shutil.which("java") and (Path(folder) / PROOF).exists():
            return Path(folder)
    return None


def java_command(libs: Path, config: Path) -> list[str]:
    """The command that runs a server."""
    quick = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    return ["java", *quick, "-cp", f"{libs}/*", MAIN, str(config)]


class ZookeeperEnsemble:
    """Three server processes. `ports` are the clients' ports by server number.

    `prefix` precedes each command, to start the servers on another host, whose address is `address`.
    """

    def __init__(self, libs: Path, folder: Path, *, address: str = "127.0.0.1", prefix: Sequence[str] = ()) -> None:
        self._libs = libs
        self._folder = folder
        self._address = address
        self._prefix = prefix
        ports = free_ports(3 * len(SERVERS))
        self.ports = dict(zip(SERVERS, ports, strict=False))
        peers = [f"server.{number}={address}:{ports[2 + number]}:{ports[5 + number]}" for number in SERVERS]
        for number in SERVERS:
            data = folder / str(number)
            data.mkdir()
            (data / "myid").write_text(str(number))
            # More patient than the guide recommends: a test machine may stand still for seconds.
            lines = ["tickTime=500", "initLimit=40", "syncLimit=20", f"dataDir={data}", *peers]
            lines += [f"clientPort={self.ports[number]}", f"clientPortAddress={address}", "admin.enableServer=false"]
            (data / "zoo.cfg").write_text("\n".join([*lines, "4lw.commands.whitelist=srvr\n"]))
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        for number in SERVERS:
            self.start(number)
        self.wait_until_whole()

    @property
    def hosts(self) -> str:
        return ",".join(f"{self._address}:{port}" for port in self.ports.values())

    def start(self, number: int) -> None:
        config = self._folder / str(number) / "zoo.cfg"
        command = [*self._prefix, *java_command(self._libs, config)]
        with (self._folder / f"{number}.log").open("ab") as log:
            self._processes[number] = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self, number: int) -> None:
        self._processes[number].kill()
        self._processes[number].wait()

    def leader(self) -> int | None:
        return next((number for number in SERVERS if self._mode(number) == "leader"), None)

    def wait_for_leader(self) -> None:
        """Wait until the remaining servers have elected a leader."""
        deadline = time.monotonic() + 300
        while self.leader() is None:
            assert time.monotonic() < deadline, f"no leader: {self._last_words()}"
            time.sleep(0.1)

    def wait_until_whole(self) -> None:
        """Wait until every killed server is back and all of them serve."""
        for number, process in self._processes.items():
            if process.poll() is not None:
                self.start(number)
        deadline = time.monotonic() + 300
        while sorted(filter(None, map(self._mode, SERVERS))) != ["follower", "follower", "leader"]:
            assert time.monotonic() < deadline, f"no ensemble: {self._last_words()}"
            time.sleep(0.1)

    def stop(self) -> None:
        for number in SERVERS:
            self.kill(number)

    def _last_words(self) -> str:
        logs = {number: (self._folder / f"{number}.log").read_text(errors="replace") for number in SERVERS}
        return "\n".join(f"--- {number}, {self._mode(number)}\n{log[-3000:]}" for number, log in logs.items())

    def _mode(self, number: int) -> str | None:
        """The mode that a server reports; None while it does not serve."""
        with contextlib.suppress(OSError), socket.create_connection((self._address, self.ports[number]), 2) as asked:
            asked.settimeout(2)
            asked.sendall(b"srvr")
            said = b""
            while part := asked.recv(4096):
                said += part
            for line in said.decode().splitlines():
                if line.startswith("Mode: "):
                    return line.removeprefix("Mode: ")
        return None
