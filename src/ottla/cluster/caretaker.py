"""Turns advice about who lives into fences, and one's own return into an unfence.

`broker/metadata_follow.py` gives it a turn whenever the live set may have changed and now and then. The live broker
with the lowest epoch acts at once, the others only on a death that was left unhandled (architecture, decision 3).
"""

from __future__ import annotations

from ottla.cluster.commands import Command, FenceBroker, UnfenceBroker
from ottla.kernel.ids import BrokerEpoch, BrokerId
from ottla.metadata.state import Metadata

PATIENCE_MS = 2000
"""How long a broker leaves a death to each that ranks before it."""


class Caretaker:
    """What one broker does about the life and death of all."""

    def __init__(self, broker_id: BrokerId) -> None:
        self._broker_id = broker_id
        self._missing_since_ms: dict[tuple[BrokerId, BrokerEpoch], int] = {}

    def turn(self, state: Metadata, live: frozenset[BrokerId], epoch: BrokerEpoch, now_ms: int) -> list[Command]:
        """Commands to submit; `epoch` is this broker's own incarnation."""
        me = state.brokers.get(self._broker_id)
        if me is None or me.epoch != epoch:
            return []
        if me.fenced:
            return [UnfenceBroker(me.broker_id, me.epoch)]
        missing = {
            (broker.broker_id, broker.epoch)
            for broker in state.live_brokers()
            if broker.broker_id not in live and broker.broker_id != self._broker_id
        }
        self._missing_since_ms = {one: self._missing_since_ms.get(one, now_ms) for one in sorted(missing)}
        patience_ms = PATIENCE_MS * self.rank(state, live)
        return [
            FenceBroker(broker_id, broker_epoch)
            for (broker_id, broker_epoch), since_ms in self._missing_since_ms.items()
            if now_ms - since_ms >= patience_ms
        ]

    def rank(self, state: Metadata, live: frozenset[BrokerId]) -> int:
        """0 for the caretaker, 1 for who stands in for it, and so on."""
        by_epoch = sorted(
            (broker.epoch, broker.broker_id)
            for broker in state.live_brokers()
            if broker.broker_id in live or broker.broker_id == self._broker_id
        )
        order = [broker_id for _, broker_id in by_epoch]
        return order.index(self._broker_id) if self._broker_id in order else len(order)
