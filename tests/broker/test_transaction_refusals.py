"""Requests that the transaction APIs refuse before a shard is asked, and the codes that older versions know."""

from __future__ import annotations

import pytest
from transactional import OK, Producer, Scene, ready

from ottla.kernel.errors import ErrorCode
from ottla.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from ottla.messages.describe_transactions import DescribeTransactionsRequest
from ottla.messages.init_producer_id import InitProducerIdRequest

MISSING, NOT_ATTEMPTED = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"enable2_pc": True}, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ({"keep_prepared_txn": True}, ErrorCode.UNSUPPORTED_VERSION),
        ({"enable2_pc": True, "keep_prepared_txn": True}, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ({"enable2_pc": True, "transaction_timeout_ms": 0}, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ({"keep_prepared_txn": True, "transaction_timeout_ms": 0}, ErrorCode.UNSUPPORTED_VERSION),
        ({}, OK),
    ],
)
def test_two_phase_commit_is_refused(asked: dict, error: ErrorCode):
    scene = Scene(1)
    ready(scene, version=2)
    request = InitProducerIdRequest(**({"transactional_id": "tx", "transaction_timeout_ms": 1_000} | asked))
    peer = scene.peer(1)
    assert scene.wait_for(peer.connect())
    not_announced = 6
    assert scene.end_of(peer._send(request, not_announced, None)).error_code == error


@pytest.mark.parametrize(("most", "error"), [(3, ErrorCode.INVALID_PRODUCER_EPOCH), (4, ErrorCode.PRODUCER_FENCED)])
def test_versions_of_init_producer_id_before_4_say_invalid_epoch_for_fenced(most: int, error: ErrorCode):
    scene = Scene(1)
    before = ready(scene, version=1)
    ready(scene, version=1)
    request = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1_000, **before.producer)
    answer = scene.ask(1, request, most=most)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (error, -1, -1)


def partitions_of(results: list[AddPartitionsToTxnTopicResult]) -> dict[tuple[str, int], int]:
    return {
        (topic.name, each.partition_index): each.partition_error_code
        for topic in results
        for each in topic.results_by_partition
    }


def state_of(scene: Scene) -> tuple[str, int]:
    """The state of the transaction, and the number of its topics."""
    (described,) = scene.ask(1, DescribeTransactionsRequest(transactional_ids=["tx"])).transaction_states
    return described.transaction_state, len(described.topics)


SOME_MISSING = [
    AddPartitionsToTxnTopic(name="t", partitions=[0, 9, -1]),
    AddPartitionsToTxnTopic(name="none", partitions=[0]),
]
ANSWER = {("t", 0): NOT_ATTEMPTED, ("t", 9): MISSING, ("t", -1): MISSING, ("none", 0): MISSING}


def test_beside_a_missing_partition_no_other_is_added():
    scene = Scene(1)
    producer = ready(scene, version=1)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="tx",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=SOME_MISSING,
    )
    answer = scene.ask(1, request, most=3)
    assert partitions_of(answer.results_by_topic_v3_and_below) == ANSWER
    assert state_of(scene) == ("Empty", 0)


@pytest.mark.parametrize("verify_only", [False, True], ids=["add", "verify"])
def test_beside_a_missing_partition_of_one_transaction_those_of_another_are_added(verify_only: bool):
    scene = Scene(1)
    first, second = (ready(scene, name, version=1) for name in ("tx", "other"))
    assert second.add(1) == OK

    def part(producer: Producer, topics: list[AddPartitionsToTxnTopic]) -> AddPartitionsToTxnTransaction:
        name = producer.transactional_id
        return AddPartitionsToTxnTransaction(
            transactional_id=name, topics=topics, verify_only=verify_only, **producer.producer
        )

    there = [AddPartitionsToTxnTopic(name="t", partitions=[1])]
    request = AddPartitionsToTxnRequest(transactions=[part(first, SOME_MISSING), part(second, there)])
    said = {each.transactional_id: each.topic_results for each in scene.ask(1, request).results_by_transaction}
    assert partitions_of(said["tx"]) == ANSWER
    assert partitions_of(said["other"]) == {("t", 1): OK}
    assert state_of(scene) == ("Empty", 0)


def test_an_empty_transactional_id_adds_neither_partitions_nor_offsets():
    scene = Scene(1)
    producer = ready(scene, version=1)
    offsets = AddOffsetsToTxnRequest(transactional_id="", group_id="g", **producer.producer)
    assert scene.ask(1, offsets).error_code == ErrorCode.INVALID_REQUEST
    partitions = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0, 1])],
    )
    answer = scene.ask(1, partitions, most=3)
    refused = ErrorCode.INVALID_REQUEST
    assert partitions_of(answer.results_by_topic_v3_and_below) == {("t", 0): refused, ("t", 1): refused}
