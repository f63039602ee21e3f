"""Requests in their plainest form, for tests in which these requests are not what is tested."""

from __future__ import annotations

from ottla.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.builder import BatchBuilder

T0 = 1_700_000_000_000


def a_creation(name: str, partitions: int, replicas: int, **configs: str) -> CreateTopicsRequest:
    """Make a topic, placed as the brokers like; options are named with underscores."""
    said = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, configs=said)
    return CreateTopicsRequest(topics=[topic], timeout_ms=5000)


def a_produce(
    value: bytes = b"x", *, topic: str = "t", partition: int = 0, acks: int = 1, timeout_ms: int = 3000
) -> ProduceRequest:
    """Write one record."""
    builder = BatchBuilder()
    builder.add(T0, None, value)
    data = [PartitionProduceData(index=partition, records=builder.build())]
    return ProduceRequest(
        acks=acks, timeout_ms=timeout_ms, topic_data=[TopicProduceData(name=topic, partition_data=data)]
    )


def a_deletion_of_records(
    before: int, *, topic: str = "t", partition: int = 0, timeout_ms: int = 5000
) -> DeleteRecordsRequest:
    """Delete the records before an offset, or all that are committed (-1)."""
    asked = DeleteRecordsPartition(partition_index=partition, offset=before)
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[asked])], timeout_ms=timeout_ms)
