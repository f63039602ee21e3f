"""Finds the replica here that a request names, or the reason why there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.kernel.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.environment import Environment
    from ottla.broker.replicas.partition import Partition
    from ottla.broker.replicas.reconcile import Replicas


class Lookup:
    """Finds replicas of this broker."""

    def __init__(self, around: Environment, replicas: Replicas) -> None:
        self._around = around
        self._offline = replicas.offline
        self._by_name = replicas.by_name
        self._by_id = replicas.by_id

    def partition(self, name: str, topic_id: bytes, index: int) -> Partition | ErrorCode:
        """The replica here, by name or (if that is empty) by id; else the error."""
        if name:
            found = self._by_name.get((name, index))
            if found is not None:
                return found
            topic = self._around.metadata.topic(name)
            if topic is None or not 0 <= index < len(topic.partitions):
                return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return self._not_here(topic.topic_id, index)
        found = self._by_id.get((topic_id, index))
        if found is not None:
            return found
        topic = self._around.metadata.topic_by_id(topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if not 0 <= index < len(topic.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return self._not_here(topic_id, index)

    def _not_here(self, topic_id: bytes, index: int) -> ErrorCode:
        offline = self._offline.holds(topic_id, index)
        return ErrorCode.KAFKA_STORAGE_ERROR if offline else ErrorCode.NOT_LEADER_OR_FOLLOWER
