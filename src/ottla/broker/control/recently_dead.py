"""Brokers that died a moment ago: Metadata still lists them to clients that are built on librdkafka.

A client that no longer finds the broker of a leader in Metadata closes its connection to it. librdkafka does so while
it moves the partition, and then waits for a timer of one second before it asks the new leader.

No other client is told of a dead broker. Once a client knows the new leaders it asks for no more Metadata, and so it
keeps a dead broker that was listed with them for as long as it keeps Metadata: five minutes in franz-go, which all that
time asks the dead broker for a group's offsets if that was the coordinator. Apache Kafka drops a dead broker from
Metadata in the same step in which it elects the new leaders.
"""

from __future__ import annotations

from ottla.kernel.ids import BrokerId
from ottla.kernel.seams import Clock
from ottla.metadata.broker_state import BrokerState
from ottla.metadata.state import Metadata


class RecentlyDead:
    """Brokers whose death this broker has seen. One that stopped cleanly led nothing that clients could ask for."""

    def __init__(self, clock: Clock, listed_ms: int) -> None:
        """`listed_ms`: the time for which dead brokers are listed."""
        self._clock = clock
        self._listed_ms = listed_ms
        self._active: frozenset[BrokerId] = frozenset()
        """Brokers that were neither dead nor draining when this was looked at last."""
        self._died_ms: dict[BrokerId, int] = {}

    def reconcile(self, metadata: Metadata) -> None:
        """Brokers have changed."""
        now_ms = self._clock.mono_ms()
        brokers = metadata.brokers
        for broker_id in sorted(self._active):
            if broker_id in brokers and brokers[broker_id].fenced and not brokers[broker_id].draining:
                self._died_ms[broker_id] = now_ms
        self._died_ms = {
            broker_id: died_ms
            for broker_id, died_ms in self._died_ms.items()
            if broker_id in brokers and brokers[broker_id].fenced
        }
        self._active = frozenset(broker_id for broker_id, broker in brokers.items() if broker.active)

    def listed(self, metadata: Metadata) -> list[BrokerState]:
        """Live brokers and those that died a moment ago, by id."""
        now_ms = self._clock.mono_ms()
        recent = {broker_id for broker_id, died_ms in self._died_ms.items() if now_ms - died_ms < self._listed_ms}
        return [
            broker for broker_id, broker in sorted(metadata.brokers.items()) if not broker.fenced or broker_id in recent
        ]
