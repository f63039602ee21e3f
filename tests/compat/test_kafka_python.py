"""Unmodified kafka-python 3 against a broker."""

from __future__ import annotations

import pytest
import reaching
from exchange import BROKERS, CODECS, EPOCH_MS, until, values
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata


def create(bootstrap: str, topic: str, partitions: int = 1) -> None:
    with KafkaAdminClient(**reaching.kafka_python(bootstrap)) as admin:
        admin.create_topics({topic: {"num_partitions": partitions, "replication_factor": BROKERS}})


def produce(bootstrap: str, topic: str, payloads: list[bytes], codec: str = "none", partition: int = 0) -> list[int]:
    """Produce the payloads; return the offsets that the broker gave them."""
    kind = None if codec == "none" else codec
    with KafkaProducer(**reaching.kafka_python(bootstrap), compression_type=kind, linger_ms=5) as producer:
        sent = [
            producer.send(
                topic, payload, key=f"key-{number}".encode(), partition=partition, timestamp_ms=EPOCH_MS + number,
                headers=[("number", str(number).encode())],
            )
            for number, payload in enumerate(payloads)
        ]  # fmt: skip
        return [each.get(timeout=60).offset for each in sent]


def take(consumer: KafkaConsumer, count: int) -> list:
    taken: list = []

    def step() -> None:
        for records in consumer.poll(timeout_ms=300).values():
            taken.extend(records)

    until(lambda: len(taken) >= count, what=f"{count} records (got {len(taken)})", step=step)
    return taken


def consumer_of(bootstrap: str, group: str | None, **settings: object) -> KafkaConsumer:
    return KafkaConsumer(
        **reaching.kafka_python(bootstrap), group_id=group, auto_offset_reset="earliest", enable_auto_commit=False,
        session_timeout_ms=6000, heartbeat_interval_ms=500, **settings,
    )  # fmt: skip


@pytest.mark.parametrize("codec", CODECS)
def test_kafka_python_gets_back_what_it_wrote_with_every_codec(bootstrap: str, name: str, codec: str) -> None:
    create(bootstrap, name)
    payloads = values(100)
    assert produce(bootstrap, name, payloads, codec) == list(range(100))
    with consumer_of(bootstrap, None) as consumer:
        consumer.assign([TopicPartition(name, 0)])
        got = take(consumer, 100)
    assert [each.value for each in got] == payloads
    assert (got[7].key, got[7].timestamp) == (b"key-7", EPOCH_MS + 7)
    assert [tuple(each) for each in got[7].headers] == [("number", b"7")]


def test_kafka_python_goes_on_where_its_group_committed(bootstrap: str, name: str) -> None:
    create(bootstrap, name)
    produce(bootstrap, name, values(20))
    where = TopicPartition(name, 0)
    with consumer_of(bootstrap, name) as consumer:
        consumer.subscribe([name])
        take(consumer, 20)
        consumer.commit({where: OffsetAndMetadata(12, "a dozen", -1)})
    with consumer_of(bootstrap, name) as consumer:
        consumer.subscribe([name])
        assert take(consumer, 8)[0].offset == 12
        assert consumer.committed(where, metadata=True).metadata == "a dozen"


def test_kafka_python_seeks_by_offset_and_by_time(bootstrap: str, name: str) -> None:
    create(bootstrap, name)
    produce(bootstrap, name, values(50))
    where = TopicPartition(name, 0)
    with consumer_of(bootstrap, None) as consumer:
        consumer.assign([where])
        assert consumer.beginning_offsets([where]) == {where: 0}
        assert consumer.end_offsets([where]) == {where: 50}
        assert consumer.offsets_for_times({where: EPOCH_MS + 30})[where].offset == 30
        consumer.seek(where, 42)
        assert take(consumer, 1)[0].offset == 42


@pytest.mark.compat
@pytest.mark.parametrize("instances", [(None, None), ("one", "two")], ids=["dynamic", "static"])
def test_kafka_pythons_group_shares_its_partitions(bootstrap: str, name: str, instances: tuple) -> None:
    create(bootstrap, name, 4)
    members = [consumer_of(bootstrap, name, group_instance_id=each) for each in instances]
    for member in members:
        member.partitions_for_topic(name)  # a group leader that does not know the topic assigns nothing, for good
        member.subscribe([name])
    until(
        lambda: [len(member.assignment()) for member in members] == [2, 2],
        what="two partitions each",
        step=lambda: [member.poll(timeout_ms=100) for member in members],
    )
    assert not members[0].assignment() & members[1].assignment()
    for member in members:
        member.close()


@pytest.mark.compat
def test_kafka_python_administers(bootstrap: str, name: str) -> None:
    create(bootstrap, name, 2)
    produce(bootstrap, name, values(10))
    with consumer_of(bootstrap, name) as consumer:
        consumer.subscribe([name])
        take(consumer, 10)
        consumer.commit()
    with KafkaAdminClient(**reaching.kafka_python(bootstrap)) as admin:
        assert name in admin.list_topics()
        assert any(name == each["group_id"] for each in admin.list_groups())
        found = admin.list_group_offsets([name])
        assert found[name][TopicPartition(name, 0)].offset == 10
        admin.delete_groups([name])
        admin.delete_topics([name])
        assert name not in admin.list_topics()
