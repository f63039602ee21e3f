"""The stores that the conformance suite is run against, each opened in the same way."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from ottla.coordination.memory import MemoryCoordination, MemoryStore
from ottla.coordination.sqlite import SqliteCoordination
from ottla.coordination.zookeeper import ZookeeperCoordination
from ottla.kernel.ids import BrokerId
from ottla.kernel.seams import Coordination
from ottla.kernel.story import Slot
from ottla.sim.coordination import CoordinationFaults, SimCoordination
from ottla.sim.loop import SimLoop

T = TypeVar("T")


class Store(Protocol):
    """A store in which brokers can be opened."""

    def open(self, broker_id: int) -> Coordination: ...

    def wait(self, slot: Slot[T]) -> T: ...

    def wait_until(self, reached: Callable[[], bool]) -> bool: ...

    def close(self) -> None: ...


class MemoryKind:
    def __init__(self) -> None:
        self._store = MemoryStore()

    def open(self, broker_id: int) -> Coordination:
        return MemoryCoordination(self._store, BrokerId(broker_id))

    def wait(self, slot: Slot[T]) -> T:
        return slot.result()

    def wait_until(self, reached: Callable[[], bool]) -> bool:
        return reached()

    def close(self) -> None:
        pass


class SimKind:
    def __init__(self, faults: CoordinationFaults) -> None:
        self.store = MemoryStore()
        self.loop = SimLoop(7)
        self._faults = faults

    def open(self, broker_id: int) -> SimCoordination:
        return SimCoordination(self.store, BrokerId(broker_id), self.loop, 7, self._faults)

    def wait(self, slot: Slot[T]) -> T:
        assert self.loop.run_until(lambda: slot.full, within_ms=60_000)
        return slot.result()

    def wait_until(self, reached: Callable[[], bool]) -> bool:
        return self.loop.run_until(reached, within_ms=60_000)

    def close(self) -> None:
        pass


class RealKind:
    """Callbacks are run by whoever waits, as a broker's loop would."""

    def __init__(self) -> None:
        self.callbacks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.opened: list[Coordination] = []

    def wait(self, slot: Slot[T]) -> T:
        assert self.wait_until(lambda: slot.full)
        return slot.result()

    def wait_until(self, reached: Callable[[], bool], within_s: float = 30) -> bool:
        deadline = time.monotonic() + within_s
        while not reached() and time.monotonic() < deadline:
            try:
                self.callbacks.get(timeout=0.02)()
            except queue.Empty:
                continue
        return reached()

    def close(self) -> None:
        for opened in self.opened:
            opened.close()


class SqliteKind(RealKind):
    def __init__(self, directory: Path, journal: str) -> None:
        super().__init__()
        self._directory = str(directory)
        self._journal = journal

    def open(self, broker_id: int) -> SqliteCoordination:
        opened = SqliteCoordination(
            self._directory, BrokerId(broker_id), self.callbacks.put, session_timeout_ms=6000, journal=self._journal
        )
        self.opened.append(opened)
        return opened


class ZookeeperKind(RealKind):
    """A log of its own in the ensemble, which only its user may see."""

    def __init__(self, hosts: str) -> None:
        super().__init__()
        self.hosts = hosts
        self.chroot = f"/test/log-{time.monotonic_ns()}"

    def open(
        self,
        broker_id: int,
        *,
        hosts: str | None = None,
        session_timeout_ms: int = 10_000,
        digest: tuple[str, str] = ("ottla", "secret"),
    ) -> ZookeeperCoordination:
        opened = ZookeeperCoordination(
            hosts or self.hosts, BrokerId(broker_id), self.callbacks.put,
            session_timeout_ms=session_timeout_ms, chroot=self.chroot, digest=digest,
        )  # fmt: skip
        self.opened.append(opened)
        self.wait(opened.head())
        return opened
