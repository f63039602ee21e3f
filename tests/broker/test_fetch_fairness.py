"""Records that the budget of one fetch leaves out come with the next, also without a new write to their partition."""

from __future__ import annotations

import pytest
from raw_connection import RawConnection

from ottla.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.builder import BatchBuilder
from ottla.testing import TestBroker

FETCH, PRODUCE, CREATE_TOPICS = 1, 0, 19


def a_batch(size: int) -> bytes:
    builder = BatchBuilder()
    builder.add(0, None, b"x" * size)
    return builder.build()


@pytest.mark.parametrize("max_bytes", [300, 1200])
def test_a_partition_left_out_for_the_budgets_sake_comes_next(kafka: TestBroker, max_bytes: int) -> None:
    topic = kafka.new_topic_name("fair")
    with RawConnection(kafka.bootstrap_servers) as connection:
        creation = CreateTopicsRequest(
            topics=[CreatableTopic(name=topic, num_partitions=3, replication_factor=1)], timeout_ms=5000
        )
        assert connection.ask(CREATE_TOPICS, 4, creation).topics[0].error_code == 0
        data = [PartitionProduceData(index=index, records=a_batch(1000)) for index in range(3)]
        produced = ProduceRequest(
            acks=-1, timeout_ms=5000, topic_data=[TopicProduceData(name=topic, partition_data=data)]
        )
        assert not any(
            each.error_code for each in connection.ask(PRODUCE, 8, produced).responses[0].partition_responses
        )
        seen: list[int] = []
        asked = [FetchPartition(partition=index, partition_max_bytes=1 << 20) for index in range(3)]
        session, epoch = 0, 0
        while len(seen) < 3:
            request = FetchRequest(
                max_wait_ms=100, min_bytes=1, max_bytes=max_bytes, session_id=session, session_epoch=epoch,
                topics=[FetchTopic(topic=topic, partitions=asked)] if asked else [],
            )  # fmt: skip
            response = connection.ask(FETCH, 11, request)
            assert response.error_code == 0
            session, epoch = response.session_id, epoch + 1
            got = (
                [each.partition_index for each in response.responses[0].partitions if each.records]
                if response.responses
                else []
            )
            assert got, f"only partitions {seen} came"
            seen += got
            asked = [FetchPartition(partition=index, fetch_offset=1, partition_max_bytes=1 << 20) for index in got]
    assert sorted(seen) == [0, 1, 2]
