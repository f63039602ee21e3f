"""The same calls on both faces of the client: what they do, their names, and the refusal of wrong keywords."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

import pytest

import ottla.client
from ottla.client import CommittedOffset, NewTopic, TopicPartition, aio
from ottla.client.admin.admin import ConfigOperation, Resource, ResourceType
from ottla.client.model import EARLIEST, LATEST
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.messages.describe_cluster import DescribeClusterRequest
from ottla.records.builder import build_batch
from ottla.records.reader import Record, read_run

NAMES = ("Admin", "Cluster", "Consumer", "Producer")


def public(kind: type) -> dict[str, Any]:
    members = inspect.getmembers(kind, inspect.isfunction)
    return {name: member for name, member in members if not name.startswith("_")}


METHODS = [
    pytest.param(getattr(module, kind), name, id=f"{module.__name__}.{kind}.{name}")
    for module in (ottla.client, aio)
    for kind in NAMES
    for name in public(getattr(module, kind))
]


def test_topics_are_created_described_changed_and_deleted(face: SimpleNamespace, ours: str, name: str) -> None:
    admin = face.Admin(ours)
    assert admin.create_topic(name, 2, configs={"retention.ms": 60_000}).name == name
    with pytest.raises(ApiError) as raised:
        admin.create_topic(name)
    assert raised.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert sorted(admin.list_topics()[name].partitions) == [0, 1]
    assert admin.create_partitions({name: 3}) == {name: None}
    assert len(admin.describe_topics([name])[name].partitions) == 3
    topic = Resource(ResourceType.TOPIC, name)
    assert admin.alter_configs({topic: [("retention.ms", ConfigOperation.SET, "90000")]}) == {topic: None}
    (config,) = admin.describe_configs([topic], keys=["retention.ms"])[topic]
    assert config.value == "90000"
    assert admin.delete_topics([name]) == {name: None}
    assert name not in admin.list_topics()


def test_brokers_tell_their_versions_disks_and_troubles(face: SimpleNamespace, ours: str, name: str) -> None:
    cluster = face.Cluster(ours)
    admin = face.Admin(cluster=cluster)
    (broker,) = cluster.brokers()
    admin.create_topic(name)
    place = TopicPartition(name, 0)
    assert set(admin.api_versions()) == {broker}
    ((directory,),) = admin.describe_log_dirs(partitions=[place]).values()
    assert [topic.name for topic in directory.topics] == [name]
    assert [one for one in admin.replica_troubles() if one.partition == place] == []
    assert set(admin.broker_loads()) == {broker}
    assert admin.hanging_transactions(0, partitions=[place]) == []
    assert admin.describe_cluster().cluster_id == cluster.request(DescribeClusterRequest()).cluster_id
    with pytest.raises(TypeError, match="shares the connections of cluster="):
        face.Admin(cluster=cluster, client_id="other")


def test_a_cluster_hands_out_batches_and_offsets(face: SimpleNamespace, ours: str, name: str) -> None:
    cluster = face.Cluster(ours)
    face.Admin(ours).create_topics([NewTopic(name, 1, 1)])
    (place,) = cluster.partitions(name)
    assert cluster.topic_id(name) == cluster.topic(name).topic_id != bytes(16)
    assert cluster.leader(name, 0).id in cluster.brokers()
    for number in range(20):
        batch = build_batch([Record(0, 0, None, bytes([number]))] * 3)
        assert cluster.produce(name, 0, batch).base_offset == 3 * number
    ends = cluster.list_offsets([place], LATEST)
    assert (cluster.list_offsets([place], EARLIEST)[place].offset, ends[place].offset) == (0, 60)
    assert cluster.fetch(name, 0, 7).high_watermark == 60
    pieces = cluster.fetch_range(name, 0, 0, 60, max_bytes=200)
    assert [record.offset for piece in pieces for record in read_run(piece.records)] == list(range(60))
    with pytest.raises(ApiError, match=rf"{name}-0 at offset 99 \(kept: 0 to 60\)"):
        list(cluster.fetch_range(name, 0, 99, 100))


def test_offsets_of_a_group_are_set_read_and_deleted(face: SimpleNamespace, ours: str, name: str) -> None:
    cluster, admin, place = face.Cluster(ours), face.Admin(ours), TopicPartition(name, 0)
    admin.create_topic(name)
    cluster.commit_offsets(name, {place: CommittedOffset(9)})
    assert admin.committed_offsets(name) == cluster.committed_offsets(name) == {place: CommittedOffset(9)}
    assert admin.commit_offsets(name, {place: CommittedOffset(4)}) == {place: None}
    assert name in {group.group_id for group in admin.list_groups()}
    assert admin.delete_offsets(name, [place]) == {place: None}
    assert cluster.committed_offsets(name) == {}
    assert set(admin.delete_groups([name])) == {name}


def test_a_transaction_moves_records_and_offsets_together(face: SimpleNamespace, ours: str, name: str) -> None:
    place = TopicPartition(name, 0)
    face.Admin(ours).create_topic(name)
    producer = face.Producer(ours, transactional_id=name)
    producer.init_transactions()
    for number, end in enumerate(("abort_transaction", "commit_transaction")):
        producer.begin_transaction()
        producer.produce(name, f"{number}", partition=0)
        producer.send_offsets({place: CommittedOffset(number)}, name)
        producer.flush()
        getattr(producer, end)()
    assert face.Cluster(ours).committed_offsets(name) == {place: CommittedOffset(1)}
    consumer = face.Consumer(ours, auto_offset_reset="earliest", isolation_level="read_committed")
    consumer.assign([place])
    assert [record.value for record in consumer.poll(60_000)] == [b"1"]


def test_a_member_of_a_group_reads_commits_and_goes_back(face: SimpleNamespace, ours: str, name: str) -> None:
    place = TopicPartition(name, 0)
    face.Admin(ours).create_topic(name)
    producer = face.Producer(ours)
    for at in range(3):
        producer.produce(name, f"{at}", timestamp=1_000 * (at + 1))
    producer.flush()
    consumer = face.Consumer(ours, group_id=name, auto_offset_reset="earliest", enable_auto_commit=False)
    given: list[TopicPartition] = []
    consumer.subscribe([name], on_assign=given.extend)
    seen: list[bytes] = []
    while len(seen) < 3:
        seen += [record.value for record in consumer.poll("1s", max_records=2)]
    assert (seen, given, consumer.assignment) == ([b"0", b"1", b"2"], [place], {place})
    assert consumer.group_metadata.group_id == name
    consumer.commit({place: CommittedOffset(2)})
    assert consumer.committed([place])[place].offset == 2
    assert consumer.offsets_for_times({place: 1_500})[place].offset == 1
    consumer.seek_to_beginning()
    assert consumer.position(place) == 0
    consumer.seek_to_end([place])
    assert consumer.position(place) == 3
    consumer.seek(place, 1)
    consumer.pause([place])
    assert consumer.poll(50) == []
    consumer.resume([place])
    assert [record.value for record in consumer.poll(60_000, max_records=1)] == [b"1"]
    with pytest.raises(KeyError):
        consumer.pause([TopicPartition(name, 7)])
    with pytest.raises(ValueError, match="give group_id"):
        face.Consumer(ours).committed([place])


@pytest.mark.parametrize(("kind", "name"), METHODS)
def test_every_method_refuses_a_wrong_keyword_by_name(kind: type, name: str) -> None:
    known = [each for each in list(inspect.signature(getattr(kind, name)).parameters)[1:] if each != "unknown"]
    wrong, hint = (f"{known[-1]}x", f"; did you mean {known[-1]}?") if known else ("wrong", "; it has none")
    with pytest.raises(TypeError) as raised:
        getattr(kind("localhost:1"), name)(**{each: None for each in known if each == "topic"}, **{wrong: 1})
    assert str(raised.value).startswith(f"{getattr(kind, name).__name__} has no keyword {wrong!r}{hint}")


OF_ONE_FACE = {
    "Admin": {"close"},
    "Cluster": {"close", "fetch_range", "run"},
    "Consumer": {"close", "subscribe"},
    "Producer": {"abort_transaction", "close", "commit_transaction", "flush", "produce", "transaction"},
}
"""The calls that each face declares itself: they are about its threads or tasks."""


@pytest.mark.parametrize("kind", NAMES)
def test_both_faces_have_the_same_calls_and_declare_the_rest_once(kind: str) -> None:
    ours, theirs = public(getattr(ottla.client, kind)), public(getattr(aio, kind))
    assert set(ours) == set(theirs)
    assert {name for name in ours if ours[name] is not theirs[name]} == OF_ONE_FACE[kind]
    assert [name for name in ours if not (ours[name].__doc__ and theirs[name].__doc__)] == []


def test_a_call_shows_the_signature_of_its_story_without_the_plan() -> None:
    for module in (ottla.client, aio):
        with_self = str(inspect.signature(module.Admin.create_topics))
        assert with_self.startswith("(self, topics: 'Collection[NewTopic]', *, ")
        assert str(inspect.signature(module.Admin("localhost:1").create_topics)).startswith("(topics: ")
