"""How a broker leaves: others lead first what they can lead, then it goes, and says so (controlled shutdown).

node.py comes here. What is not done in time is left to the caretaker, who sees this broker gone anyway.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.broker.replicas.partition import Partition
from ottla.cluster.commands import DrainBroker, FenceBroker
from ottla.kernel.errors import ApiError
from ottla.kernel.story import Slot

if TYPE_CHECKING:
    from ottla.broker.node import Node

log = logging.getLogger("ottla.departure")
DRAIN_IN_MS = 5000
FOLLOWED_IN_MS = 2000
FAREWELL_IN_MS = 2000
_LOOK_EVERY_MS = 5


async def hand_over(node: Node) -> None:
    """Ends when what others can lead is led by them: this broker has heard so as their follower.

    Until then clients are answered: who asks here is told who leads now, instead of finding the door closed.
    """
    me = node.metadata.brokers.get(node.broker)
    if me is None or me.epoch != node.follow.broker_epoch or not _others(node):
        return
    if not node.config.controlled_shutdown_enable:
        return
    led = [partition for partition in node.replicas.all() if partition.leader is not None]
    node.lay_down_coordinating()  # whoever coordinates next may answer before we know that it does
    outcome = await node.follow.submit(DrainBroker(me.broker_id, me.epoch), DRAIN_IN_MS)
    if isinstance(outcome, ApiError):
        log.warning("stopping without handing over: %s", outcome)
        return
    node.resume_coordinating()
    until_ms = node.clock.mono_ms() + FOLLOWED_IN_MS
    while any(_waits_for_its_leader(partition) for partition in led) and node.clock.mono_ms() < until_ms:
        await _pause(node)


async def say_farewell(node: Node) -> None:
    """The end of this incarnation, in the metadata log: nobody need find out.

    It names the directories that were closed cleanly: a copy that was made of one while this ran is an older one then.
    """
    me = node.metadata.brokers.get(node.broker)
    if me is not None and me.epoch == node.follow.broker_epoch and len(node.metadata.brokers) > 1:
        closed = node.replicas.directories.closed
        farewell = FenceBroker(me.broker_id, me.epoch, stopped=True, closed=closed)
        outcome = await node.follow.submit(farewell, FAREWELL_IN_MS)
        if isinstance(outcome, ApiError):
            log.info("left without a word: %s", outcome)


def _others(node: Node) -> bool:
    return any(broker.broker_id != node.broker for broker in node.metadata.active_brokers())


def _waits_for_its_leader(partition: Partition) -> bool:
    return partition.follower is not None and not partition.follower.heard


def _pause(node: Node) -> Slot[None]:
    slot: Slot[None] = Slot()
    node.deadlines.after(_LOOK_EVERY_MS, lambda: slot.fill(None))
    return slot
