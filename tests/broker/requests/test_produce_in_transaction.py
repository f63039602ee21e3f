"""A producer's requests in a transaction: none waits for the commit of the one before it."""

from __future__ import annotations

from typing import Any

import pytest
from transactional import OK, Producer, Scene, ready

from ottla.broker.replicas.admission import RefusedBatch
from ottla.broker.replicas.partition import Partition
from ottla.broker.requests.produce_in_transaction import _told
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import NO_TOPIC_ID, TopicPartition
from ottla.kernel.story import Slot
from ottla.messages.api_versions import ApiVersionsRequest
from ottla.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.builder import build_batch
from ottla.records.reader import Record

SYNC_MS = 20


def request(producer: Producer, partition: int, sequence: int = 0) -> ProduceRequest:
    records = [Record(0, producer.scene.loop.wall_ms(), None, b"value")]
    batch = build_batch(records, base_sequence=sequence, is_transactional=True, **producer.producer)
    data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=partition, records=batch)])
    return ProduceRequest(transactional_id=producer.transactional_id, acks=-1, timeout_ms=5_000, topic_data=[data])


def sent_at_once(scene: Scene, requests: list[ProduceRequest], *, most: int) -> list[Slot[Any]]:
    """Send them over one connection, none waiting for another's answer; the disk takes `SYNC_MS` from now on."""
    peer = scene.peer(1)
    scene.wait_for(peer.ask(ApiVersionsRequest()))
    scene.machines[1].set_sync_us((SYNC_MS * 1_000, SYNC_MS * 1_000))
    return [peer.send(each, most=most) for each in requests]


def ends(scene: Scene) -> list[int]:
    """The end of each partition's log."""
    partitions = [scene.node(1).lookup.partition("t", NO_TOPIC_ID, index) for index in range(3)]
    return [each.log.end_offset for each in partitions if isinstance(each, Partition)]


def errors(scene: Scene, slots: list[Slot[Any]]) -> list[int]:
    answers = [scene.end_of(slot) for slot in slots]
    return [answer.responses[0].partition_responses[0].error_code for answer in answers]


def test_batches_of_several_partitions_are_synced_together():
    scene = Scene(brokers=1)
    producer = ready(scene, version=1)
    assert producer.add(0, 1, 2) == OK
    slots = sent_at_once(scene, [request(producer, partition) for partition in range(3)], most=11)
    scene.loop.run_for(SYNC_MS // 2)
    assert ends(scene) == [1, 1, 1]
    assert not any(slot.full for slot in slots)
    assert errors(scene, slots) == [OK] * 3


def test_requests_behind_one_that_asked_the_coordinator_begin_before_it_is_committed():
    scene = Scene(brokers=1)
    producer = ready(scene, version=2)
    slots = sent_at_once(scene, [request(producer, 0), request(producer, 0, 1), request(producer, 0, 2)], most=12)
    scene.loop.run_for(SYNC_MS // 2)
    assert ends(scene) == [0, 0, 0], "its coordinator's entry is not committed yet"
    scene.loop.run_for(SYNC_MS)
    assert ends(scene) == [3, 0, 0]
    assert not any(slot.full for slot in slots)
    assert errors(scene, slots) == [OK] * 3


def test_a_request_behind_one_that_asks_the_coordinator_waits_for_it():
    scene = Scene(brokers=1)
    producer = ready(scene, version=2)
    slots = sent_at_once(scene, [request(producer, 0), request(producer, 1)], most=12)
    scene.loop.run_for(SYNC_MS + SYNC_MS // 2)
    assert ends(scene) == [1, 0, 0], "the first is added and appended, the second is being added"
    assert errors(scene, slots) == [OK] * 2


def test_batches_of_a_transaction_are_told_from_repeats_and_strangers():
    scene = Scene(brokers=1)
    producer = ready(scene, version=1)

    def answered(*requests: ProduceRequest) -> list[int]:
        return errors(scene, sent_at_once(scene, list(requests), most=11))

    assert producer.add(0) == OK
    first = request(producer, 0)
    assert answered(first, request(producer, 0, 1), request(producer, 0, 1), first) == [OK] * 4
    assert ends(scene) == [2, 0, 0], "repeats are answered, and not written"
    assert answered(request(producer, 1)) == [ErrorCode.TRANSACTION_ABORTABLE], "it was not added"
    sound_id, producer.producer_id = producer.producer_id, 77
    assert answered(request(producer, 0)) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    producer.producer_id, producer.epoch = sound_id, producer.epoch + 1
    assert answered(request(producer, 0)) == [ErrorCode.INVALID_PRODUCER_EPOCH], "an epoch that nobody gave"
    producer.epoch -= 1
    assert producer.end(commit=True) == OK
    scene.loop.run_for(10 * SYNC_MS)
    assert answered(request(producer, 0, 2)) == [ErrorCode.TRANSACTION_ABORTABLE], "the transaction is over"
    assert producer.add(0) == OK
    assert answered(request(producer, 0, 2)) == [OK]
    assert ends(scene) == [4, 0, 0], "two batches, the marker, and a batch of the next transaction"


def test_a_coordinator_that_is_here_confirms_no_partition_that_was_not_added():
    scene = Scene(brokers=1)
    producer = ready(scene, version=1)
    assert producer.add(1) == OK
    slots = sent_at_once(scene, [request(producer, 0), request(producer, 1)], most=11)
    assert errors(scene, slots) == [ErrorCode.TRANSACTION_ABORTABLE, OK]
    assert ends(scene) == [0, 1, 0]


@pytest.mark.parametrize("other", [{"producer_id": 77, "epoch": 0}, {"epoch": 1}], ids=["id", "epoch"])
def test_a_request_of_two_producers_is_refused_whole(other: dict[str, int]):
    scene = Scene(brokers=1)
    producer = ready(scene, version=1)
    assert producer.add(0, 1) == OK
    mixed = request(producer, 0)
    for name, value in other.items():
        setattr(producer, name, value)
    mixed.topic_data[0].partition_data += request(producer, 1).topic_data[0].partition_data
    answer = scene.ask(1, mixed, most=11)
    assert [each.error_code for each in answer.responses[0].partition_responses] == [
        ErrorCode.INVALID_PRODUCER_ID_MAPPING
    ] * 2
    assert ends(scene) == [0, 0, 0]


NOT_ENOUGH, FENCED = ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (ErrorCode.PRODUCER_FENCED, (FENCED, FENCED, FENCED)),
        (ErrorCode.TRANSACTION_ABORTABLE, (ErrorCode.INVALID_TXN_STATE,) + (ErrorCode.TRANSACTION_ABORTABLE,) * 2),
        (ErrorCode.NETWORK_EXCEPTION, (NOT_ENOUGH,) * 3),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, (NOT_ENOUGH,) * 3),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, (NOT_ENOUGH,) * 3),
        (ErrorCode.NOT_COORDINATOR, (NOT_ENOUGH,) * 3),
        (ErrorCode.CONCURRENT_TRANSACTIONS, (NOT_ENOUGH, NOT_ENOUGH, ErrorCode.CONCURRENT_TRANSACTIONS)),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, (ErrorCode.INVALID_PRODUCER_ID_MAPPING,) * 3),
    ],
)
def test_each_version_is_told_the_coordinators_error_as_a_code_that_it_knows(said: ErrorCode, told: tuple[ErrorCode]):
    found = [_told(said, version) for version in (10, 11, 12)]
    assert tuple(each.error if isinstance(each, RefusedBatch) else each for each in found) == told


@pytest.mark.parametrize(("version", "most"), [(1, 10), (1, 11), (2, 12)])
def test_while_the_coordinator_cannot_be_reached_the_client_tries_again(version: int, most: int):
    scene = Scene()
    producer = ready(scene, version=version)
    coordinator = scene.coordinator("tx", 1)
    elsewhere = next(each for each in range(3) if scene.leader(TopicPartition("t", each)) != coordinator)
    if version == 1:
        assert producer.add(elsewhere) == OK
    scene.kill(coordinator)
    assert producer.produce(elsewhere, "x", most=most, again=False) == NOT_ENOUGH
    assert producer.produce(elsewhere, "x", most=most) == OK, "once another broker coordinates"
