"""`ottla cluster`: run several brokers on this machine; look at a cluster, and move what its brokers hold."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.cli.cluster_drain import BROKER, LEADERS_ONLY, drain
from ottla.cli.cluster_moves import DRY_RUN, TIMEOUT, rebalance
from ottla.cli.command import Command, bad, connected, noun, print_json, print_table, wants_json
from ottla.cli.options import Given, Option
from ottla.cli.waiting import waiting_partitions
from ottla.kernel.terminal import colours

if TYPE_CHECKING:
    from ottla.client.admin.broker_table import BrokerLine
    from ottla.client.admin.loads import Load
    from ottla.client.admin.overview import ClusterOverview
    from ottla.client.admin.troubles import ReplicaTrouble
    from ottla.kernel.errors import ApiError
    from ottla.messages.describe_topic_partitions import DescribeTopicPartitionsResponseTopic

_MEASURED_S = 1.0
"""The time between two looks at counts of bytes, by which rates are known."""
_PLACES = ["partition", "leader", "leader_epoch", "replicas", "in_sync", "eligible", "offline"]


def command(arguments: Sequence[str]) -> int:
    known = bool(arguments) and arguments[0] in VERBS
    return noun("cluster", VERBS if known else verbs(), arguments)


def verbs() -> dict[str, Command]:
    """All verbs. Those that run brokers are imported from the server on demand: all other commands are clients."""
    from ottla.cli.cluster_local import DOWN, UP

    return {"up": UP, "down": DOWN, **VERBS}


# --- looking ---


def _status(given: Given) -> int:
    from ottla.client.admin.broker_table import as_json, table
    from ottla.client.blocking.looks import Meter, cluster_overview

    meter = Meter()
    with connected(given) as admin:
        meter.look(admin)
        time.sleep(_MEASURED_S)
        seen = cluster_overview(admin)
        loads = meter.look(admin)
    lines = [_line(seen, broker, loads) for broker in sorted(seen.shares)]
    if wants_json(given):
        print_json(as_json(lines, seen))
        return 0
    coloured = colours(sys.stdout)
    width = os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else None
    sys.stdout.write(
        "".join(f"{line}\n" for line in table(lines, seen, width=width, coloured=coloured, legend="legend" in given))
    )
    return 0


def _line(seen: ClusterOverview, broker: int, loads: Mapping[int, Load]) -> BrokerLine:
    from ottla.client.admin.broker_table import GONE, SERVING, BrokerLine
    from ottla.client.admin.loads import NOTHING

    found = seen.brokers.get(broker)
    return BrokerLine(
        broker,
        GONE if found is None else SERVING,
        None if found is None else f"{found.host}:{found.port}",
        seen.shares[broker],
        loads.get(broker, NOTHING),
        caretaker=broker == seen.caretaker,
        rack=None if found is None else found.rack,
    )


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
    "status": Command(
        "ottla cluster status [--legend]",
        "Show brokers, what each leads and holds, its traffic and its disk.",
        _status,
        [Option("legend", "Explain the columns below the table.")],
    ),
    "describe": Command(
        "ottla cluster describe [TOPIC...]",
        "Show leader, replicas and in-sync set of each partition.",
        _describe,
        [Option("troubled", "Only partitions with replicas out of sync.")],
        words=(0, 1000),
    ),
    "drain": Command(
        "ottla cluster drain --broker N [--leaders-only] [--dry-run]",
        "Move what a broker leads and holds to others, and say whether it may be stopped then; exit code 1 where not.",
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
