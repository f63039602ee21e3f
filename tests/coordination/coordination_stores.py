"""The stores of the conformance suite, all opened in the same way, each with its own faults."""

from __future__ import annotations

import os
import queue
import struct
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from cables import Cables
from careful import Careful
from failing_disk import FailingCommit, Fate
from kazoo.protocol.states import Callback

from ottla.coordination.memory import MemoryCoordination, MemoryStore
from ottla.coordination.sqlite import SqliteCoordination
from ottla.coordination.zookeeper import FIRST_CONNECTION_S, ZookeeperCoordination
from ottla.kernel.ids import BrokerId
from ottla.kernel.seams import Conflict, Coordination, Unknown, Written
from ottla.kernel.story import Slot
from ottla.sim.coordination import CALM, ROUGH, CoordinationFaults, SimCoordination
from ottla.sim.loop import SimLoop

T = TypeVar("T")
Outcome = Written | Conflict | Unknown
SHORT_SESSION_MS = 1500
LOST = {
    Fate.DONE: CALM._replace(lost_answer=1.0),
    Fate.NOT_DONE: CALM._replace(lost_request=1.0),
    Fate.LATE: CALM._replace(late=1.0),
}


class Store(Protocol):
    """A store in which brokers can be opened."""

    def open(self, broker_id: int) -> Coordination: ...

    def wait(self, slot: Slot[T]) -> T: ...

    def wait_until(self, reached: Callable[[], bool]) -> bool: ...

    def close(self) -> None: ...


class TroubledStore(Store, Protocol):
    """A store in which a test can make faults for one broker at a time."""

    def open_fragile(self, broker_id: int) -> Coordination:
        """Open the store as the broker that will meet the faults."""

    def append_unknown(
        self, broker: Coordination, witness: Coordination, fate: Fate, bodies: Sequence[bytes], expected: int
    ) -> Unknown:
        """Append as the fragile broker, and lose the answer; afterwards the store answers again."""

    def lose_session(self, broker: Coordination) -> None:
        """Keep the fragile broker silent for longer than a session."""

    def restore_session(self, broker: Coordination) -> None:
        """Let the fragile broker reach the store again."""


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
    def __init__(self, faults: CoordinationFaults = CALM, seed: int = 7) -> None:
        self.store = MemoryStore()
        self.loop = SimLoop(seed)
        self.ways: list[SimCoordination] = []
        self._faults = faults
        self._seed = seed

    def open(self, broker_id: int) -> Coordination:
        way = SimCoordination(self.store, BrokerId(broker_id), self.loop, self._seed, self._faults)
        self.ways.append(way)
        return way

    open_fragile = open

    def wait(self, slot: Slot[T]) -> T:
        assert self.wait_until(lambda: slot.full)
        return slot.result()

    def wait_until(self, reached: Callable[[], bool]) -> bool:
        return self.loop.run_until(reached, within_ms=60_000)

    def append_unknown(
        self, broker: Coordination, witness: Coordination, fate: Fate, bodies: Sequence[bytes], expected: int
    ) -> Unknown:
        assert isinstance(broker, SimCoordination)
        broker.faults = LOST[fate]
        asked = broker.append(bodies, expected)
        broker.faults = self._faults
        outcome = self.wait(asked)
        assert isinstance(outcome, Unknown)
        return outcome

    def lose_session(self, broker: Coordination) -> None:
        assert isinstance(broker, SimCoordination)
        broker.cut = True
        broker.expire()

    def restore_session(self, broker: Coordination) -> None:
        assert isinstance(broker, SimCoordination)
        broker.cut = False
        broker.revive()

    def close(self) -> None:
        pass


class RoughKind(SimKind):
    """The model with lost and late requests, used by brokers that settle unknown outcomes."""

    def __init__(self, seed: int = 7) -> None:
        super().__init__(ROUGH, seed)

    def open(self, broker_id: int) -> Coordination:
        return Careful(super().open(broker_id), broker_id)

    open_fragile = open

    def lose_session(self, broker: Coordination) -> None:
        assert isinstance(broker, Careful)
        super().lose_session(broker.way)

    def restore_session(self, broker: Coordination) -> None:
        assert isinstance(broker, Careful)
        super().restore_session(broker.way)


class RealKind:
    """A real store; a waiting caller runs the callbacks, as a broker's loop would."""

    def __init__(self) -> None:
        self.callbacks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.opened: list[Coordination] = []

    def wait(self, slot: Slot[T]) -> T:
        assert self.wait_until(lambda: slot.full)
        return slot.result()

    def wait_until(self, reached: Callable[[], bool], within_s: float = 300) -> bool:
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

    open_fragile = open

    def append_unknown(
        self, broker: Coordination, witness: Coordination, fate: Fate, bodies: Sequence[bytes], expected: int
    ) -> Unknown:
        """Let the disk fail in the commit: before it takes effect, or while the rollback journal is ended."""
        with FailingCommit(fate) as failing:
            outcome = self.wait(broker.append(bodies, expected))
        assert failing.failed == 1
        assert isinstance(outcome, Unknown)
        return outcome

    def lose_session(self, broker: Coordination) -> None:
        """Make its heartbeat older than a session, as if its loop had stood still that long."""
        assert isinstance(broker, SqliteCoordination)
        self.wait(broker.head())
        asked = struct.pack("<q", broker._asked_ms)  # its worker writes this in its next turn, and then stops
        assert self.wait_until(lambda: os.pread(broker._presence._lock, 8, 0) == asked)
        broker._presence.beat(time.monotonic_ns() // 1_000_000 - 6001)

    def restore_session(self, broker: Coordination) -> None:
        """Wait a millisecond: a heartbeat with the same time as the last one is not written."""
        assert isinstance(broker, SqliteCoordination)
        assert self.wait_until(lambda: time.monotonic_ns() // 1_000_000 > broker._asked_ms)
        self.wait(broker.head())


class ZookeeperKind(RealKind):
    """A log of its own in the ensemble, which only its user may see."""

    def __init__(self, hosts: str, cables: Cables | None = None) -> None:
        super().__init__()
        self.hosts = hosts
        self.chroot = f"/test/log-{time.monotonic_ns()}"
        self._cables = cables

    def open(
        self,
        broker_id: int,
        *,
        hosts: str | None = None,
        session_timeout_ms: int = 10_000,
        digest: tuple[str, str] = ("ottla", "secret"),
        first_connection_s: float = FIRST_CONNECTION_S,
    ) -> ZookeeperCoordination:
        opened = ZookeeperCoordination(
            hosts or self.hosts, BrokerId(broker_id), self.callbacks.put,
            session_timeout_ms=session_timeout_ms, chroot=self.chroot, digest=digest,
            first_connection_s=first_connection_s,
        )  # fmt: skip
        self.opened.append(opened)
        self.wait(opened.head())
        return opened

    def open_fragile(self, broker_id: int) -> ZookeeperCoordination:
        assert self._cables is not None
        return self.open(broker_id, hosts=self._cables.hosts, session_timeout_ms=SHORT_SESSION_MS)

    def append_unknown(
        self, broker: Coordination, witness: Coordination, fate: Fate, bodies: Sequence[bytes], expected: int
    ) -> Unknown:
        """Append with an unknown outcome; try again if another call kept the append from being sent (OSError)."""
        for _ in range(10):
            asked = self._append_in_trouble(broker, witness, fate, bodies, expected)
            assert self.wait_until(self.answers(broker))
            if asked.error is None:
                outcome = asked.result()
                assert isinstance(outcome, Unknown)
                return outcome
            assert isinstance(asked.error, OSError)
        raise AssertionError("no append of ten was sent")

    def _append_in_trouble(
        self, broker: Coordination, witness: Coordination, fate: Fate, bodies: Sequence[bytes], expected: int
    ) -> Slot[Outcome]:
        cables = self._cables
        assert cables is not None
        self._let_it_be_quiet(broker)
        cables.hold(requests=fate != Fate.DONE, answers=fate == Fate.DONE)
        asked = broker.append(bodies, expected)
        if fate == Fate.DONE:
            assert self.wait_until(lambda: asked.full or self.wait(witness.head()) > expected)
        elif fate == Fate.NOT_DONE:
            assert self.wait_until(lambda: asked.full or cables.holds(bodies[0]))
        if fate == Fate.LATE:  # the broker gives up by itself; mending the cables releases the request
            assert self.wait_until(lambda: asked.full)
        else:
            cables.cut()
            assert self.wait_until(lambda: asked.full)
        cables.mend()
        return asked

    def _let_it_be_quiet(self, broker: Coordination) -> None:
        """Wait until the broker has read what its watches told it: the next thing that it sends is its next append."""
        assert isinstance(broker, ZookeeperCoordination)
        self.wait(broker.head())
        passed_on = threading.Event()
        broker._client.handler.dispatch_callback(Callback("watch", passed_on.set, ()))
        assert passed_on.wait(60)
        self.wait(broker.head())

    def lose_session(self, broker: Coordination) -> None:
        assert self._cables is not None
        self._cables.hold(requests=True, answers=True)

    def restore_session(self, broker: Coordination) -> None:
        assert self._cables is not None
        self._cables.mend()
        assert self.wait_until(self.answers(broker))

    def answers(self, broker: Coordination) -> Callable[[], bool]:
        """A condition that holds once the store answers; each look asks again after an OSError."""
        asked = [broker.head()]

        def look() -> bool:
            if not asked[0].full:
                return False
            if isinstance(asked[0].error, OSError):
                asked[0] = broker.head()
                return False
            asked[0].result()
            return True

        return look
