"""Topics as answers of Metadata describe them, encoded once for each version of a topic and of the API (rule E8)."""

from __future__ import annotations

from ottla.cluster.protection import INTERNAL_TOPICS
from ottla.kernel.errors import ErrorCode
from ottla.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from ottla.metadata.partition_state import PartitionState
from ottla.metadata.state import Metadata, Topic
from ottla.schema.codec import encoder

_MOST_FRAGMENT_BYTES = 16 << 20


class Fragments:
    """Encoded topics, each with the version of the topic that it was made from."""

    def __init__(self) -> None:
        self._kept: dict[tuple[bytes, int], tuple[int, bytes]] = {}
        self.kept_bytes = 0

    def topic(self, metadata: Metadata, topic: Topic, api_version: int) -> bytes:
        key = (topic.topic_id, api_version)
        kept = self._kept.get(key)
        if kept is not None and kept[0] == topic.version:
            return kept[1]
        out = bytearray()
        encoder(MetadataResponseTopic, api_version)(_describe(metadata, topic, api_version), out)
        fragment = bytes(out)
        self.kept_bytes += len(fragment) - (0 if kept is None else len(kept[1]))
        if self.kept_bytes > _MOST_FRAGMENT_BYTES:
            self._kept.clear()
            self.kept_bytes = len(fragment)
        self._kept[key] = (topic.version, fragment)
        return fragment


def _describe(metadata: Metadata, topic: Topic, version: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_describe_partition(metadata, partition, version) for partition in topic.partitions],
    )


def _describe_partition(metadata: Metadata, partition: PartitionState, version: int) -> MetadataResponsePartition:
    error = ErrorCode.NONE
    if not partition.has_leader:
        error = ErrorCode.LEADER_NOT_AVAILABLE
    elif not metadata.is_live(partition.leader):
        error = ErrorCode.LEADER_NOT_AVAILABLE if version == 0 else ErrorCode.LISTENER_NOT_FOUND
    return MetadataResponsePartition(
        error_code=error,
        partition_index=partition.partition,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.in_sync),
        offline_replicas=list(metadata.offline_replicas(partition)),
    )
