"""`ottla cluster`: run several brokers on this machine; look at a cluster, and move what its brokers hold."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from ottla.cli.cluster_moves import BROKER, DRY_RUN, LEADERS_ONLY, TIMEOUT, drain, rebalance
from ottla.cli.options import Given, Option
from ottla.cli.own import Command, bad, connected, noun, print_json, print_table, wants_json
from ottla.cli.waiting import waiting_partitions

if TYPE_CHECKING:
    from ottla.client.admin.sight import Sight
    from ottla.client.admin.troubles import ReplicaTrouble
    from ottla.kernel.errors import ApiError
    from ottla.messages.describe_topic_partitions import DescribeTopicPartitionsResponseTopic

_UP = "ottla.server.cluster_up"
"""Runs brokers, so it lives with them: commands here are clients."""
_PLACES = ["partition", "leader", "leader_epoch", "replicas", "in_sync", "eligible", "offline"]


def command(arguments: Sequence[str]) -> int:
    if arguments and arguments[0] == "up":
        code: int = import_module(_UP).command(arguments[1:])
        return code
    return noun("cluster", VERBS, arguments)


def _run_up(given: Given) -> int:
    raise AssertionError("`up` has a parser of its own")


# --- looking ---


def _status(given: Given) -> int:
    from ottla.client.admin.sight import look

    with connected(given) as admin:
        seen = look(admin)
    rows = [_broker_row(seen, broker) for broker in sorted(seen.shares)]
    if wants_json(given):
        print_json(
            {
                "cluster_id": seen.cluster_id,
                "controller": seen.controller,
                "brokers": rows,
                "topics": seen.topics,
                "partitions": seen.partitions,
                "under_replicated": seen.under_replicated,
                "leaderless": seen.leaderless,
            }
        )
        return 0
    titles = ["BROKER", "STATE", "ADDRESS", "RACK", "LEADS", "IN SYNC", "REPLICAS"]
    keys = ("id", "state", "address", "rack", "leads", "in_sync", "replicas")
    print_table(titles, [[row[key] for key in keys] for row in rows])
    healthy = not seen.leaderless and not seen.under_replicated
    sys.stdout.write(seen.summary + "\n" if healthy else bad(seen.summary) + "\n")
    return 0


def _broker_row(seen: Sight, broker: int) -> dict[str, object]:
    share, found = seen.shares[broker], seen.brokers.get(broker)
    return {
        "id": broker,
        "state": "gone" if found is None else "controller" if broker == seen.controller else "up",
        "address": None if found is None else f"{found.host}:{found.port}",
        "host": None if found is None else found.host,
        "port": None if found is None else found.port,
        "rack": None if found is None else found.rack,
        "leads": share.leads,
        "in_sync": share.in_sync,
        "replicas": share.replicas,
    }


def _describe(given: Given) -> int:
    with connected(given) as admin:
        names = given.words or sorted(admin.list_topics())
        found = admin.describe_topics(names)
        troubles = [one for one in admin.replica_troubles() if one.partition.topic in found and not one.set_aside]
    waiting = {(one.topic, one.partition): one for one in waiting_partitions(found)}
    described = [_described(name, found[name], waiting) for name in names]
    if "troubled" in given:
        described = [
            _Described(each.topic, [part for part in each.partitions if _out_of_sync(part)]) for each in described
        ]
        described = [each for each in described if each.partitions]
    if wants_json(given):
        print_json([each._asdict() | {"troubles": _told(troubles, each.topic)} for each in described])
        return 0
    rows = [[each.topic, *(_shown(part[key]) for key in _PLACES)] for each in described for part in each.partitions]
    print_table(["TOPIC", "PARTITION", "LEADER", "EPOCH", "REPLICAS", "IN SYNC", "ELIGIBLE", "OFFLINE"], rows)
    for one in troubles:
        sys.stdout.write(bad(f"{one.partition} on broker {one.broker} ({one.path}): {one.reason}") + "\n")
    for each_waiting in waiting.values():
        sys.stdout.write(f"{bad(each_waiting.why)}\n  {each_waiting.advice(given.need('bootstrap-server'))}\n")
    return 0


def _told(troubles: Sequence[ReplicaTrouble], topic: str) -> list[dict[str, object]]:
    return [
        {"partition": one.partition.partition, "broker": one.broker, "path": one.path, "reason": one.reason}
        for one in troubles
        if one.partition.topic == topic
    ]


def _shown(value: int | list[int]) -> int | str | None:
    if isinstance(value, list):
        return ",".join(map(str, value)) or None
    return value if value >= 0 else None


class _Described(NamedTuple):
    topic: str
    partitions: list[dict[str, int | list[int]]]


def _described(
    name: str, topic: DescribeTopicPartitionsResponseTopic | ApiError, waiting: Collection[tuple[str, int]]
) -> _Described:
    if isinstance(topic, Exception):
        raise topic
    return _Described(
        name,
        [
            {
                "partition": part.partition_index,
                "leader": part.leader_id,
                "leader_epoch": part.leader_epoch,
                "replicas": list(part.replica_nodes),
                "in_sync": list(part.isr_nodes),
                "eligible": list(part.eligible_leader_replicas or []),
                "offline": list(part.offline_replicas),
                "waits_for_administrator": (name, part.partition_index) in waiting,
            }
            for part in topic.partitions
            if part.replica_nodes
        ],
    )


def _out_of_sync(part: dict[str, int | list[int]]) -> bool:
    replicas, in_sync = part["replicas"], part["in_sync"]
    return isinstance(replicas, list) and isinstance(in_sync, list) and len(in_sync) < len(replicas)


VERBS = {
    "up": Command("ottla cluster up [--brokers N] [--data DIR]", "Run a cluster of brokers on this machine.", _run_up),
    "status": Command("ottla cluster status", "Show brokers, and what each of them leads and holds.", _status),
    "describe": Command(
        "ottla cluster describe [TOPIC...]",
        "Show leader, replicas and in-sync set of each partition.",
        _describe,
        [Option("troubled", "Only partitions with replicas out of sync.")],
        words=(0, 1000),
    ),
    "drain": Command(
        "ottla cluster drain --broker N [--leaders-only] [--dry-run]",
        "Move what a broker leads and holds to others, as far as they have room; it goes on running.",
        drain,
        [BROKER, LEADERS_ONLY, DRY_RUN, TIMEOUT],
    ),
    "rebalance": Command(
        "ottla cluster rebalance [--dry-run]",
        "Spread replicas and leaders evenly over the living brokers.",
        rebalance,
        [DRY_RUN, TIMEOUT],
    ),
}
