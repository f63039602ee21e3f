"""Addresses of brokers, as a client of one connection can reach them.

Used by handlers for Metadata, DescribeCluster, FindCoordinator, and for leader hints (KIP-951).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.control.recently_dead import RecentlyDead
from ottla.metadata.broker_state import BrokerState

if TYPE_CHECKING:
    from ottla.broker.environment import Environment
    from ottla.wire.connection import ServerConnection
    from ottla.wire.hot import Endpoint


class LeaderHint(NamedTuple):
    """The leader of a partition; without an endpoint if the client's listener does not reach it."""

    leader: int
    epoch: int
    endpoint: Endpoint | None


class Endpoints:
    """Addresses of brokers. Our own is the one that the client connected to, unless `advertised.listeners` is set."""

    def __init__(self, around: Environment) -> None:
        self._around = around
        self.recently_dead = RecentlyDead(around.clock, around.config.broker_session_timeout_ms)

    def live(self, connection: ServerConnection) -> list[Endpoint]:
        """The live brokers."""
        return self._of(self._around.metadata.live_brokers(), connection)

    def listed(self, connection: ServerConnection) -> list[Endpoint]:
        """The brokers for Metadata: the live ones, and to librdkafka also those that died a moment ago."""
        if not _is_librdkafka(connection):
            return self.live(connection)
        return self._of(self.recently_dead.listed(self._around.metadata), connection)

    def leader_hint(self, name: str, topic_id: bytes, index: int, connection: ServerConnection) -> LeaderHint | None:
        """The leader of a partition, for answers with a leader hint (KIP-951).

        None if it is not known here: a client that is told that we lead, although we refuse, would ask us for ever.
        """
        around = self._around
        if not around.may_lead():
            return None
        topic = around.metadata.topic(name) if name else around.metadata.topic_by_id(topic_id)
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        state = topic.partitions[index]
        broker = around.metadata.brokers.get(state.leader)
        endpoint = None if broker is None else self._one(broker, connection)
        return LeaderHint(state.leader, state.leader_epoch, endpoint)

    def _of(self, brokers: list[BrokerState], connection: ServerConnection) -> list[Endpoint]:
        endpoints = [self._one(broker, connection) for broker in brokers]
        return [endpoint for endpoint in endpoints if endpoint is not None]

    def _one(self, broker: BrokerState, connection: ServerConnection) -> Endpoint | None:
        if broker.broker_id == self._around.broker and not self._is_advertised(connection.listener):
            host, port = connection.local_address
            return broker.broker_id, host, port, broker.rack
        listener = broker.listener(connection.listener)
        if listener is None:
            return None
        return broker.broker_id, listener.host, listener.port, broker.rack

    def _is_advertised(self, listener: str) -> bool:
        return any(advertised.startswith(listener + "://") for advertised in self._around.config.advertised_listeners)


def _is_librdkafka(connection: ServerConnection) -> bool:
    """True for librdkafka and for clients that are built on it: these say `2.16.1-rdkafka-2.16.0` as their version."""
    return "rdkafka" in connection.software_name or "rdkafka" in connection.software_version
