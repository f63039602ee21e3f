"""Requests about topics, options and the cluster, in the order in which a fresh broker gets them."""

from __future__ import annotations

from typing import NamedTuple

from ottla.messages import alter_configs as alter
from ottla.messages import describe_configs as describe
from ottla.messages import incremental_alter_configs as incremental
from ottla.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.messages.describe_cluster import DescribeClusterRequest
from ottla.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from ottla.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from ottla.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.messages.init_producer_id import InitProducerIdRequest
from ottla.messages.list_config_resources import ListConfigResourcesRequest
from ottla.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from ottla.messages.unregister_broker import UnregisterBrokerRequest

TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


class Question(NamedTuple):
    title: str
    version: int
    request: object


def topic(
    name: str,
    partitions: int = -1,
    replicas: int = -1,
    chosen: tuple[tuple[int, list[int]], ...] = (),
    **configs: str | None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[CreatableReplicaAssignment(partition_index=index, broker_ids=ids) for index, ids in chosen],
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


def create(title: str, *topics: CreatableTopic, version: int = 7, only_check: bool = False) -> Question:
    request = CreateTopicsRequest(topics=list(topics), timeout_ms=10_000, validate_only=only_check)
    return Question(f"create: {title}", version, request)


def grow(title: str, *topics: tuple[str, int, list[list[int]] | None], only_check: bool = False) -> Question:
    asked = [
        CreatePartitionsTopic(
            name=name,
            count=count,
            assignments=None if chosen is None else [CreatePartitionsAssignment(broker_ids=ids) for ids in chosen],
        )
        for name, count, chosen in topics
    ]
    return Question(
        f"grow: {title}", 3, CreatePartitionsRequest(topics=asked, timeout_ms=10_000, validate_only=only_check)
    )


def delete(title: str, *states: DeleteTopicState) -> Question:
    return Question(f"delete: {title}", 6, DeleteTopicsRequest(topics=list(states), timeout_ms=10_000))


def told(title: str, kind: int, name: str, keys: list[str] | None = None, *, synonyms: bool = True) -> Question:
    resource = describe.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    return Question(
        f"describe: {title}", 4, describe.DescribeConfigsRequest(resources=[resource], include_synonyms=synonyms)
    )


def edit(title: str, kind: int, name: str, *edits: tuple[str, int, str | None], only_check: bool = False) -> Question:
    configs = [incremental.AlterableConfig(name=key, config_operation=how, value=value) for key, how, value in edits]
    resource = incremental.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = incremental.IncrementalAlterConfigsRequest(resources=[resource], validate_only=only_check)
    return Question(f"edit: {title}", 1, request)


def replace(title: str, kind: int, name: str, **values: str | None) -> Question:
    configs = [alter.AlterableConfig(name=key.replace("_", "."), value=value) for key, value in values.items()]
    resource = alter.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return Question(f"replace: {title}", 2, alter.AlterConfigsRequest(resources=[resource]))


def pages(title: str, names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Question:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names.split(",")],
        response_partition_limit=limit,
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    return Question(f"partitions: {title}", 0, request)


def elect(title: str, kind: int, *partitions: tuple[str, list[int]]) -> Question:
    wanted = [TopicPartitions(topic=name, partitions=some) for name, some in partitions]
    return Question(f"elect: {title}", 2, ElectLeadersRequest(election_type=kind, topic_partitions=wanted))


def reassign(title: str, *partitions: tuple[str, int, list[int] | None], factor_may_change: bool = True) -> Question:
    topics = [
        ReassignableTopic(name=name, partitions=[ReassignablePartition(partition_index=index, replicas=replicas)])
        for name, index, replicas in partitions
    ]
    request = AlterPartitionReassignmentsRequest(topics=topics, allow_replication_factor_change=factor_may_change)
    return Question(f"reassign: {title}", 1, request)


def reassigning(title: str, *partitions: tuple[str, list[int]]) -> Question:
    topics = [ListPartitionReassignmentsTopics(name=name, partition_indexes=some) for name, some in partitions]
    return Question(f"reassigning: {title}", 0, ListPartitionReassignmentsRequest(topics=topics or None))


def producer_id(title: str, **fields: object) -> Question:
    return Question(f"producer id: {title}", 4, InitProducerIdRequest(transaction_timeout_ms=1000, **fields))


QUESTIONS = (
    create("three partitions", topic("a", 3, 1)),
    create("a name that is taken", topic("a", 3, 1)),
    create("without a name", topic("", 1, 1)),
    create("a dot", topic(".", 1, 1)),
    create("a long name", topic("x" * 250, 1, 1)),
    create("a name with a space", topic("a b", 1, 1)),
    create("no partitions", topic("b", 0, 1)),
    create("minus two partitions", topic("b", -2, 1)),
    create("no replicas", topic("b", 1, 0)),
    create("minus two replicas", topic("b", 1, -2)),
    create("too many partitions", topic("b", 20_000, 1)),
    create("defaults", topic("b")),
    create("twice in one request", topic("d", 1, 1), topic("d", 1, 1)),
    create("dots and underscores", topic("c.d_e", 1, 1)),
    create("a name that collides", topic("c_d.e", 1, 1)),
    create("chosen replicas and a number of them", topic("e", -1, 1, ((0, [1]),))),
    create("chosen replicas with a gap", topic("e", -1, -1, ((0, [1]), (2, [1])))),
    create("chosen replicas twice", topic("e", -1, -1, ((0, [1]), (0, [1])))),
    create("no chosen replica", topic("e", -1, -1, ((0, []),))),
    create("a chosen broker that is not there", topic("e", -1, -1, ((0, [9]),))),
    create("a chosen broker twice", topic("e", -1, -1, ((0, [1, 1]),))),
    create("chosen replicas", topic("e", -1, -1, ((0, [1]), (1, [1])))),
    create("an unknown option", topic("f", 1, 1, nope="1")),
    create("an option that is no number", topic("f", 1, 1, retention_ms="x")),
    create("lags that contradict each other", topic("f", 1, 1, min_compaction_lag_ms="9", max_compaction_lag_ms="5")),
    create("with options", topic("f", 1, 1, cleanup_policy="compact", max_message_bytes="100")),
    create("to see whether it could be", topic("g", 1, 1), only_check=True),
    create("to see that it could not be", topic("a", 1, 1), only_check=True),
    create("in an old version", topic("h", 1, 1), version=2),
    grow("to five", ("a", 5, None)),
    grow("to as many", ("a", 5, None)),
    grow("to fewer", ("a", 2, None)),
    grow("to none", ("a", 0, None)),
    grow("too few chosen", ("a", 7, [[1]])),
    grow("a broker that is not there", ("a", 6, [[9]])),
    grow("chosen", ("a", 6, [[1]])),
    grow("twice in one request", ("a", 7, None), ("a", 8, None)),
    grow("to see whether it could be", ("a", 7, None), only_check=True),
    grow("no chosen replica", ("a", 7, [[]])),
    grow("a chosen broker twice", ("a", 7, [[1, 1]])),
    told("a topic", TOPIC, "a"),
    told("a topic with options", TOPIC, "f"),
    told("a topic that cannot be", TOPIC, "bad name"),
    told("no topic", TOPIC, ""),
    told("one option", TOPIC, "a", ["retention.ms", "nope"]),
    told("one option without synonyms", TOPIC, "a", ["segment.bytes"], synonyms=False),
    told(
        "options of the broker",
        BROKER,
        "1",
        ["log.retention.hours", "compression.type", "ssl.keystore.password", "num.partitions", "log.segment.bytes"],
    ),
    told("another broker", BROKER, "7"),
    told("a broker that is no number", BROKER, "x"),
    told("a group", GROUP, "g"),
    told("no group", GROUP, ""),
    edit("set", TOPIC, "a", ("retention.ms", SET, "1000")),
    edit("set to no number", TOPIC, "a", ("retention.ms", SET, "x")),
    edit("set an unknown option", TOPIC, "a", ("nope", SET, "x")),
    edit("append to no list", TOPIC, "a", ("retention.ms", APPEND, "5")),
    edit("append", TOPIC, "a", ("cleanup.policy", APPEND, "compact")),
    told("after set and append", TOPIC, "a", ["cleanup.policy", "retention.ms"]),
    edit("subtract", TOPIC, "a", ("cleanup.policy", SUBTRACT, "delete")),
    told("after subtract", TOPIC, "a", ["cleanup.policy"]),
    edit("subtract the rest", TOPIC, "a", ("cleanup.policy", SUBTRACT, "compact")),
    told("an empty list", TOPIC, "a", ["cleanup.policy"]),
    edit("append what cannot be", TOPIC, "a", ("cleanup.policy", APPEND, "foo")),
    edit("append nothing", TOPIC, "a", ("cleanup.policy", APPEND, None)),
    edit("take away", TOPIC, "a", ("retention.ms", DELETE, None)),
    told("after taking away", TOPIC, "a", ["retention.ms"]),
    edit("set to nothing", TOPIC, "a", ("retention.ms", SET, None)),
    edit("one option twice", TOPIC, "a", ("retention.ms", SET, "1"), ("retention.ms", SET, "2")),
    edit("a topic that is not there", TOPIC, "zz", ("retention.ms", SET, "1")),
    edit("no topic", TOPIC, "", ("retention.ms", SET, "1")),
    edit("to see whether it could be", TOPIC, "a", ("retention.ms", SET, "77"), only_check=True),
    told("after only looking", TOPIC, "a", ["retention.ms"]),
    edit("what a broker reads at start", BROKER, "1", ("num.partitions", SET, "5")),
    edit("what all brokers read at start", BROKER, "", ("num.partitions", SET, "5")),
    edit("a broker that is no number", BROKER, "x", ("log.retention.ms", SET, "1")),
    edit("another broker", BROKER, "9", ("log.retention.ms", SET, "1")),
    edit("of a broker to no number", BROKER, "1", ("log.retention.ms", SET, "zz")),
    edit("of a group", GROUP, "g", ("consumer.session.timeout.ms", SET, "50000")),
    edit("of a group below the bound", GROUP, "g", ("consumer.session.timeout.ms", SET, "5")),
    told("a group after that", GROUP, "g", ["consumer.session.timeout.ms"]),
    edit("of no group", GROUP, "", ("consumer.session.timeout.ms", SET, "50000")),
    edit("of what is unknown", 77, "x", ("a", SET, "b")),
    replace("one option", TOPIC, "a", retention_ms="55"),
    replace("by another", TOPIC, "a", segment_bytes="20000000"),
    told("after replacing", TOPIC, "a", ["retention.ms", "segment.bytes"]),
    replace("by nothing", TOPIC, "a", retention_ms=None),
    replace("by an unknown option", TOPIC, "a", nope="1"),
    replace("of a topic that is not there", TOPIC, "zz", retention_ms="1"),
    replace("by no option", TOPIC, "a"),
    Question("resources: topics", 1, ListConfigResourcesRequest(resource_types=[TOPIC])),
    Question("resources: brokers and groups", 1, ListConfigResourcesRequest(resource_types=[BROKER, GROUP])),
    Question("resources: what is unknown", 1, ListConfigResourcesRequest(resource_types=[99])),
    Question("cluster: the brokers", 2, DescribeClusterRequest()),
    Question(
        "cluster: with operations",
        2,
        DescribeClusterRequest(include_cluster_authorized_operations=True, include_fenced_brokers=True),
    ),
    Question("cluster: controllers", 1, DescribeClusterRequest(endpoint_type=2)),
    Question("cluster: what is unknown", 1, DescribeClusterRequest(endpoint_type=9)),
    Question(
        "quorum: of a topic",
        1,
        DescribeQuorumRequest(
            topics=[RequestTopicData(topic_name="a", partitions=[RequestPartitionData(partition_index=0)])]
        ),
    ),
    elect("preferred, where it leads and where nothing is", 0, ("a", [0, 99]), ("zz", [0])),
    elect("unclean, where there is a leader", 1, ("a", [0])),
    elect("what is unknown", 7, ("a", [0])),
    elect("unclean, of nothing that is there", 1, ("zz", [0])),
    reassign("to where it is", ("a", 0, [1])),
    reassign("to nowhere", ("a", 0, [])),
    reassign("to a broker that is not there", ("a", 0, [9])),
    reassign("to one that is there and one that is not", ("a", 0, [1, 9])),
    reassign("to one broker twice", ("a", 0, [1, 1])),
    reassign("with another factor, which may not be", ("a", 0, [1, 9]), factor_may_change=False),
    reassign("a topic and a partition that are not there", ("zz", 0, [1]), ("a", 99, [1])),
    reassign("taken back, where none runs", ("a", 0, None), ("zz", 0, None)),
    reassigning("all"),
    reassigning("of topics that are there or not", ("a", [0, 99]), ("zz", [0])),
    Question("unregister: a broker that is not there", 0, UnregisterBrokerRequest(broker_id=77)),
    pages("of topics that are and are not there", "a,zz,bad name"),
    pages("two", "a,b", 2),
    pages("the next", "a,b", 3, ("a", 4)),
    pages("from a topic that is over", "a,b", 2000, ("a", 77)),
    pages("from what is none", "b", 2000, ("a", -1)),
    producer_id("with an empty transactional id", transactional_id=""),
    producer_id("with an id but no epoch", transactional_id=None, producer_id=44),
    delete("one that is there and one that is not", DeleteTopicState(name="h"), DeleteTopicState(name="zz")),
    delete("twice in one request", DeleteTopicState(name="f"), DeleteTopicState(name="f")),
    delete("without a name", DeleteTopicState(name=None)),
    delete("an id that is not there", DeleteTopicState(name=None, topic_id=b"\1" * 16)),
    delete("by name and id", DeleteTopicState(name="f", topic_id=b"\1" * 16)),
)
