"""The position of a query, committed as a consumer group's offsets so that lag tools see it; never fails a query.

Comes from stream.py. The group has no members: an outsider's commit is legal as long as it stays empty.
"""

from __future__ import annotations

import logging
import threading

from ottla.client.blocking.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.client.model import ClientSettings, CommittedOffset
from ottla.kernel.errors import ApiError
from ottla.rows.kafka_settings import KafkaSettings
from ottla.rows.plan import SourceOffset

log = logging.getLogger("ottla.spark")

PATIENCE_MS = 5_000


class OffsetCommitter:
    """Commits the newest offset it was given, in a thread of its own; older ones that waited are skipped."""

    def __init__(self, kafka: KafkaSettings, group: str) -> None:
        self.group = group
        settings = ClientSettings(
            client_id=kafka.client_id,
            request_timeout_ms=PATIENCE_MS,
            api_timeout_ms=PATIENCE_MS,
            bootstrap_timeout_ms=PATIENCE_MS,
            security=kafka.security,
        )
        self._cluster = Cluster(kafka.bootstrap_servers, settings=settings)
        self._condition = threading.Condition()
        self._waiting: SourceOffset | None = None
        self._published: SourceOffset | None = None
        self._busy = False
        self._warned = False
        self._thread: threading.Thread | None = None

    def publish(self, offset: SourceOffset, *, wait: bool) -> None:
        """Commit these offsets soon; with `wait` before returning, or at most for the patience of the client."""
        with self._condition:
            if offset == self._published or not offset.offsets:
                return
            self._waiting = offset
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="ottla-publish", daemon=True)
                self._thread.start()
            self._condition.notify_all()
            if wait:
                self._condition.wait_for(lambda: self._waiting is None and not self._busy, PATIENCE_MS / 1000)

    def _work(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._waiting is not None)
                offset, self._waiting, self._busy = self._waiting, None, True
            assert offset is not None
            self._commit(offset)
            with self._condition:
                self._busy = False
                self._published = offset
                self._condition.notify_all()

    def _commit(self, offset: SourceOffset) -> None:
        commits = {
            partition: CommittedOffset(position, "", offset.epochs.get(partition, -1))
            for partition, position in offset.offsets.items()
        }
        try:
            self._cluster.commit_offsets(self.group, commits)
        except (ApiError, ClientError, OSError) as fault:
            if not self._warned:
                log.warning("Offsets of this query do not show in group %s: %s", self.group, fault)
            self._warned = True
        else:
            self._warned = False
