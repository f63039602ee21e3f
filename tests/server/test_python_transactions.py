"""Transactions of kafka-python and aiokafka, unmodified: commit, abort, offsets, readers of committed records."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import aiokafka
import kafka
import pytest

from ottla.testing import TestBroker

COMMITTED = [b"00", b"01", b"20", b"21"]


@pytest.fixture
def broker() -> Iterator[TestBroker]:
    options = {"transaction.state.log.num.partitions": "2", "offsets.topic.num.partitions": "2"}
    with TestBroker(options) as running:
        yield running


def test_kafka_python_commits_and_aborts(broker: TestBroker) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id="kp")
    producer.init_transactions()
    for number, ends in enumerate(
        (producer.commit_transaction, producer.abort_transaction, producer.commit_transaction)
    ):
        producer.begin_transaction()
        for place in range(2):
            producer.send("t", f"{number}{place}".encode(), partition=0)
        producer.flush()
        ends()
    producer.close()
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers, isolation_level="read_committed", group_id=None
    )
    partition = kafka.TopicPartition("t", 0)
    consumer.assign([partition])
    consumer.seek_to_beginning()
    end = consumer.end_offsets([partition])[partition]
    found: list[bytes] = []
    while consumer.position(partition) < end:
        found += [record.value for records in consumer.poll(500).values() for record in records]
    consumer.close()
    assert found == COMMITTED


def test_aiokafka_commits_and_aborts_records_and_offsets(broker: TestBroker) -> None:
    async def run() -> tuple[list[bytes], int]:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id="aio")
        await producer.start()
        source = aiokafka.TopicPartition("source", 0)
        for number, commits in enumerate((True, False, True)):
            await producer.begin_transaction()
            for place in range(2):
                await producer.send("t", f"{number}{place}".encode(), partition=0)
            await producer.send("source", b"x", partition=0)
            await producer.send_offsets_to_transaction({source: number}, "g")
            await (producer.commit_transaction() if commits else producer.abort_transaction())
        await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(
            "t",
            bootstrap_servers=broker.bootstrap_servers,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            group_id="g",
        )
        await consumer.start()
        found = [(await asyncio.wait_for(consumer.getone(), 120)).value for _ in COMMITTED]
        committed = await consumer.committed(source)
        await consumer.stop()
        return found, committed

    found, committed = asyncio.run(run())
    assert found == COMMITTED and committed == 2
