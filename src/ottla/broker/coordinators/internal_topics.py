"""Creation of topics that a broker asks for: internal ones by their own options, others by the defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinators.group_coordinator import OFFSETS_TOPIC
from ottla.broker.coordinators.transaction_coordinator import TRANSACTION_TOPIC
from ottla.cluster.commands import CreateTopic

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.kernel.ids import TopicId


def creation_of(name: str, topic_id: TopicId, config: BrokerConfig) -> CreateTopic:
    """The command that creates it; internal topics get as many replicas as there are brokers for."""
    if name == OFFSETS_TOPIC:
        return _compacted(
            name,
            topic_id,
            config.offsets_topic_num_partitions,
            config.offsets_topic_replication_factor,
            {"compression.type": "producer", "segment.bytes": str(config.offsets_topic_segment_bytes)},
        )
    if name == TRANSACTION_TOPIC:
        return _compacted(
            name,
            topic_id,
            config.transaction_state_log_num_partitions,
            config.transaction_state_log_replication_factor,
            {
                "compression.type": "uncompressed",
                "min.insync.replicas": str(config.transaction_state_log_min_isr),
                "segment.bytes": str(config.transaction_state_log_segment_bytes),
                "unclean.leader.election.enable": "false",
            },
        )
    return CreateTopic(
        name, topic_id, partitions=config.num_partitions, replication_factor=config.default_replication_factor
    )


def _compacted(
    name: str, topic_id: TopicId, partitions: int, replication_factor: int, options: dict[str, str]
) -> CreateTopic:
    return CreateTopic(
        name,
        topic_id,
        partitions=partitions,
        replication_factor=replication_factor,
        configs=(("cleanup.policy", "compact"), *options.items()),
        as_far_as_possible=True,
    )
