"""The stories of transactions driven by a script: requests with their versions, and retries."""

from __future__ import annotations

from typing import Any

import pytest
from tests.client.stories import VirtualTime, topic_led_by

from ottla.client.core.effects import Ask, FeaturesOf
from ottla.client.core.plan import ClusterPlan
from ottla.client.errors import (
    BrokerUnreachable,
    ConnectionLost,
    InvalidTransactionState,
    ProducerFenced,
    TransactionMustAbort,
)
from ottla.client.model import ClientSettings, CommittedOffset, GroupMetadata, ProducerIdentity
from ottla.client.produce.transacting import Transactor
from ottla.client.produce.transaction import ProducerPhase
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from ottla.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from ottla.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ottla.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.messages.metadata import MetadataRequest
from ottla.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse
from ottla.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.records.builder import build_batch
from ottla.records.reader import Record

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
Turn = int | Exception


class Brokers(VirtualTime):
    """A cluster's answers: an epoch, and for each API the errors of its next requests, followed by success."""

    def __init__(self, *, version: int, epoch: int = 0) -> None:
        super().__init__()
        self.features = {"transaction.version": version}
        self.epoch = epoch
        self.asked: list[str] = []
        """Names of the requests, with their allowed versions if these are limited."""
        self.requests: list[Any] = []
        self.errors: dict[str, list[Turn]] = {}
        self.coordinators = 0
        self.plan = ClusterPlan("boot:1", ClientSettings(), lambda: self.time)

    def attempt(self, effect: Any) -> Any:
        try:
            return self.features if isinstance(effect, FeaturesOf) else self._asked(effect)
        except (ApiError, ConnectionLost, BrokerUnreachable) as failed:
            return failed

    def _asked(self, effect: Ask[Any]) -> Any:
        self.time += 1
        request = effect.build(min(effect.max_version, 9))
        if isinstance(request, MetadataRequest):
            return topic_led_by(1, 1)
        if isinstance(request, FindCoordinatorRequest):
            self.coordinators += 1
            found = Coordinator(key="id", node_id=1, host=f"c{self.coordinators}", port=9)
            return FindCoordinatorResponse(coordinators=[found])
        name = effect.request.__name__.removesuffix("Request")
        most = "" if effect.max_version == 32767 else effect.max_version
        self.asked.append(f"{name} {effect.min_version}-{most}")
        self.requests.append(request)
        turn = self.errors[name].pop(0) if self.errors.get(name) else 0
        if isinstance(turn, Exception):
            raise turn
        return self._answer(request, turn)

    def _answer(self, request: Any, code: int) -> Any:
        if isinstance(request, InitProducerIdRequest):
            self.epoch += not code
            return InitProducerIdResponse(error_code=code, producer_id=7, producer_epoch=self.epoch)
        if isinstance(request, EndTxnRequest):
            self.epoch += not code and self.features["transaction.version"] == 2
            return EndTxnResponse(error_code=code, producer_id=7, producer_epoch=self.epoch)
        if isinstance(request, AddPartitionsToTxnRequest):
            topics = [
                AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
                        for index in topic.partitions
                    ],
                )
                for topic in request.v3_and_below_topics
            ]
            return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)
        if isinstance(request, TxnOffsetCommitRequest):
            part = TxnOffsetCommitResponsePartition(partition_index=0, error_code=code)
            return TxnOffsetCommitResponse(topics=[TxnOffsetCommitResponseTopic(name="t", partitions=[part])])
        if isinstance(request, ProduceRequest):
            (topic,) = request.topic_data
            parts = [
                PartitionProduceResponse(index=each.index, error_code=code, base_offset=5)
                for each in topic.partition_data
            ]
            return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=parts)])
        return AddOffsetsToTxnResponse(error_code=code)


def a_transactor(*, version: int) -> tuple[Brokers, Transactor]:
    brokers = Brokers(version=version)
    transactor = Transactor(brokers.plan, "id", timeout_ms=5_000)
    brokers.run(transactor.init())
    brokers.asked = []
    brokers.requests = []
    return brokers, transactor


def batch_of(transactor: Transactor, partition: TopicPartition, count: int = 1) -> tuple[TopicPartition, bytes]:
    identity = transactor.identity
    records = [Record(0, 0, None, b"v")] * count
    return partition, build_batch(
        records,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        base_sequence=transactor.next_sequence(partition),
        is_transactional=True,
    )


def test_with_an_epoch_for_each_transaction_brokers_add_partitions_and_groups() -> None:
    brokers, transactor = a_transactor(version=2)
    transactor.begin()
    brokers.run(transactor.produce([batch_of(transactor, P0, 3), batch_of(transactor, P1)]))
    assert transactor.next_sequence(P0) == 3
    brokers.run(transactor.send_offsets({P0: CommittedOffset(4, "m")}, GroupMetadata("g", 2, "member")))
    brokers.run(transactor.commit())
    assert brokers.asked == ["Produce 12-12", "Produce 12-12", "TxnOffsetCommit 5-", "EndTxn 5-"]
    assert [request.transactional_id for request in brokers.requests] == ["id"] * 4
    assert brokers.requests[3].committed
    assert transactor.identity == ProducerIdentity(7, 2)
    assert transactor.next_sequence(P0) == 0, "another epoch counts from 0"


def test_without_it_the_client_adds_each_partition_and_group_once() -> None:
    brokers, transactor = a_transactor(version=1)
    transactor.begin()
    brokers.run(transactor.produce([batch_of(transactor, P0), batch_of(transactor, P1)]))
    brokers.run(transactor.produce([batch_of(transactor, P0)]))
    for _ in range(2):
        brokers.run(transactor.send_offsets({P0: CommittedOffset(4)}, GroupMetadata("g")))
    brokers.run(transactor.abort())
    produce, offsets = "Produce 3-11", "TxnOffsetCommit 0-4"
    assert brokers.asked == [
        "AddPartitionsToTxn 0-3", produce, produce, produce, "AddOffsetsToTxn 0-", offsets, offsets, "EndTxn 0-4",
    ]  # fmt: skip
    assert transactor.identity == ProducerIdentity(7, 1)
    assert transactor.next_sequence(P0) == 2, "the epoch stays, and sequences go on"


def test_an_empty_transaction_ends_without_a_request() -> None:
    brokers, transactor = a_transactor(version=2)
    transactor.begin()
    brokers.run(transactor.commit())
    transactor.begin()
    brokers.run(transactor.abort())
    assert brokers.asked == []
    transactor.begin()


def test_the_coordinator_is_looked_up_again_where_it_moved_or_died() -> None:
    brokers, transactor = a_transactor(version=2)
    before = brokers.coordinators
    transactor.begin()
    brokers.run(transactor.produce([batch_of(transactor, P0)]))
    brokers.errors["EndTxn"] = [
        ErrorCode.NOT_COORDINATOR,
        ConnectionLost("gone"),
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ]
    brokers.run(transactor.commit())
    assert brokers.coordinators == before + 3
    assert brokers.asked.count("EndTxn 5-") == 5
    assert transactor.state.phase is ProducerPhase.READY


def test_while_the_transaction_before_still_ends_the_add_is_soon_tried_again() -> None:
    brokers, transactor = a_transactor(version=1)
    transactor.begin()
    brokers.errors["AddPartitionsToTxn"] = [ErrorCode.CONCURRENT_TRANSACTIONS] * 3
    before, found = brokers.time, brokers.coordinators
    brokers.run(transactor.add([P0]))
    assert brokers.time - before == 4 + 20 + 40 + 80
    assert brokers.coordinators == found


def test_initializing_waits_until_the_open_transaction_of_another_is_aborted() -> None:
    brokers = Brokers(version=2)
    brokers.errors["InitProducerId"] = [ErrorCode.CONCURRENT_TRANSACTIONS] * 2
    transactor = Transactor(brokers.plan, "id", timeout_ms=5_000)
    assert brokers.run(transactor.init()) == ProducerIdentity(7, 1)
    assert {request.transaction_timeout_ms for request in brokers.requests} == {5_000}
    with pytest.raises(InvalidTransactionState):
        brokers.run(transactor.init())


@pytest.mark.parametrize("version", [1, 2])
def test_a_fenced_producer_cannot_go_on(version: int) -> None:
    brokers, transactor = a_transactor(version=version)
    transactor.begin()
    brokers.run(transactor.produce([batch_of(transactor, P0)]))
    brokers.errors["EndTxn"] = [ErrorCode.PRODUCER_FENCED]
    with pytest.raises(ProducerFenced, match="taken it over"):
        brokers.run(transactor.commit())
    for call in (transactor.begin, transactor.state.begin_abort):
        with pytest.raises(ProducerFenced):
            call()


def test_a_batch_that_is_refused_leaves_a_transaction_that_is_aborted_and_followed_by_another() -> None:
    brokers, transactor = a_transactor(version=2)
    transactor.begin()
    brokers.errors["Produce"] = [ErrorCode.MESSAGE_TOO_LARGE]
    with pytest.raises(TransactionMustAbort, match="larger than the topic"):
        brokers.run(transactor.produce([batch_of(transactor, P0), batch_of(transactor, P1)]))
    with pytest.raises(TransactionMustAbort):
        brokers.run(transactor.commit())
    brokers.run(transactor.abort())
    assert brokers.asked == ["Produce 12-12", "EndTxn 5-"]
    transactor.begin()


def test_without_an_epoch_for_each_transaction_a_failed_batch_takes_one_after_the_abort() -> None:
    brokers, transactor = a_transactor(version=0)
    transactor.begin()
    brokers.errors["Produce"] = [ErrorCode.INVALID_PRODUCER_EPOCH]
    with pytest.raises(TransactionMustAbort):
        brokers.run(transactor.produce([batch_of(transactor, P0)]))
    brokers.run(transactor.abort())
    assert brokers.asked[2:] == ["EndTxn 0-4", "InitProducerId 3-"]
    asked = brokers.requests[-1]
    assert (asked.producer_id, asked.producer_epoch) == (7, 1), "so that nobody else is fenced by it"
    assert transactor.identity == ProducerIdentity(7, 2)
    assert transactor.next_sequence(P0) == 0


def test_an_upgrade_of_the_cluster_changes_the_protocol_between_two_transactions() -> None:
    brokers, transactor = a_transactor(version=1)
    transactor.begin()
    brokers.run(transactor.add([P0]))
    brokers.features = {"transaction.version": 2}
    brokers.run(transactor.add([P1]))
    brokers.run(transactor.commit())
    assert brokers.asked == ["AddPartitionsToTxn 0-3", "AddPartitionsToTxn 0-3", "EndTxn 0-4", "InitProducerId 3-"]
    transactor.begin()
    brokers.run(transactor.add([P0]))
    assert len(brokers.asked) == 4 and transactor.state.brokers_add


def test_a_downgrade_changes_it_back() -> None:
    brokers, transactor = a_transactor(version=2)
    transactor.begin()
    brokers.run(transactor.add([P0]))
    brokers.features = {"transaction.version": 1}
    brokers.run(transactor.commit())
    transactor.begin()
    brokers.run(transactor.add([P0]))
    assert brokers.asked == ["EndTxn 5-", "AddPartitionsToTxn 0-3"]


def test_a_topic_that_may_not_be_written_refuses_all_partitions_and_the_transaction() -> None:
    brokers, transactor = a_transactor(version=1)
    transactor.begin()
    brokers.errors["AddPartitionsToTxn"] = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    with pytest.raises(TransactionMustAbort) as raised:
        brokers.run(transactor.add([P0, P1]))
    assert isinstance(raised.value.__cause__, ApiError)
    assert not transactor.state.holds_something


def test_a_topic_that_the_coordinator_does_not_know_yet_is_added_again() -> None:
    brokers, transactor = a_transactor(version=1)
    transactor.begin()
    brokers.errors["AddPartitionsToTxn"] = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    brokers.run(transactor.add([P0]))
    assert brokers.asked == ["AddPartitionsToTxn 0-3"] * 2


def test_offsets_of_a_replaced_member_fail_the_transaction_and_late_ones_are_sent_again() -> None:
    brokers, transactor = a_transactor(version=2)
    transactor.begin()
    brokers.errors["TxnOffsetCommit"] = [
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        0,
        ErrorCode.ILLEGAL_GENERATION,
    ]
    group = GroupMetadata("g", 3, "member", "instance")
    brokers.run(transactor.send_offsets({P0: CommittedOffset(4)}, group))
    request = brokers.requests[-1]
    assert (request.generation_id, request.member_id, request.group_instance_id) == (3, "member", "instance")
    with pytest.raises(TransactionMustAbort, match="group 'g'"):
        brokers.run(transactor.send_offsets({P0: CommittedOffset(5)}, group))
    brokers.run(transactor.abort())


def test_a_member_cannot_be_named_to_brokers_that_do_not_check_members() -> None:
    brokers, transactor = a_transactor(version=0)
    transactor.begin()
    brokers.run(transactor.send_offsets({P0: CommittedOffset(4)}, GroupMetadata("g", 3, "member")))
    assert brokers.asked == ["AddOffsetsToTxn 0-", "TxnOffsetCommit 3-4"]


def test_no_offsets_are_no_request() -> None:
    brokers, transactor = a_transactor(version=1)
    transactor.begin()
    brokers.run(transactor.send_offsets({}, GroupMetadata("g")))
    assert brokers.asked == []


def test_an_end_that_nobody_answers_in_time_may_be_asked_for_again() -> None:
    brokers, transactor = a_transactor(version=2)
    transactor.begin()
    brokers.run(transactor.produce([batch_of(transactor, P0)]))
    brokers.errors["EndTxn"] = [ConnectionLost("gone")] * 100
    with pytest.raises(ConnectionLost):
        brokers.run(transactor.commit(timeout_ms=500))
    with pytest.raises(InvalidTransactionState):
        brokers.run(transactor.abort())
    brokers.errors = {}
    brokers.run(transactor.commit())
    assert all(request.committed and request.producer_epoch == 1 for request in brokers.requests[1:])


def test_what_was_not_begun_takes_no_batches() -> None:
    brokers, transactor = a_transactor(version=2)
    with pytest.raises(InvalidTransactionState):
        brokers.run(transactor.produce([batch_of(transactor, P0)]))
    assert brokers.asked == []
