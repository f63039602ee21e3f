"""The broker, wired together without a socket: metadata, replicas, sessions, groups, dispatch.

server/broker_server.py and sim/ build one over their own seams. Handlers find here what they need by question.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ottla.broker.dispatch import Dispatch
from ottla.broker.fetch_sessions import FetchSessions
from ottla.broker.handlers.metadata import Fragments
from ottla.broker.metadata_follow import MetadataFollow
from ottla.broker.partition import Partition
from ottla.broker.replicas import Replicas
from ottla.broker.waiting import Deadlines
from ottla.config.resolve import Layers
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import BrokerId
from ottla.kernel.seams import Clock, Coordination, Disk, Entropy, Syncer
from ottla.metrics.metric import Traffic
from ottla.wire.apis import APIS

if TYPE_CHECKING:
    from ottla.metadata.state import Metadata
    from ottla.wire.connection import ServerConnection
    from ottla.wire.hot import Endpoint

log = logging.getLogger("ottla.node")
_SESSION_EVICTION_MS = 120_000


class Node:
    """One broker. `start` is a story that ends once it can serve; `stop` closes the logs cleanly."""

    def __init__(
        self,
        *,
        layers: Layers,
        clock: Clock,
        entropy: Entropy,
        disk: Disk,
        syncer: Syncer,
        coordination: Coordination,
        data_directory: str,
        on_fatal: Callable[[str], None],
    ) -> None:
        self.layers = layers
        self.config = layers.broker()
        self.broker = BrokerId(self.config.node_id)
        self.clock = clock
        self.entropy = entropy
        self.syncer = syncer
        self.deadlines = Deadlines(clock)
        self.traffic: dict[str, Traffic] = {}
        self.fragments = Fragments()
        self.fetch_sessions = FetchSessions(
            clock,
            entropy,
            slots=self.config.max_incremental_fetch_session_cache_slots,
            eviction_ms=_SESSION_EVICTION_MS,
        )
        self.dispatch = Dispatch(self)
        self.replicas = Replicas(self, disk, data_directory)
        self._on_fatal = on_fatal
        self.failed: OSError | None = None
        self.syncs: Callable[[], int] = _zero
        self.connections: Callable[[], int] = _zero
        self.accepted: Callable[[], int] = _zero
        self.follow = MetadataFollow(
            coordination,
            clock,
            self.deadlines,
            entropy,
            self.broker,
            session_timeout_ms=self.config.broker_session_timeout_ms,
        )

    @property
    def metadata(self) -> Metadata:
        return self.follow.metadata

    # --- questions of the hot path ---------------------------------------------------------------------------------

    def partition(self, name: str, topic_id: bytes, index: int) -> Partition | ErrorCode:
        """The replica here, by name or (where that is empty) by id; else why there is none."""
        if name:
            found = self.replicas.by_name.get((name, index))
            if found is not None:
                return found
            topic = self.metadata.topic(name)
            if topic is None or not 0 <= index < len(topic.partitions):
                return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        found = self.replicas.by_id.get((topic_id, index))
        if found is not None:
            return found
        topic = self.metadata.topic_by_id(topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if not 0 <= index < len(topic.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def may_lead(self) -> bool:
        """Whether we may answer as a leader or coordinator now (rule A12)."""
        return self.follow.lease_valid()
