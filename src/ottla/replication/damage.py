"""Decisions of a replica with damage in its log: hand over if it leads, fetch anew if it follows, else keep it.

Called by broker/replicas/repairs.py, which carries out the steps returned here. A damaged replica stays in the in-sync
set: it lacks only some closed segments, and nothing of it is dropped before its replacement is there. Only a replica
that must be cut below an offset behind damage leaves the set and begins anew: it could append nothing from its leader.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from ottla.kernel.ids import NO_LEADER, BrokerId, LeaderEpoch

FIRST_LEAD_AGAIN_MS = 2000
LONGEST_LEAD_AGAIN_MS = 60_000
"""The time for which a damaged replica leads that must lead again, so that another damaged replica can fetch from it.

Short at first, as the damaged records cannot be read meanwhile; longer each time, as a large repair takes long.
"""
FIRST_BACK_OFF_MS = 1000
LONGEST_BACK_OFF_MS = 300_000


class Resign(NamedTuple):
    """Let another in-sync replica lead from now on."""

    leader_epoch: LeaderEpoch


class Refetch(NamedTuple):
    """Fetch the damaged segments from the leader."""

    leader: BrokerId
    leader_epoch: LeaderEpoch


class Withdraw(NamedTuple):
    """Leave the in-sync set: a log that cannot be cut as its leader says takes no records, and is fetched anew."""

    leader_epoch: LeaderEpoch


class Keep(NamedTuple):
    """Do nothing: no other replica has the records. Damaged ones are refused to readers, and stay as they are."""


class Later(NamedTuple):
    """Do nothing now; look again after a change, or after some time."""


Todo = Resign | Refetch | Withdraw | Keep | Later


class DamagedReplica:
    """One replica, from the moment its damage is known until it is repaired."""

    __slots__ = ("_back_off_ms", "_lead_again_ms", "_me", "_refetch_not_before_ms", "_resign_not_before_ms")

    def __init__(self, me: BrokerId) -> None:
        self._me = me
        self._resign_not_before_ms = 0
        self._lead_again_ms = 0
        self._refetch_not_before_ms = 0
        self._back_off_ms = 0

    def look(
        self,
        *,
        leader: BrokerId,
        leader_epoch: LeaderEpoch,
        in_sync: Collection[BrokerId],
        active: Collection[BrokerId],
        stopped: bool,
        now_ms: int,
    ) -> Todo:
        """The step to take now, by what the metadata says; `active`: brokers that are alive and not draining.

        `stopped`: the log takes no more records, as it was to be cut behind its damage, or its end was found damaged
                when it was opened.
        """
        if leader == NO_LEADER:
            return Later()
        if leader == self._me:
            if not any(broker != self._me and broker in active for broker in in_sync):
                return Keep()
            if now_ms < self._resign_not_before_ms:
                return Later()
            self._lead_again_ms = min(max(FIRST_LEAD_AGAIN_MS, 2 * self._lead_again_ms), LONGEST_LEAD_AGAIN_MS)
            self._resign_not_before_ms = now_ms + self._lead_again_ms
            return Resign(leader_epoch)
        if now_ms < self._refetch_not_before_ms:
            return Later()
        if stopped:
            self.on_refetch_failed(now_ms)  # after a refetch the damage is gone, and this object too
            return Withdraw(leader_epoch)
        return Refetch(leader, leader_epoch)

    def on_resign_refused(self) -> None:
        """Note that another broker changed the partition meanwhile: the resignation may be repeated at once."""
        self._resign_not_before_ms = 0
        self._lead_again_ms //= 2

    def on_refetch_failed(self, now_ms: int) -> None:
        """Wait, longer each time: the leader changed, could not be reached, or has no sound copy."""
        self._back_off_ms = min(max(FIRST_BACK_OFF_MS, 2 * self._back_off_ms), LONGEST_BACK_OFF_MS)
        self._refetch_not_before_ms = now_ms + self._back_off_ms
