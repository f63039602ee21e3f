"""`ottla topic`: create, list, describe, alter and delete topics."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.cli.command import Command, complain, connected, noun, pairs, print_json, print_table, wants_json
from ottla.cli.faults import Misuse
from ottla.cli.option_values import check_names, with_plain_numbers
from ottla.cli.options import Given, Option
from ottla.client.model import EARLIEST, LATEST, OffsetAtTime, TopicView
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition, topic_id_text

if TYPE_CHECKING:
    from ottla.client.blocking.admin import Admin

_PARTITIONS = Option("partitions", "How many partitions.", "N", "Integer", short="p")
_CONFIG = Option("config", "A configuration, such as retention.ms=7d; may come several times.", "KEY=VALUE", short="c")


_PROTECTION = "deletion.protection"
_LOST = {
    "__consumer_offsets": "the committed offsets of all groups are gone: consumers begin where auto.offset.reset says. "
    "A transaction that was to commit offsets may stay open; `ottla transaction find-hanging` lists such ones",
    "__transaction_state": "the state of all transactions is gone: those that were open stay open, and hold back "
    "readers of committed records. `ottla transaction find-hanging` lists them; `ottla transaction abort "
    "TOPIC:PARTITION --start-offset OFFSET` ends each",
    "_schemas": "all schemas are gone. A registry that starts again gives new ids above those it has given out",
}


def command(arguments: Sequence[str]) -> int:
    return noun("topic", VERBS, arguments)


def _create(given: Given) -> int:
    from ottla.client.admin.admin import NewTopic

    partitions, replicas = _at_least_one(given, "partitions"), _at_least_one(given, "replicas")
    configs = with_plain_numbers("topic", pairs(given.all("config")))
    with connected(given) as admin:
        outcome = admin.create_topics([NewTopic(name, partitions, replicas, configs) for name in given.words])
    made, failed = [], 0
    for name, result in outcome.items():
        if isinstance(result, ApiError):
            if result.code is ErrorCode.TOPIC_ALREADY_EXISTS and "if-not-exists" in given:
                continue
            failed += complain(given, result)
            continue
        made.append({"topic": name, "id": topic_id_text(bytes(result.topic_id)), "partitions": result.num_partitions})
        _warn_of_minimum(name, configs, result.replication_factor)
    if wants_json(given):
        print_json(made)
    else:
        sys.stdout.write("".join(f"created topic {each['topic']}, {_count(each['partitions'])}\n" for each in made))
    return 1 if failed else 0


def _warn_of_minimum(topic: str, configs: Mapping[str, str], replicas: int) -> None:
    """Say that no broker may be missing, where the user has asked for it (docs/decisions/0025)."""
    minimum = configs.get("min.insync.replicas", "")
    if replicas > 1 and minimum.strip().isdecimal() and int(minimum) >= replicas:
        sys.stderr.write(
            f"ottla: topic {topic} has {replicas} replicas and min.insync.replicas={minimum.strip()}: "
            "while one of its brokers is down, writes with acks=all are refused\n"
        )


def _at_least_one(given: Given, name: str) -> int:
    """The number, or -1 for the cluster's default if none is given."""
    number = given.number(name)
    if number is not None and number < 1:
        raise Misuse(f"--{name} is at least 1")
    return -1 if number is None else number


def _count(partitions: object) -> str:
    return "1 partition" if partitions == 1 else f"{partitions} partitions"


def _list(given: Given) -> int:
    with connected(given) as admin:
        views = sorted(admin.list_topics().values())
    shown = [view for view in views if "internal" in given or not view.is_internal]
    rows = [[view.name, len(view.partitions), _replicas(view), _in_trouble(view)] for view in shown]
    if wants_json(given):
        print_json([dict(zip(("topic", "partitions", "replicas", "state"), row, strict=True)) for row in rows])
    elif not rows:
        sys.stderr.write("there are no topics; `ottla topic create NAME` makes one\n")
    else:
        print_table(["TOPIC", "PARTITIONS", "REPLICAS", "STATE"], rows)
    return 0


def _replicas(view: TopicView) -> int:
    return max((len(partition.replicas) for partition in view.partitions.values()), default=0)


def _in_trouble(view: TopicView) -> str:
    leaderless = sum(partition.leader < 0 for partition in view.partitions.values())
    behind = sum(len(partition.isr) < len(partition.replicas) for partition in view.partitions.values())
    if leaderless:
        return f"{leaderless} without leader"
    return f"{behind} under-replicated" if behind else "ok"


def _describe(given: Given) -> int:
    with connected(given) as admin:
        described = [_described(admin, name) for name in given.words]
    if wants_json(given):
        print_json(described)
        return 0
    for each in described:
        sys.stdout.write(f"topic {each['topic']}  id {each['id']}\n")
        configs = each["configs"]
        assert isinstance(configs, dict)
        for key, value in configs.items():
            sys.stdout.write(f"  {key}={value}\n")
        partitions = each["partitions"]
        assert isinstance(partitions, list)
        titles = ["PARTITION", "LEADER", "EPOCH", "REPLICAS", "IN SYNC", "FIRST", "END", "RECORDS"]
        rows = [
            [
                part["partition"],
                part["leader"] if part["leader"] >= 0 else None,
                part["leader_epoch"],
                ",".join(map(str, part["replicas"])),
                ",".join(map(str, part["in_sync"])),
                part["first_offset"],
                part["end_offset"],
                None if part["end_offset"] is None else part["end_offset"] - (part["first_offset"] or 0),
            ]
            for part in partitions
        ]
        print_table(titles, rows)
    return 0


def _described(admin: Admin, name: str) -> dict[str, object]:
    from ottla.cli.kafka.topics import topic_configs

    view = admin.list_topics().get(name) or admin.cluster.topic(name)  # this raises, with the reason
    places = [TopicPartition(name, index) for index in view.partitions]
    led = [place for place in places if view.partitions[place.partition].leader >= 0]  # the others tell no offsets
    first = admin.list_offsets(dict.fromkeys(led, EARLIEST))
    end = admin.list_offsets(dict.fromkeys(led, LATEST))

    def offset(found: OffsetAtTime | Exception | None) -> int | None:
        return found.offset if isinstance(found, OffsetAtTime) else None

    configs = topic_configs(admin, [name])[name]
    return {
        "topic": name,
        "id": topic_id_text(view.topic_id),
        "internal": view.is_internal,
        "configs": {key: value for key, value, is_default in configs if not is_default},
        "partitions": [
            {
                "partition": place.partition,
                "leader": view.partitions[place.partition].leader,
                "leader_epoch": view.partitions[place.partition].leader_epoch,
                "replicas": list(view.partitions[place.partition].replicas),
                "in_sync": list(view.partitions[place.partition].isr),
                "first_offset": offset(first.get(place)),
                "end_offset": offset(end.get(place)),
            }
            for place in places
        ],
    }


def _alter(given: Given) -> int:
    from ottla.client.admin.admin import ConfigOperation, Resource, ResourceType

    name = given.words[0]
    partitions = given.number("partitions")
    configs = with_plain_numbers("topic", pairs(given.all("config")))
    changes: list[tuple[str, ConfigOperation, str | None]] = [
        (key, ConfigOperation.SET, value) for key, value in configs.items()
    ]
    changes += [(key, ConfigOperation.DELETE, None) for key in given.all("delete-config")]
    if partitions is None and not changes:
        raise Misuse("nothing to change: give --partitions, --config or --delete-config")
    with connected(given) as admin:
        resource = Resource(ResourceType.TOPIC, name)
        check_names(admin, "topic", resource, given.all("delete-config"))
        faults: list[Exception | None] = []
        if partitions is not None:
            faults += admin.create_partitions({name: partitions}).values()
        if changes:
            faults += admin.alter_configs({resource: changes}).values()
    failed = sum(complain(given, fault) for fault in faults if fault is not None)
    if not failed and wants_json(given):
        print_json({"topic": name, "partitions": partitions, "set": configs, "unset": given.all("delete-config")})
    elif not failed:
        sys.stdout.write(f"altered topic {name}\n")
    return 1 if failed else 0


def _delete(given: Given) -> int:
    with connected(given) as admin:
        released = _release(given, admin) if "internal" in given else {}
        outcome = admin.delete_topics(given.words)
        _set_protection(
            given, admin, {name: value for name, value in released.items() if outcome.get(name) is not None}
        )
    failed = 0
    for name, fault in outcome.items():
        if fault is None:
            sys.stdout.write("" if wants_json(given) else f"deleted topic {name!s}\n")
            sys.stderr.write(f"ottla: {_LOST[str(name)]}\n" if name in _LOST else "")
        elif fault.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or "if-exists" not in given:
            failed += complain(given, fault)
    if wants_json(given):
        print_json([name for name, fault in outcome.items() if fault is None])
    return 1 if failed else 0


def _release(given: Given, admin: Admin) -> dict[str, str]:
    """Let protected topics be deleted; the former value of each option changed. Apache Kafka has no such option."""
    from ottla.client.admin.admin import Resource, ResourceType

    found = admin.describe_configs([Resource(ResourceType.TOPIC, name) for name in given.words], keys=[_PROTECTION])
    former = {
        resource.name: options[0].value or ""
        for resource, options in found.items()
        if isinstance(options, list) and options and options[0].value != "false"
    }
    failed = _set_protection(given, admin, dict.fromkeys(former, "false"))
    return {name: value for name, value in former.items() if name not in failed}


def _set_protection(given: Given, admin: Admin, values: Mapping[str, str]) -> list[str]:
    """Set the option of each topic; the topics for which that failed."""
    from ottla.client.admin.admin import ConfigOperation, Resource, ResourceType

    if not values:
        return []
    edits = {
        Resource(ResourceType.TOPIC, name): [(_PROTECTION, ConfigOperation.SET, value)]
        for name, value in values.items()
    }
    faults = {resource.name: fault for resource, fault in admin.alter_configs(edits).items() if fault is not None}
    for fault in faults.values():
        complain(given, fault)
    return list(faults)


VERBS = {
    "create": Command(
        "ottla topic create NAME... [-p N] [-r N] [-c KEY=VALUE]",
        "Create topics.",
        _create,
        [
            _PARTITIONS,
            Option(
                "replicas", "How many replicas of each partition.", "N", "Integer", short="r", also="replication-factor"
            ),
            _CONFIG,
            Option("if-not-exists", "Leave a topic that exists as it is."),
        ],
        words=(1, 1000),
    ),
    "list": Command(
        "ottla topic list [--internal]",
        "List topics.",
        _list,
        [Option("internal", "Internal topics too.", short="i")],
    ),
    "describe": Command(
        "ottla topic describe NAME...", "Show partitions, offsets and configurations.", _describe, words=(1, 1000)
    ),
    "alter": Command(
        "ottla topic alter NAME [-p N] [-c KEY=VALUE] [--delete-config KEY]",
        "Add partitions, change configurations.",
        _alter,
        [_PARTITIONS, _CONFIG, Option("delete-config", "Take a configuration back to its default.", "KEY")],
        words=(1, 1),
    ),
    "delete": Command(
        "ottla topic delete NAME... [--internal]",
        "Delete topics and all their records.",
        _delete,
        [
            Option("if-exists", "No error where a topic does not exist."),
            Option("internal", "Protected topics too, such as __consumer_offsets and _schemas; see operations.md."),
        ],
        words=(1, 1000),
    ),
}
