"""Administration of a running broker: answered requests take effect, and validate-only ones do not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.client.blocking.cluster import Cluster
from ottla.kernel.errors import ErrorCode
from ottla.messages import incremental_alter_configs as incremental
from ottla.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from ottla.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from ottla.messages.init_producer_id import InitProducerIdRequest
from ottla.testing import TestBroker

TOPIC, BROKER = 2, 4


class Admin:
    """Sends requests in their latest version."""

    def __init__(self, broker: TestBroker) -> None:
        self.broker = broker
        self.cluster = Cluster(broker.bootstrap_servers)

    def ask(self, request: Any) -> Any:
        return self.cluster.request(request)

    def create(self, name: str, partitions: int = 1, *, only_check: bool = False, **configs: str) -> Any:
        given = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=given)
        answer = self.ask(CreateTopicsRequest(topics=[topic], validate_only=only_check))
        return answer.topics[0]

    def edit(self, kind: int, name: str, key: str, value: str) -> int:
        configs = [incremental.AlterableConfig(name=key, config_operation=0, value=value)]
        resource = incremental.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        answer = self.ask(incremental.IncrementalAlterConfigsRequest(resources=[resource]))
        return int(answer.responses[0].error_code)

    def option(self, kind: int, name: str, key: str) -> Any:
        resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=[key])
        answer = self.ask(DescribeConfigsRequest(resources=[resource], include_documentation=True))
        return answer.results[0].configs[0]

    def log_config(self, topic: str) -> Any:
        """The configuration of the topic's first log."""
        return self.broker.call(lambda: self.broker._running().node.replicas.by_name[topic, 0].config)


@pytest.fixture(scope="module")
def admin() -> Iterator[Admin]:
    with TestBroker() as broker:
        admin = Admin(broker)
        yield admin
        admin.cluster.close()


def test_a_created_topic_has_its_log_with_its_options_when_the_answer_comes(admin):
    answer = admin.create("made", 3, retention_ms="77")
    assert (answer.error_code, answer.num_partitions, answer.replication_factor) == (0, 3, 1)
    assert len(answer.topic_id) == 16 and answer.topic_id != bytes(16)
    assert {one.name: one.value for one in answer.configs}["retention.ms"] == "77"
    assert admin.log_config("made").retention_ms == 77


def test_what_was_only_checked_is_not_made(admin):
    assert admin.create("checked", only_check=True).error_code == 0
    assert admin.create("checked").error_code == 0
    request = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="checked", count=4, assignments=None)])
    request.validate_only = True
    assert admin.ask(request).results[0].error_code == 0
    described = admin.ask(DescribeTopicPartitionsRequest(topics=[TopicRequest(name="checked")]))
    assert len(described.topics[0].partitions) == 1


def test_a_topic_made_again_has_another_id(admin):
    first = admin.create("again").topic_id
    assert admin.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="again")])).responses[0].error_code == 0
    second = admin.create("again").topic_id
    assert first != second
    gone = admin.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=first)])).responses[0]
    assert gone.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    by_id = admin.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=second)])).responses[0]
    assert (by_id.error_code, by_id.name) == (0, "again")


def test_a_topic_named_both_by_name_and_by_id_is_refused_once_and_kept(admin):
    topic_id = admin.create("both").topic_id
    other_id = admin.create("other").topic_id
    states = [("both", bytes(16)), (None, topic_id), (None, other_id)]
    asked = [DeleteTopicState(name=name, topic_id=each) for name, each in states]
    by_name, other = admin.ask(DeleteTopicsRequest(topics=asked)).responses
    assert (by_name.name, by_name.topic_id, by_name.error_code) == ("both", topic_id, ErrorCode.INVALID_REQUEST)
    assert by_name.error_message == "The provided topic name maps to an ID that was already supplied."
    assert (other.name, other.error_code) == ("other", 0)
    assert admin.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="both")])).responses[0].error_code == 0


def test_records_of_compacted_topics_go_where_an_administrator_lets_them(admin):
    admin.create("kept", cleanup_policy="compact")
    admin.create("watched", deletion_protection="true")
    assert delete_records(admin, "kept") == delete_records(admin, "watched") == ErrorCode.POLICY_VIOLATION
    for name in ("kept", "watched"):
        assert admin.edit(TOPIC, name, "deletion.protection", "false") == 0
        assert delete_records(admin, name) == 0


def delete_records(admin: Admin, name: str) -> int:
    partitions = [DeleteRecordsPartition(partition_index=0, offset=-1)]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=name, partitions=partitions)], timeout_ms=1000)
    return int(admin.ask(request).topics[0].partitions[0].error_code)


def test_an_edited_option_reaches_the_log_before_the_answer(admin):
    admin.create("edited")
    assert admin.edit(TOPIC, "edited", "segment.bytes", "2000000") == 0
    assert admin.log_config("edited").segment_bytes == 2_000_000


def test_an_option_of_all_brokers_reaches_the_logs_that_do_not_set_it_themselves(admin):
    admin.create("plain")
    admin.create("own", segment_ms="11")
    assert admin.edit(BROKER, "", "log.roll.ms", "22") == 0
    assert admin.log_config("plain").segment_ms == 22
    assert admin.log_config("own").segment_ms == 11
    assert admin.edit(BROKER, "1", "log.roll.ms", "33") == 0
    assert admin.log_config("plain").segment_ms == 33
    described = admin.option(TOPIC, "plain", "segment.ms")
    assert (described.value, described.config_source) == ("33", 2)


@pytest.mark.parametrize("name", ["²", "١", "--1", "01", "+1", "99999999999"])
def test_a_broker_is_named_by_its_number_alone(admin: Admin, name: str) -> None:
    """Options under another spelling would be stored and never be looked at."""
    assert admin.edit(BROKER, name, "log.cleaner.backoff.ms", "20000") == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("name", ["²", "١", "--1", "99999999999"])
def test_no_options_are_described_of_what_is_no_number(admin: Admin, name: str) -> None:
    resource = DescribeConfigsResource(resource_type=BROKER, resource_name=name)
    answer = admin.ask(DescribeConfigsRequest(resources=[resource]))
    assert answer.results[0].error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("text", ["NaN", "inf", "Infinity", "1e300"])
def test_an_interval_that_no_clock_knows_is_refused(admin: Admin, text: str) -> None:
    assert admin.edit(BROKER, "", "ottla.scrub.interval.hours", text) == ErrorCode.INVALID_REQUEST
    assert admin.option(BROKER, "1", "ottla.scrub.interval.hours").value == "168.0"


def test_an_option_that_would_break_a_promise_is_refused_by_name(admin):
    admin.create("refused")
    assert admin.edit(TOPIC, "refused", "remote.storage.enable", "true") == ErrorCode.INVALID_CONFIG
    assert "Tiered storage" in admin.option(TOPIC, "refused", "remote.storage.enable").documentation


def test_the_least_in_sync_set_is_not_a_matter_of_one_broker(admin):
    assert admin.edit(BROKER, "1", "min.insync.replicas", "2") == ErrorCode.INVALID_CONFIG
    assert admin.edit(BROKER, "", "min.insync.replicas", "1") == 0


def test_a_broker_registers_with_what_decisions_depend_on():
    with TestBroker({"min.insync.replicas": "2", "num.partitions": "3"}) as broker:
        me = broker.call(lambda: broker._running().node.metadata.brokers[1])
        assert me.options == (("min.insync.replicas", "2"),)


def test_topics_cannot_be_deleted_where_that_is_switched_off():
    with TestBroker({"delete.topic.enable": "false"}) as broker:
        admin = Admin(broker)
        admin.create("kept")
        answer = admin.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="kept")])).responses[0]
        assert answer.error_code == ErrorCode.TOPIC_DELETION_DISABLED
        admin.cluster.close()


def test_pages_of_partitions_join_without_gap_or_overlap(admin):
    admin.create("paged-a", 5)
    admin.create("paged-b", 4)
    names = [TopicRequest(name="paged-a"), TopicRequest(name="paged-b")]
    seen: list[tuple[str, int]] = []
    cursor: Cursor | None = None
    pages = 0
    while True:
        request = DescribeTopicPartitionsRequest(topics=names, response_partition_limit=2, cursor=cursor)
        answer = admin.ask(request)
        pages += 1
        here = [(topic.name, one.partition_index) for topic in answer.topics for one in topic.partitions]
        assert len(here) <= 2
        seen += here
        cursor = answer.next_cursor
        if cursor is None:
            break
    assert seen == [("paged-a", index) for index in range(5)] + [("paged-b", index) for index in range(4)]
    assert pages == 5


def test_producer_ids_are_given_out_once_also_after_a_restart(tmp_path: Path):
    given: list[int] = []
    for _ in range(2):
        with TestBroker(directory=tmp_path) as broker:
            admin = Admin(broker)
            for _ in range(3):
                answer = admin.ask(InitProducerIdRequest(transactional_id=None))
                assert (answer.error_code, answer.producer_epoch) == (0, 0)
                given.append(answer.producer_id)
            admin.cluster.close()
    assert len(set(given)) == 6


def test_the_quorum_is_told_in_kafkas_terms(admin):
    asked = RequestTopicData(topic_name="__cluster_metadata", partitions=[RequestPartitionData(partition_index=0)])
    answer = admin.ask(DescribeQuorumRequest(topics=[asked]))
    partition = answer.topics[0].partitions[0]
    assert (partition.error_code, partition.leader_id) == (0, 1)
    assert [voter.replica_id for voter in partition.current_voters] == [1]
    assert partition.high_watermark == partition.current_voters[0].log_end_offset > 0
    assert [node.node_id for node in answer.nodes] == [1]


def test_topics_options_and_the_clusters_id_survive_a_restart(tmp_path: Path):
    with TestBroker(directory=tmp_path) as broker:
        admin = Admin(broker)
        before = admin.create("lasting", 2, cleanup_policy="compact").topic_id
        admin.edit(BROKER, "", "log.roll.ms", "22")
        cluster_id = broker.call(lambda: broker._running().node.metadata.cluster_id)
        admin.cluster.close()
    with TestBroker(directory=tmp_path) as broker:
        admin = Admin(broker)
        topic = broker.call(lambda: broker._running().node.metadata.topic("lasting"))
        assert topic.topic_id == before
        assert [one.leader_epoch for one in topic.partitions] == [1, 1], "a restart is another leadership"
        assert admin.log_config("lasting").cleanup_policy == ("compact",)
        assert admin.log_config("lasting").segment_ms == 22
        assert broker.call(lambda: broker._running().node.metadata.cluster_id) == cluster_id
        admin.cluster.close()
