"""A whole cluster in one process and in virtual time, from one seed: the real broker over simulated seams.

command.py runs worlds by the number. One machine with one broker today; what there is of each (`machine`, the
network's server, the faults' target) is named through it, so that more can stand beside it.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ottla.coordination.memory import MemoryStore
from ottla.kernel.ids import BrokerId
from ottla.sim.checkers import invariants
from ottla.sim.checkers.history import Acknowledged, Anomaly, Disturbed, Event, Failed, Healed, History, Sent
from ottla.sim.checkers.verdict import check
from ottla.sim.disk import PowerCut
from ottla.sim.faults import Faults
from ottla.sim.loop import SimLoop
from ottla.sim.machine import Incarnation, Machine
from ottla.sim.network import Network
from ottla.sim.plan import Plan, draw_plan
from ottla.sim.workload import Workload

BROKER = BrokerId(1)
_LOOK_EVERY_TURNS = 8
_MOST_TURNS = 2_000_000
Note = Callable[[int, str], None]


class Result(NamedTuple):
    """What became of one seed."""

    seed: int
    anomalies: list[Anomaly]
    trace_hash: str
    acknowledged: int
    """Records."""
    faults: dict[str, int]
    recoveries_cut: int
    starts: int
    turns: int
    virtual_ms: int


class World:
    """One seed's run. `on_note` hears every line of the trace."""

    def __init__(self, plan: Plan, on_note: Note | None = None) -> None:
        self.plan = plan
        self.loop = SimLoop(plan.seed)
        self.loop.on_note = on_note
        self.history = History()
        self.network = Network(self.loop, plan.seed, plan.network_us)
        self.store = MemoryStore()
        texts = {"node.id": str(BROKER), "broker.host": "sim", "listeners": "PLAINTEXT://broker-1:9092"}
        self.machine = Machine(BROKER, self.loop, self.store, plan.seed, texts | dict(plan.broker_texts))
        self.machine.set_sync_us(plan.sync_us)
        self.faults = Faults(self)
        self.workload = Workload(self)
        self._over = False
        self._invariants = invariants.Invariants()

    # what happened

    def note(self, what: str) -> None:
        self.loop.note(what)

    def saw(self, event: Event) -> None:
        self.history.add(event)
        self.note(_line(event))

    def disturbed(self, what: str) -> None:
        self.saw(Disturbed(self.loop.now_us, what))

    # the course

    def run(self) -> Result:
        """Load and faults, then healing, then the last look, then the judgement."""
        self.machine.start()
        self.workload.start()
        self.faults.begin()
        self._run_until(lambda: False, self.plan.busy_ms)
        if not self._over:
            self.faults.heal()
            self.saw(Healed(self.loop.now_us, self.plan.healed_within_ms * 1000))
            self.workload.end()
            if not self._run_until(lambda: self.workload.done, self.plan.healed_within_ms) and not self._over:
                waiting = ", ".join(self.workload.unfinished)
                self.saw(Failed(self.loop.now_us, f"never came to its end: {waiting}", "stuck"))
        return Result(
            seed=self.plan.seed,
            anomalies=check(self.history),
            trace_hash=self.loop.trace_hash,
            acknowledged=self._acknowledged(),
            faults=self.faults.counts,
            recoveries_cut=self.faults.recoveries_cut,
            starts=len(self.machine.past) + (self.machine.current is not None),
            turns=self.loop.turns,
            virtual_ms=self.loop.mono_ms(),
        )

    def _acknowledged(self) -> int:
        """Records that producers were told are there."""
        events = self.history.events
        sizes = {(event.producer, event.batch): len(event.values) for event in events if isinstance(event, Sent)}
        return sum(sizes[event.producer, event.batch] for event in events if isinstance(event, Acknowledged))

    def _run_until(self, reached: Callable[[], bool], within_ms: int) -> bool:
        limit_us = self.loop.now_us + within_ms * 1000
        while not self._over and not reached():
            if self.loop.next_us is None or self.loop.next_us > limit_us:
                return reached()
            self._turn()
        return reached()

    def _turn(self) -> None:
        with self._judged():
            self.loop.turn()
        if self.machine.power_gone:
            self.faults.lose_power()
        self._look_after_broker()
        if self.loop.turns > _MOST_TURNS:
            self._break(f"no end after {self.loop.turns} turns")

    def _look_after_broker(self) -> None:
        current = self.machine.current
        if current is None:
            return
        if current.node.dispatch.bugs or current.node.dispatch.malformed:
            self._break("a handler failed, or a request was taken for malformed")
        elif current.fatal is not None:
            self.note(f"stopped: {current.fatal}")
            self._end_process(current)
        elif self.loop.turns % _LOOK_EVERY_TURNS == 0:
            for what in self._invariants.broken(current.node):
                self._break(what, "invariant")

    def _end_process(self, current: Incarnation) -> None:
        """A process that said that it must stop does so, and its supervisor starts another.

        After an error of the disk the machine may be rebooted first, or not: then the page cache still shows what a
        failed sync has dropped, and what another sync will not put on the disk.
        """
        with self._judged():
            current.stop(clean=False).result()
        if current.disk_failed and self.faults.reboots():
            self.faults.lose_power()
        else:
            self.machine.vanish()
            self.faults.broker_ended()

    @contextmanager
    def _judged(self) -> Iterator[None]:
        """Whatever the broker or a client raises ends the run; a power cut is no fault of theirs."""
        try:
            yield
        except PowerCut:
            pass
        except Exception:
            self._break(traceback.format_exc())

    def _break(self, what: str, kind: str = "failed") -> None:
        self._over = True
        self.saw(Failed(self.loop.now_us, what, kind))


def run_seed(seed: int, on_note: Note | None = None) -> Result:
    """The whole life of one seed's world."""
    return World(draw_plan(seed), on_note).run()


def _line(event: Event) -> str:
    return repr(event)
