"""One request of a stranger may ask for no more than one turn of the loop can do."""

from __future__ import annotations

import pytest

from ottla.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic
from ottla.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.schema.codec import MalformedMessage, decode, encode
from ottla.schema.varints import MOST_ELEMENTS
from ottla.wire.apis import APIS
from ottla.wire.hot import decode_fetch, decode_produce

LONG = "t" * 240


def test_ten_thousand_topics_with_long_names_pass() -> None:
    names = [f"{LONG}-{number}" for number in range(10_000)]
    asked = encode(MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names]), 9)
    assert len(asked) < (APIS[3].most_bytes or 0)
    assert len(decode(MetadataRequest, 9, asked).topics or ()) == 10_000
    one = [OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="x" * 100)]
    commit = OffsetCommitRequest(topics=[OffsetCommitRequestTopic(name=name, partitions=one) for name in names])
    raw = encode(commit, 7)
    assert len(raw) < (APIS[8].most_bytes or 0)
    assert len(decode(OffsetCommitRequest, 7, raw).topics) == 10_000
    fetch = encode(FetchRequest(topics=[FetchTopic(topic=name, partitions=[FetchPartition()]) for name in names]), 11)
    assert len(fetch) < (APIS[1].most_bytes or 0)
    assert len(decode_fetch(memoryview(fetch), 0, 11)[0].topics) == 10_000


def test_more_elements_than_the_bound_are_refused_before_they_are_read() -> None:
    hostile = encode(MetadataRequest(topics=[MetadataRequestTopic(name="")] * (MOST_ELEMENTS + 1)), 9)
    with pytest.raises(MalformedMessage, match="elements"):
        decode(MetadataRequest, 9, hostile)


@pytest.mark.parametrize("spread", [1, 100])
def test_the_bound_holds_for_all_arrays_of_a_request_together(spread: int) -> None:
    each = MOST_ELEMENTS // spread + 1
    fetch = FetchRequest(topics=[FetchTopic(topic="t", partitions=[FetchPartition()] * each)] * spread)
    with pytest.raises(MalformedMessage, match="elements"):
        decode_fetch(memoryview(encode(fetch, 11)), 0, 11)
    produce = ProduceRequest(
        topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData()] * each)] * spread
    )
    with pytest.raises(MalformedMessage, match="elements"):
        decode_produce(memoryview(encode(produce, 8)), 0, 8)
    commit = OffsetCommitRequest(
        topics=[OffsetCommitRequestTopic(name="t", partitions=[OffsetCommitRequestPartition()] * each)] * spread
    )
    with pytest.raises(MalformedMessage, match="elements"):
        decode(OffsetCommitRequest, 7, encode(commit, 7))


def test_the_answer_of_a_big_cluster_is_not_bounded() -> None:
    answer = MetadataResponse(topics=[MetadataResponseTopic(name="t")] * (MOST_ELEMENTS + 1))
    assert len(decode(MetadataResponse, 9, encode(answer, 9)).topics) == MOST_ELEMENTS + 1
