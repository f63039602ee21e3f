"""A whole cluster in one process and in virtual time, from one seed: the real broker over simulated seams.

command.py runs worlds by the number. Each machine has one broker, a disk and its own way to the coordination store;
brokers and clients share one network.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ottla.coordination.memory import MemoryStore
from ottla.kernel.ids import BrokerId
from ottla.sim.checkers.history import Acknowledged, Anomaly, Disturbed, Event, Failed, Healed, History, Sent
from ottla.sim.checkers.invariants import Invariants
from ottla.sim.checkers.replayed import check_coordinators
from ottla.sim.checkers.state_log import check_states
from ottla.sim.checkers.transaction_history import Owned
from ottla.sim.checkers.transaction_notes import TransactionNotes
from ottla.sim.checkers.verdict import check
from ottla.sim.disk_faults import PowerCut
from ottla.sim.drawing import draw_plan
from ottla.sim.faults import Faults
from ottla.sim.loop import SimLoop
from ottla.sim.machine import PORT, Machine, MachineRun
from ottla.sim.network import Network
from ottla.sim.plan import Plan, keeps_up_ms
from ottla.sim.transactions import ALL_ACTS
from ottla.sim.workload import Workload

THROTTLED = "request throttled"
_MOST_TURNS = 2_000_000
_MOST_UNTRUE = 20
_SCRUBBED_HOURS = "0.0005"
"""The pause between two scrubs if bits flip: they run all the time."""
_REPAIRED_WITHIN_MS = 120_000
"""Additional time if bits flip: a damaged replica that must lead again and again leads for a minute each time."""
Note = Callable[[int, str], None]


class Result(NamedTuple):
    """The outcome of one seed."""

    seed: int
    anomalies: list[Anomaly]
    trace_hash: str
    acknowledged: int
    """The number of acknowledged records."""
    faults: dict[str, int]
    acts: dict[str, int]
    """Acts of administrators, of transactional producers, of members of the consumer protocol and of guests."""
    elections: int
    """Elections of leaders after the first."""
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
        self.history.replicated = plan.replication > 1
        self.history.repaired_within_us = _REPAIRED_WITHIN_MS * 1000 if plan.decays else 0
        self.network = Network(self.loop, plan.seed, plan.network_us)
        self.store = MemoryStore()
        self.machines = {BrokerId(number): self._machine(BrokerId(number)) for number in range(1, plan.brokers + 1)}
        self.faults = Faults(self)
        self.workload = Workload(self)
        self._over = False
        self._untrue = 0
        least = dict(plan.broker_texts).get("min.insync.replicas", "1")
        required = 1 if plan.edits_required else int(least)  # it is unknown when a leader learns of an edit
        self.invariants = Invariants(self.store, self.machines, required, keeps_up_ms(plan))
        self._notes = TransactionNotes(self.loop, self.history, plan.transactions)
        self.invariants.on_moved = self._notes.moved

    def _machine(self, broker: BrokerId) -> Machine:
        plan = self.plan
        own = {"node.id": str(broker), "broker.host": "sim", "listeners": f"PLAINTEXT://broker-{broker}:{PORT}"}
        if plan.decays:
            own["ottla.scrub.interval.hours"] = _SCRUBBED_HOURS
        machine = Machine(broker, self.loop, self.store, plan.seed, own | dict(plan.broker_texts))
        machine.more_directories, machine.store_elsewhere = plan.more_directories, plan.store_elsewhere
        machine.set_sync_us(plan.sync_us)
        machine.session_us = plan.session_us
        machine.join_network(self.network, self._serving_at)
        machine.on_nothing = lambda log: self.hold(self.invariants.nothing_to_sync(machine, log))
        return machine

    def _serving_at(self, host: str, port: int) -> MachineRun | None:
        found = next((machine for machine in self.machines.values() if machine.host == host), None)
        return found.serving if found is not None and port == PORT else None

    def all_know(self, version: int) -> bool:
        """True if every broker has applied the metadata log so far; a single broker always has."""
        running = [machine.serving for machine in self.machines.values()]
        return len(running) == 1 or all(one is not None and one.node.metadata.version >= version for one in running)

    # what happened

    def note(self, what: str) -> None:
        self.loop.note(what)

    def saw(self, event: Event) -> None:
        self.history.add(event)
        self.note(_line(event))
        if isinstance(event, Owned):
            self._notes.owned(event)

    def disturbed(self, what: str) -> None:
        self.saw(Disturbed(self.loop.now_us, what))

    # the course

    def run(self) -> Result:
        """Run load and faults, then end the faults, read everything, and judge."""
        for machine in self.machines.values():
            machine.start()
        self.workload.start()
        self.faults.begin()
        self._run_until(lambda: self.workload.told, self.plan.busy_ms)
        if not self._over:
            self.faults.heal()
            self.saw(Healed(self.loop.now_us, self.plan.healed_within_ms * 1000))
            self.workload.end()
            within_ms = self.plan.healed_within_ms + (_REPAIRED_WITHIN_MS if self.plan.decays else 0)
            if not self._run_until(lambda: self.workload.done, within_ms) and not self._over:
                waiting = ", ".join(self.workload.unfinished)
                self.saw(Failed(self.loop.now_us, f"never came to its end: {waiting}", "stuck"))
            elif self.workload.done:
                self.hold(check_states(self.machines.values(), self.history))
                self.hold(check_coordinators(self.machines.values()))
        return Result(
            seed=self.plan.seed,
            anomalies=check(self.history),
            trace_hash=self.loop.trace_hash,
            acknowledged=self._acknowledged(),
            faults=self.faults.counts,
            acts=self._acts(),
            elections=self.invariants.elections,
            recoveries_cut=self.faults.recoveries_cut,
            starts=sum(len(one.past) + (one.current is not None) for one in self.machines.values()),
            turns=self.loop.turns,
            virtual_ms=self.loop.mono_ms(),
        )

    def _acts(self) -> dict[str, int]:
        workload = self.workload
        done = workload.administrator.done | self._transaction_acts() | workload.assigned.done
        return done | workload.guests.done | workload.limits.done | {THROTTLED: self._throttled()}

    def _throttled(self) -> int:
        """The number of requests whose clients were over a quota."""
        runs = [
            run for machine in self.machines.values() for run in (*machine.past, machine.current) if run is not None
        ]
        return sum(each.requests for run in runs for each in run.node.services.quotas.throttled.values())

    def _transaction_acts(self) -> dict[str, int]:
        transactions = self.workload.transactions
        return dict.fromkeys(ALL_ACTS, 0) if transactions is None else transactions.done

    def _acknowledged(self) -> int:
        """The number of records whose producers were told that they are in the log."""
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
        self.hold(self.invariants.after_append())
        for machine in self.machines.values():
            if machine.power_gone:
                self.faults.lose_power(machine)
            if machine.touched:
                self._look_after(machine)
        if self.loop.turns > _MOST_TURNS:
            self._break(f"no end after {self.loop.turns} turns")

    def power_lost(self, machine: Machine) -> None:
        """Judge a disk right after a loss of power."""
        self.hold(self.invariants.after_power_cut(machine))

    def hold(self, broken: Iterable[Anomaly]) -> None:
        """Record broken invariants, and go on: the judges also need what clients see of them."""
        for kind, what in broken:
            if self._untrue < _MOST_UNTRUE:
                self._untrue += 1
                self.saw(Failed(self.loop.now_us, what, kind))

    def _look_after(self, machine: Machine) -> None:
        machine.touched = False
        current = machine.current
        if current is None:
            return
        if current.node.dispatch.bugs or current.node.dispatch.malformed:
            self._break("a handler failed, or a request was taken for malformed")
        elif current.fatal is not None:
            self.note(f"stopped: {current.fatal}")
            self._end_process(current)
        else:
            if machine.more_directories:
                self._look_at_directories(current)
            self.hold(self.invariants.after_turn(machine))

    def _look_at_directories(self, current: MachineRun) -> None:
        if current.node.replicas.directories.failed and not current.seen_to:
            current.seen_to = True
            self.faults.went_offline(current)

    def _end_process(self, current: MachineRun) -> None:
        """Stop a process that reported that it must stop; its supervisor starts another.

        After an error of the disk the machine may be rebooted first. If it is not, the page cache still shows pages
        that a failed sync has dropped, and that no later sync writes.
        """
        with self._judged():
            current.stop(clean=False).result()
        if current.disk_failed and self.faults.reboots():
            self.faults.lose_power(current.machine)
        else:
            current.machine.vanish()
            self.faults.broker_ended(current.machine)

    @contextmanager
    def _judged(self) -> Iterator[None]:
        """Any exception of the broker or of a client ends the run; a power cut is no fault of theirs."""
        try:
            yield
        except PowerCut:
            pass
        except Exception:
            self._break(traceback.format_exc())

    def _break(self, what: str, kind: str = "failed") -> None:
        self._over = True
        self.saw(Failed(self.loop.now_us, what, kind))


def run_seed(seed: int, on_note: Note | None = None, *, brokers: int = 1) -> Result:
    """Run one seed's world from its beginning to its end."""
    return World(draw_plan(seed, brokers), on_note).run()


def _line(event: Event) -> str:
    return repr(event)
