"""Exactly once with unmodified librdkafka over real brokers that are killed: nothing is lost or doubled."""

from __future__ import annotations

import threading
import time

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from copied_topics import AWAY_S, PARTITIONS, PER_TRANSACTION, RECORDS, create, fill, read, three_brokers
from processes import OttlaProcess


@pytest.fixture
def cluster(tmp_path):
    with three_brokers(tmp_path) as running:
        yield running


class Copier:
    """Copies a topic in transactions, each with its read offsets; makes a new producer when necessary.

    It does so after each kill too: librdkafka 2.16 looks up a group's coordinator only once, and after that broker
    was down it no longer sends offsets in transactions.
    """

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.transactions = 0
        self.begun = 0

    def run(self, source: str, target: str, at_commit) -> None:
        end = time.monotonic() + 150
        while not self._attempt(source, target, at_commit):
            assert time.monotonic() < end, "the copy did not come to its end"

    def _attempt(self, source: str, target: str, at_commit) -> bool:
        """True once everything is copied; False if a new producer is needed."""
        self.begun += 1
        producer = Producer(
            {
                "bootstrap.servers": self.servers,
                "transactional.id": "copier",
                "transaction.timeout.ms": 20_000,
                "linger.ms": 2,
            }
        )
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "copiers",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )
        try:
            producer.init_transactions(60)
            places = [TopicPartition(source, partition) for partition in range(PARTITIONS)]
            committed = consumer.committed(places, 30)
            at = {each.partition: max(0, each.offset) for each in committed}
            consumer.assign([TopicPartition(source, partition, offset) for partition, offset in at.items()])
            while sum(at.values()) < RECORDS:
                if self._one(producer, consumer, source, target, at, at_commit):
                    return sum(at.values()) == RECORDS
            return True
        except KafkaException:
            return False
        finally:
            consumer.close()
            producer.purge()

    def _one(self, producer, consumer, source: str, target: str, at: dict[int, int], at_commit) -> bool:
        """Copy one transaction; True if a broker was killed during it."""
        left = min(PER_TRANSACTION, RECORDS - sum(at.values()))
        producer.begin_transaction()
        while left:
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error():
                raise KafkaException(message.error())
            producer.produce(target, message.value(), partition=message.partition())
            at[message.partition()] = message.offset() + 1
            left -= 1
        places = [TopicPartition(source, partition, offset) for partition, offset in at.items()]
        producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), 30)
        killed = at_commit(self.transactions)
        producer.commit_transaction(60)
        self.transactions += 1
        return killed


@pytest.mark.slow
def test_a_copy_in_transactions_is_exact_while_brokers_are_killed_one_after_the_other(cluster):
    create(cluster.bootstrap_servers, "source", "target", replicas=3)
    sent = fill(cluster.bootstrap_servers, "source")
    killed_at: list[int] = []
    coming_back: list[threading.Timer] = []

    def kill_one(transactions: int) -> bool:
        """Kill a broker before the commits of some transactions, and start it again soon."""
        if transactions not in (1, 3, 5, 7) or transactions in killed_at:
            return False
        killed_at.append(transactions)
        broker = cluster.brokers[1 + len(killed_at) % 3]
        broker.kill()
        coming_back.append(threading.Timer(AWAY_S, broker.start))
        coming_back[-1].start()
        return True

    Copier(cluster.bootstrap_servers).run("source", "target", kill_one)
    assert killed_at == [1, 3, 5, 7]
    for timer in coming_back:
        timer.join()
    assert read(cluster.bootstrap_servers, "target") == sent


@pytest.mark.slow
def test_one_broker_that_is_killed_in_the_middle_forgets_no_transaction(tmp_path):
    with OttlaProcess(tmp_path / "data") as broker:
        create(broker.address, "source", "target", replicas=1)
        sent = fill(broker.address, "source")
        kills: list[int] = []

        def kill(transactions: int) -> bool:
            if transactions not in (2, 5) or transactions in kills:
                return False
            kills.append(transactions)
            broker.kill()
            broker.start()
            return True

        Copier(broker.address).run("source", "target", kill)
        assert kills == [2, 5]
        assert read(broker.address, "target") == sent


@pytest.mark.slow
def test_an_aborted_transaction_and_a_fenced_producer_leave_nothing_to_readers_of_committed_records(tmp_path):
    with OttlaProcess(tmp_path / "data") as broker:
        create(broker.address, "t", replicas=1)
        settings = {"bootstrap.servers": broker.address, "transactional.id": "tx"}
        zombie = Producer(settings)
        zombie.init_transactions(60)
        for values, ends in (("ab", zombie.commit_transaction), ("cd", zombie.abort_transaction)):
            zombie.begin_transaction()
            for value in values:
                zombie.produce("t", value.encode(), partition=0)
            assert zombie.flush(30) == 0
            ends(30)
        zombie.begin_transaction()
        zombie.produce("t", b"e", partition=0)
        assert zombie.flush(30) == 0
        owner = Producer(settings)
        owner.init_transactions(60)
        with pytest.raises(KafkaException) as fenced:
            zombie.commit_transaction(30)
        assert fenced.value.args[0].fatal()
        owner.begin_transaction()
        owner.produce("t", b"f", partition=0)
        owner.commit_transaction(30)
        assert read(broker.address, "t")[0] == [b"a", b"b", b"f"]
        assert read(broker.address, "t", isolation="read_uncommitted")[0] == [b"a", b"b", b"c", b"d", b"e", b"f"]
