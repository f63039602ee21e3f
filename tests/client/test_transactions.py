"""Transactions of our own client against real brokers: ours and Apache Kafka. Readers that are not ours judge them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import confluent_kafka
import pytest

from ottla.client import aio_clients
from ottla.client.blocking import Cluster
from ottla.client.blocking_admin import Admin
from ottla.client.blocking_producer import Producer
from ottla.client.errors import (
    ProducerFenced,
    TransactionAborted,
    TransactionMustAbort,
)
from ottla.client.model import CommittedOffset, GroupMetadata
from ottla.client.transacting import Transactor
from ottla.kernel.ids import TopicPartition
from ottla.records.builder import build_batch
from ottla.records.reader import Record


@pytest.fixture
def topic(bootstrap: str, name: str) -> str:
    """Of two partitions."""
    with Admin(bootstrap) as admin:
        admin.create_topic(name, 2, 1)
    return name


@pytest.fixture
def producer(bootstrap: str, name: str) -> Iterator[Producer]:
    with Producer(bootstrap, transactional_id=f"tx-{name}") as made:
        made.init_transactions()
        yield made


def committed(bootstrap: str, topic: str) -> list[bytes]:
    """The values that librdkafka reads with read_committed, sorted."""
    return read(bootstrap, topic, "read_committed")


def read(bootstrap: str, topic: str, isolation: str) -> list[bytes]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, index, 0) for index in range(2)])
    values: list[bytes] = []
    ended = 0
    while ended < 2:
        message = consumer.poll(10)
        assert message is not None, "neither a record nor the end of the partition"
        error = message.error()
        if error is None:
            values.append(message.value() or b"")
        else:
            assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
            ended += 1
    consumer.close()
    return sorted(values)


def test_librdkafka_reads_what_was_committed_and_nothing_that_was_aborted(
    bootstrap: str, topic: str, producer: Producer
) -> None:
    for number, ends in enumerate(
        (producer.commit_transaction, producer.abort_transaction, producer.commit_transaction)
    ):
        producer.begin_transaction()
        for place in range(4):
            producer.produce(topic, f"{number}{place}", partition=place % 2)
        producer.flush()
        ends()
    assert committed(bootstrap, topic) == [b"00", b"01", b"02", b"03", b"20", b"21", b"22", b"23"]
    assert len(read(bootstrap, topic, "read_uncommitted")) == 12


def test_a_block_commits_at_its_end_and_aborts_where_it_raises(bootstrap: str, topic: str, producer: Producer) -> None:
    with producer.transaction():
        kept = producer.produce(topic, b"kept")
    assert kept.result().topic == topic
    with pytest.raises(ZeroDivisionError), producer.transaction():
        dropped = producer.produce(topic, b"dropped")
        raise ZeroDivisionError
    with pytest.raises(TransactionAborted):
        dropped.result()
    with producer.transaction():
        producer.produce(topic, b"later")
    assert committed(bootstrap, topic) == [b"kept", b"later"]


def test_a_second_producer_fences_the_first_and_aborts_what_it_left_open(
    bootstrap: str, topic: str, producer: Producer
) -> None:
    producer.begin_transaction()
    producer.produce(topic, b"of the first")
    producer.flush()
    with Producer(bootstrap, transactional_id=f"tx-{topic}") as second:
        second.init_transactions()
        producer.produce(topic, b"late")
        with pytest.raises((ProducerFenced, TransactionMustAbort)):
            producer.commit_transaction()
        if producer._transactor.state.can_abort:
            with pytest.raises(ProducerFenced):
                producer.abort_transaction()
        with pytest.raises(ProducerFenced):
            producer.begin_transaction()
        with second.transaction():
            second.produce(topic, b"of the second")
    assert committed(bootstrap, topic) == [b"of the second"]


def a_batch(transactor: Transactor, partition: TopicPartition, *values: bytes) -> tuple[TopicPartition, bytes]:
    identity = transactor.identity
    batch = build_batch(
        [Record(0, 1_000, None, value) for value in values],
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        base_sequence=transactor.next_sequence(partition),
        is_transactional=True,
    )
    return partition, batch


def test_batches_that_a_caller_placed_itself_are_committed_with_a_marker_of_a_group(bootstrap: str, topic: str) -> None:
    """As Spark's sink writes: take over, look at the marker, write, commit records and marker together."""
    one, two = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with Cluster(bootstrap) as cluster:
        for attempt in range(2):
            transactor = Transactor(cluster.plan, f"task-{topic}", timeout_ms=30_000)
            cluster.run(transactor.init())
            marker = cluster.committed_offsets(topic, [one], require_stable=True)
            assert [at.metadata for at in marker.values()] == ["batch 7"] * attempt
            if marker:
                continue
            for number in range(3):
                transactor.begin()
                cluster.run(transactor.produce([a_batch(transactor, one, b"%d" % number, b"%db" % number)]))
                cluster.run(
                    transactor.produce([a_batch(transactor, one, b"%dc" % number), a_batch(transactor, two, b"x")])
                )
                if number == 1:
                    cluster.run(transactor.abort())
                    continue
                cluster.run(transactor.send_offsets({one: CommittedOffset(number, "batch 7")}, GroupMetadata(topic)))
                cluster.run(transactor.commit())
    assert committed(bootstrap, topic) == [b"0", b"0b", b"0c", b"2", b"2b", b"2c", b"x", b"x"]


def test_asyncio_producers_commit_records_and_offsets_and_abort_them(bootstrap: str, topic: str) -> None:
    place = TopicPartition(topic, 0)

    async def story() -> dict[TopicPartition, CommittedOffset]:
        async with aio_clients.Producer(bootstrap, transactional_id=f"aio-{topic}") as producer:
            await producer.init_transactions()
            async with producer.transaction():
                futures = [await producer.produce(topic, f"{number:03}") for number in range(100)]
                await producer.send_offsets({place: CommittedOffset(7)}, topic)
            assert all(future.done() for future in futures)
            with pytest.raises(ZeroDivisionError):
                async with producer.transaction():
                    await producer.send_offsets({place: CommittedOffset(9)}, topic)
                    await (await producer.produce(topic, b"aborted"))
                    raise ZeroDivisionError
            return await producer.cluster.committed_offsets(topic)

    assert asyncio.run(story())[place].offset == 7
    assert committed(bootstrap, topic) == [b"%03d" % number for number in range(100)]
