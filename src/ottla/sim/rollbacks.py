"""Copies of log directories and of the metadata store, made now and then and put back later.

faults.py sets them going, apart from its own draws. A directory is put back only if other replicas hold the records
that it lacks, as with a lost disk, and if since the copy its broker has registered, or has closed it, or has told the
store a greater age: then the broker must report it, and nothing may be lost. A store is put back that is older than the
directories of all brokers: no broker may start on it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from ottla.metadata.entries import UNREGISTERED
from ottla.sim.checkers.history import Failed
from ottla.sim.disk_nodes import DirectoryNode
from ottla.sim.plan import ROLLED_BACK, STORE_ROLLED_BACK
from ottla.storage.checkpoint import CLEAN_SHUTDOWN
from ottla.storage.directory.incarnation import read_incarnation

if TYPE_CHECKING:
    from ottla.sim.machine import Machine
    from ottla.sim.striking import Striking

_EVERY_MS = (100, 1200)
_STORE_LASTS_MS = (300, 2500)
_STORE_SHARE = 0.25
_ONE_DIRECTORY_SHARE = 0.5


class _Copy(NamedTuple):
    """The log directories of one machine at one moment."""

    directories: dict[str, DirectoryNode]
    epoch: int
    """The epoch in which the broker was registered."""
    closed: bool
    ages: dict[str, int]
    """The age of each directory, by its id."""


class Rollbacks:
    """Part of `Faults`."""

    def __init__(self, faults: Striking) -> None:
        self._faults = faults
        self._world = faults.world
        self._random = Random(f"rolled-back-{faults.world.plan.seed}")
        self._copies: dict[Machine, _Copy] = {}
        self._store: tuple[int, Callable[[], None]] | None = None
        """The version of a copy of the store, and a function that puts it back."""
        self.heal: Callable[[], None] = _nothing
        """Put the newer store back, if an older one is in its place."""

    def begin(self) -> None:
        self._world.loop.call_later(self._random.randint(*_EVERY_MS), self._step)

    def _step(self) -> None:
        if self._faults.healed:
            return
        machine = self._random.choice(list(self._world.machines.values()))
        if self._random.random() < _STORE_SHARE:
            if self._store is None:
                self._store = self._world.store.head, self._world.store.saved()
            elif self._put_store_back():
                self._faults.count(STORE_ROLLED_BACK)
        elif machine not in self._copies:
            self._copy(machine)
        elif self._put_back(machine, self._copies[machine]):
            del self._copies[machine]
            self._faults.count(ROLLED_BACK)
        self.begin()

    # --- directories ---

    def _copy(self, machine: Machine) -> None:
        """Copy the directories of a broker that serves or was stopped cleanly, not of one that is registering."""
        disk = machine.disk
        closed = all(disk.exists(f"{path}/{CLEAN_SHUTDOWN}") for path in machine.directories)
        whole = not disk.broken and not self._world.invariants.is_lost(machine.broker_id)
        if whole and (machine.serving is not None or (machine.current is None and closed)):
            copies = {path: disk.copied(path) for path in machine.directories}
            ages = {} if machine.current is None else _ages(machine)
            self._copies[machine] = _Copy(copies, self._world.invariants.epoch(machine.broker_id), closed, ages)

    def _put_back(self, machine: Machine, copy: _Copy) -> bool:
        """Put a copy back, if this is possible now; True if it was done."""
        invariants, current = self._world.invariants, machine.current
        does_without = machine.disk.broken or (current is not None and current.node.replicas.directories.failed)
        now = invariants.epoch(machine.broker_id)
        stored = self._world.store.ages
        aged = bool(copy.ages) and all(age < stored.get(name, 0) for name, age in copy.ages.items())
        is_known = now not in (copy.epoch, UNREGISTERED) or (invariants.has_closed(machine) and not copy.closed) or aged
        if does_without or not is_known or not invariants.may_lose_disk(machine.broker_id):
            return False
        machine.vanish()
        machine.disk.forget_faults()
        machine.disk.capacity_bytes = 1 << 62
        paths = list(copy.directories)
        if self._random.random() < _ONE_DIRECTORY_SHARE:
            paths = [self._random.choice(paths)]
        for path in paths:
            machine.disk.put_back(path, copy.directories[path])
        invariants.disk_lost(machine.broker_id)
        self._faults.broker_ended(machine)
        return True

    # --- the store ---

    def _put_store_back(self) -> bool:
        """Stop all brokers and put an older store in place; no broker may start until the newer one is back."""
        assert self._store is not None
        version, put_back = self._store
        world, machines = self._world, list(self._world.machines.values())
        invariants = world.invariants
        if any(invariants.is_lost(machine.broker_id) or not _has_noted_more(machine, version) for machine in machines):
            return False
        for machine in machines:
            machine.vanish()
            self._faults.broker_ended(machine)
        newer, self._store = world.store.saved(), None
        put_back()
        for machine in machines:
            machine.store_is_older = True
        self.heal = lambda: self._end(version, newer)
        world.loop.call_later(self._random.randint(*_STORE_LASTS_MS), self.heal)
        return True

    def _end(self, version: int, newer: Callable[[], None]) -> None:
        if self.heal is _nothing:
            return  # the end of the faults has put it back already
        world, self.heal = self._world, _nothing
        if world.store.head != version:
            world.saw(Failed(world.loop.now_us, "a broker has written to a store that is older than it", "older-store"))
        for machine in world.machines.values():
            machine.store_is_older = False
            if machine.serving is not None:
                world.saw(Failed(world.loop.now_us, f"{machine.host} serves on an older store", "older-store"))
        newer()


def _nothing() -> None:
    """Do nothing: the store is the right one."""


def _ages(machine: Machine) -> dict[str, int]:
    """The ages that the directories of a broker have on disk at the most, while it runs."""
    assert machine.current is not None
    return {one.directory_id: one.age.on_disk + 1 for one in machine.current.node.replicas.directories.online}


def _has_noted_more(machine: Machine, version: int) -> bool:
    """True if each log directory can be read and has durably noted a later version of the metadata."""
    if machine.serving is None or machine.disk.broken:
        return False
    noted = [read_incarnation(machine.disk, path).incarnation for path in machine.directories]
    return all(one is not None and one.metadata_version > version for one in noted)
