"""Brokers that only follow the metadata log, in virtual time over a simulated store."""

from __future__ import annotations

import random

from ottla.broker.metadata_log.command_queue import Outcome
from ottla.broker.metadata_log.metadata_follow import MetadataFollow
from ottla.broker.waiting import Deadlines
from ottla.cluster.commands import Command
from ottla.coordination.memory import MemoryStore
from ottla.kernel.ids import BrokerId
from ottla.kernel.story import Slot, run_story
from ottla.metadata.broker_state import Listener
from ottla.sim.coordination import CALM, CoordinationFaults, SimCoordination
from ottla.sim.loop import SimLoop

SESSION_MS = 6000


class SeededEntropy:
    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)


class Cluster:
    """A store, a clock, and brokers that come and go."""

    def __init__(self, seed: int = 1, faults: CoordinationFaults = CALM) -> None:
        self.loop = SimLoop(seed)
        self.store = MemoryStore()
        self.faults = faults
        self.seed = seed
        self.follow: dict[int, MetadataFollow] = {}
        self.way: dict[int, SimCoordination] = {}
        self.fatal: dict[int, str] = {}
        self.reconciled: dict[int, list[int]] = {}
        self._started = 0

    def begin(self, number: int) -> MetadataFollow:
        """A new incarnation of a broker, which has not read anything yet."""
        self._started += 1
        seed = self.seed * 1000 + self._started
        way = SimCoordination(self.store, BrokerId(number), self.loop, seed, self.faults)
        entropy = SeededEntropy(f"{seed}-{number}")
        follow = MetadataFollow(
            way, self.loop, Deadlines(self.loop), entropy, BrokerId(number), session_timeout_ms=SESSION_MS
        )
        self.fatal.pop(number, None)
        follow.on_fatal = lambda why: self.fatal.__setitem__(number, why)
        seen = self.reconciled[number] = []
        follow.on_reconcile = lambda changes: seen.append(follow.metadata.version)
        self.follow[number], self.way[number] = follow, way
        return follow

    def start(self, number: int, *, host: str = "", rack: str | None = None) -> MetadataFollow:
        """Begin to open, read and register a broker; return at once."""
        follow = self.begin(number)
        listeners = (Listener("PLAINTEXT", f"host{number}", 9092, 0),)

        async def come_up() -> None:
            while True:
                try:
                    await follow.start()
                    break
                except OSError:
                    continue
            said = follow.registration(host=host or f"host{number}", rack=rack, listeners=listeners)
            await follow.register(said)

        run_story(come_up())
        return follow

    def up(self, *numbers: int) -> None:
        """Start brokers one after the other, and wait for each."""
        for number in numbers:
            follow = self.start(number)
            assert self.until(lambda follow=follow: follow.lease_valid()), f"broker {number} does not come up"

    def crash(self, number: int) -> None:
        self.follow.pop(number).close()
        self.way[number].crash()

    def until(self, reached: object, within_ms: int = 120_000) -> bool:
        return self.loop.run_until(reached, within_ms=within_ms)  # type: ignore[arg-type]

    def ask(self, number: int, command: Command) -> Outcome:
        """Submit a command and wait for its outcome."""
        slot: Slot[Outcome] = self.follow[number].submit(command)
        assert self.until(lambda: slot.full)
        return slot.result()
