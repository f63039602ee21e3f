"""Administration of transactions through our client, on our broker and on Apache Kafka."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from ottla.client.admin.transactions import DescribedTransaction, OpenTransaction, select_hanging
from ottla.client.blocking.admin import Admin
from ottla.client.core import transfer
from ottla.client.errors import ProducerFenced, TransactionMustAbort, refused
from ottla.client.model import InTransaction, ProducerIdentity
from ottla.client.produce.transacting import Transactor
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.messages.describe_producers import ProducerState
from ottla.records.builder import build_batch
from ottla.records.reader import Record
from ottla.testing import TestBroker

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)


class Scene(NamedTuple):
    """A transaction that is open in one partition of a topic."""

    admin: Admin
    transactor: Transactor
    place: TopicPartition

    @property
    def transactional_id(self) -> str:
        return self.transactor.transactional_id

    def open(self) -> None:
        self.transactor.begin()
        identity = self.transactor.identity
        batch = build_batch(
            [Record(0, 1_000, None, b"v")] * 3,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            base_sequence=self.transactor.next_sequence(self.place),
            is_transactional=True,
        )
        self.admin.cluster.run(self.transactor.produce([(self.place, batch)]))

    def described(self) -> DescribedTransaction:
        found = self.admin.describe_transactions([self.transactional_id])[self.transactional_id]
        assert not isinstance(found, ApiError)
        return found

    def producers(self) -> list[ProducerState]:
        found = self.admin.describe_producers([self.place])[self.place]
        assert not isinstance(found, Exception)
        return found


@pytest.fixture
def scene(bootstrap: str, name: str) -> Iterator[Scene]:
    with Admin(bootstrap) as admin:
        admin.create_topic(name, 2, 1)
        transactor = Transactor(admin.cluster.plan, f"tx-{name}", timeout_ms=50_000)
        admin.cluster.run(transactor.init())
        made = Scene(admin, transactor, TopicPartition(name, 1))
        made.open()
        yield made
        if transactor.state.can_abort:
            with contextlib.suppress(ProducerFenced):
                admin.cluster.run(transactor.abort())


def test_an_open_transaction_is_described_and_listed_and_so_is_its_end(scene: Scene) -> None:
    open_now = scene.described()
    identity = scene.transactor.identity
    assert (open_now.state, open_now.timeout_ms, open_now.partitions) == ("Ongoing", 50_000, (scene.place,))
    assert (open_now.producer_id, open_now.producer_epoch) == identity and open_now.started_ms > 0
    listed = {each.transactional_id: each for each in scene.admin.list_transactions(states=["Ongoing"])}
    found = listed[scene.transactional_id]
    assert (found.producer_id, found.coordinator) == (identity.producer_id, open_now.coordinator)
    scene.admin.cluster.run(scene.transactor.commit())
    ended = scene.described()
    while ended.state != "CompleteCommit":
        assert ended.state == "PrepareCommit"
        ended = scene.described()
    assert (ended.partitions, ended.started_ms >= 0) == ((), True)
    assert scene.transactional_id not in {
        each.transactional_id for each in scene.admin.list_transactions(states=["Ongoing"])
    }


def test_lists_are_filtered_by_producer_and_by_how_long_something_is_open(scene: Scene) -> None:
    mine = scene.transactor.identity.producer_id
    assert [each.transactional_id for each in scene.admin.list_transactions(producer_ids=[mine])] == [
        scene.transactional_id
    ]
    assert not scene.admin.list_transactions(producer_ids=[mine], longer_than_ms=3_600_000)
    while not scene.admin.list_transactions(producer_ids=[mine], longer_than_ms=10):
        scene.admin.cluster.refresh()


def test_an_id_that_nobody_has_used_is_an_error_of_its_own(scene: Scene) -> None:
    found = scene.admin.describe_transactions([scene.transactional_id, "nobody"])
    assert isinstance(found[scene.transactional_id], DescribedTransaction)
    missing = found["nobody"]
    assert isinstance(missing, ApiError) and missing.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_producers_of_a_partition_say_where_their_transaction_begins(scene: Scene) -> None:
    (producer,) = scene.producers()
    assert (producer.producer_id, producer.producer_epoch) == scene.transactor.identity
    assert (producer.current_txn_start_offset, producer.last_sequence) == (0, 2)
    broker = min(scene.admin.cluster.brokers())
    assert scene.admin.describe_producers([scene.place], broker)[scene.place] == [producer]
    scene.admin.cluster.run(scene.transactor.abort())
    while scene.producers()[0].current_txn_start_offset >= 0:
        scene.admin.cluster.refresh()
    scene.open()
    assert scene.producers()[0].current_txn_start_offset == 4


def test_terminating_a_transactional_id_aborts_what_is_open_and_fences_its_producer(scene: Scene) -> None:
    scene.admin.terminate_transaction(scene.transactional_id)
    assert scene.described().state != "Ongoing"
    with pytest.raises((ProducerFenced, TransactionMustAbort)):
        scene.admin.cluster.run(scene.transactor.commit())


def test_a_transaction_that_its_coordinator_will_end_does_not_hang(scene: Scene) -> None:
    topic = scene.place.topic
    assert scene.admin.hanging_transactions(-1, topics=[topic]) == []
    assert scene.admin.hanging_transactions(-1, partitions=[scene.place]) == []


@pytest.fixture
def hung() -> Iterator[Scene]:
    """A hanging transaction: the broker does not ask the coordinator, and has taken a batch without a begun one."""
    options = {"transaction.partition.verification.enable": "false", "transaction.state.log.num.partitions": "1"}
    with TestBroker(options) as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("t", 2, 1)
        transactor = Transactor(admin.cluster.plan, "hung")
        identity = admin.cluster.run(transactor.init())
        batch = build_batch(
            [Record(0, 1_000, None, b"v")],
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )
        transaction = InTransaction("hung", brokers_add=False)
        admin.cluster.run(transfer.produce(admin.cluster.plan, *TWO, batch, transaction=transaction))
        yield Scene(admin, transactor, TWO)


def test_what_hangs_is_found_and_aborted(hung: Scene) -> None:
    for scope in ({"topics": ["t"]}, {"broker": 1}, {"partitions": [TWO]}, {}):
        (found,) = hung.admin.hanging_transactions(60_000, **scope)  # type: ignore[arg-type]
        assert (found.partition, found.producer.current_txn_start_offset) == (TWO, 0)
    assert hung.admin.hanging_transactions(60_000, partitions=[ONE]) == []
    assert hung.admin.hanging_transactions(10**14, topics=["t"]) == [], "it is not as old"
    producer = ProducerIdentity(found.producer.producer_id, found.producer.producer_epoch)
    hung.admin.abort_in_partition(TWO, producer, 0)
    assert hung.producers()[0].current_txn_start_offset == -1
    assert hung.admin.hanging_transactions(60_000) == []
    hung.admin.abort_in_partition(TWO, producer._replace(producer_epoch=producer.producer_epoch + 1), 0)
    with pytest.raises(ApiError) as raised:
        hung.admin.abort_in_partition(TWO, producer, 0)
    assert raised.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


def an_open_one(partition: TopicPartition, producer_id: int) -> OpenTransaction:
    return OpenTransaction(partition, ProducerState(producer_id=producer_id, current_txn_start_offset=3))


def described(*partitions: TopicPartition) -> DescribedTransaction:
    return DescribedTransaction(1, "id", 7, 0, "Ongoing", 60_000, 1, partitions)


def test_what_its_coordinator_knows_there_does_not_hang_and_all_else_does() -> None:
    known, elsewhere, forgotten, nameless = (an_open_one(ONE, number) for number in (1, 2, 3, 4))
    names = {1: "known", 2: "elsewhere", 3: "forgotten"}
    gone = refused(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "x")
    answers = {"known": described(ONE, TWO), "elsewhere": described(TWO), "forgotten": gone}
    assert select_hanging([known, elsewhere, forgotten, nameless], names, answers) == [elsewhere, forgotten, nameless]


def test_a_coordinator_that_cannot_answer_is_no_reason_to_say_that_something_hangs() -> None:
    answers = {"id": refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "x")}
    with pytest.raises(ApiError):
        select_hanging([an_open_one(ONE, 1)], {1: "id"}, answers)
