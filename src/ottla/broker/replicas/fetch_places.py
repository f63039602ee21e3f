"""The places from which replicas here ask one leader for more, and what its fetch session holds of them.

fetcher.py comes here for what the next fetch has to say, and with what was answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from ottla.kernel.ids import BrokerId, EndOffset, LeaderEpoch, SyncedOffset
from ottla.replication.follower import Asked

if TYPE_CHECKING:
    from ottla.broker.environment import Environment
    from ottla.broker.replicas.partition import Partition
    from ottla.storage.log import Log

FIRST_BACK_OFF_MS = 10
Key = tuple[bytes, int]
Place = tuple[Asked, int]
"""The fetch of one partition, and the start of our log on disk."""
_NOT_ON_DISK: Place = (Asked(BrokerId(-1), LeaderEpoch(-1), SyncedOffset(-1), -1), -1)
_SAY_AGAIN: Place = (Asked(BrokerId(-2), LeaderEpoch(-2), SyncedOffset(-2), -1), -1)
"""The leader's session holds something of it, which is to be said anew whatever it is, and forgotten first: the leader
does not repeat what it has told, and what it has told may have come to nothing here."""
_LOOK_AT_ALL_MS = 5000
"""Retention and checkpoints move a log's start on disk by themselves: the leader is told this late."""


class News(NamedTuple):
    """For the leader's session: the difference between what it holds and what is so."""

    changed: dict[Key, Place]
    gone: list[Key]
    """To be forgotten; what is in `changed` too is said anew."""


class FetchPlaces:
    """Those of the replicas that follow one leader."""

    def __init__(self, around: Environment, start_on_disk: Callable[[Partition], int]) -> None:
        self._around = around
        self._start_on_disk = start_on_disk
        self.partitions: dict[Key, Partition] = {}
        self.told: dict[Key, Place] = {}
        """The places that the leader's session holds of us."""
        self._look: dict[Key, None] = {}
        """Partitions of which it may hold something else than what is so: others cost a fetch no look (rule E5)."""
        self._looked_ms = 0
        self._resting: dict[Key, tuple[int, int]] = {}
        """Until when a partition is not asked for, after an answer that is no use, and for how long it rests."""
        self._unsynced: dict[Key, None] = {}
        """Partitions with something that is not on disk yet: the next fetch waits for the last of them."""

    def add(self, key: Key, partition: Partition) -> None:
        """Ask for it from now on; also where the leader's session holds it, from before it was left."""
        self.partitions[key] = partition
        self.hear_again(key)
        self._look[key] = None

    def remove(self, key: Key) -> bool:
        """Whether it was there."""
        if self.partitions.pop(key, None) is None:
            return False
        self._resting.pop(key, None)
        self._look[key] = None
        return True

    def forget(self) -> None:
        """The leader's session is no more."""
        self.told.clear()
        self._look = dict.fromkeys(self.partitions)

    # --- for the next fetch ---

    def news(self) -> News | None:
        """For the next fetch; None where the last answer is not all on disk yet, or nobody is to be asked for."""
        now_ms = self._around.clock.mono_ms()
        if now_ms - self._looked_ms >= _LOOK_AT_ALL_MS:
            self._looked_ms = now_ms
            self._look = dict.fromkeys(self.partitions) | self._look
        for key, (until_ms, _) in self._resting.items():
            if until_ms <= now_ms and key not in self.told:
                self._look[key] = None
        changed: dict[Key, Place] = {}
        gone: list[Key] = []
        self._unsynced.clear()
        for key in self._look:
            place = self._place(key, now_ms)
            if place is _NOT_ON_DISK:
                self._unsynced[key] = None
            elif place is None:
                if key in self.told:
                    gone.append(key)
            elif (told := self.told.get(key)) != place:
                changed[key] = place
                if told is _SAY_AGAIN:
                    gone.append(key)
        if self._unsynced:
            return None
        self._look.clear()
        for key in gone:
            del self.told[key]
        self.told.update(changed)
        # The leader's session is told what to forget: else it would speak of it at once, fetch after fetch.
        return News(changed, gone) if self.told or gone else None

    def _place(self, key: Key, now_ms: int) -> Place | None:
        """The place of a partition to tell the leader; None where it is not to be asked for."""
        partition = self.partitions.get(key)
        if partition is None or (key in self._resting and self._resting[key][0] > now_ms):
            return None
        follower, held = partition.follower, partition.log
        if follower is None or follower.failed is not None or held.refusing:
            return None
        end, last_epoch = end_of(held)
        asked = follower.ask(synced_through=SyncedOffset(held.synced_offset), end_offset=end, last_epoch=last_epoch)
        if asked is None:
            self._around.syncer.submit(held)
            return _NOT_ON_DISK
        return asked, self._start_on_disk(partition)

    def all_on_disk(self, key: Key) -> bool:
        """This one is: often one of thousands that one sync has put there; whether none is left."""
        self._unsynced.pop(key, None)
        return not self._unsynced

    # --- after an answer ---

    def look_at(self, keys: Iterable[Key]) -> None:
        """Something has changed here: the next fetch says so."""
        self._look.update(dict.fromkeys(keys))

    def hear_again(self, key: Key) -> None:
        """The watermark and the start that came with an answer were not taken: the leader is to repeat them."""
        if key in self.told:
            self.told[key] = _SAY_AGAIN

    def rest(self, key: Key) -> None:
        """For longer each time, while there is nothing else than answers of no use."""
        _, before = self._resting.get(key, (0, 0))
        pause = min(max(FIRST_BACK_OFF_MS, 2 * before), self._around.config.replica_fetch_backoff_ms)
        self._resting[key] = self._around.clock.mono_ms() + pause, pause

    def rest_until(self, key: Key, mono_ms: int) -> None:
        """Out of the session until then."""
        self._resting[key] = mono_ms, 0
        self._look[key] = None

    def rested(self, key: Key) -> None:
        """An answer was of use."""
        self._resting.pop(key, None)

    def rest_ms(self) -> int | None:
        """The time until a partition that rests may be asked for; None where none rests."""
        now_ms = self._around.clock.mono_ms()
        return min((until - now_ms for until, _ in self._resting.values() if until > now_ms), default=None)


def end_of(held: Log) -> tuple[EndOffset, int]:
    """The end of the log, and the epoch of its last record."""
    return EndOffset(held.end_offset), held.epochs.epoch_at(held.end_offset - 1)
