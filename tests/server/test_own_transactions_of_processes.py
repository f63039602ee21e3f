"""Exactly once with our own client over killed real brokers: one producer throughout, checked by librdkafka."""

from __future__ import annotations

import threading
import time

import pytest
from copied_topics import AWAY_S, PARTITIONS, PER_TRANSACTION, RECORDS, create, fill, read, three_brokers

from ottla.client.admin.features import UpgradeType
from ottla.client.blocking.admin import Admin
from ottla.client.blocking.cluster import Cluster
from ottla.client.blocking.consumer import Consumer
from ottla.client.blocking.producer import Producer
from ottla.client.consume.settings import ConsumerSettings, FetchSettings
from ottla.client.errors import ConnectionLost, RequestTimedOut, TransactionMustAbort
from ottla.client.model import CommittedOffset, IsolationLevel
from ottla.client.produce.settings import ProducerSettings
from ottla.kernel.ids import TopicPartition

PLACES = [TopicPartition("source", partition) for partition in range(PARTITIONS)]
READER = ConsumerSettings(
    group_id="copiers",
    auto_offset_reset="earliest",
    enable_auto_commit=False,
    max_poll_records=PER_TRANSACTION,
    fetch=FetchSettings(isolation_level=IsolationLevel.READ_COMMITTED),
)


@pytest.fixture
def cluster(tmp_path):
    with three_brokers(tmp_path) as running:
        yield running


class Copier:
    """Copies a topic in transactions with one producer; aborts and goes back if a transaction fails."""

    def __init__(self, servers: str) -> None:
        self.producer = Producer(
            servers,
            transactional_id="copier",
            transaction_timeout_ms=60_000,
            producer=ProducerSettings(linger_ms=2, delivery_timeout_ms=30_000),
        )
        self.consumer = Consumer(servers, consumer=READER)
        self.commits = 0
        self.aborts = 0

    def run(self, before_commit) -> None:
        self.producer.init_transactions()
        self.consumer.assign(PLACES)
        at = dict.fromkeys(PLACES, 0)
        end = time.monotonic() + 150
        while sum(at.values()) < RECORDS:
            assert time.monotonic() < end, f"the copy did not come to its end: {at}"
            after = dict(at)
            try:
                self._copy(after)
                before_commit(self.commits)
                self._commit()
            except TransactionMustAbort:
                self.aborts += 1
                self.producer.abort_transaction()
                for place, offset in at.items():
                    self.consumer.seek(place, offset)
            else:
                at = after
                self.commits += 1
        self.consumer.close()
        self.producer.close()

    def _copy(self, at: dict[TopicPartition, int]) -> None:
        records = []
        while not records:
            records = self.consumer.poll(5_000)
        self.producer.begin_transaction()
        for record in records:
            self.producer.produce("target", record.value, partition=record.partition)
            at[TopicPartition("source", record.partition)] = record.offset + 1
        offsets = {place: CommittedOffset(offset) for place, offset in at.items()}
        self.producer.send_offsets_to_transaction(offsets, self.consumer.group_metadata)

    def _commit(self) -> None:
        """Commit; after an unknown outcome commit again, which gives the same result."""
        while True:
            try:
                self.producer.commit_transaction()
                return
            except (RequestTimedOut, ConnectionLost):
                continue


@pytest.mark.slow
@pytest.mark.parametrize("level", [2, 1])
def test_one_producer_of_ours_copies_exactly_while_brokers_are_killed_one_after_the_other(cluster, level):
    create(cluster.bootstrap_servers, "source", "target", replicas=3)
    sent = fill(cluster.bootstrap_servers, "source")
    if level == 1:
        with Admin(cluster.bootstrap_servers) as admin:
            assert admin.update_features({"transaction.version": 1}, UpgradeType.SAFE_DOWNGRADE)
    killed_at: list[int] = []
    coming_back: list[threading.Timer] = []

    def kill_one(commits: int) -> None:
        if commits not in (1, 3, 5, 7) or commits in killed_at:
            return
        killed_at.append(commits)
        broker = cluster.brokers[1 + len(killed_at) % 3]
        broker.kill()
        coming_back.append(threading.Timer(AWAY_S, broker.start))
        coming_back[-1].start()

    copier = Copier(cluster.bootstrap_servers)
    copier.run(kill_one)
    assert killed_at == [1, 3, 5, 7]
    for timer in coming_back:
        timer.join()
    assert copier.producer._transactor.state.version == level
    assert read(cluster.bootstrap_servers, "target") == sent
    with Cluster(cluster.bootstrap_servers) as client:
        committed = client.committed_offsets("copiers", PLACES, require_stable=True)
    assert {place: at.offset for place, at in committed.items()} == dict.fromkeys(PLACES, RECORDS // PARTITIONS)
