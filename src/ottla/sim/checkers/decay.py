"""Flipped bits on the replicas' disks, until the data there is right again: meanwhile some anomalies are excused.

faults.py flips them, where another replica in sync has the same bytes; invariants.py asks here before it reports an
anomaly.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.kernel.ids import BrokerId
from ottla.sim.disk import SimDisk
from ottla.sim.peek import batches, holds_segment, holds_topic, reach

Key = tuple[bytes, int]
Batches = dict[int, tuple[int, bytes]]


class Flipped(NamedTuple):
    """A closed segment with a flipped bit."""

    broker: BrokerId
    key: Key
    topic: str
    directory: str
    base_offset: int
    next_offset: int

    def end(self, disk: SimDisk, last: int) -> int:
        """The end of the offsets that may be wrong; `last` if no segment follows.

        A follower that was cut back writes on in this file.
        """
        following = reach(disk, self.directory, self.base_offset)
        return max(self.next_offset, last if following is None else following)

    def is_there(self, disk: SimDisk) -> bool:
        """True as long as the segment is in its folder, and no new topic of that name has taken the folder's place."""
        return holds_segment(disk, self.directory, self.base_offset) and holds_topic(disk, self.directory, self.key[0])

    def is_right(self, disk: SimDisk, committed: Batches, start: int) -> bool:
        """True if the segment is gone, or its committed records at and above `start` are right again."""
        if not holds_segment(disk, self.directory, self.base_offset):
            return True
        return all(self._is_whole(disk, committed, start, durable=durable) for durable in (False, True))

    def _is_whole(self, disk: SimDisk, committed: Batches, start: int, *, durable: bool) -> bool:
        expected = max(self.base_offset, start)
        for base, following, body in batches(disk, self.directory, expected, durable=durable):
            if expected >= self.next_offset:
                break
            if base > expected or committed.get(base) != (following, body):
                return False
            expected = following
        return expected >= self.next_offset


class Decay:
    """The flipped bits that are still there; at most one replica's of each partition."""

    def __init__(self) -> None:
        self.now: list[Flipped] = []
        self._ever: dict[Key, list[Flipped]] = {}

    def note(self, flipped: Flipped) -> None:
        self.now.append(flipped)
        self._ever.setdefault(flipped.key, []).append(flipped)

    def on(self, broker: BrokerId, key: Key, directory: str) -> list[Flipped]:
        return [each for each in self.now if (each.broker, each.key, each.directory) == (broker, key, directory)]

    def may_have_been_read(self, key: Key, offset: int) -> bool:
        """True if a reader that goes on from the offset may have been sent a flipped bit."""
        return any(offset < each.next_offset for each in self._ever.get(key, ()))
