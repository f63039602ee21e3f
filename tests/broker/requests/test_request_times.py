"""Requests are timed by API, also those that wait and those on the fast path of Produce."""

from __future__ import annotations

import pytest
from sim_broker import SimBroker

from ottla.broker.measures import gather
from ottla.broker.requests.request_times import ONE_IN
from ottla.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.messages.metadata import MetadataRequest
from ottla.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.builder import build_batch
from ottla.records.reader import Record


def measured(broker: SimBroker, name: str, api: str, suffix: str = "") -> float:
    return sum(
        sample.value
        for sample in gather(broker.here.node)
        if sample.metric.name == name and sample.labels == (api,) and sample.suffix == suffix
    )


def timed(broker: SimBroker, api: str) -> float:
    return measured(broker, "ottla_request_seconds", api, "_count")


@pytest.fixture
def broker() -> SimBroker:
    broker = SimBroker()
    broker.create_topic()
    return broker


def produce_request(acks: int) -> ProduceRequest:
    batch = build_batch([Record(0, 1_700_000_000_000, None, b"value", ())])
    data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch)])
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[data])


@pytest.mark.parametrize("acks", [1, -1])
def test_one_of_some_repeated_produces_is_timed_and_all_are_counted(broker: SimBroker, acks: int) -> None:
    peer = broker.peer()
    for sent in range(1, 3 * ONE_IN + 1):
        answer = broker.wait_for(peer.ask(produce_request(acks), most=8))
        assert answer.responses[0].partition_responses[0].error_code == 0
        assert measured(broker, "ottla_requests_total", "Produce") == sent
    assert timed(broker, "Produce") == 4, "one by the story, three of those that went the quick way"


def test_a_fetch_that_waits_is_timed_until_its_answer(broker: SimBroker) -> None:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    request = FetchRequest(
        max_wait_ms=500, min_bytes=1, max_bytes=1000, topics=[FetchTopic(topic="t", partitions=[partition])]
    )
    broker.ask(request, most=11)
    assert timed(broker, "Fetch") == 1
    assert 0.5 <= measured(broker, "ottla_request_seconds", "Fetch", "_sum") < 0.6


def test_of_other_apis_every_request_is_timed(broker: SimBroker) -> None:
    peer = broker.peer()
    for _ in range(2 * ONE_IN):
        assert broker.wait_for(peer.ask(MetadataRequest(topics=[]), most=12)).brokers
    assert timed(broker, "Metadata") == measured(broker, "ottla_requests_total", "Metadata") >= 2 * ONE_IN
