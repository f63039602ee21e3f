"""`kafka-reassign-partitions`: move replicas between brokers, watch the moves, take them back."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.cli.connect import admin_from
from ottla.cli.faults import Misuse, text_of
from ottla.cli.javamap import hash_order, string_hash
from ottla.cli.kafka import reassign_moves as dirs
from ottla.cli.kafka.java_errors import java, told
from ottla.cli.kafka.reassign_json import (
    Replica,
    assignment_json,
    check_wanted,
    duplicates,
    moves,
    propose,
    read_topics,
    read_wanted,
    throttled,
)
from ottla.cli.options import Given, Option, Parser
from ottla.client.admin.admin import ConfigOperation, Resource, ResourceType
from ottla.client.errors import ClientError
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition

if TYPE_CHECKING:
    from ottla.client.blocking.admin import Admin

PARSER = Parser(
    "This tool helps to move topic partitions between replicas.",
    [
        Option("verify", "Say how far the moves of --reassignment-json-file are; drop throttles when they are done."),
        Option("generate", "Propose an assignment; nothing is moved."),
        Option("execute", "Begin the moves of --reassignment-json-file."),
        Option("cancel", "Take back moves that are on their way."),
        Option("list", "List moves that are on their way."),
        Option("bootstrap-server", "The brokers to connect to.", "Server(s) to use for bootstrapping", optional=True),
        Option("bootstrap-controller", "Not for this cluster.", "bootstrap controller to connect to", optional=True),
        Option("command-config", "Property file with client options.", "Admin client property file"),
        Option("reassignment-json-file", "Where partitions shall be.", "manual assignment json file path"),
        Option("topics-to-move-json-file", "Topics for --generate.", "topics to reassign json file path"),
        Option("broker-list", "Brokers for --generate, with commas.", "brokerlist"),
        Option("disable-rack-aware", "Do not look at racks for --generate."),
        Option("throttle", "Bytes per second between brokers.", "throttle", "Long", default="-1"),
        Option(
            "replica-alter-log-dirs-throttle",
            "Bytes per second between directories of a broker.",
            "replicaAlterLogDirsThrottle",
            "Long",
            default="-1",
        ),
        Option("timeout", "How long to try to begin moves between directories.", "timeout", "Long", default="10000"),
        Option("additional", "Beside moves that are on their way; also to change the throttle."),
        Option("preserve-throttles", "Leave throttles as they are."),
        Option("disallow-replication-factor-change", "Refuse to change how many replicas there are."),
    ],
)
_FILE = ("reassignment-json-file",)
_ACTIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "generate": (("topics-to-move-json-file", "broker-list"), ("disable-rack-aware",)),
    "execute": (
        _FILE,
        (
            "additional",
            "throttle",
            "replica-alter-log-dirs-throttle",
            "timeout",
            "disallow-replication-factor-change",
        ),
    ),
    "verify": (_FILE, ("preserve-throttles",)),
    "cancel": (_FILE, ("preserve-throttles", "timeout")),
    "list": ((), ()),
}
"""The options that each action needs, and those that it allows."""
_EXISTING = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and create "
    "a new partition assignment in addition to the existing one. The --additional flag can also be used to change the "
    "throttle by resubmitting the current reassignment."
)
_UNKNOWN = "org.apache.kafka.common.errors.UnknownTopicOrPartitionException"
_VERIFY_LATER = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed."
)
BROKER_THROTTLES = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)
TOPIC_THROTTLES = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


class Terse(Exception):
    """An error that is printed as it is, without `Error:`."""


def command(arguments: Sequence[str]) -> int:
    given = PARSER.read(arguments)
    action = _check(given)
    run = {"generate": _generate, "execute": _execute, "verify": _verify, "cancel": _cancel, "list": _list}[action]
    try:
        with admin_from(given.need("bootstrap-server"), given.text("command-config")) as admin:
            run(admin, given)
    except Terse as fault:
        sys.stdout.write(f"{fault}\n")
        return 1
    except ApiError as fault:
        sys.stdout.write(f"Error: {java(fault)}\n")
        return 1
    except (Misuse, ClientError, OSError) as fault:
        sys.stdout.write(f"Error: {fault}\n")
        return 1
    return 0


def _check(given: Given) -> str:
    chosen = [action for action in _ACTIONS if action in given]
    if len(chosen) != 1:
        wanted = ", ".join(f"--{action}" for action in ("generate", "execute", "verify", "cancel", "list"))
        PARSER.usage(f"Command must include exactly one action: {wanted}")
    if "bootstrap-controller" in given:
        if "bootstrap-server" in given:
            PARSER.usage("Please don't specify both --bootstrap-server and --bootstrap-controller")
        PARSER.usage("--bootstrap-controller is not supported: ask a broker by --bootstrap-server")
    if "bootstrap-server" not in given:
        PARSER.usage("Please specify either --bootstrap-server or --bootstrap-controller")
    needed, more = _ACTIONS[chosen[0]]
    PARSER.need(given, *needed)
    for name in given.values:
        if name not in (*chosen, *needed, *more, "bootstrap-server", "command-config"):
            PARSER.usage(f'Option "[{name}]" can\'t be used with action "[{chosen[0]}]"')
    return chosen[0]


def _list(admin: Admin, given: Given) -> None:
    current = admin.list_reassignments()
    if not current:
        sys.stdout.write("No partition reassignments found.\n")
        return
    sys.stdout.write("Current partition reassignments:\n")
    for partition in sorted(current):
        on_way = current[partition]
        adding = f" adding: {_joined(on_way.adding)}." if on_way.adding else ""
        removing = f" removing: {_joined(on_way.removing)}." if on_way.removing else ""
        sys.stdout.write(f"{partition}: replicas: {_joined(on_way.replicas)}.{adding}{removing}\n")


# Generate


def _generate(admin: Admin, given: Given) -> None:
    text = text_of(given.need("topics-to-move-json-file"))
    try:
        brokers = [int(part) for part in given.need("broker-list").split(",")]
    except ValueError:
        raise Misuse(f'For input string: "{given.text("broker-list")}"') from None
    if twice := duplicates(brokers):
        raise Misuse(f"Broker list contains duplicate entries: [{', '.join(map(str, twice))}]")
    topics = read_topics(text)
    if double := duplicates(topics):
        raise Misuse(f"List of topics to reassign contains duplicate entries: [{', '.join(double)}]")
    present = _replicas_of_topics(admin, topics)
    directories = dirs.directories_of(admin, _each_replica(present))
    racks = {
        broker.broker_id: None if "disable-rack-aware" in given else broker.rack
        for broker in admin.describe_cluster().brokers
        if broker.broker_id in brokers
    }
    if None in racks.values() and any(racks.values()):
        raise Misuse(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica "
            "assignment without rack information."
        )
    proposed = propose(present, racks)
    sys.stdout.write(f"Current partition replica assignment\n{assignment_json(present, directories)}\n\n")
    sys.stdout.write(f"Proposed partition reassignment configuration\n{assignment_json(proposed, {})}\n")


def _replicas_of_topics(admin: Admin, topics: Iterable[str]) -> dict[TopicPartition, list[int]]:
    found: dict[TopicPartition, list[int]] = {}
    for name, topic in admin.describe_topics(sorted(set(topics))).items():
        if isinstance(topic, ApiError):
            if topic.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise Misuse(
                    f"org.apache.kafka.common.errors.UnknownTopicOrPartitionException: Topic {name} not found."
                )
            raise topic
        found |= {TopicPartition(name, one.partition_index): list(one.replica_nodes) for one in topic.partitions}
    return found


def _each_replica(replicas: Mapping[TopicPartition, Sequence[int]]) -> list[Replica]:
    return [Replica(broker, *partition) for partition, brokers in replicas.items() for broker in brokers]


# Execute


def _execute(admin: Admin, given: Given) -> None:
    wanted_file = read_wanted(text_of(given.need("reassignment-json-file")))
    wanted = check_wanted(wanted_file)
    current = admin.list_reassignments()
    if current and "additional" not in given:
        raise Terse(_EXISTING)
    live = {broker.broker_id for broker in admin.describe_cluster().brokers}
    for broker in hash_order((one for replicas in wanted.values() for one in replicas), int):
        if broker not in live:
            raise Misuse(f"Unknown broker id {broker}")
    everything = _replicas_of_topics(admin, (partition.topic for partition in wanted))
    if missing := [partition for partition in wanted if partition not in everything]:
        names = ", ".join(map(str, missing))
        raise Misuse(f"{_UNKNOWN}: Unable to find partition: {names}")
    present = {partition: everything[partition] for partition in wanted}
    saved = assignment_json(present, dirs.directories_of(admin, _each_replica(present)))
    sys.stdout.write(
        f"Current partition replica assignment\n\n{saved}\n\n"
        "Save this to use as the --reassignment-json-file option during rollback\n"
    )
    rate, directory_rate = given.count("throttle"), given.count("replica-alter-log-dirs-throttle")
    if rate >= 0 or directory_rate >= 0:
        sys.stdout.write(f"{_VERIFY_LATER}\n")
    if rate >= 0:
        moving = moves(current, wanted, present)
        _throttle(admin, throttled(moving), {one for move in moving.values() for one in move[0] | move[1]}, rate)
    if directory_rate >= 0:
        _set_rates(admin, {replica.broker for replica in wanted_file.directories}, BROKER_THROTTLES[2:], directory_rate)
        sys.stdout.write(f"The replica-alter-dir throttle limit was set to {directory_rate} B/s\n")
    outcome = admin.alter_reassignments(
        dict(wanted), allow_replication_factor_change="disallow-replication-factor-change" not in given
    )
    _raise_failed("Error reassigning partition(s):", outcome)
    plural = "" if len(wanted) == 1 else "s"
    sys.stdout.write(f"Successfully started partition reassignment{plural} for {_joined(sorted(wanted))}\n")
    if wanted_file.directories:
        _move_directories(admin, wanted_file.directories, given.count("timeout"))


def _move_directories(admin: Admin, wanted: Mapping[Replica, str], timeout_ms: int) -> None:
    late = dirs.begin_moves(admin, wanted, timeout_ms)
    if late:
        plural = "" if len(late) == 1 else "s"
        raise Terse(f"Timed out before log directory move{plural} could be started for: {_joined(late)}")


def _raise_failed(heading: str, outcome: Mapping[TopicPartition, ApiError | None]) -> None:
    failed = {partition: fault for partition, fault in outcome.items() if fault is not None}
    if failed:
        raise Terse("\n".join([heading, *(f"{partition}: {told(failed[partition])}" for partition in sorted(failed))]))


def _throttle(admin: Admin, replicas: tuple[dict[str, str], dict[str, str]], brokers: set[int], rate: int) -> None:
    changes = {
        Resource(ResourceType.TOPIC, topic): [
            (name, ConfigOperation.SET, found[topic]) for name, found in zip(TOPIC_THROTTLES, replicas, strict=True)
        ]
        for topic in replicas[0]
    }
    _alter(admin, changes)
    _set_rates(admin, brokers, BROKER_THROTTLES[:2], rate)
    sys.stdout.write(f"The inter-broker throttle limit was set to {rate} B/s\n")


def _set_rates(admin: Admin, brokers: Iterable[int], names: Sequence[str], rate: int) -> None:
    settings = [(name, ConfigOperation.SET, str(rate)) for name in names]
    _alter(admin, {Resource(ResourceType.BROKER, str(one)): settings for one in sorted(brokers)})


def _alter(admin: Admin, changes: Mapping[Resource, Collection[tuple[str, ConfigOperation, str | None]]]) -> None:
    for fault in admin.alter_configs(changes).values():
        if fault is not None:
            raise fault


# Verify and cancel


def _verify(admin: Admin, given: Given) -> None:
    wanted = read_wanted(text_of(given.need("reassignment-json-file")))
    current = admin.list_reassignments()
    targets = dict(wanted.partitions)
    unmoved = {partition.topic for partition in targets if partition not in current}
    present: dict[TopicPartition, list[int]] = {}
    for name, topic in admin.describe_topics(sorted(unmoved)).items() if unmoved else ():
        if not isinstance(topic, ApiError):
            present |= {TopicPartition(name, one.partition_index): list(one.replica_nodes) for one in topic.partitions}
        elif topic.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise topic
    sys.stdout.write("Status of partition reassignment:\n")
    for partition in sorted(targets):
        replicas = present.get(partition, [])
        if partition in current:
            sys.stdout.write(f"Reassignment of partition {partition} is still in progress.\n")
        elif replicas == targets[partition]:
            sys.stdout.write(f"Reassignment of partition {partition} is completed.\n")
        else:
            sys.stdout.write(
                f"There is no active reassignment of partition {partition}, but replica set is {_joined(replicas)} "
                f"rather than {_joined(targets[partition])}.\n"
            )
    lines, moving = dirs.states_of_moves(admin, wanted.directories)
    sys.stdout.write("\n".join(lines) + "\n")
    if not current and not moving and "preserve-throttles" not in given:
        _clear_throttles(admin, targets)


def _cancel(admin: Admin, given: Given) -> None:
    wanted = read_wanted(text_of(given.need("reassignment-json-file")))
    targets = dict(wanted.partitions)
    active = sorted(admin.list_reassignments(list(targets)))
    if active:
        plural = "" if len(active) == 1 else "s"
        outcome = admin.alter_reassignments(dict.fromkeys(active))
        failures = sum(fault is not None for fault in outcome.values())
        _raise_failed(f"Error cancelling partition reassignment{'' if failures == 1 else 's'} for:", outcome)
        sys.stdout.write(f"Successfully cancelled partition reassignment{plural} for: {_joined(active)}\n")
    else:
        sys.stdout.write("None of the specified partition reassignments are active.\n")
    moving = dirs.active_moves(admin, wanted.directories)
    if moving:
        _move_directories(admin, moving, given.count("timeout"))
    else:
        sys.stdout.write("None of the specified partition moves are active.")
    if "preserve-throttles" not in given:
        _clear_throttles(admin, targets)


def _clear_throttles(admin: Admin, targets: Mapping[TopicPartition, Sequence[int]]) -> None:
    live = [broker.broker_id for broker in admin.describe_cluster().brokers]
    brokers = hash_order([*live, *(one for replicas in targets.values() for one in replicas)], int)
    plural = "" if len(brokers) == 1 else "s"
    sys.stdout.write(f"Clearing broker-level throttles on broker{plural} {_joined(brokers)}\n")
    drop = [(name, ConfigOperation.DELETE, None) for name in BROKER_THROTTLES]
    _alter(admin, {Resource(ResourceType.BROKER, str(one)): drop for one in brokers})
    topics = hash_order((partition.topic for partition in targets), string_hash)
    plural = "" if len(topics) == 1 else "s"
    sys.stdout.write(f"Clearing topic-level throttles on topic{plural} {_joined(topics)}\n")
    drop = [(name, ConfigOperation.DELETE, None) for name in TOPIC_THROTTLES]
    _alter(admin, {Resource(ResourceType.TOPIC, one): drop for one in topics})


def _joined(items: Iterable[object]) -> str:
    return ",".join(map(str, items))
