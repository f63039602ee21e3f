"""`kafka-topics`: create, list, describe, alter and delete topics."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.cli.connect import admin_from, parse_pairs
from ottla.cli.faults import Misuse
from ottla.cli.javamap import hash_order, string_hash
from ottla.cli.kafka.java_errors import told
from ottla.cli.option_values import where_they_fit
from ottla.cli.options import Given, Option, Parser
from ottla.client.errors import ClientError, UnsupportedVersion
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition, parse_topic_id, topic_id_text

if TYPE_CHECKING:
    from ottla.client.admin.replicas import Reassignment
    from ottla.client.blocking.admin import Admin
    from ottla.messages.describe_topic_partitions import (
        DescribeTopicPartitionsResponsePartition,
        DescribeTopicPartitionsResponseTopic,
    )

_ACTIONS = ("create", "list", "alter", "describe", "delete")
_COLLIDES = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. "
    "To avoid issues it is best to use either, but not both."
)

PARSER = Parser(
    "This tool helps to create, delete, describe, or change a topic.",
    [
        Option("bootstrap-server", "REQUIRED: the broker to connect to.", "server to connect to"),
        Option("command-config", "Property file with client options.", "command config property file"),
        Option("list", "List all topics."),
        Option("create", "Create a topic."),
        Option("delete", "Delete a topic."),
        Option("alter", "Change the number of partitions (configurations: kafka-configs)."),
        Option("describe", "Show partitions, replicas and configurations of topics."),
        Option("topic", "The topic; a regular expression except for --create.", "topic"),
        Option("topic-id", "The id of the topic to describe.", "topic-id"),
        Option("config", "A configuration of the topic being created.", "name=value"),
        Option("delete-config", "No longer supported since 4.0.", "name"),
        Option(
            "partitions", "How many partitions; the cluster's default where left out.", "# of partitions", "Integer"
        ),
        Option("replication-factor", "How many replicas of each partition.", "replication factor", "Integer"),
        Option("replica-assignment", "Brokers of each partition: 1:2,2:3 and so on.", "broker_id:broker_id,..."),
        Option("under-replicated-partitions", "Describe only partitions with replicas that are not in sync."),
        Option("unavailable-partitions", "Describe only partitions without a live leader."),
        Option("under-min-isr-partitions", "Describe only partitions with fewer in sync than the minimum."),
        Option("at-min-isr-partitions", "Describe only partitions with exactly the minimum in sync."),
        Option("topics-with-overrides", "Describe only topics that have configurations of their own."),
        Option("if-exists", "Do nothing where the topic does not exist."),
        Option("if-not-exists", "Do nothing where the topic exists."),
        Option("exclude-internal", "Leave internal topics out."),
        Option("partition-size-limit-per-response", "Accepted; pages are followed anyway.", "number", "Integer"),
    ],
)


def command(arguments: Sequence[str]) -> int:
    # Kafka's tool looks at numbers after everything else, and tells of a wrong one on standard output.
    given = PARSER.read(arguments, unchecked_numbers=True)
    chosen = [action for action in _ACTIONS if action in given]
    if len(chosen) != 1:
        PARSER.usage("Command must include exactly one action: --list, --describe, --create, --alter or --delete")
    try:
        _check(given, chosen[0])
        given.check_numbers()
        with admin_from(given.need("bootstrap-server"), given.text("command-config")) as admin:
            {"create": _create, "list": _list, "alter": _alter, "describe": _describe, "delete": _delete}[chosen[0]](
                admin, given
            )
    except Misuse as fault:
        if str(fault).startswith("Cannot parse"):
            sys.stdout.write(f"Error while executing topic command : {fault}\n")
        else:
            sys.stderr.write(f"{fault}\n")
        return 1
    except (ApiError, ClientError, _Failed) as fault:
        sys.stdout.write(f"Error while executing topic command : {told(fault)}\n")
        return 1
    return 0


class _Failed(Exception):
    pass


def _check(given: Given, action: str) -> None:
    if "bootstrap-server" not in given:
        raise Misuse("--bootstrap-server must be specified")
    if action == "describe" and "topic" in given and "topic-id" in given:
        raise Misuse("Only topic id or topic name can be used with --describe option.")
    if action == "create":
        PARSER.need(given, "topic")
        PARSER.exclusive(given, "replica-assignment", "partitions", "replication-factor")
    if action == "alter":
        PARSER.need(given, "topic")
        PARSER.exclusive(given, "alter", "config")
        if "partitions" not in given:
            PARSER.usage('Missing required argument "[partitions]"')
    if action == "delete" and "topic" not in given:
        PARSER.usage('Missing required argument "[topic]"')
    if "config" in given and action != "create":
        PARSER.usage('Option "[config]" can\'t be used without option "[create]"')
    if "delete-config" in given:
        PARSER.usage("--delete-config is no longer supported: use kafka-configs")
    PARSER.exclusive(given, "if-not-exists", *(each for each in _ACTIONS if each != "create"))
    PARSER.exclusive(given, "if-exists", "create", "list")
    only = [each for each in _PARTITION_FILTERS if each in given]
    if len(only) > 1:
        PARSER.exclusive(given, only[0], *only[1:])


def _create(admin: Admin, given: Given) -> None:
    from ottla.client.admin.admin import NewTopic

    name = given.need("topic")
    if "." in name or "_" in name:
        sys.stdout.write(_COLLIDES + "\n")
    partitions, factor = given.number("partitions"), given.number("replication-factor")
    if partitions is not None and partitions < 1:
        raise _Failed("The partitions must be greater than 0")
    if factor is not None and not 1 <= factor <= 32767:
        raise _Failed("The replication factor must be between 1 and 32767 inclusive")
    assignments = _assignments(given.text("replica-assignment"))
    topic = NewTopic(
        name, partitions or -1, factor or -1, where_they_fit("topic", parse_pairs(given.all("config"))), assignments
    )
    result = admin.create_topics([topic])[name]
    if isinstance(result, ApiError):
        if result.code is ErrorCode.TOPIC_ALREADY_EXISTS and "if-not-exists" in given:
            return
        raise result
    sys.stdout.write(f"Created topic {name}.\n")


def _assignments(text: str | None) -> dict[int, list[int]]:
    if text is None:
        return {}
    try:
        placed = [[int(broker) for broker in part.split(":")] for part in text.split(",")]
    except ValueError:
        raise Misuse(f"not a replica assignment: {text}; write 1:2,2:3") from None
    for index, brokers in enumerate(placed):
        if len(set(brokers)) != len(brokers):
            raise _Failed(f"Partition replica lists may not contain duplicate entries: {brokers[0]}")
        if len(brokers) != len(placed[0]):
            raise _Failed(f"Partition {index} has different replication factor: {brokers}")
    return dict(enumerate(placed))


def include_pattern(raw: str) -> re.Pattern[str]:
    """A topic filter of Kafka's tools: a regular expression in which a comma means 'or'."""
    text = raw.strip().replace(",", "|").replace(" ", "").strip("\"'")
    try:
        return re.compile(text)
    except re.error as fault:
        raise Misuse(f"{text} is an invalid regex: {fault}") from None


def _matching(admin: Admin, given: Given) -> list[str]:
    """Names that match --topic, or all; sorted."""
    topics = admin.list_topics()
    wanted = given.text("topic")
    pattern = include_pattern(wanted) if wanted is not None else None
    hidden = "exclude-internal" in given
    return sorted(
        name
        for name, view in topics.items()
        if (pattern is None or pattern.fullmatch(name)) and not (hidden and view.is_internal)
    )


def _expected(given: Given, names: Sequence[str]) -> bool:
    """True if there is something to do; an error if there should be and is not."""
    if names or "topic" not in given:
        return bool(names)
    if "if-exists" not in given:
        raise _Failed(f"Topic '{given.need('topic')}' does not exist as expected")
    return False


def _list(admin: Admin, given: Given) -> None:
    sys.stdout.write("\n".join(_matching(admin, given)) + "\n")


def _alter(admin: Admin, given: Given) -> None:
    names = _matching(admin, given)
    if not _expected(given, names):
        return
    count = given.number("partitions") or 0
    assignments = _assignments(given.text("replica-assignment"))
    placed = {}
    for name in names if assignments else []:
        existing = len(admin.cluster.topic(name).partitions)
        placed[name] = [brokers for index, brokers in assignments.items() if index >= existing]
    outcome = admin.create_partitions(dict.fromkeys(names, count), placed)
    for fault in outcome.values():
        if fault is not None:
            raise fault


def _delete(admin: Admin, given: Given) -> None:
    names = _matching(admin, given)
    if not _expected(given, names):
        return
    for fault in admin.delete_topics(names).values():
        if fault is not None:
            raise fault


_PARTITION_FILTERS = (
    "under-replicated-partitions",
    "unavailable-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
)


def _describe(admin: Admin, given: Given) -> None:
    names = _names_to_describe(admin, given)
    if not names:
        return
    topics = describe(admin, names)
    configs = topic_configs(admin, list(topics))
    filters = [each for each in _PARTITION_FILTERS if each in given]
    overridden = "topics-with-overrides" in given
    live = set(admin.cluster.brokers())
    moving = _reassignments(admin, topics)
    for name in hash_order(topics, string_hash, len(topics)):
        topic = topics[name]
        if not filters:
            changed = [(key, value) for key, value, is_default in configs[name] if not is_default]
            if changed or not overridden:
                _print_topic(topic, changed, moving)
            if overridden:
                continue
        least = int(next((value or "1" for key, value, _ in configs[name] if key == "min.insync.replicas"), "1"))
        for partition in sorted(topic.partitions, key=lambda each: each.partition_index):
            on_way = moving.get(TopicPartition(name, partition.partition_index))
            if all(_passes(partition, on_way, each, live, least) for each in filters):
                _print_partition(name, partition, on_way)


def _reassignments(
    admin: Admin, topics: Mapping[str, DescribeTopicPartitionsResponseTopic]
) -> dict[TopicPartition, Reassignment]:
    """The moves under way; none if the cluster cannot or will not tell."""
    partitions = [TopicPartition(name, one.partition_index) for name in topics for one in topics[name].partitions]
    try:
        return admin.list_reassignments(partitions)
    except UnsupportedVersion:
        return {}
    except ApiError as fault:
        if fault.code is not ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise
        return {}


def _factor(partition: DescribeTopicPartitionsResponsePartition, on_way: Reassignment | None) -> int:
    """The wanted number of replicas, without those that a reassignment adds."""
    if on_way is not None and set(partition.replica_nodes) & {*on_way.adding, *on_way.removing}:
        return len(on_way.replicas) - len(on_way.adding)
    return len(partition.replica_nodes)


def _names_to_describe(admin: Admin, given: Given) -> list[str]:
    topic_id = given.text("topic-id")
    if topic_id is None:
        names = _matching(admin, given)
        _expected(given, names)
        return names
    try:
        wanted = parse_topic_id(topic_id)
    except ValueError as fault:
        raise _Failed(str(fault)) from None
    names = [name for name, view in admin.list_topics().items() if view.topic_id == wanted]
    if not names and "if-exists" not in given:
        raise _Failed(f"TopicId '{topic_id}' does not exist as expected")
    return names


def describe(admin: Admin, names: Sequence[str]) -> dict[str, DescribeTopicPartitionsResponseTopic]:
    """Topics by name; by Metadata if the broker does not know DescribeTopicPartitions."""
    try:
        found = admin.describe_topics(names)
    except UnsupportedVersion:
        return {name: _from_metadata(admin, name) for name in names}
    topics = {}
    for name, topic in found.items():
        if isinstance(topic, ApiError):
            raise topic
        topics[name] = topic
    return topics


def _from_metadata(admin: Admin, name: str) -> DescribeTopicPartitionsResponseTopic:
    from ottla.messages.describe_topic_partitions import (
        DescribeTopicPartitionsResponsePartition,
        DescribeTopicPartitionsResponseTopic,
    )

    view = admin.cluster.topic(name)
    partitions = [
        DescribeTopicPartitionsResponsePartition(
            partition_index=index,
            leader_id=each.leader,
            leader_epoch=each.leader_epoch,
            replica_nodes=list(each.replicas),
            isr_nodes=list(each.isr),
            offline_replicas=list(each.offline),
        )
        for index, each in view.partitions.items()
    ]
    return DescribeTopicPartitionsResponseTopic(
        name=name, topic_id=view.topic_id, is_internal=view.is_internal, partitions=partitions
    )


def topic_configs(admin: Admin, names: Iterable[str]) -> dict[str, list[tuple[str, str | None, bool]]]:
    """(name, value, whether it is Kafka's default) for each topic, in the order of Java's map."""
    from ottla.client.admin.admin import ConfigSource, Resource, ResourceType

    resources = [Resource(ResourceType.TOPIC, name) for name in names]
    configs: dict[str, list[tuple[str, str | None, bool]]] = {}
    for resource, found in admin.describe_configs(resources).items():
        if isinstance(found, Exception):
            raise found
        by_name = {each.name: each for each in found}
        configs[resource.name] = [
            (name, by_name[name].value, by_name[name].config_source == ConfigSource.DEFAULT_CONFIG)
            for name in hash_order(by_name, string_hash)
        ]
    return configs


def _print_topic(
    topic: DescribeTopicPartitionsResponseTopic,
    configs: Sequence[tuple[str, str | None]],
    moving: Mapping[TopicPartition, Reassignment],
) -> None:
    partitions = topic.partitions
    first = min(partitions, key=lambda one: one.partition_index, default=None)
    factor = _factor(first, moving.get(TopicPartition(topic.name or "", first.partition_index))) if first else 0
    told_configs = ",".join(f"{key}={value}" for key, value in configs)
    sys.stdout.write(
        f"Topic: {topic.name}\tTopicId: {topic_id_text(bytes(topic.topic_id))}\tPartitionCount: {len(partitions)}\t"
        f"ReplicationFactor: {factor}\tConfigs: {told_configs}\n"
    )


def _print_partition(
    name: str, partition: DescribeTopicPartitionsResponsePartition, on_way: Reassignment | None
) -> None:
    leader = str(partition.leader_id) if partition.leader_id >= 0 else "none"
    changing = ""
    if on_way is not None:
        changing = f"Adding Replicas: {_ids(on_way.adding)}\tRemoving Replicas: {_ids(on_way.removing)}\t"
    sys.stdout.write(
        f"\tTopic: {name}\tPartition: {partition.partition_index}\tLeader: {leader}\t"
        f"Replicas: {_ids(partition.replica_nodes)}\tIsr: {_ids(partition.isr_nodes)}\t{changing}"
        f"Elr: {_ids(partition.eligible_leader_replicas)}\tLastKnownElr: {_ids(partition.last_known_elr)}\n"
    )


def _ids(ids: Iterable[int] | None) -> str:
    return "N/A" if ids is None else ",".join(map(str, ids))


def _passes(
    partition: DescribeTopicPartitionsResponsePartition,
    on_way: Reassignment | None,
    only: str,
    live: set[int],
    least: int,
) -> bool:
    in_sync = len(partition.isr_nodes)
    if only == "under-replicated-partitions":
        return in_sync < _factor(partition, on_way)
    if only == "unavailable-partitions":
        return partition.leader_id not in live
    if only == "under-min-isr-partitions":
        return partition.leader_id < 0 or in_sync < least
    return in_sync == least
