"""Faults of a simulated world and their times: drawn from the seed, counted by kind, and ended at the end.

world.py owns one; the simulated disk, network, clock and coordination carry the faults out. The supervisor that
restarts a dead broker is here too, as the time that it takes is part of the fault.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from ottla.sim.bit_flips import BitFlips
from ottla.sim.coordination import CALM, ROUGH, SLOW, CoordinationFaults
from ottla.sim.directory_faults import DirectoryFaults
from ottla.sim.lapses import Lapses
from ottla.sim.network_faults import NetworkFaults
from ottla.sim.peek import joining_at
from ottla.sim.plan import CLUSTER_FAULTS, CUT_COORDINATION, FAULTS, FLIPPED, KILLED_JOINING, PARTITION, STALLED
from ottla.sim.rollbacks import Rollbacks

if TYPE_CHECKING:
    from ottla.sim.machine import Machine, MachineRun
    from ottla.sim.stage import Stage

_RESTART_MS = (10, 800)
_LASTS_MS = (100, 1500)
_STALLS_MS = (200, 4000)
_SOON_MS = (20, 300)
_LOOK_MS = 2
_CLOCK_MS = 20 * 60 * 1000
"""The most that a clock is behind, or a little ahead: so no timestamp becomes one that topics refuse."""
_FAR = 365 * 24 * 6
"""So many times ten minutes are a year: records that look older than any retention are young all the same."""


class Faults:
    """`begin` starts the faults of the plan, `heal` ends them all."""

    def __init__(self, world: Stage) -> None:
        self.world = world
        self.random = Random(f"faults-{world.plan.seed}")
        self.counts: dict[str, int] = dict.fromkeys(FAULTS if world.plan.brokers == 1 else CLUSTER_FAULTS, 0)
        self.recoveries_cut = 0
        """The number of power cuts while a broker was not serving yet."""
        self.healed = False
        self.of_directories = DirectoryFaults(self)
        self._rollbacks = Rollbacks(self)
        self._flips = BitFlips(self)
        self._lapses = Lapses(self)
        self._network = network = NetworkFaults(self)
        self._makers: dict[str, Callable[[], bool]] = {
            "power cut": self._power_cut,
            "power cut in the middle": self._power_cut_in_the_middle,
            "kill": self._kill,
            "clean restart": self._clean_restart,
            "failed sync": lambda: self._fail("sync", skip=8),
            "read error": lambda: self._fail("read", skip=30),
            "disk full": self._disk_full,
            "slow disk": self._slow_disk,
            "rough coordination": lambda: self._poor_coordination(ROUGH),
            CUT_COORDINATION: self._cut_coordination,
            "clock jump": self._clock_jump,
            "cut connections": network.cut_connections,
            "slow network": network.slow_network,
            "power cut of all": self._power_cut_of_all,
            "pause": self._pause,
            "expired session": self._expired_session,
            KILLED_JOINING: self._kill_while_joining,
            PARTITION: network.partition,
            "one-way cut": network.one_way_cut,
            "refused connections": network.refused_connections,
            "long pause": self._long_pause,
            "slow coordination": lambda: self._poor_coordination(SLOW),
            "lossy network": network.lossy_network,
            STALLED: network.stalled_connections,
            "lost disk": self._lost_disk,
            "failed directory": self.of_directories.fail_one,
            "lost directory": self.of_directories.lose_one,
            FLIPPED: self._flips.flip,
        }

    def begin(self) -> None:
        if self.world.plan.faults:
            self._next()
        if self.world.plan.decays:
            self._flips.begin()
        if self.world.plan.rolls_back:
            self._rollbacks.begin()
        if self.world.plan.clings:
            self._lapses.begin()

    def _next(self) -> None:
        self.world.loop.call_later(self.random.randint(*self.world.plan.fault_every_ms), self._strike)

    def _strike(self) -> None:
        if self.healed:
            return
        kind = self.random.choice(self.world.plan.faults)
        self.strike_by(kind)
        self._next()

    def strike_by(self, kind: str) -> None:
        """Strike by this kind of fault, and count it if it was possible."""
        if self._makers[kind]():
            self.count(kind)

    def count(self, kind: str) -> None:
        self.counts[kind] += 1
        self.world.disturbed(kind)

    def heal(self) -> None:
        """End all faults.

        Brokers that do not run are started; those without one of their directories are restarted later.
        """
        self.healed = True
        self._rollbacks.heal()
        world = self.world
        world.network.delay_us = world.plan.network_us
        world.network.loss = 0.0
        world.network.unblock_all()
        world.network.admit_all()
        for machine in world.machines.values():
            if machine.disk.broken:
                self.lose_power(machine)
            machine.set_clock(0)
            machine.disk.capacity_bytes = 1 << 62
            machine.disk.forget_faults()
            machine.set_sync_us(world.plan.sync_us)
            machine.set_coordination(CALM, cut=False)
            machine.go_on()
            if machine.current is None:
                machine.start()

    def pick(self) -> Machine:
        """Choose the machine that a fault strikes."""
        machines = list(self.world.machines.values())
        return machines[0] if len(machines) == 1 else self.random.choice(machines)

    # the broker's end, and its return

    def broker_ended(self, machine: Machine) -> None:
        """Start the broker again in a while, as its process has ended."""
        self.world.loop.call_later(self.random.randint(*_RESTART_MS), lambda: self._start_again(machine))

    def _start_again(self, machine: Machine) -> None:
        if machine.current is None:
            self.world.note(f"broker {machine.broker_id} started again")
            machine.start()

    def went_offline(self, current: MachineRun) -> None:
        """Restart in a while a broker that goes on without some of its log directories."""
        self.world.loop.call_later(self.random.randint(*_STALLS_MS), lambda: self._see_to(current))

    def _see_to(self, current: MachineRun) -> None:
        machine = current.machine
        if machine.current is not current:
            return
        self.world.note(f"broker {machine.broker_id} is started again for its log directories")
        if machine.disk.broken or self.reboots():
            self.lose_power(machine)
        else:
            self._end(machine)

    def reboots(self) -> bool:
        """True if a machine with a failed disk reboots before its broker restarts; never after the faults."""
        return self.random.random() < 0.5 and not self.healed

    def lose_power(self, machine: Machine) -> None:
        """Stop the machine; its disk loses un-synced changes."""
        self.recoveries_cut += machine.current is not None and not machine.current.serving
        machine.vanish()
        if self.random.random() < self.world.plan.harsh:
            machine.disk.lose_unsynced()
        else:
            machine.disk.crash(self.random)
        self.world.power_lost(machine)
        self.broker_ended(machine)

    def _power_cut(self) -> bool:
        machine = self.pick()
        if machine.current is None:
            return False
        self.lose_power(machine)
        return True

    def _power_cut_of_all(self) -> bool:
        for machine in self.world.machines.values():
            if machine.current is not None:
                self.lose_power(machine)
        return True

    def _power_cut_in_the_middle(self) -> bool:
        """Cut the power between two coming operations of the disk, of an append, a checkpoint or a recovery."""
        machine = self.pick()
        if machine.disk.cut_after is not None:
            return False
        if machine.more_directories and self.random.random() < 0.5:
            return self.of_directories.cut_power_in_a_swap(machine)
        machine.disk.cut_after = machine.disk.operations + self.random.randint(1, 60)
        if machine.current is not None and self.random.random() < 0.5:
            self._end(machine)  # so that the cut comes during the start
        return True

    def _kill(self) -> bool:
        """Kill the process (kill -9): all writes stay, synced or not."""
        machine = self.pick()
        if machine.current is None:
            return False
        self._end(machine)
        return True

    def _end(self, machine: Machine) -> None:
        machine.vanish()
        self.broker_ended(machine)

    def _clean_restart(self) -> bool:
        machine = self.pick()
        current = machine.serving
        if current is None or machine.paused or current.leaving:
            return False
        current.leaving = True
        left = current.leave()

        def ended() -> None:
            if machine.current is not current:
                return  # another fault has ended this process meanwhile
            try:
                left.result()
            except OSError:  # the process stops with its disk's error, and the machine is rebooted
                if not self.healed:
                    self.lose_power(machine)
                    return
            self._end(machine)

        left.when_full(ended)
        return True

    def _kill_while_joining(self) -> bool:
        """Slow a leader's way to the store, wait until it proposes a replica as in sync, and kill that broker."""
        leading = self.pick()
        if leading.serving is None:
            return False
        leading.set_coordination(SLOW, cut=False)
        until_us = self.world.loop.now_us + 1000 * self.random.randint(*_STALLS_MS)

        def look() -> None:
            joining = joining_at(leading)
            if self.healed or self.world.loop.now_us >= until_us:
                leading.set_coordination(CALM, cut=False)
            elif joining is None or self.world.machines[joining].current is None:
                self.world.loop.call_later(_LOOK_MS, look)
            else:
                self._end(self.world.machines[joining])
                self.count(KILLED_JOINING)
                self.for_a_while(lambda: leading.set_coordination(CALM, cut=False))

        look()
        return False

    # its disk

    def _lost_disk(self) -> bool:
        """Replace a broker's disk by an empty one, if `may_lose_disk` allows it.

        In half of the cases its outgoing packets are held back first, so that they arrive after the replacement.
        """
        machine = self.pick()
        if not self.world.invariants.may_lose_disk(machine.broker_id):
            return False
        after_ms = self.random.choice((0, self.random.randint(*_SOON_MS)))
        if after_ms:
            hosts = [other.host for other in self.world.machines.values() if other is not machine]
            self._network.block([(machine.host, host) for host in hosts])
        self.world.loop.call_later(after_ms, lambda: self._lose_disk(machine))
        return True

    def _lose_disk(self, machine: Machine) -> None:
        if not self.healed and self.world.invariants.may_lose_disk(machine.broker_id):
            machine.vanish()
            machine.lose_disk()
            self.world.invariants.disk_lost(machine.broker_id)
            self.broker_ended(machine)

    def _fail(self, operation: str, *, skip: int) -> bool:
        """Let one coming operation of the disk fail with EIO.

        No read fails while this may be the last copy, as a replica that cannot be read at a start is fetched anew.
        """
        machine, skip = self.pick(), self.random.randint(0, skip)
        if self.of_directories.has_loss_to_tell(machine) or (operation == "read" and self._may_be_last(machine)):
            return False
        machine.disk.fail(operation, errno.EIO, skip=skip)
        return True

    def _may_be_last(self, machine: Machine) -> bool:
        """True if other brokers' copies may be lost or damaged, so that this one must not be kept from its replicas.

        So it is while a broker has lost a disk and has not registered since, or has a flipped bit on it.
        """
        invariants = self.world.invariants
        return any(map(invariants.is_lost, self.world.machines)) or invariants.bit_flipped_beside(machine.broker_id)

    def _disk_full(self) -> bool:
        machine = self.pick()
        disk = machine.disk
        if disk.is_limited or self.of_directories.has_loss_to_tell(machine) or self._may_be_last(machine):
            return False
        disk.capacity_bytes = disk.used_bytes() + self.random.choice((0, 100, 5000))
        self.for_a_while(lambda: setattr(disk, "capacity_bytes", 1 << 62))
        return True

    def _slow_disk(self) -> bool:
        machine = self.pick()
        slowest_us = self.random.choice((100_000, 500_000, 1_500_000))
        machine.set_sync_us((slowest_us // 4, slowest_us))
        self.for_a_while(lambda: machine.set_sync_us(self.world.plan.sync_us))
        return True

    # its surroundings

    def _poor_coordination(self, how: CoordinationFaults) -> bool:
        machine = self.pick()
        machine.set_coordination(how, cut=False)
        self.for_a_while(lambda: machine.set_coordination(CALM, cut=False))
        return True

    def _cut_coordination(self) -> bool:
        machine = self.pick()
        if machine.current is None or machine.coordination_cut:
            return False
        session_ms = self._session_ms
        longer_ms = self.random.randint(*_LASTS_MS)
        return self.cut_from_store(machine, self.random.choice((longer_ms, session_ms, session_ms + longer_ms)))

    def cut_from_store(self, machine: Machine, lasts_ms: int) -> bool:
        """Cut a broker off from the store.

        The broker's lease ends first, then its session, if the store has not heard it for that long.
        """
        cut_off = machine.current
        if cut_off is None or machine.coordination_cut:
            return False
        machine.set_coordination(CALM, cut=True)
        is_over = False

        def expire() -> None:
            if not is_over and machine.coordination_cut and cut_off.alive:
                cut_off.coordination.expire()

        def end() -> None:
            nonlocal is_over
            is_over = True
            machine.set_coordination(CALM, cut=False)
            if cut_off.alive:
                cut_off.coordination.revive()

        self.world.loop.call_later(self._session_ms, expire)
        self.world.loop.call_later(lasts_ms, end)
        return True

    def _clock_jump(self) -> bool:
        """Set the clock of a machine, whose broker may restart with it: a little off, or up to a year ahead."""
        off_ms = self.random.randint(-_CLOCK_MS, _CLOCK_MS)
        far_ms = off_ms - _CLOCK_MS // 2
        self.pick().set_clock(far_ms * _FAR if far_ms > 0 else off_ms)
        return True

    # among several brokers

    def _pause(self) -> bool:
        """Stop a process (SIGSTOP), and let it go on later (SIGCONT): all its callbacks come late."""
        return self._pause_one(0)

    def _long_pause(self) -> bool:
        """Stop a process for longer than its session: others lead when it goes on, which it does not know yet."""
        return self._pause_one(self._session_ms)

    def _pause_one(self, longer_ms: int) -> bool:
        machine = self.pick()
        if machine.current is None or machine.paused:
            return False
        machine.pause()
        self.world.loop.call_later(longer_ms + self.random.randint(*_LASTS_MS), machine.go_on)
        return True

    @property
    def _session_ms(self) -> int:
        return int(dict(self.world.plan.broker_texts)["broker.session.timeout.ms"])

    def _expired_session(self) -> bool:
        """Let others take a live broker for dead, until its session comes back."""
        stopped = self.pick().current
        if stopped is None:
            return False
        stopped.coordination.expire()
        self.for_a_while(lambda: stopped.coordination.revive() if stopped.alive else None)
        return True

    def for_a_while(self, end: Callable[[], None]) -> None:
        """Call `end` after the usual time of a fault."""
        self.world.loop.call_later(self.random.randint(*_LASTS_MS), end)
