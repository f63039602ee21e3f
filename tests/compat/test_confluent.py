"""Unmodified confluent-kafka (librdkafka) against a broker."""

from __future__ import annotations

from typing import Any

import pytest
import reaching
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from exchange import BROKERS, CODECS, EPOCH_MS, until, values


def create(bootstrap: str, topic: str, partitions: int = 1, **config: str) -> AdminClient:
    admin = AdminClient(reaching.librdkafka(bootstrap))
    named = {key.replace("_", "."): value for key, value in config.items()}
    admin.create_topics([NewTopic(topic, partitions, BROKERS, config=named)])[topic].result(60)
    return admin


def produce(bootstrap: str, topic: str, payloads: list[bytes], **settings: Any) -> list[Message]:
    """Produce and wait; return the reports in order. The setting `partition` is the partition to write to."""
    partition = settings.pop("partition", 0)
    reports: list[Message] = []
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(error)
        reports.append(message)

    named = {key.replace("_", "."): value for key, value in settings.items()}
    producer = Producer({**reaching.librdkafka(bootstrap), "enable.idempotence": True, "linger.ms": 5, **named})
    for number, payload in enumerate(payloads):
        producer.produce(
            topic, payload, key=f"key-{number}", partition=partition, timestamp=EPOCH_MS + number,
            headers=[("number", str(number).encode()), ("empty", None)], on_delivery=delivered,
        )  # fmt: skip
    assert producer.flush(30) == 0
    assert not failures, failures[:3]
    return reports


def consumer_of(bootstrap: str, group: str, **settings: Any) -> Consumer:
    named = {key.replace("_", "."): value for key, value in settings.items()}
    return Consumer(
        {
            **reaching.librdkafka(bootstrap),
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 500,
            **named,
        }
    )


def take(consumer: Consumer, count: int) -> list[Message]:
    taken: list[Message] = []

    def step() -> None:
        for message in consumer.consume(count - len(taken), 0.5):
            assert message.error() is None, message.error()
            taken.append(message)

    until(lambda: len(taken) >= count, what=f"{count} messages (got {len(taken)})", step=step)
    return taken


@pytest.mark.parametrize("codec", CODECS)
def test_librdkafka_gets_back_what_it_wrote_with_every_codec(bootstrap: str, name: str, codec: str) -> None:
    create(bootstrap, name)
    payloads = values(200)
    reports = produce(bootstrap, name, payloads, compression_type=codec)
    assert [each.offset() for each in reports] == list(range(200))
    consumer = consumer_of(bootstrap, name)
    consumer.assign([TopicPartition(name, 0, 0)])
    got = take(consumer, 200)
    assert [each.value() for each in got] == payloads
    assert [each.key() for each in got] == [f"key-{number}".encode() for number in range(200)]
    assert got[7].headers() == [("number", b"7"), ("empty", None)]
    assert got[7].timestamp() == (1, EPOCH_MS + 7)
    consumer.close()


def test_librdkafka_goes_on_where_its_group_committed(bootstrap: str, name: str) -> None:
    create(bootstrap, name)
    produce(bootstrap, name, values(20))
    first = consumer_of(bootstrap, name)
    first.subscribe([name])
    half = take(first, 10)
    offset = TopicPartition(name, 0, half[9].offset() + 1, metadata="half way")
    assert first.commit(offsets=[offset], asynchronous=False)[0].error is None
    first.close()
    second = consumer_of(bootstrap, name)
    second.subscribe([name])
    rest = take(second, 20 - offset.offset)
    assert rest[0].offset() == offset.offset
    committed = second.committed([TopicPartition(name, 0)], timeout=60)[0]
    assert (committed.offset, committed.metadata) == (offset.offset, "half way")
    second.close()


def test_librdkafka_seeks_by_offset_and_by_time(bootstrap: str, name: str) -> None:
    create(bootstrap, name)
    produce(bootstrap, name, values(50))
    consumer = consumer_of(bootstrap, name)
    assert consumer.get_watermark_offsets(TopicPartition(name, 0), timeout=60) == (0, 50)
    found = consumer.offsets_for_times([TopicPartition(name, 0, EPOCH_MS + 30)], timeout=60)
    assert found[0].offset == 30
    after = consumer.offsets_for_times([TopicPartition(name, 0, EPOCH_MS + 1000)], timeout=60)
    assert after[0].offset == -1
    consumer.assign([TopicPartition(name, 0, 0)])
    take(consumer, 1)
    consumer.seek(TopicPartition(name, 0, 42))
    assert take(consumer, 1)[0].offset() == 42
    consumer.close()


def test_a_batch_above_max_message_bytes_is_refused_by_name(bootstrap: str, name: str) -> None:
    create(bootstrap, name, max_message_bytes="2000")
    errors: list[KafkaError] = []
    producer = Producer(reaching.librdkafka(bootstrap))
    producer.produce(name, b"x" * 5000, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert errors[0].code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_a_record_without_key_is_refused_by_a_compacted_topic(bootstrap: str, name: str) -> None:
    create(bootstrap, name, cleanup_policy="compact")
    errors: list[KafkaError] = []
    producer = Producer(reaching.librdkafka(bootstrap))
    producer.produce(name, b"no key", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert errors[0].code() in (KafkaError.INVALID_RECORD, KafkaError.INVALID_MSG)


class Member:
    """One consumer of a group, its partitions and how often they changed hands."""

    def __init__(self, bootstrap: str, group: str, topic: str, **settings: Any) -> None:
        self.consumer = consumer_of(bootstrap, group, **settings)
        self.owned: set[int] = set()
        self.assigned = 0
        self.revoked = 0
        self.seen: list[Message] = []
        self.consumer.subscribe([topic], on_assign=self._on_assign, on_revoke=self._on_revoke)

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.assigned += 1
        self.owned |= {each.partition for each in partitions}

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.revoked += 1
        self.owned -= {each.partition for each in partitions}

    def poll(self) -> None:
        message = self.consumer.poll(0.05)
        if message is not None and message.error() is None:
            self.seen.append(message)


def settle(members: list[Member], partitions: int) -> None:
    """Poll until the members share all partitions, each with at least one."""

    def shared() -> bool:
        counts = [len(member.owned) for member in members]
        return (
            sum(counts) == partitions
            and all(counts)
            and set().union(*(m.owned for m in members)) == set(range(partitions))
        )

    until(shared, what="a shared assignment", step=lambda: [member.poll() for member in members])


@pytest.mark.compat
@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_a_group_shares_its_partitions_as_members_come_and_go(bootstrap: str, name: str, strategy: str) -> None:
    create(bootstrap, name, partitions=6)
    for partition in range(6):
        produce(bootstrap, name, values(10), partition=partition)
    members = [Member(bootstrap, name, name, partition_assignment_strategy=strategy)]
    settle(members, 6)
    for _ in range(2):
        members.append(Member(bootstrap, name, name, partition_assignment_strategy=strategy))
        settle(members, 6)
    members.pop(0).consumer.close()
    settle(members, 6)
    until(
        lambda: len({(m.partition(), m.offset()) for each in members for m in each.seen}) >= 40,
        what="records after the rebalances",
        step=lambda: [member.poll() for member in members],
    )
    for member in members:
        member.consumer.close()


@pytest.mark.compat
def test_a_static_member_comes_back_without_a_rebalance(bootstrap: str, name: str) -> None:
    create(bootstrap, name, partitions=4)
    stays = Member(bootstrap, name, name, group_instance_id="stays")
    leaves = Member(bootstrap, name, name, group_instance_id="leaves")
    settle([stays, leaves], 4)
    before, owned = (stays.assigned, stays.revoked), set(leaves.owned)
    leaves.consumer.close()
    returned = Member(bootstrap, name, name, group_instance_id="leaves")
    settle([stays, returned], 4)
    assert (stays.assigned, stays.revoked) == before
    assert returned.owned == owned
    stays.consumer.close()
    returned.consumer.close()


def test_librdkafka_administers_topics_and_their_configs(bootstrap: str, name: str) -> None:
    admin = create(bootstrap, name, partitions=2, retention_ms="3600000")
    resource = ConfigResource(ResourceType.TOPIC, name)
    described = admin.describe_configs([resource])[resource].result(60)
    assert described["retention.ms"].value == "3600000"
    assert described["cleanup.policy"].value == "delete" and described["cleanup.policy"].is_default
    resource.add_incremental_config(
        ConfigEntry("segment.bytes", "1048576", incremental_operation=AlterConfigOpType.SET)
    )
    admin.incremental_alter_configs([resource])[resource].result(60)

    def segment_bytes() -> str | None:
        asked = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)])
        value: str | None = next(iter(asked.values())).result(60)["segment.bytes"].value
        return value

    until(lambda: segment_bytes() == "1048576", what="the new segment.bytes")
    admin.create_partitions([NewPartitions(name, 5)])[name].result(60)
    until(lambda: len(admin.list_topics(name, timeout=60).topics[name].partitions) == 5, what="five partitions")
    produce(bootstrap, name, values(10))
    deleted = admin.delete_records([TopicPartition(name, 0, 4)])
    assert next(iter(deleted.values())).result(60).low_watermark == 4
    spec = {TopicPartition(name, 0): OffsetSpec.earliest()}
    listed = admin.list_offsets(spec, isolation_level=IsolationLevel.READ_UNCOMMITTED)
    assert next(iter(listed.values())).result(60).offset == 4
    cluster = admin.describe_cluster().result(60)
    assert 1 <= len(cluster.nodes) <= BROKERS and cluster.cluster_id
    admin.delete_topics([name])[name].result(60)
    until(lambda: name not in admin.list_topics(timeout=60).topics, what="the topic gone")


def test_librdkafka_administers_groups(bootstrap: str, name: str) -> None:
    admin = create(bootstrap, name)
    produce(bootstrap, name, values(10))
    member = Member(bootstrap, name, name, client_id="describer")
    settle([member], 1)
    described = admin.describe_consumer_groups([name])[name].result(60)
    assert described.state.name == "STABLE" and described.members[0].client_id == "describer"
    assert name in {each.group_id for each in admin.list_consumer_groups().result(60).valid}
    member.consumer.close()
    wanted = ConsumerGroupTopicPartitions(name, [TopicPartition(name, 0, 7)])
    admin.alter_consumer_group_offsets([wanted])[name].result(60)
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)])[name].result(60)
    assert [(each.partition, each.offset) for each in found.topic_partitions] == [(0, 7)]
    admin.delete_consumer_groups([name])[name].result(60)
    assert name not in {each.group_id for each in admin.list_consumer_groups().result(60).valid}
