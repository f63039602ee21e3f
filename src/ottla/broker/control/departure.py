"""Controlled shutdown: other brokers take over what they can lead, then this broker reports that it has stopped.

Called by node.py. Steps that take too long are left to the caretaker, which notices the missing broker anyway.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from ottla.cluster.broker_commands import DrainBroker, FenceBroker
from ottla.kernel.errors import ApiError
from ottla.kernel.story import Slot

if TYPE_CHECKING:
    from ottla.broker.environment import Environment
    from ottla.replication.follower import FollowerReplica

log = logging.getLogger("ottla.departure")
DRAIN_IN_MS = 5000
FOLLOWED_IN_MS = 2000
FAREWELL_IN_MS = 2000
_LOOK_EVERY_MS = 5


class DepartingCoordinators(Protocol):
    """The coordinators of this broker: coordinators/leading.py."""

    def lay_down(self) -> None:
        """Stop coordinating until it is known which partitions this broker still leads."""

    def take_up(self) -> None:
        """Coordinate again for the partitions that this broker still leads."""


class Led(Protocol):
    """A replica here that leads, or has led."""

    follower: FollowerReplica | None


async def hand_over(around: Environment, coordinating: DepartingCoordinators, led: Sequence[Led]) -> None:
    """Hand partitions of `led` over; ends once this broker follows the new leader of each that others can lead.

    Until then it answers clients: they learn the new leader instead of losing the connection.
    """
    me = around.metadata.brokers.get(around.broker)
    if me is None or me.epoch != around.follow.broker_epoch or not _others(around):
        return
    if not around.config.controlled_shutdown_enable:
        return
    coordinating.lay_down()  # the next coordinator may answer before we know of it
    outcome = await around.follow.submit(DrainBroker(me.broker_id, me.epoch), DRAIN_IN_MS)
    if isinstance(outcome, ApiError):
        log.warning("stopping without handing over: %s", outcome)
        return
    coordinating.take_up()
    until_ms = around.clock.mono_ms() + FOLLOWED_IN_MS
    while any(_waits_for_its_leader(replica) for replica in led) and around.clock.mono_ms() < until_ms:
        await _pause(around)


async def say_farewell(around: Environment, closed: tuple[str, ...]) -> None:
    """Write the end of this incarnation into the metadata log, so that no other broker has to detect it.

    `closed` are the directories that were closed cleanly: a copy made of one while the broker ran then counts as older.
    """
    me = around.metadata.brokers.get(around.broker)
    if me is not None and me.epoch == around.follow.broker_epoch and len(around.metadata.brokers) > 1:
        farewell = FenceBroker(me.broker_id, me.epoch, stopped=True, closed=closed)
        outcome = await around.follow.submit(farewell, FAREWELL_IN_MS)
        if isinstance(outcome, ApiError):
            log.info("could not record a clean shutdown: %s", outcome)


def _others(around: Environment) -> bool:
    return any(broker.broker_id != around.broker for broker in around.metadata.active_brokers())


def _waits_for_its_leader(replica: Led) -> bool:
    return replica.follower is not None and not replica.follower.heard


def _pause(around: Environment) -> Slot[None]:
    slot: Slot[None] = Slot()
    around.deadlines.after(_LOOK_EVERY_MS, lambda: slot.fill(None))
    return slot
