"""One step of a member towards its target: partitions to give up, partitions to take already, and its epoch.

Pure. A member gives up before it gets, and gets a partition only once no other member owns it, so that a partition
never has two owners (KIP-848).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ottla.groups.consumer_values import (
    JOINING,
    Assigned,
    ConsumerMember,
    MemberState,
    Partitions,
    overlap,
)

HeldByOther = Callable[[bytes, int], bool]
"""True if another member owns a partition, or still has to give it up."""


class Reconciliation:
    """The step of one member. `owned` are the partitions that the client names as its own; None if it names none.

    `subscribed` are the ids of the topics that the member subscribes to now, `may_have_changed` tells whether they
    were others at its last step.
    """

    def __init__(
        self,
        member: ConsumerMember,
        *,
        assignment_epoch: int,
        target: Partitions,
        owned: Partitions | None,
        subscribed: frozenset[bytes],
        may_have_changed: bool,
        held_by_other: HeldByOther,
    ) -> None:
        self._member = member
        self._epoch = assignment_epoch
        self._target = {topic: partitions for topic, partitions in target.items() if topic in subscribed}
        self._owned = owned
        self._subscribed = subscribed
        self._changed = may_have_changed
        self._held_by_other = held_by_other

    def step(self) -> ConsumerMember | None:
        """The member after this step; None if it must begin anew."""
        member = self._member
        if member.state is MemberState.STABLE:
            if member.epoch != self._epoch:
                return self._next(member.assigned)
            return self._trim() if self._changed else member
        if member.state is MemberState.UNREVOKED:
            if self._owned is None or overlap(member.pending, self._owned):
                return self._trim() if self._changed else member
            return self._next(member.assigned)
        if member.state is MemberState.UNRELEASED:
            return self._next(member.assigned)
        if self._owned is None or self._owned:
            return None
        return self._next({})

    def _next(self, assigned: Assigned) -> ConsumerMember:
        """Revoke partitions outside the target; if there are none, take those of the target that are free."""
        kept: dict[bytes, dict[int, int]] = {}
        revoke: dict[bytes, dict[int, int]] = {}
        for topic, epochs in assigned.items():
            wanted = self._target.get(topic, frozenset())
            if stays := {index: epoch for index, epoch in epochs.items() if index in wanted}:
                kept[topic] = stays
            if leaves := {index: epoch for index, epoch in epochs.items() if index not in wanted}:
                revoke[topic] = leaves
        if revoke and self._client_owns(revoke):
            return self._moved(MemberState.UNREVOKED, self._member.epoch, kept, revoke)
        waits = False
        for topic, wanted in sorted(self._target.items()):
            had = kept.get(topic, {})
            for index in sorted(wanted - had.keys()):
                if self._held_by_other(topic, index):
                    waits = True
                else:
                    kept.setdefault(topic, {})[index] = self._epoch
        return self._moved(MemberState.UNRELEASED if waits else MemberState.STABLE, self._epoch, kept, {})

    def _trim(self) -> ConsumerMember:
        """Give up the topics that the member no longer subscribes to, ahead of the next target."""
        member = self._member
        gone = {topic: epochs for topic, epochs in member.assigned.items() if topic not in self._subscribed}
        if not gone:
            return member
        kept = {topic: epochs for topic, epochs in member.assigned.items() if topic not in gone}
        if not self._client_owns(gone):
            return self._moved(member.state, member.epoch, kept, member.pending)
        pending = dict(member.pending)
        for topic, epochs in gone.items():
            pending[topic] = {**pending.get(topic, {}), **epochs}
        return self._moved(MemberState.UNREVOKED, member.epoch, kept, pending)

    def _client_owns(self, partitions: Assigned) -> bool:
        """True if the client may still read one of them; a client that has named no partitions may read any."""
        return self._owned is None or overlap(partitions, self._owned)

    def _moved(self, state: MemberState, epoch: int, assigned: Assigned, pending: Assigned) -> ConsumerMember:
        """The member with its new values. Every write ends the earlier epoch, even if the epoch stays the same."""
        member = self._member
        return replace(
            member,
            state=state,
            epoch=epoch,
            previous_epoch=member.epoch,
            assigned=assigned,
            pending=pending,
        )


def left_for_a_while(member: ConsumerMember, *, epoch: int) -> ConsumerMember:
    """A static member that left and is expected back: it keeps its partitions, and has nothing to revoke."""
    return replace(
        member,
        epoch=epoch,
        previous_epoch=member.epoch,
        pending={},
        assigned={topic: dict.fromkeys(epochs, 0) for topic, epochs in member.assigned.items()},
    )


def come_back(member: ConsumerMember, member_id: str) -> ConsumerMember:
    """A static member that has come back: it has all that it had, under the id of its new incarnation."""
    return replace(member, member_id=member_id, epoch=JOINING, previous_epoch=member.epoch)
