"""Transactions of our own client against real brokers, ours and Apache Kafka, checked by other people's readers."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Iterator

import confluent_kafka
import pytest

from ottla.client import aio
from ottla.client.blocking.admin import Admin
from ottla.client.blocking.cluster import Cluster
from ottla.client.blocking.consumer import Consumer
from ottla.client.blocking.producer import Producer
from ottla.client.consume.settings import ConsumerSettings, FetchSettings
from ottla.client.errors import (
    InvalidTransactionState,
    ProducerFenced,
    TransactionAborted,
    TransactionMustAbort,
)
from ottla.client.model import LATEST, CommittedOffset, GroupMetadata, IsolationLevel
from ottla.client.produce.transacting import Transactor
from ottla.kernel.errors import ApiError
from ottla.kernel.ids import TopicPartition
from ottla.records.builder import build_batch
from ottla.records.reader import Record


@pytest.fixture
def topic(bootstrap: str, name: str) -> str:
    """A topic with two partitions."""
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
        message = consumer.poll(60)
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


def test_a_block_commits_at_its_end_and_aborts_where_it_raises(bootstrap: str, topic: str) -> None:
    # What lingers was not sent when the block raises, however slow the machine: its delivery fails with the abort.
    with Producer(bootstrap, transactional_id=f"tx-{topic}", linger_ms="1h") as producer:
        producer.init_transactions()
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
    """The steps of Spark's sink: take over, look at the marker, write, commit records and marker together."""
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
        async with aio.Producer(bootstrap, transactional_id=f"aio-{topic}") as producer:
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


READ_COMMITTED = ConsumerSettings(
    auto_offset_reset="earliest", fetch=FetchSettings(isolation_level=IsolationLevel.READ_COMMITTED, max_wait_ms=50)
)


def take(consumer: Consumer, count: int) -> list[bytes | None]:
    """Take exactly `count` records; fail if more come."""
    values: list[bytes | None] = []
    while len(values) < count:
        found = consumer.poll(10_000)
        assert found, f"only {values}"
        values += [record.value for record in found]
    return values


@pytest.fixture
def reader(bootstrap: str, topic: str) -> Iterator[Consumer]:
    """A consumer of committed records of the topic's first partition."""
    with Consumer(bootstrap, consumer=READ_COMMITTED) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        yield consumer


def test_our_consumer_skips_aborted_records_and_markers_among_others(
    bootstrap: str, topic: str, producer: Producer, reader: Consumer
) -> None:
    with Producer(bootstrap, transactional_id=f"other-{topic}") as other, Producer(bootstrap) as plain:
        other.init_transactions()
        expected = []
        for number in range(6):
            producer.begin_transaction()
            other.begin_transaction()
            for writer, name in ((producer, "a"), (other, "b"), (producer, "c"), (plain, "plain"), (other, "d")):
                writer.produce(topic, f"{name}{number}", partition=0)
                writer.flush()
            keeps = {"a": number % 2, "c": number % 2, "b": number % 3, "d": number % 3, "plain": True}
            expected += [f"{name}{number}".encode() for name in ("a", "b", "c", "plain", "d") if keeps[name]]
            (producer.commit_transaction if number % 2 else producer.abort_transaction)()
            (other.commit_transaction if number % 3 else other.abort_transaction)()
        plain.produce(topic, "last", partition=0)
        plain.flush()
    assert take(reader, len(expected) + 1) == [*expected, b"last"]
    place = TopicPartition(topic, 0)
    reader.seek(place, 3)
    assert take(reader, 2)[:2] == [b"plain0", b"a1"], "from the middle of aborted transactions"


def test_an_open_transaction_holds_the_reader_until_it_ends(
    bootstrap: str, topic: str, producer: Producer, reader: Consumer
) -> None:
    place = TopicPartition(topic, 0)
    with Producer(bootstrap) as plain:
        plain.produce(topic, "before", partition=0)
        plain.flush()
        producer.begin_transaction()
        producer.produce(topic, "open", partition=0)
        producer.flush()
        plain.produce(topic, "behind", partition=0)
        plain.flush()
        assert take(reader, 1) == [b"before"]
        assert reader.poll(300) == []
        ends = [reader.cluster.list_offsets([place], LATEST, isolation)[place].offset for isolation in IsolationLevel]
        assert ends == [3, 1], "the last stable offset is where the transaction begins"
        producer.commit_transaction()
        assert take(reader, 2) == [b"open", b"behind"]
        producer.begin_transaction()
        producer.produce(topic, "open again", partition=0)
        producer.flush()
        plain.produce(topic, "behind it", partition=0)
        plain.flush()
        producer.abort_transaction()
        assert take(reader, 1) == [b"behind it"]


def test_a_transaction_that_nobody_ends_is_aborted_in_time_and_the_reader_goes_on(
    bootstrap: str, topic: str, reader: Consumer
) -> None:
    with Producer(bootstrap) as plain, Cluster(bootstrap) as cluster:
        gone = Transactor(cluster.plan, f"gone-{topic}", timeout_ms=1_000)
        cluster.run(gone.init())
        gone.begin()
        cluster.run(gone.produce([a_batch(gone, TopicPartition(topic, 0), b"never ended")]))
        plain.produce(topic, "behind", partition=0)
        plain.flush()
        values: list[bytes | None] = []
        while not values:
            values = [record.value for record in reader.poll(1_000)]
        assert values == [b"behind"]


def copy(producer: Producer, consumer: Consumer, topic: str) -> int:
    """Copy the records of one poll from partition 0 to 1 in a transaction; return the next offset."""
    records = []
    while not records:
        records = consumer.poll(10_000)
    producer.begin_transaction()
    for record in records:
        producer.produce(topic, b"out " + (record.value or b""), partition=1)
    after = records[-1].offset + 1
    producer.send_offsets_to_transaction({TopicPartition(topic, 0): CommittedOffset(after)}, consumer.group_metadata)
    return after


def test_consumed_records_are_transformed_once_however_often_the_copier_is_replaced(bootstrap: str, topic: str) -> None:
    place = TopicPartition(topic, 0)
    with Producer(bootstrap) as plain:
        for number in range(60):
            plain.produce(topic, f"{number:02}", partition=0)
    settings = ConsumerSettings(
        group_id=topic, auto_offset_reset="earliest", enable_auto_commit=False, max_poll_records=7
    )
    replaced = []
    for commits in (2, 3, 100):
        producer = Producer(bootstrap, transactional_id=f"copy-{topic}")
        producer.init_transactions()
        with Consumer(bootstrap, consumer=settings) as consumer:
            consumer.assign([place])
            for number in range(commits):
                after = copy(producer, consumer, topic)
                producer.commit_transaction()
                if number == 1:
                    copy(producer, consumer, topic)
                    producer.abort_transaction()
                    consumer.seek(place, after)
                if after == 60:
                    break
            if after < 60:
                copy(producer, consumer, topic)
                producer.flush()
                replaced.append(producer)
    for zombie in replaced:
        with pytest.raises(ProducerFenced):
            zombie.commit_transaction()
        zombie.close()
    assert producer.cluster.committed_offsets(topic, [place])[place].offset == 60
    producer.close()
    outputs = [value for value in committed(bootstrap, topic) if value.startswith(b"out ")]
    assert outputs == [b"out %02d" % number for number in range(60)]


def test_offsets_of_a_member_that_was_replaced_are_refused(bootstrap: str, topic: str, producer: Producer) -> None:
    settings = ConsumerSettings(group_id=topic, heartbeat_interval_ms=100)
    with Consumer(bootstrap, consumer=settings) as consumer:
        consumer.subscribe([topic])
        while not consumer.assignment:
            consumer.poll(100)
        current = consumer.group_metadata
        producer.begin_transaction()
        producer.send_offsets({TopicPartition(topic, 0): CommittedOffset(0)}, current)
        stale = current._replace(generation=current.generation - 1)
        with pytest.raises(TransactionMustAbort):
            producer.send_offsets({TopicPartition(topic, 0): CommittedOffset(0)}, stale)
        producer.abort_transaction()


def test_what_other_threads_produce_is_committed_or_refused(bootstrap: str, topic: str, producer: Producer) -> None:
    accepted: list[bytes] = []
    begun = threading.Event()
    ended = threading.Event()

    def produce() -> None:
        number = 0
        begun.wait()
        while not ended.is_set():
            value = b"%08d" % number
            number += 1
            with contextlib.suppress(InvalidTransactionState):
                producer.produce(topic, value)
                accepted.append(value)

    thread = threading.Thread(target=produce)
    thread.start()
    for _ in range(5):
        producer.begin_transaction()
        begun.set()
        enough = len(accepted) + 50
        while len(accepted) < enough:
            ended.wait(0.001)
        producer.commit_transaction()
    ended.set()
    thread.join()
    assert committed(bootstrap, topic) == accepted


def test_what_other_tasks_produce_is_committed_or_refused(bootstrap: str, topic: str) -> None:
    accepted: list[bytes] = []

    async def produce(producer: aio.Producer) -> None:
        for number in itertools.count():
            value = b"%08d" % number
            with contextlib.suppress(InvalidTransactionState):
                await producer.produce(topic, value)
                accepted.append(value)
            await asyncio.sleep(0)

    async def story() -> None:
        async with aio.Producer(bootstrap, transactional_id=f"aio-{topic}") as producer:
            await producer.init_transactions()
            other = None
            for _ in range(5):
                producer.begin_transaction()
                other = other or asyncio.create_task(produce(producer))
                enough = len(accepted) + 50
                while len(accepted) < enough:
                    await asyncio.sleep(0)
                await producer.commit_transaction()
            assert other is not None
            other.cancel()

    asyncio.run(story())
    assert committed(bootstrap, topic) == accepted


def test_calls_that_do_not_fit_are_refused_in_a_sentence(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap) as plain, pytest.raises(InvalidTransactionState, match="transactional_id"):
        plain.begin_transaction()
    with Producer(bootstrap, transactional_id=f"tx-{topic}") as producer:
        with pytest.raises(InvalidTransactionState, match="not initialized"):
            producer.produce(topic, "x")
        producer.init_transactions()
        with pytest.raises(InvalidTransactionState, match="no transaction is open"):
            producer.produce(topic, "x")
        producer.begin_transaction()
        with pytest.raises(InvalidTransactionState, match="a transaction is open"):
            producer.begin_transaction()


def test_a_record_that_is_refused_aborts_its_block_and_the_next_transaction_goes_on(
    bootstrap: str, name: str, producer: Producer
) -> None:
    topic = f"small-{name}"
    with Admin(bootstrap) as admin:  # Apache Kafka answers a changed option before its broker follows it
        admin.create_topic(topic, 2, 1, configs={"max.message.bytes": "2000"})
    with pytest.raises(TransactionMustAbort, match="one record of 5070 bytes was refused"), producer.transaction():
        producer.produce(topic, "small", partition=0)
        refused = producer.produce(topic, "x" * 5_000, partition=1)
    with pytest.raises(ApiError):
        refused.result()
    with producer.transaction():
        producer.produce(topic, "after", partition=1)
    assert committed(bootstrap, topic) == [b"after"]


def test_closing_a_producer_aborts_what_it_has_open(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap, transactional_id=f"tx-{topic}") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce(topic, "open", partition=0)
        producer.flush()
    with Admin(bootstrap) as admin:
        described = admin.describe_transactions([f"tx-{topic}"])[f"tx-{topic}"]
        assert not isinstance(described, ApiError) and described.state in ("PrepareAbort", "CompleteAbort")
    assert committed(bootstrap, topic) == []


def test_a_transaction_is_not_ended_in_the_callback_of_one_of_its_records(
    bootstrap: str, topic: str, producer: Producer
) -> None:
    """The commit once did not wait for the other records, which were lost."""
    refusals: list[str] = []

    def end_it(_: object) -> None:
        for end in (producer.commit_transaction, producer.abort_transaction):
            with pytest.raises(InvalidTransactionState, match="on_delivery") as raised:
                end()
            refusals.append(str(raised.value))

    producer.begin_transaction()
    for index in range(10):
        producer.produce(topic, str(index), partition=index % 2, on_delivery=end_it)
        producer.flush()
    producer.produce(topic, "10", partition=0, on_delivery=end_it)
    producer.commit_transaction()
    assert len(refusals) == 22
    assert committed(bootstrap, topic) == sorted(str(index).encode() for index in range(11))
    producer.begin_transaction()
    producer.produce(topic, "never", partition=0, on_delivery=end_it)
    producer.abort_transaction()
    assert len(refusals) == 24
