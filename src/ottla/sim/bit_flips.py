"""Bits that flip in closed segments on simulated disks, drawn apart from all other faults.

faults.py counts and heals them; checkers/decay.py remembers where each one is.
"""

from __future__ import annotations

import posixpath
from random import Random
from typing import TYPE_CHECKING

from ottla.records.header import EPOCH_AT, LENGTH_AT, MAGIC_AT
from ottla.sim.checkers.decay import Flipped
from ottla.sim.peek import checkpointed, within
from ottla.sim.plan import FLIPPED
from ottla.sim.striking import Striking
from ottla.storage.checkpoint import RECOVERY_POINT
from ottla.storage.segment.names import LOG

if TYPE_CHECKING:
    from ottla.sim.machine import Machine

_EVERY_MS = (50, 1500)


class BitFlips:
    """Part of `Faults`."""

    def __init__(self, faults: Striking) -> None:
        self._faults = faults
        self._world = faults.world
        self._random = Random(f"decay-{faults.world.plan.seed}")

    def begin(self) -> None:
        """Schedule the flips by random numbers of their own, so that the other faults of a seed stay the same."""
        self._world.loop.call_later(self._random.randint(*_EVERY_MS), self._flip_now)

    def _flip_now(self) -> None:
        if not self._faults.healed:
            self._faults.strike_by(FLIPPED)
            self.begin()

    def flip(self) -> bool:
        """Flip one bit, in the length or from the magic byte on, in a closed segment.

        The segment lies below the recovery point, and another in-sync replica holds it unharmed.
        """
        random = self._random
        machine = random.choice(list(self._world.machines.values()))
        segments = self._closed_segments(machine)
        if not segments:
            return False
        flipped = random.choice(segments)
        if not self._world.invariants.may_flip(flipped):
            return False
        held = [len(body) for _, _, body in within(machine.disk, flipped.directory, flipped.base_offset)]
        number = random.randrange(len(held))
        noticed = random.randrange(LENGTH_AT, EPOCH_AT), random.randrange(MAGIC_AT, held[number])
        at = random.choice(noticed)
        path = f"{flipped.directory}/{flipped.base_offset:020d}{LOG}"
        machine.disk.flip_bit(path, sum(held[:number]) + at, random.randrange(8))
        self._world.invariants.decay.note(flipped)
        return True

    def _closed_segments(self, machine: Machine) -> list[Flipped]:
        current = machine.serving
        if current is None:
            return []
        recovered_from = {home: checkpointed(machine.disk, f"{home}/{RECOVERY_POINT}") for home in machine.directories}
        return [
            Flipped(
                machine.broker_id,
                key,
                partition.topic,
                partition.log.directory,
                segment.base_offset,
                segment.next_offset,
            )
            for key, partition in sorted(current.node.replicas.by_id.items())
            for known in [recovered_from[posixpath.dirname(partition.log.directory)]]
            for segment in partition.log.segments[:-1]
            if not partition.is_internal
            and not partition.log.write_caching
            and segment.size
            and segment.next_offset <= known.get((partition.topic, partition.index), 0)
        ]
