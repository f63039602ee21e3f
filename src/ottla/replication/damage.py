"""Decisions of a replica with damage in its log: hand over if it leads, fetch anew if it follows, else keep it.

Comes from broker/replicas/repairs.py, which carries out what is returned here. The damaged replica stays where it is
in the in-sync set: it holds all but some closed segments, and nothing of it is dropped before what replaces it is
there. Only one that must be cut behind its damage leaves the set, and begins anew: it could take nothing else from its
leader.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from ottla.kernel.ids import NO_LEADER, BrokerId, LeaderEpoch

LEAD_AGAIN_MS = 60_000
"""A damaged replica that was made to lead again leads for so long: another that is damaged too may fetch from it."""
FIRST_BACK_OFF_MS = 1000
LONGEST_BACK_OFF_MS = 300_000


class Resign(NamedTuple):
    """Another in-sync replica shall lead from now on."""

    leader_epoch: LeaderEpoch


class Refetch(NamedTuple):
    """Fetch the damaged segments from the leader."""

    leader: BrokerId
    leader_epoch: LeaderEpoch


class Withdraw(NamedTuple):
    """Count no more: a log that is not cut as its leader says takes nothing, and is fetched anew as a whole."""

    leader_epoch: LeaderEpoch


class Keep(NamedTuple):
    """There is nobody to fetch from: what is damaged is refused, and stays as it is."""


class Later(NamedTuple):
    """Nothing now; look again when something changes, or by time."""


Todo = Resign | Refetch | Withdraw | Keep | Later


class DamagedReplica:
    """One replica, from the moment its damage is known until it is repaired."""

    __slots__ = ("_back_off_ms", "_me", "_refetch_not_before_ms", "_resign_not_before_ms")

    def __init__(self, me: BrokerId) -> None:
        self._me = me
        self._resign_not_before_ms = 0
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

        `stopped`: the log takes nothing any more, as it was to be cut behind its damage, or its end was found damaged
        when it was opened.
        """
        if leader == NO_LEADER:
            return Later()
        if leader == self._me:
            if not any(broker != self._me and broker in active for broker in in_sync):
                return Keep()
            if now_ms < self._resign_not_before_ms:
                return Later()
            self._resign_not_before_ms = now_ms + LEAD_AGAIN_MS
            return Resign(leader_epoch)
        if now_ms < self._refetch_not_before_ms:
            return Later()
        if stopped:
            self.on_refetch_failed(now_ms)  # it is here no more where this is done
            return Withdraw(leader_epoch)
        return Refetch(leader, leader_epoch)

    def on_resign_refused(self) -> None:
        """Somebody changed the partition meanwhile: it may be asked for again at once."""
        self._resign_not_before_ms = 0

    def on_refetch_failed(self, now_ms: int) -> None:
        """The leader changed, could not be reached, or has no sound copy; for longer each time."""
        self._back_off_ms = min(max(FIRST_BACK_OFF_MS, 2 * self._back_off_ms), LONGEST_BACK_OFF_MS)
        self._refetch_not_before_ms = now_ms + self._back_off_ms
