"""The parts of the broker that handlers use, as one value. node.py makes it last, once every part is there.

Only the dispatch and the handlers know this value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.broker.control.membership import PeerProof
from ottla.broker.coordinators.internal_topics import creation_of
from ottla.broker.environment import Environment
from ottla.cluster import features
from ottla.cluster.brokers import TRANSACTIONS
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicId, new_id

if TYPE_CHECKING:
    from ottla.broker.control.doubts import Doubts
    from ottla.broker.control.longest_logs import LongestLogs
    from ottla.broker.control.producer_ids import ProducerIds
    from ottla.broker.control.signs_of_life import SignsOfLife
    from ottla.broker.coordinators.group_coordinator import GroupCoordinator
    from ottla.broker.coordinators.leading import Coordinators
    from ottla.broker.coordinators.marker_writing import MarkerWriter
    from ottla.broker.coordinators.transaction_coordinator import TransactionCoordinator
    from ottla.broker.coordinators.verification import Verification
    from ottla.broker.replicas.full_disks import FullDisks
    from ottla.broker.replicas.partition import Partition
    from ottla.broker.replicas.reconcile import Replicas
    from ottla.broker.replicas.scrubber import Scrubber
    from ottla.broker.replicas.throttle import Throttle
    from ottla.broker.requests.client_quotas import ClientQuotas
    from ottla.broker.requests.endpoints import Endpoints
    from ottla.broker.requests.fetch_sessions import FetchSessions
    from ottla.broker.requests.metadata_fragments import Fragments
    from ottla.broker.requests.rights import Rights
    from ottla.broker.requests.telemetry import Telemetry
    from ottla.broker.requests.tokens import Tokens
    from ottla.config.resolve import Layers


@dataclass(frozen=True, slots=True, kw_only=True)
class Services(Environment):
    """The services of one broker."""

    replicas: Replicas
    partition: Callable[[str, bytes, int], Partition | ErrorCode]
    """The replica here, by name or (if that is empty) by topic id; else the error."""
    scrubber: Scrubber
    full_disks: FullDisks
    leader_throttle: Throttle
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    coordinators: Coordinators
    verification: Verification
    markers: MarkerWriter
    producer_ids: ProducerIds
    longest_logs: LongestLogs
    doubts: Doubts
    signs_of_life: SignsOfLife
    endpoints: Endpoints
    fetch_sessions: FetchSessions
    fragments: Fragments
    tokens: Tokens
    quotas: ClientQuotas
    telemetry: Telemetry
    rights: Rights | None = None
    """The rights of clients; None where everybody may do everything."""
    audit: Callable[[Mapping[str, object]], None] | None = None
    """Takes events for the audit log; None where there is none."""

    @property
    def layers(self) -> Layers:
        """The options with their sources."""
        return self.options.layers

    @property
    def has_transactions(self) -> bool:
        """True once every broker of the cluster coordinates transactions and takes their markers."""
        return self.metadata.metadata_version() >= TRANSACTIONS

    @property
    def has_consumer_groups(self) -> bool:
        """True if every broker coordinates groups of the consumer protocol, and the feature is not turned off."""
        return features.level(self.metadata, features.GROUP_VERSION) > 0

    def membership(self) -> PeerProof:
        """The steps by which a connection proves that it is a broker of this cluster."""
        return PeerProof(self)

    def controller_for_clients(self) -> int:
        """The broker to name as controller: the caretaker, although any broker takes a controller's requests."""
        return self.metadata.caretaker()

    async def create_topic_as_configured(self, name: str) -> ErrorCode:
        """Create a requested topic or an internal one, and wait until it is ready."""
        command = creation_of(name, TopicId(new_id(self.entropy)), self.config)
        outcome = await self.follow.submit(command)
        return outcome.code if isinstance(outcome, ApiError) else ErrorCode.NONE
