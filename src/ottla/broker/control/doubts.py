"""Brokers that may just have died: Metadata and FindCoordinator wait for a moment until that is known.

A client that loses its leader asks any broker at once for the new one; if it gets the old leader, librdkafka asks
again only after a second. A member that is sent to the old coordinator asks again after `retry.backoff.ms`, with Java
a tenth of a second. peers.py reports ended connections, the node reports changed brokers.
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
"""The longest wait: looking at a lock and appending an entry take some milliseconds."""


class Doubts:
    """Brokers that are cut off and not fenced yet. Without a way to check them, none is ever in doubt."""

    def __init__(self, around: Environment) -> None:
        self._around = around
        self.look_closer: Callable[[], None] | None = None
        """Makes the store check at once which brokers are alive; None if it cannot."""
        self.early_fence: EarlyFence | None = None
        """Tries to connect to a broker that was cut off, if the store cannot check it."""
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
        """A connection of ours to a broker was made."""
        if self.early_fence is not None:
            self.early_fence.reached(broker_id, epoch)

    def came(self, broker_id: BrokerId, epoch: BrokerEpoch, connection: ServerConnection) -> None:
        """A broker has connected to us. If we have none to that broker, the end of its own is a sign too."""
        if self.early_fence is not None:
            self.early_fence.came(broker_id, epoch)
            connection.on_close.append(lambda: self.cut_off(broker_id, epoch))

    def settled(self) -> Slot[None] | None:
        """None if no broker is in doubt; else a slot that is filled once that is over, within SETTLED_IN_MS."""
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
