"""Faults of one of several log directories of a broker, and of the swap of a replica between two.

faults.py draws the times; the simulated disk carries the faults out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.storage.directory.found import FUTURE_SUFFIX

if TYPE_CHECKING:
    from ottla.sim.machine import Machine
    from ottla.sim.striking import Striking

_LASTS_MS = (200, 4000)
_SWAP_OPERATIONS = 5
"""The most disk operations between a moved replica's rename and the fault."""


class DirectoryFaults:
    """Part of `Faults`. Each method returns True if its fault has struck now."""

    def __init__(self, faults: Striking) -> None:
        self._faults = faults
        self._random = faults.random

    def fail_one(self) -> bool:
        """Fail every operation in one log directory, until the machine is rebooted."""
        machine, in_a_swap = self._faults.pick(), self._random.random() < 0.5
        path = self._random.choice(machine.directories)
        if in_a_swap:
            return self._wait_for_a_swap(machine, "failed directory", lambda: self._break(machine, path))
        return self._break(machine, path)

    def _break(self, machine: Machine, path: str) -> bool:
        failing = machine.disk
        if failing.broken or self.has_loss_to_tell(machine):
            return False
        failing.broken[path] = None

        def end() -> None:
            if failing.broken and machine.disk is failing:
                self._faults.lose_power(machine)

        self._faults.world.loop.call_later(self._random.randint(*_LASTS_MS), end)
        return True

    def lose_one(self) -> bool:
        """Replace the disk of one log directory by an empty one.

        The broker's other directories work until it has registered without the lost one: beside a failed directory no
        directory is reported as lost.
        """
        machine = self._faults.pick()
        current, disk = machine.current, machine.disk
        does_without = disk.broken or (current is not None and current.node.replicas.directories.failed)
        invariants = self._faults.world.invariants
        if does_without or not invariants.may_lose_disk(machine.broker_id):
            return False
        machine.vanish()
        disk.forget_faults()
        disk.capacity_bytes = 1 << 62
        machine.lose_directory(self._random.choice(machine.directories))
        invariants.disk_lost(machine.broker_id)
        self._faults.broker_ended(machine)
        return True

    def has_loss_to_tell(self, machine: Machine) -> bool:
        """True if the broker has a loss to report, which another fault of its disk might prevent."""
        return bool(machine.more_directories) and self._faults.world.invariants.is_lost(machine.broker_id)

    def cut_power_in_a_swap(self, machine: Machine) -> bool:
        def cut() -> bool:
            machine.disk.cut_after = machine.disk.operations
            return True

        return self._wait_for_a_swap(machine, "power cut in the middle", cut)

    def _wait_for_a_swap(self, machine: Machine, kind: str, strike: Callable[[], bool]) -> bool:
        """Strike between two steps of storage/directory/moving.py at the next swap, and count the fault then."""

        def now() -> None:
            if strike():
                self._faults.count(kind)

        machine.disk.lie_in_wait(FUTURE_SUFFIX, self._random.randint(0, _SWAP_OPERATIONS), now)
        return False
