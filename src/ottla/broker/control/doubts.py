"""Brokers that may just have died: Metadata waits for a moment until that is known.

A client that loses its leader asks any broker at once who leads now; if it hears of the old one it asks again only
after a second (librdkafka). peers.py tells of connections that ended, the node of brokers that changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.control.early_fence import EarlyFence
from ottla.kernel.ids import BrokerEpoch, BrokerId
from ottla.kernel.story import Slot

if TYPE_CHECKING:
    from ottla.broker.environment import Environment
    from ottla.wire.connection import ServerConnection

SETTLED_IN_MS = 150
"""Longer nobody waits: a lock that is looked at and an entry that is appended take some milliseconds."""


class Doubts:
    """Brokers that are cut off and not fenced yet. Nothing is ever in doubt where nobody can look closer."""

    def __init__(self, around: Environment) -> None:
        self._around = around
        self.look_closer: Callable[[], None] | None = None
        """Has the store look at once who lives, where it can do so."""
        self.early_fence: EarlyFence | None = None
        """Where it cannot, whoever is cut off is tried at its door."""
        self._open: dict[tuple[BrokerId, BrokerEpoch], None] = {}
        self._waiting: list[Slot[None]] = []

    def cut_off(self, broker_id: BrokerId, epoch: BrokerEpoch) -> None:
        """A connection to a broker that had proved itself has ended."""
        broker = self._around.metadata.brokers.get(broker_id)
        if broker is None or broker.fenced or broker.epoch != epoch:
            return
        doubt = (broker_id, epoch)
        if self.look_closer is not None:
            self.look_closer()
        elif self.early_fence is not None:
            self.early_fence.was_cut_off(broker_id, epoch, lambda: self._settle(doubt))
        else:
            return
        if doubt not in self._open:
            self._open[doubt] = None
            self._around.deadlines.after(SETTLED_IN_MS, lambda: self._settle(doubt))

    def dialled(self, broker_id: BrokerId, epoch: BrokerEpoch) -> None:
        """A connection of ours to a broker stands."""
        if self.early_fence is not None:
            self.early_fence.reached(broker_id, epoch)

    def came(self, broker_id: BrokerId, epoch: BrokerEpoch, connection: ServerConnection) -> None:
        """A broker has connected to us. That it hangs up is a sign too, for who asks it for nothing."""
        if self.early_fence is not None:
            self.early_fence.came(broker_id, epoch)
            connection.on_close.append(lambda: self.cut_off(broker_id, epoch))

    def settled(self) -> Slot[None] | None:
        """None where nothing is in doubt; else filled when it is no more, soon in any case."""
        if not self._open:
            return None
        slot: Slot[None] = Slot()
        self._waiting.append(slot)
        return slot

    def reconcile(self) -> None:
        """Brokers have changed."""
        if self.early_fence is not None:
            self.early_fence.reconcile()
        brokers = self._around.metadata.brokers
        for broker_id, epoch in list(self._open):
            broker = brokers.get(broker_id)
            if broker is None or broker.fenced or broker.epoch != epoch:
                self._settle((broker_id, epoch))

    def _settle(self, doubt: tuple[BrokerId, BrokerEpoch]) -> None:
        self._open.pop(doubt, None)
        if self._open:
            return
        waiting, self._waiting = self._waiting, []
        for slot in waiting:
            slot.fill(None)
