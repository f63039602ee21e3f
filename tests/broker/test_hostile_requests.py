"""Requests about groups and transactions that no sound client sends: what they get, and what they leave alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from transactional import OK, Scene, ready

from ottla.broker.waiting import A_TURN
from ottla.kernel.errors import ErrorCode
from ottla.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTransaction
from ottla.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.messages.describe_groups import DescribeGroupsRequest
from ottla.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.messages.describe_transactions import DescribeTransactionsRequest
from ottla.messages.heartbeat import HeartbeatRequest
from ottla.messages.list_groups import ListGroupsRequest
from ottla.messages.list_transactions import ListTransactionsRequest
from ottla.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (-2, 0), (-(2**63), 5), (7, -1), (7, -32768), (-1, -1)])
def test_a_marker_of_no_producer_is_refused_and_not_written(version: int, producer_id: int, epoch: int):
    scene = Scene(1)
    producer = ready(scene, version=2)
    assert producer.send(0, "x") == OK
    end = scene.end_offset(committed=False)
    wrong = _marker(producer_id, epoch)
    answer = scene.ask(1, WriteTxnMarkersRequest(markers=[wrong, _marker(8, 0), wrong]), most=version)
    assert [_codes(each) for each in answer.markers] == [[ErrorCode.INVALID_REQUEST], [OK], [ErrorCode.INVALID_REQUEST]]
    assert scene.end_offset(committed=False) == end + 1, "the marker between them"


@pytest.mark.parametrize("transactional", [False, True])
def test_a_commit_of_which_a_part_is_too_large_commits_nothing(transactional: bool):
    """The offsets need two batches, and the second one is larger than the topic takes."""
    scene = Scene(1)
    producer = ready(scene, version=2)
    assert scene.coordinator("g", 0) == 1
    notes = [(0, "")] * 1000 + [(1, "x" * 4096)] * 1000
    request: OffsetCommitRequest | TxnOffsetCommitRequest
    if transactional:
        offsets = [
            TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=5, committed_metadata=note)
            for index, note in notes
        ]
        request = TxnOffsetCommitRequest(
            transactional_id="tx",
            group_id="g",
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            topics=[TxnOffsetCommitRequestTopic(name="t", partitions=offsets)],
        )
    else:
        places = [
            OffsetCommitRequestPartition(partition_index=index, committed_offset=5, committed_metadata=note)
            for index, note in notes
        ]
        request = OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=places)])
    answer = scene.ask(1, request, most=9)
    assert set(_codes(answer)) == {ErrorCode.UNKNOWN_SERVER_ERROR}, "as Apache Kafka says it"
    some = [OffsetFetchRequestTopics(name="t", partition_indexes=[0, 1])]
    stable = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=some)], require_stable=True)
    fetched = scene.ask(1, stable, most=9).groups[0].topics[0].partitions
    assert [(each.error_code, each.committed_offset) for each in fetched] == [(OK, -1), (OK, -1)]
    assert scene.ask(1, DescribeGroupsRequest(groups=["g"])).groups[0].group_state == "Dead"


@pytest.mark.parametrize("version", [0, 3, 4, 5])
@pytest.mark.parametrize("verified", ["true", "false"])
@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, -1), (-1, 0), (-2, 0), (7, -1)])
def test_offsets_of_no_producer_are_refused_also_where_no_coordinator_is_asked(
    version: int, verified: str, producer_id: int, epoch: int
):
    scene = Scene(1, transaction_partition_verification_enable=verified)
    ready(scene, version=2)
    assert scene.coordinator("g", 0) == 1
    place = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    request = TxnOffsetCommitRequest(
        transactional_id="tx",
        group_id="g",
        producer_id=producer_id,
        producer_epoch=epoch,
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[place])],
    )
    (code,) = _codes(scene.ask(1, request, most=version))
    assert code in (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_EPOCH)
    assert scene.ask(1, DescribeGroupsRequest(groups=["g"])).groups[0].group_state == "Dead"


def test_what_one_request_names_often_is_described_once():
    scene = Scene(1)
    producer = ready(scene, version=2)
    assert producer.send(0, "x") == OK
    often = [0] * 9
    topics = [TopicRequest(name="t", partition_indexes=often), TopicRequest(name="t", partition_indexes=[0, 1])]
    described = scene.ask(1, DescribeProducersRequest(topics=topics)).topics
    assert [[each.partition_index for each in topic.partitions] for topic in described] == [[0], [1]]
    ids = ["tx", "none", "tx", "", ""]
    states = scene.ask(1, DescribeTransactionsRequest(transactional_ids=ids)).transaction_states
    assert [each.transactional_id for each in states] == ["tx", "none", ""]
    for request in (DescribeGroupsRequest(groups=ids), ConsumerGroupDescribeRequest(group_ids=ids)):
        assert [each.group_id for each in scene.ask(1, request).groups] == ["tx", "none", ""]
    some = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    groups = [OffsetFetchRequestGroup(group_id=each, topics=topics) for topics in (None, some) for each in ids]
    fetched = scene.ask(1, OffsetFetchRequest(groups=groups), most=9).groups
    assert [each.group_id for each in fetched] == ["tx", "none", "", *ids]


@pytest.mark.parametrize(
    "request_of",
    [
        lambda ids: DescribeTransactionsRequest(transactional_ids=ids),
        lambda ids: AddPartitionsToTxnRequest(
            transactions=[AddPartitionsToTxnTransaction(transactional_id=each) for each in ids]
        ),
    ],
    ids=["describe", "add"],
)
def test_a_request_of_very_many_transactions_lets_others_go_first(request_of: Any):
    scene = Scene(1)
    ready(scene, version=2)
    assert turns_of(scene, request_of([f"x{number}" for number in range(10 * A_TURN)])) >= 10


@pytest.mark.parametrize("request_", [ListGroupsRequest(), ListTransactionsRequest()], ids=["groups", "transactions"])
def test_a_list_of_all_shards_lets_others_go_between_them(request_: Any):
    scene = Scene(1, offsets_topic_num_partitions="20", transaction_state_log_num_partitions="20")
    ready(scene, version=2)
    scene.coordinator("g", key_type=0)
    assert turns_of(scene, request_) >= 19


def turns_of(scene: Scene, request: Any) -> int:
    """The turns of the loop that an answer takes."""
    peer, incarnation = scene.peer(1), scene.machines[1].current
    assert incarnation is not None
    scene.wait_for(peer.ask(HeartbeatRequest(group_id="g")))
    turns = []

    def counted(callback: Callable[[], None]) -> None:
        turns.append(scene.loop.now_us)
        scene.loop.call_soon(callback)

    incarnation.clock.call_soon = counted  # type: ignore[method-assign]
    scene.wait_for(peer.ask(request))
    return len(turns)


def _marker(producer_id: int, epoch: int) -> WritableTxnMarker:
    return WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
    )


def _codes(result: Any) -> list[int]:
    return [each.error_code for topic in result.topics for each in topic.partitions]
