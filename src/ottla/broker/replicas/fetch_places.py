"""The positions at which replicas here fetch from one leader, and the state of the leader's fetch session.

fetcher.py gets the content of the next fetch here, and reports the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from ottla.kernel.ids import BrokerId, EndOffset, LeaderEpoch, SyncedOffset
from ottla.replication.follower import SentFetch

if TYPE_CHECKING:
    from ottla.broker.environment import Environment
    from ottla.broker.replicas.partition import Partition
    from ottla.storage.log import Log

FIRST_BACK_OFF_MS = 10
Key = tuple[bytes, int]
Place = tuple[SentFetch, int]
"""The fetch of one partition, and the start of our log on disk."""
_NOT_ON_DISK: Place = (SentFetch(BrokerId(-1), LeaderEpoch(-1), SyncedOffset(-1), -1), -1)
_SAY_AGAIN: Place = (SentFetch(BrokerId(-2), LeaderEpoch(-2), SyncedOffset(-2), -1), -1)
"""Stands for a partition that the next fetch removes from the leader's session and adds again: the leader does not
repeat what it has told, and its last answer may not have been applied here."""
_LOOK_AT_ALL_MS = 5000
"""The interval at which all partitions are compared, as retention and checkpoints move log starts by themselves."""


class News(NamedTuple):
    """Changes for the leader's session, to make it match the replicas here."""

    changed: dict[Key, Place]
    gone: list[Key]
    """Partitions to remove from the session; those also in `changed` are added again."""


class FetchPlaces:
    """The positions of the replicas that follow one leader."""

    def __init__(self, around: Environment, start_on_disk: Callable[[Partition], int]) -> None:
        self._around = around
        self._start_on_disk = start_on_disk
        self.partitions: dict[Key, Partition] = {}
        self.told: dict[Key, Place] = {}
        """The positions that the leader's session has."""
        self._look: dict[Key, None] = {}
        """Partitions whose state may have changed since we last told the leader; others cost nothing (rule E5)."""
        self._looked_ms = 0
        self._resting: dict[Key, tuple[int, int]] = {}
        """(time, pause): the partition is not fetched until then, after an answer that could not be used."""
        self._unsynced: dict[Key, None] = {}
        """Partitions with something that is not on disk yet: the next fetch waits for the last of them."""

    def add(self, key: Key, partition: Partition) -> None:
        """Fetch the partition from now on; the leader's session may still have it from an earlier time."""
        self.partitions[key] = partition
        self.hear_again(key)
        self._look[key] = None

    def remove(self, key: Key) -> bool:
        """Stop fetching the partition; False if it was not fetched."""
        if self.partitions.pop(key, None) is None:
            return False
        self._resting.pop(key, None)
        self._look[key] = None
        return True

    def forget(self) -> None:
        """The leader's session has ended: the next one begins empty."""
        self.told.clear()
        self._look = dict.fromkeys(self.partitions)

    # --- for the next fetch ---

    def news(self) -> News | None:
        """Changes for the next fetch; None if the last answer is not on disk yet, or there is nothing to fetch."""
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
        # Partitions must be removed from the leader's session: else it would answer each fetch at once because of them.
        return News(changed, gone) if self.told or gone else None

    def _place(self, key: Key, now_ms: int) -> Place | None:
        """The position of a partition to tell the leader; None if it is not to be fetched."""
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
        """Note that a partition is on disk, often one of thousands of one sync; True if none is left to wait for."""
        self._unsynced.pop(key, None)
        return not self._unsynced

    # --- after an answer ---

    def look_at(self, keys: Iterable[Key]) -> None:
        """Partitions have changed here: the next fetch tells the leader."""
        self._look.update(dict.fromkeys(keys))

    def hear_again(self, key: Key) -> None:
        """Have the leader repeat the high watermark and log start of an answer that was not applied."""
        if key in self.told:
            self.told[key] = _SAY_AGAIN

    def rest(self, key: Key) -> None:
        """Pause a partition, for longer each time that its answers are of no use."""
        _, before = self._resting.get(key, (0, 0))
        pause = min(max(FIRST_BACK_OFF_MS, 2 * before), self._around.config.replica_fetch_backoff_ms)
        self._resting[key] = self._around.clock.mono_ms() + pause, pause

    def rest_until(self, key: Key, mono_ms: int) -> None:
        """Keep a partition out of the session until that time."""
        self._resting[key] = mono_ms, 0
        self._look[key] = None

    def rested(self, key: Key) -> None:
        """Note a useful answer: the partition's next pause is short again."""
        self._resting.pop(key, None)

    def rest_ms(self) -> int | None:
        """The time until a paused partition may be fetched; None if none is paused."""
        now_ms = self._around.clock.mono_ms()
        return min((until - now_ms for until, _ in self._resting.values() if until > now_ms), default=None)


def end_of(held: Log) -> tuple[EndOffset, int]:
    """The end of the log, and the epoch of its last record."""
    return EndOffset(held.end_offset), held.epochs.epoch_at(held.end_offset - 1)
