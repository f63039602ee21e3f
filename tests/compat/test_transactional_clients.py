"""Transactions of unmodified clients: each copies a topic with its read offsets, aborts now and then, and is fenced.

Readers of the same client with `read_committed` never see aborted records.
"""

from __future__ import annotations

import asyncio
import json
import re
import time

import aiokafka
import confluent_kafka
import kafka
import pytest
import reaching
from confluent_kafka.admin import AdminClient, NewTopic
from exchange import by_librdkafka
from java_programs import java

pytestmark = [pytest.mark.compat]

RECORDS = 120
AT_ONCE = 20
INPUT = [b"%03d" % number for number in range(RECORDS)]


@pytest.fixture
def topics(bootstrap: str, name: str) -> tuple[str, str]:
    """A topic with records, and one that is to get them."""
    source, target = f"{name}-source", f"{name}-target"
    admin = AdminClient(reaching.librdkafka(bootstrap))
    for future in admin.create_topics([NewTopic(source, 1), NewTopic(target, 1)]).values():
        future.result(30)
    producer = confluent_kafka.Producer({**reaching.librdkafka(bootstrap), "linger.ms": 5})
    for value in INPUT:
        producer.produce(source, value, partition=0)
    assert producer.flush(30) == 0
    return source, target


def committed_offset(consumer: confluent_kafka.Consumer, topic: str) -> int:
    """The offset that the group has committed in partition 0.

    librdkafka looks for a coordinator that has moved since the last heartbeat, and leaves it to its caller to ask the
    new one.
    """
    deadline = time.monotonic() + 30
    while True:
        try:
            (found,) = consumer.committed([confluent_kafka.TopicPartition(topic, 0)], 30)
        except confluent_kafka.KafkaException as raised:
            if raised.args[0].code() != confluent_kafka.KafkaError.NOT_COORDINATOR or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return found.offset


def test_librdkafka_copies_in_transactions(bootstrap: str, topics: tuple[str, str], name: str) -> None:
    source, target = topics
    settings = {**reaching.librdkafka(bootstrap), "group.id": name, "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer({**settings, "isolation.level": "read_committed"})
    consumer.assign([confluent_kafka.TopicPartition(source, 0, 0)])
    producer = confluent_kafka.Producer({**reaching.librdkafka(bootstrap), "transactional.id": name})
    producer.init_transactions(30)
    at = 0
    aborts = 0
    while at < RECORDS:
        producer.begin_transaction()
        for message in consumer.consume(AT_ONCE, 20):
            assert message.error() is None
            producer.produce(target, message.value(), partition=0)
            after = message.offset() + 1
        offsets = [confluent_kafka.TopicPartition(source, 0, after)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
        if aborts * 2 * AT_ONCE <= at:
            aborts += 1
            producer.abort_transaction(30)
            consumer.seek(confluent_kafka.TopicPartition(source, 0, at))
        else:
            producer.commit_transaction(30)
            at = after
    assert aborts == 3
    assert by_librdkafka(bootstrap, target) == INPUT
    assert committed_offset(consumer, source) == RECORDS
    consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_on_librdkafka_copies_in_transactions(
    bootstrap: str, topics: tuple[str, str], name: str, protocol: str
) -> None:
    """Its offsets are committed under its id, in the generation or member epoch that it has."""
    source, target = topics
    settings = {**reaching.librdkafka(bootstrap), "group.id": name, "group.protocol": protocol}
    consumer = confluent_kafka.Consumer({**settings, "enable.auto.commit": False, "auto.offset.reset": "earliest"})
    consumer.subscribe([source])
    producer = confluent_kafka.Producer({**reaching.librdkafka(bootstrap), "transactional.id": name})
    producer.init_transactions(30)
    at = 0
    aborted = False
    while at < RECORDS:
        messages = consumer.consume(AT_ONCE, 20)
        assert messages and all(message.error() is None for message in messages)
        producer.begin_transaction()
        for message in messages:
            producer.produce(target, message.value(), partition=0)
        after = messages[-1].offset() + 1
        offsets = [confluent_kafka.TopicPartition(source, 0, after)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
        if at and not aborted:
            aborted = True
            producer.abort_transaction(30)
            consumer.seek(confluent_kafka.TopicPartition(source, 0, at))
        else:
            producer.commit_transaction(30)
            at = after
    assert committed_offset(consumer, source) == RECORDS
    consumer.close()
    assert by_librdkafka(bootstrap, target) == INPUT


def test_librdkafkas_older_producer_is_fenced(bootstrap: str, topics: tuple[str, str], name: str) -> None:
    _, target = topics
    settings = {**reaching.librdkafka(bootstrap), "transactional.id": name}
    older, newer = confluent_kafka.Producer(settings), confluent_kafka.Producer(settings)
    older.init_transactions(30)
    older.begin_transaction()
    older.produce(target, b"of the older", partition=0)
    assert older.flush(30) == 0
    newer.init_transactions(30)
    with pytest.raises(confluent_kafka.KafkaException) as raised:
        older.commit_transaction(30)
    assert raised.value.args[0].fatal()
    newer.begin_transaction()
    newer.produce(target, b"of the newer", partition=0)
    newer.commit_transaction(30)
    assert by_librdkafka(bootstrap, target) == [b"of the newer"]


def test_kafka_python_copies_in_transactions(bootstrap: str, topics: tuple[str, str], name: str) -> None:
    source, target = topics
    place = kafka.TopicPartition(source, 0)
    consumer = kafka.KafkaConsumer(
        **reaching.kafka_python(bootstrap), group_id=name, enable_auto_commit=False, isolation_level="read_committed",
        max_poll_records=AT_ONCE,
    )  # fmt: skip
    consumer.assign([place])
    consumer.seek_to_beginning()
    producer = kafka.KafkaProducer(**reaching.kafka_python(bootstrap), transactional_id=name)
    producer.init_transactions()
    at = 0
    aborts = 0
    while at < RECORDS:
        records = consumer.poll(20_000)[place]
        producer.begin_transaction()
        for record in records:
            producer.send(target, record.value, partition=0)
        after = records[-1].offset + 1
        producer.send_offsets_to_transaction({place: kafka.structs.OffsetAndMetadata(after, "", -1)}, name)
        if not aborts and at:
            aborts += 1
            producer.abort_transaction()
            consumer.seek(place, at)
        else:
            producer.commit_transaction()
            at = after
    assert consumer.committed(place) == RECORDS
    producer.close()
    consumer.close()
    assert by_librdkafka(bootstrap, target) == INPUT


def test_aiokafka_copies_in_transactions(bootstrap: str, topics: tuple[str, str], name: str) -> None:
    source, target = topics
    place = aiokafka.TopicPartition(source, 0)

    async def run() -> int:
        consumer = aiokafka.AIOKafkaConsumer(
            **reaching.aiokafka(bootstrap), group_id=name, enable_auto_commit=False, isolation_level="read_committed"
        )
        producer = aiokafka.AIOKafkaProducer(**reaching.aiokafka(bootstrap), transactional_id=name)
        await consumer.start()
        await producer.start()
        consumer.assign([place])
        consumer.seek(place, 0)
        at = 0
        aborts = 0
        while at < RECORDS:
            records = (await consumer.getmany(timeout_ms=20_000, max_records=AT_ONCE))[place]
            await producer.begin_transaction()
            for record in records:
                await producer.send(target, record.value, partition=0)
            after = records[-1].offset + 1
            await producer.send_offsets_to_transaction({place: after}, name)
            if not aborts and at:
                aborts += 1
                await producer.abort_transaction()
                consumer.seek(place, at)
            else:
                await producer.commit_transaction()
                at = after
        await producer.stop()
        committed = await consumer.committed(place)
        await consumer.stop()
        return int(committed)

    assert asyncio.run(run()) == RECORDS
    assert by_librdkafka(bootstrap, target) == INPUT


@pytest.mark.kafka
@pytest.mark.parametrize("mode", [(), ("--group-mode",)], ids=["assigned", "member"])
def test_javas_transactional_message_copier_copies_through_aborts(
    bootstrap: str, topics: tuple[str, str], name: str, mode: tuple[str, ...]
) -> None:
    if reaching.login() is not None:
        pytest.skip("TransactionalMessageCopier takes no options of its clients, and so no login")
    source, target = topics
    said = java(
        "TransactionalMessageCopier", "--broker-list", bootstrap, "--input-topic", source, "--input-partition", "0",
        "--output-topic", target, "--consumer-group", name, "--transaction-size", str(AT_ONCE),
        "--transactional-id", name, "--enable-random-aborts", "--use-group-metadata", *mode,
    )  # fmt: skip
    last = json.loads(said.strip().splitlines()[-1])
    assert (last["stage"], last["totalProcessed"], last["remaining"]) == ("ShutdownComplete", RECORDS, 0)
    read = java(
        "consumer.ConsoleConsumer", "--bootstrap-server", bootstrap, "--topic", target, "--from-beginning",
        "--isolation-level", "read_committed", "--max-messages", str(RECORDS), "--timeout-ms", "30000",
    )  # fmt: skip
    assert read.split() == [value.decode() for value in INPUT]
    assert by_librdkafka(bootstrap, target) == INPUT


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("level", "expected"),
    [("read_committed", ["first", "third"]), ("read_uncommitted", ["first", "second", "third", "fourth"])],
)
def test_javas_console_consumer_shows_what_its_isolation_level_allows(
    bootstrap: str, topics: tuple[str, str], name: str, level: str, expected: list[str]
) -> None:
    """A committed transaction, an aborted one, a record of none behind them, and one that stays open."""
    _, target = topics
    producer = confluent_kafka.Producer({**reaching.librdkafka(bootstrap), "transactional.id": name})
    producer.init_transactions(30)
    for value, end in ((b"first", producer.commit_transaction), (b"second", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(target, value, partition=0)
        assert producer.flush(30) == 0
        end(30)
    plain = confluent_kafka.Producer(reaching.librdkafka(bootstrap))
    plain.produce(target, b"third", partition=0)
    assert plain.flush(30) == 0
    producer.begin_transaction()
    producer.produce(target, b"fourth", partition=0)
    assert producer.flush(30) == 0
    command = ["--bootstrap-server", bootstrap, "--topic", target, "--from-beginning", "--isolation-level", level]
    read = java("consumer.ConsoleConsumer", *command, "--timeout-ms", "15000")
    assert read.split() == expected
    producer.abort_transaction(30)


@pytest.mark.kafka
def test_javas_performance_tool_commits_as_often_as_its_epochs_say(bootstrap: str, name: str) -> None:
    java(
        "ProducerPerformance", "--bootstrap-server", bootstrap, "--topic", name, "--num-records", "1500",
        "--record-size", "20", "--throughput", "1000", "--transactional-id", name, "--transaction-duration-ms", "100",
    )  # fmt: skip
    said = java("TransactionsCommand", "--bootstrap-server", bootstrap, "describe", "--transactional-id", name)
    row = re.split(r"\s*\t", said.splitlines()[1].strip())
    assert row[1] == name and row[4] in ("CompleteCommit", "PrepareCommit") and int(row[3]) > 1
