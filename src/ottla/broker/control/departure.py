"""A broker's leave: others lead first what they can lead, then it goes, and says so (controlled shutdown).

node.py comes here. What is not done in time is left to the caretaker, who sees this broker gone anyway.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from ottla.cluster.commands import DrainBroker, FenceBroker
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


class Coordinating(Protocol):
    """The coordinators of this broker: coordinators/leading.py."""

    def lay_down(self) -> None:
        """Coordinate nothing, whatever is led here, until it is known what is."""

    def take_up(self) -> None:
        """Coordinate what is led here still."""


class Led(Protocol):
    """A replica here that leads, or has led."""

    follower: FollowerReplica | None


async def hand_over(around: Environment, coordinating: Coordinating, led: Sequence[Led]) -> None:
    """Ends when what others can lead of `led` is led by them: this broker has heard so as their follower.

    Until then clients are answered: who asks here is told who leads now, instead of finding the door closed.
    """
    me = around.metadata.brokers.get(around.broker)
    if me is None or me.epoch != around.follow.broker_epoch or not _others(around):
        return
    if not around.config.controlled_shutdown_enable:
        return
    coordinating.lay_down()  # whoever coordinates next may answer before we know that it does
    outcome = await around.follow.submit(DrainBroker(me.broker_id, me.epoch), DRAIN_IN_MS)
    if isinstance(outcome, ApiError):
        log.warning("stopping without handing over: %s", outcome)
        return
    coordinating.take_up()
    until_ms = around.clock.mono_ms() + FOLLOWED_IN_MS
    while any(_waits_for_its_leader(replica) for replica in led) and around.clock.mono_ms() < until_ms:
        await _pause(around)


async def say_farewell(around: Environment, closed: tuple[str, ...]) -> None:
    """The end of this incarnation, in the metadata log: nobody need find out.

    `closed` are the directories that were closed cleanly: a copy that was made of one while this ran is an older one
    then.
    """
    me = around.metadata.brokers.get(around.broker)
    if me is not None and me.epoch == around.follow.broker_epoch and len(around.metadata.brokers) > 1:
        farewell = FenceBroker(me.broker_id, me.epoch, stopped=True, closed=closed)
        outcome = await around.follow.submit(farewell, FAREWELL_IN_MS)
        if isinstance(outcome, ApiError):
            log.info("left without a word: %s", outcome)


def _others(around: Environment) -> bool:
    return any(broker.broker_id != around.broker for broker in around.metadata.active_brokers())


def _waits_for_its_leader(replica: Led) -> bool:
    return replica.follower is not None and not replica.follower.heard


def _pause(around: Environment) -> Slot[None]:
    slot: Slot[None] = Slot()
    around.deadlines.after(_LOOK_EVERY_MS, lambda: slot.fill(None))
    return slot
