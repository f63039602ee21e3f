"""ListOffsets, DeleteRecords and Metadata answer odd requests as Apache Kafka 4.3 does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient
from raw_connection import RawConnection

from ottla.kernel.acls import OPERATIONS_OF, ResourceKind
from ottla.kernel.errors import ErrorCode
from ottla.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.messages.find_coordinator import FindCoordinatorRequest
from ottla.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.storage import lookup
from ottla.testing import TestBroker

NOT_ASKED = -0x80000000
LIST_OFFSETS, METADATA, FIND_COORDINATOR, DELETE_RECORDS = 2, 3, 10, 21


def operations_on(resource: ResourceKind) -> int:
    return sum(1 << operation for operation in OPERATIONS_OF[resource])


@pytest.fixture
def connection(kafka: TestBroker) -> Iterator[RawConnection]:
    with RawConnection(kafka.bootstrap_servers) as opened:
        yield opened


@pytest.fixture
def topic(kafka: TestBroker, connection: RawConnection) -> str:
    name = kafka.new_topic_name("odd")
    connection.ask(METADATA, 9, MetadataRequest(topics=[MetadataRequestTopic(name=name)]))
    return name


def list_offsets(connection: RawConnection, topic: str, timestamp: int, version: int = 11) -> int:
    asked = [ListOffsetsPartition(partition_index=0, timestamp=timestamp)]
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=asked)])
    return connection.ask(LIST_OFFSETS, version, request).topics[0].partitions[0].error_code  # type: ignore[no-any-return]


@pytest.mark.parametrize("timestamp", [-7, -100, -(1 << 63)])
def test_a_negative_time_that_means_nothing_is_refused(connection: RawConnection, topic: str, timestamp: int) -> None:
    assert list_offsets(connection, topic, timestamp) == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("timestamp", [0, -1, -2, -3, -4, -5, -6, (1 << 63) - 1])
def test_times_that_there_are_get_an_answer(connection: RawConnection, topic: str, timestamp: int) -> None:
    assert list_offsets(connection, topic, timestamp) == ErrorCode.NONE


def test_a_topic_asked_for_twice_is_described_once(connection: RawConnection, topic: str) -> None:
    asked = [MetadataRequestTopic(name=name) for name in (topic, "no/topic", topic, "no/topic")]
    response = connection.ask(METADATA, 12, MetadataRequest(topics=asked))
    assert [each.name for each in response.topics] == [topic, "no/topic"]
    asked = [MetadataRequestTopic(name=None, topic_id=response.topics[0].topic_id)] * 3
    assert len(connection.ask(METADATA, 12, MetadataRequest(topics=asked)).topics) == 1


@pytest.mark.parametrize("version", range(8, 14))
def test_allowed_operations_come_with_topics_and_the_cluster_to_those_who_ask(
    connection: RawConnection, topic: str, version: int
) -> None:
    asked = [MetadataRequestTopic(name=topic), MetadataRequestTopic(name="missing")]
    for wanted in (True, False):
        cluster = wanted and version <= 10
        request = MetadataRequest(
            topics=asked,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=wanted,
            include_cluster_authorized_operations=cluster,
        )
        answer = connection.ask(METADATA, version, request)
        here, missing = answer.topics
        assert here.partitions
        assert here.topic_authorized_operations == (operations_on(ResourceKind.TOPIC) if wanted else NOT_ASKED)
        assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert missing.topic_authorized_operations == NOT_ASKED
        assert answer.cluster_authorized_operations == (operations_on(ResourceKind.CLUSTER) if cluster else NOT_ASKED)


def test_librdkafka_describes_a_topic_and_the_cluster_with_what_is_allowed(kafka: TestBroker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    described = admin.describe_topics(TopicCollection([topic]), include_authorized_operations=True)[topic].result(30)
    assert {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE} <= set(described.authorized_operations)
    cluster = admin.describe_cluster(include_authorized_operations=True).result(30)
    assert {AclOperation.CREATE, AclOperation.ALTER} <= set(cluster.authorized_operations)


def test_records_of_an_internal_topic_are_not_deleted(connection: RawConnection) -> None:
    connection.ask(FIND_COORDINATOR, 4, FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
    partitions = [DeleteRecordsPartition(partition_index=0, offset=-1)]
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name="__consumer_offsets", partitions=partitions)], timeout_ms=1000
    )
    answer = connection.ask(DELETE_RECORDS, 2, request).topics[0].partitions[0]
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_log_that_cannot_be_read_is_a_fault_of_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*looked_up: object) -> None:
        raise OSError(5, "Input/output error")

    with TestBroker() as broker, RawConnection(broker.bootstrap_servers) as connection:
        connection.ask(METADATA, 9, MetadataRequest(topics=[MetadataRequestTopic(name="t")]))
        monkeypatch.setattr(lookup, "offset_for_timestamp", fails)
        assert list_offsets(connection, "t", 0) == ErrorCode.KAFKA_STORAGE_ERROR
        assert broker.call(lambda: broker._running().fatal)


def test_the_new_starts_of_one_request_are_noted_down_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each note is a sync on the loop: a thousand partitions must not cause a thousand syncs."""
    with TestBroker({"num.partitions": "5"}) as broker, RawConnection(broker.bootstrap_servers) as connection:
        connection.ask(METADATA, 9, MetadataRequest(topics=[MetadataRequestTopic(name="t")]))
        node = broker._running().node
        assert node is not None
        noted = True
        notes: list[int] = []

        def note() -> bool:
            notes.append(1)
            return noted

        monkeypatch.setattr(node.replicas.upkeep, "note_starts", note)
        partitions = [DeleteRecordsPartition(partition_index=index, offset=-1) for index in range(6)]
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=partitions)], timeout_ms=1000)
        answers = connection.ask(DELETE_RECORDS, 2, request).topics[0].partitions
        assert [each.error_code for each in answers] == [0] * 5 + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert [each.low_watermark for each in answers] == [0] * 5 + [-1]
        assert len(notes) == 1
        noted = False
        answers = connection.ask(DELETE_RECORDS, 2, request).topics[0].partitions
        assert [(each.error_code, each.low_watermark) for each in answers[:5]] == [(56, -1)] * 5
        assert answers[5].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert broker._running().fatal is None
