"""acks other than -1, 0 and 1 write nothing, however often they are asked for."""

from __future__ import annotations

from raw_connection import RawConnection

from ottla.kernel.errors import ErrorCode
from ottla.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.builder import BatchBuilder
from ottla.testing import TestBroker

PRODUCE, LIST_OFFSETS, METADATA = 0, 2, 3


def test_acks_that_there_are_not_are_refused_again_and_again(kafka: TestBroker) -> None:
    topic = kafka.new_topic_name("acks")
    builder = BatchBuilder()
    builder.add(0, None, b"value")
    data = [PartitionProduceData(index=0, records=builder.build())]
    request = ProduceRequest(acks=2, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, partition_data=data)])
    with RawConnection(kafka.bootstrap_servers) as connection:
        connection.ask(METADATA, 9, MetadataRequest(topics=[MetadataRequestTopic(name=topic)]))
        for _ in range(3):
            answer = connection.ask(PRODUCE, 9, request).responses[0].partition_responses[0]
            assert answer.error_code == ErrorCode.INVALID_REQUIRED_ACKS
        latest = ListOffsetsRequest(
            topics=[ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])]
        )
        assert connection.ask(LIST_OFFSETS, 5, latest).topics[0].partitions[0].offset == 0
