"""The ways around a handler: repeated requests, waiting fetches, sessions, caches, lists, topics made on the way."""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from tests.access.limited import Limited
from tests.access.rights_requests import GROUP, TOPIC, TRANSACTION, acl, answer, batch, request_of
from tests.access.secured import Raw

from ottla.broker.requests import produce_rights
from ottla.kernel.acls import OPERATIONS_OF, Operation, ResourceKind
from ottla.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.messages.create_acls import CreateAclsRequest
from ottla.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.messages.describe_acls import DescribeAclsRequest
from ottla.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.messages.describe_groups import DescribeGroupsRequest
from ottla.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from ottla.messages.describe_transactions import DescribeTransactionsRequest
from ottla.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.messages.init_producer_id import InitProducerIdRequest
from ottla.messages.list_groups import ListGroupsRequest
from ottla.messages.list_transactions import ListTransactionsRequest
from ottla.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.messages.unregister_broker import UnregisterBrokerRequest
from ottla.schema.codec import decode, encode
from ottla.testing import TestBroker
from ottla.wire.apis import APIS
from ottla.wire.checks import CheckScope, checks

NO_TOPIC = 29
SECRET = "secret"
TOPIC_KIND, GROUP_KIND, CLUSTER_KIND = ResourceKind.TOPIC, ResourceKind.GROUP, ResourceKind.CLUSTER
ALL, READ, WRITE, DESCRIBE, CREATE = (
    Operation.ALL,
    Operation.READ,
    Operation.WRITE,
    Operation.DESCRIBE,
    Operation.CREATE,
)


@pytest.fixture(scope="module")
def limited() -> Iterator[Limited]:
    one = Limited(["bob", "eve"])
    with one.broker:
        one.make_topic()
        one.make_topic(SECRET)
        one.make_coordinators()
        yield one


@pytest.fixture(autouse=True)
def _nobody_has_rights(limited: Limited) -> Iterator[None]:
    yield
    limited.take("bob")


def produce(raw: Raw, topic: str = TOPIC) -> int:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch())])
    said = answer(raw, 0, 9, ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[data]))
    return int(said.responses[0].partition_responses[0].error_code)


def fetch(*topics: str, wait_ms: int = 0, session: int = 0, epoch: int = -1) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        session_id=session,
        session_epoch=epoch,
        topics=[
            FetchTopic(topic=name, partitions=[FetchPartition(fetch_offset=0, partition_max_bytes=9999)])
            for name in topics
        ],
    )


def fetched(said: Any) -> dict[str, tuple[int, bool]]:
    """The error of each topic, and whether records came."""
    return {
        topic.topic: (partition.error_code, bool(partition.records))
        for topic in said.responses
        for partition in topic.partitions
    }


def test_a_right_that_goes_between_two_like_requests_is_missed_by_the_second(limited: Limited) -> None:
    limited.grant(acl("bob", WRITE, TOPIC_KIND, TOPIC))
    with limited.user("bob") as raw:
        assert [produce(raw) for _ in range(3)] == [0, 0, 0]
        limited.take("bob")
        assert [produce(raw) for _ in range(2)] == [NO_TOPIC, NO_TOPIC]
        limited.grant(acl("bob", WRITE, TOPIC_KIND, TOPIC[:2], prefixed=True))
        assert [produce(raw) for _ in range(2)] == [0, 0]


def test_like_requests_are_not_asked_again_while_no_acl_changes(
    limited: Limited, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    real = produce_rights.within_rights
    monkeypatch.setattr(produce_rights, "within_rights", lambda *said: asked.append(said) or real(*said))
    limited.grant(acl("bob", WRITE, TOPIC_KIND, TOPIC))
    with limited.user("bob") as raw:
        assert [produce(raw) for _ in range(5)] == [0] * 5
        assert len(asked) == 1
        limited.grant(acl("bob", READ, TOPIC_KIND, TOPIC))
        assert [produce(raw) for _ in range(5)] == [0] * 5
        assert len(asked) == 2


def test_a_fetch_that_waits_gives_no_records_once_the_right_is_gone(limited: Limited) -> None:
    limited.make_topic("waited")
    limited.grant(acl("bob", READ, TOPIC_KIND, "waited"))
    with limited.user("bob") as raw, limited.user("root") as root:
        raw.send(struct.pack(">hhih", 1, 12, 7, -1) + b"\0" + encode(fetch("waited", wait_ms=15_000), 12))
        limited.take("bob")
        assert produce(root, "waited") == 0
        told = raw.receive()
    assert told is not None
    assert fetched(decode(APIS[1].response, 12, told[5:])) == {"waited": (NO_TOPIC, False)}


def test_a_fetch_that_waits_is_refused_as_soon_as_the_right_is_gone(limited: Limited) -> None:
    limited.make_topic("quiet")
    limited.grant(acl("bob", READ, TOPIC_KIND, "quiet"))
    with limited.user("bob") as raw:
        raw.send(struct.pack(">hhih", 1, 12, 7, -1) + b"\0" + encode(fetch("quiet", wait_ms=100_000), 12))
        limited.take("bob")
        told = raw.receive()  # its socket waits for 20 seconds
    assert told is not None
    assert fetched(decode(APIS[1].response, 12, told[5:])) == {"quiet": (NO_TOPIC, False)}


def test_a_session_is_asked_again_when_rights_change(limited: Limited) -> None:
    limited.make_topic("kept")
    limited.grant(acl("bob", READ, TOPIC_KIND, "kept"))
    with limited.user("bob") as raw:
        first = answer(raw, 1, 12, fetch("kept", epoch=0))
        assert fetched(first) == {"kept": (0, False)}
        limited.take("bob")
        again = answer(raw, 1, 12, fetch(session=first.session_id, epoch=1))
        assert fetched(again) == {"kept": (NO_TOPIC, False)}
        limited.grant(acl("bob", READ, TOPIC_KIND, "kept"))
        assert fetched(answer(raw, 1, 12, fetch(session=first.session_id, epoch=2))) == {"kept": (0, False)}


def test_nobody_fetches_as_a_follower_but_a_broker(limited: Limited) -> None:
    limited.grant(acl("bob", ALL, TOPIC_KIND, "*"), acl("bob", ALL, CLUSTER_KIND, "kafka-cluster"))
    asked = fetch(TOPIC)
    asked.replica_id = 0
    assert fetched(limited.ask("bob", 1, 12, asked)) == {TOPIC: (NO_TOPIC, False)}


def test_lists_leave_out_what_the_caller_may_not_see(limited: Limited) -> None:
    everything = limited.ask("root", 3, 9, MetadataRequest(topics=None))  # now each topic's answer is cached
    assert {TOPIC, SECRET} <= {topic.name for topic in everything.topics}
    limited.grant(acl("bob", DESCRIBE, TOPIC_KIND, TOPIC))
    assert [topic.name for topic in limited.ask("bob", 3, 9, MetadataRequest(topics=None)).topics] == [TOPIC]
    pages = limited.ask("bob", 75, 0, DescribeTopicPartitionsRequest(topics=[], response_partition_limit=2000))
    assert [topic.name for topic in pages.topics] == [TOPIC]


def test_groups_and_their_offsets_are_left_out_by_group_and_by_topic(limited: Limited) -> None:
    commit = OffsetCommitRequest(
        group_id=GROUP,
        topics=[
            OffsetCommitRequestTopic(
                name=name, partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
            )
            for name in (TOPIC, SECRET)
        ],
    )
    said = limited.ask("root", 8, 8, commit)
    assert {partition.error_code for topic in said.topics for partition in topic.partitions} == {0}
    assert limited.ask("bob", 16, 4, ListGroupsRequest()).groups == []
    limited.grant(acl("bob", DESCRIBE, GROUP_KIND, GROUP), acl("bob", READ, TOPIC_KIND, TOPIC))
    assert [group.group_id for group in limited.ask("bob", 16, 4, ListGroupsRequest()).groups] == [GROUP]
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)])
    (group,) = limited.ask("bob", 9, 8, asked).groups
    assert [topic.name for topic in group.topics] == [TOPIC]


def test_the_named_operations_are_those_that_are_allowed(limited: Limited) -> None:
    limited.grant(acl("bob", READ, TOPIC_KIND, TOPIC))
    asked = MetadataRequest(
        topics=[MetadataRequestTopic(name=TOPIC)],
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    said = limited.ask("bob", 3, 9, asked)
    assert said.topics[0].topic_authorized_operations == 1 << READ | 1 << DESCRIBE
    assert said.cluster_authorized_operations == 0
    on_topics = sum(1 << operation for operation in OPERATIONS_OF[TOPIC_KIND])
    assert limited.ask("root", 3, 9, asked).topics[0].topic_authorized_operations == on_topics


def test_a_topic_is_made_by_a_request_only_where_the_caller_may_create_it(limited: Limited) -> None:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="made")], allow_auto_topic_creation=True)
    assert limited.ask("bob", 3, 9, asked).topics[0].error_code == NO_TOPIC
    limited.grant(acl("bob", WRITE, TOPIC_KIND, "made"))
    assert limited.ask("bob", 3, 9, asked).topics[0].error_code == NO_TOPIC
    unmade = MetadataRequest(topics=[MetadataRequestTopic(name="made")], allow_auto_topic_creation=False)
    assert limited.ask("root", 3, 9, unmade).topics[0].error_code == 3
    limited.grant(acl("bob", CREATE, TOPIC_KIND, "made"))
    assert limited.ask("bob", 3, 9, asked).topics[0].error_code in (0, 5)


def test_a_new_topics_options_are_told_to_those_who_may_describe_them(limited: Limited) -> None:
    limited.grant(acl("bob", CREATE, TOPIC_KIND, "new"))
    asked = CreateTopicsRequest(topics=[CreatableTopic(name="new", num_partitions=2, replication_factor=1)])
    (made,) = limited.ask("bob", 19, 7, asked).topics
    assert (made.error_code, made.topic_config_error_code, made.num_partitions) == (0, NO_TOPIC, -1)
    (refused,) = limited.ask("eve", 19, 7, asked).topics
    assert (refused.error_code, refused.error_message) == (NO_TOPIC, "Authorization failed.")


def test_a_group_that_reads_a_hidden_topic_is_not_described(limited: Limited) -> None:
    beat = ConsumerGroupHeartbeatRequest(
        group_id="modern", member_id="m", rebalance_timeout_ms=60_000, subscribed_topic_names=[SECRET],
        topic_partitions=[],
    )  # fmt: skip
    assert limited.ask("root", 68, 0, beat).error_code == 0
    asked = ConsumerGroupDescribeRequest(group_ids=["modern"])
    limited.grant(acl("bob", DESCRIBE, GROUP_KIND, "modern"), acl("bob", READ, GROUP_KIND, "modern"))
    (hidden,) = limited.ask("bob", 69, 0, asked).groups
    assert (hidden.error_code, hidden.members) == (NO_TOPIC, [])
    assert limited.ask("bob", 68, 0, beat).error_code == NO_TOPIC
    limited.grant(acl("bob", DESCRIBE, TOPIC_KIND, SECRET))
    (shown,) = limited.ask("bob", 69, 0, asked).groups
    assert (shown.error_code, len(shown.members)) == (0, 1)


BY_NAME = [
    key
    for key, rows in checks().items()
    if key != 69
    and any(row.scope is CheckScope.ITEM and row.code == NO_TOPIC and row.is_in(APIS[key].served.first) for row in rows)
]


@pytest.mark.parametrize("key", BY_NAME, ids=lambda key: APIS[key].name)
def test_a_topic_that_is_hidden_looks_like_one_that_is_not_there(limited: Limited, key: int) -> None:
    limited.grant(acl("bob", ALL, GROUP_KIND, "*"), acl("bob", ALL, ResourceKind.TRANSACTIONAL_ID, "*"))
    version = APIS[key].served.first
    told = {}
    for name in (SECRET, "absent"):
        request = request_of(key, version, limited.topic_id)
        if key == 0:
            request.topic_data[0].partition_data[0].records = batch()
        body = encode(request, version)
        changed = body.replace(struct.pack(">h", len(TOPIC)) + TOPIC.encode(), struct.pack(">h", 6) + name.encode())
        if APIS[key].is_flexible(version):
            changed = b"\0" + body.replace(bytes([len(TOPIC) + 1]) + TOPIC.encode(), bytes([7]) + name.encode())
        assert name.encode() in changed
        with limited.user("bob") as raw:
            said = raw.ask(key, version, changed)
        assert said is not None
        told[name] = said.replace(name.encode(), b"??????")
    assert told[SECRET] == told["absent"]


def test_acls_are_described_by_what_fits_and_refused_where_they_make_no_sense(limited: Limited) -> None:
    limited.grant(acl("bob", READ, TOPIC_KIND, "sec", prefixed=True), acl("bob", READ, TOPIC_KIND, "other"))
    fitting = DescribeAclsRequest(
        resource_type_filter=2, resource_name_filter=SECRET, pattern_type_filter=2, principal_filter=None,
        host_filter=None, operation=1, permission_type=1,
    )  # fmt: skip
    (found,) = limited.ask("root", 29, 3, fitting).resources
    assert (found.resource_name, found.pattern_type, found.acls[0].principal) == ("sec", 4, "User:bob")
    wrong = [
        acl("bob", READ, CLUSTER_KIND, "another-cluster"),
        acl("bob", READ, TOPIC_KIND, ""),
        acl("bob", 1, TOPIC_KIND, "t"),
        acl("bob", READ, 1, "t"),
        acl("bob", READ, TOPIC_KIND, "good"),
    ]
    wrong[0].principal = "nocolon"
    said = limited.ask("root", 30, 3, CreateAclsRequest(creations=wrong)).results
    assert [each.error_code for each in said] == [42, 42, 42, 42, 0]
    assert limited.take("bob") == 3


def test_without_an_authorizer_there_are_no_acls() -> None:
    with TestBroker() as broker:
        host, _, port = broker.bootstrap_servers.partition(":")
        import socket

        with socket.create_connection((host, int(port)), timeout=20) as sock:
            raw = Raw(sock)
            everything = DescribeAclsRequest(
                resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1, principal_filter=None,
                host_filter=None, operation=1, permission_type=1,
            )  # fmt: skip
            assert answer(raw, 29, 3, everything).error_code == 54
            asked = CreateAclsRequest(creations=[acl("bob", READ, TOPIC_KIND, "t")])
            assert answer(raw, 30, 3, asked).results[0].error_code == 54
            wanted = DeleteAclsFilter(
                resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1, principal_filter=None,
                host_filter=None, operation=1, permission_type=1,
            )  # fmt: skip
            assert answer(raw, 31, 3, DeleteAclsRequest(filters=[wanted])).filter_results[0].error_code == 54


def test_a_refusal_is_one_line_in_the_log_whatever_the_names_hold(
    limited: Limited, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ottla.rights")
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="a\r\nFAKE \x1b[31m")], allow_auto_topic_creation=False)
    for _ in range(3):
        limited.ask("eve", 3, 9, asked)
    lines = [record.getMessage() for record in caplog.records if record.name == "ottla.rights"]
    assert len(lines) == 1
    assert "\n" not in lines[0]
    assert "\x1b" not in lines[0]
    assert "'User:eve' from 127.0.0.1 is refused DESCRIBE on TOPIC" in lines[0]


def test_a_client_that_asks_for_very_many_names_does_not_flood_the_log(
    limited: Limited, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ottla.rights")
    names = [MetadataRequestTopic(name=f"none-{number}") for number in range(1200)]
    said = limited.ask("eve", 3, 9, MetadataRequest(topics=names, allow_auto_topic_creation=False))
    assert {topic.error_code for topic in said.topics} == {NO_TOPIC}
    lines = [record.getMessage() for record in caplog.records if record.name == "ottla.rights"]
    assert len(lines) <= 1001
    assert "further refusals of 'User:eve'" in lines[-1]


def test_many_items_of_a_request_are_sorted_out_and_each_is_answered(limited: Limited) -> None:
    limited.grant(acl("bob", DESCRIBE, GROUP_KIND, "g-1", prefixed=True))
    asked = DescribeGroupsRequest(groups=[f"g-{number}" for number in range(2000)])
    errors = {group.group_id: group.error_code for group in limited.ask("bob", 15, 5, asked).groups}
    assert len(errors) == 2000
    assert {name for name, error in errors.items() if error != 30} == {
        name for name in errors if name.startswith("g-1")
    }


def test_a_refusal_says_why_where_the_answer_has_a_place_for_it(limited: Limited) -> None:
    asked = DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=2, resource_name=SECRET)])
    (refused,) = limited.ask("bob", 32, 4, asked).results
    assert (refused.error_code, refused.error_message) == (NO_TOPIC, "Not authorized for this topic.")
    told = limited.ask("bob", 64, 0, UnregisterBrokerRequest(broker_id=99))
    assert (told.error_code, told.error_message) == (31, "Not authorized for this cluster.")


def test_transactions_and_their_topics_are_left_out(limited: Limited) -> None:
    begun = limited.ask(
        "root", 22, 4, InitProducerIdRequest(transactional_id=TRANSACTION, transaction_timeout_ms=60_000)
    )
    assert begun.error_code == 0
    adding = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=TRANSACTION,
        v3_and_below_producer_id=begun.producer_id,
        v3_and_below_producer_epoch=begun.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in (TOPIC, SECRET)],
    )
    refused = limited.ask("bob", 24, 3, adding).results_by_topic_v3_and_below
    assert {each.partition_error_code for topic in refused for each in topic.results_by_partition} == {53}
    limited.grant(acl("bob", WRITE, ResourceKind.TRANSACTIONAL_ID, TRANSACTION), acl("bob", WRITE, TOPIC_KIND, TOPIC))
    partly = limited.ask("bob", 24, 3, adding).results_by_topic_v3_and_below
    codes = {topic.name: topic.results_by_partition[0].partition_error_code for topic in partly}
    assert codes == {TOPIC: 55, SECRET: NO_TOPIC}
    added = limited.ask("root", 24, 3, adding).results_by_topic_v3_and_below
    assert {each.partition_error_code for topic in added for each in topic.results_by_partition} == {0}
    asked = DescribeTransactionsRequest(transactional_ids=[TRANSACTION])
    (seen,) = limited.ask("bob", 65, 0, asked).transaction_states
    assert [topic.topic for topic in seen.topics] == [TOPIC]
    listed = {
        user: [each.transactional_id for each in limited.ask(user, 66, 0, ListTransactionsRequest()).transaction_states]
        for user in ("bob", "eve")
    }
    assert listed == {"bob": [TRANSACTION], "eve": []}
