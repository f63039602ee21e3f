"""A ZooKeeper server for tests, of the jars that `tools/jars.py zookeeper` fetched."""

from __future__ import annotations

import os
import queue
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ottla.coordination.zookeeper import ZookeeperCoordination
from ottla.kernel.ids import BrokerId
from ottla.kernel.story import Slot

T = TypeVar("T")
PROOF = "zookeeper-3.9.4.jar"


def zookeeper_jars() -> Path | None:
    root = Path(__file__).resolve().parents[2]
    for folder in (os.environ.get("OTTLA_ZOOKEEPER_JARS"), root / ".cache" / "zookeeper" / "libs"):
        if folder and shutil.which("java") and (Path(folder) / PROOF).exists():
            return Path(folder)
    return None


class ZookeeperServer:
    def __init__(self, libs: Path, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        lines = ["tickTime=500", f"dataDir={folder}", f"clientPort={self.port}", "clientPortAddress=127.0.0.1"]
        config = folder / "zoo.cfg"
        config.write_text("\n".join([*lines, "admin.enableServer=false\n"]))
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        command = ["java", "-Xmx64m", "-cp", f"{libs}/*", main, str(config)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


class ZookeeperKind:
    """A log of its own on the server. Callbacks are run by whoever waits, as a broker's loop would."""

    def __init__(self, server: ZookeeperServer) -> None:
        self._hosts = f"127.0.0.1:{server.port}"
        self._chroot = f"/log-{time.monotonic_ns()}"
        self._callbacks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._opened: list[ZookeeperCoordination] = []

    def open(self, broker_id: int) -> ZookeeperCoordination:
        opened = ZookeeperCoordination(
            self._hosts, BrokerId(broker_id), self._callbacks.put, chroot=self._chroot, digest=("ottla", "secret")
        )
        self._opened.append(opened)
        assert self.wait_until(lambda: self._answers(opened))
        return opened

    def _answers(self, opened: ZookeeperCoordination) -> bool:
        try:
            self.wait(opened.head())
        except OSError:
            return False
        return True

    def wait(self, slot: Slot[T]) -> T:
        assert self.wait_until(lambda: slot.full)
        return slot.result()

    def wait_until(self, reached: Callable[[], bool]) -> bool:
        deadline = time.monotonic() + 30
        while not reached() and time.monotonic() < deadline:
            try:
                self._callbacks.get(timeout=0.02)()
            except queue.Empty:
                continue
        return reached()

    def close(self) -> None:
        for opened in self._opened:
            opened.close()
