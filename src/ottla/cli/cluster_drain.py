"""`ottla cluster drain`: moves the leaderships and replicas of a broker, and says whether it may be stopped then."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.cli.cluster_moves import move, moves_json, placement, show_moves
from ottla.cli.command import bad, connected, good, print_json, wants_json
from ottla.cli.faults import Misuse
from ottla.cli.options import Given, Option
from ottla.client.admin.placement import Placement, changes, drained
from ottla.client.admin.stopping import Loss, losses, moved, stuck
from ottla.kernel.ids import TopicPartition

if TYPE_CHECKING:
    from ottla.client.blocking.admin import Admin
    from ottla.client.model import TopicView

BROKER = Option("broker", "The broker to empty.", "N", "Integer")
LEADERS_ONLY = Option("leaders-only", "Move leaderships only; replicas stay where they are.")
_MINIMUM = "min.insync.replicas"
_AT_ONCE = 200
"""The most topics in one request."""
_NAMED = 10
_SETTLED_WITHIN_S, _LOOK_EVERY_S = 5.0, 0.1


class _Outcome(NamedTuple):
    """The state of the broker after the moves, or after planned ones, of which `leads` is not known."""

    broker: int
    runs: bool
    leads: int | None
    holds: int
    stuck: dict[TopicPartition, int]
    losses: list[Loss]


def drain(given: Given) -> int:
    broker = given.number("broker")
    if broker is None:
        raise Misuse("which one? give --broker N")
    dry_run, only_leaders = "dry-run" in given, "leaders-only" in given
    with connected(given) as admin:
        before, lagging = placement(admin)
        brokers = admin.cluster.brokers()
        if broker not in brokers and not any(broker in replicas for replicas in before.values()):
            raise Misuse(f"there is no broker {broker}; there are {', '.join(map(str, sorted(brokers)))}")
        others = [number for number in brokers if number != broker]
        after = drained(before, broker, brokers, lagging, leaders_only=only_leaders)
        planned = changes(before, after)
        left_behind = {} if only_leaders else stuck(after, broker, others)
        if not wants_json(given):
            _say_stuck(left_behind, broker, others)
        if not dry_run and not move(admin, planned, set(planned), given.duration_ms("timeout") or 0):
            sys.stderr.write(f"ottla: stopping broker {broker} is not safe yet\n")
            return 1
        topics = moved(admin.list_topics().values(), planned) if dry_run else _settled(admin, planned, broker)
        outcome = _outcome(admin, broker, topics, left_behind, runs=broker in brokers)
        if dry_run:
            outcome = outcome._replace(leads=None)
    if wants_json(given):
        print_json(_as_json(outcome, moves_json(before, planned), dry_run=dry_run))
    else:
        show_moves(before, planned)
        _say_outcome(outcome, dry_run=dry_run)
    return 1 if outcome.losses or outcome.leads else 0


def _settled(admin: Admin, planned: Placement, broker: int) -> list[TopicView]:
    """Topics from a broker that knows of the moves and the elections; some of these may be impossible."""
    end = time.monotonic() + _SETTLED_WITHIN_S
    while True:
        topics = admin.list_topics()
        views = {place: topics[place.topic].partitions[place.partition] for place in planned if place.topic in topics}
        arrived = all(view.replicas == planned[place] for place, view in views.items())
        if (arrived and all(view.leader != broker for view in views.values())) or time.monotonic() > end:
            return list(topics.values())
        time.sleep(_LOOK_EVERY_S)


def _outcome(
    admin: Admin, broker: int, topics: Sequence[TopicView], left_behind: dict[TopicPartition, int], *, runs: bool
) -> _Outcome:
    views = [view for topic in topics for view in topic.partitions.values()]
    concerned = [topic for topic in topics if any(broker in view.replicas for view in topic.partitions.values())]
    return _Outcome(
        broker,
        runs,
        sum(view.leader == broker for view in views if broker in view.replicas),
        sum(broker in view.replicas for view in views),
        left_behind,
        losses(broker, concerned, _minimum(admin, [topic.name for topic in concerned])),
    )


def _minimum(admin: Admin, names: Sequence[str]) -> dict[str, int]:
    """`min.insync.replicas` of each topic; a topic that was deleted meanwhile is left out."""
    from ottla.client.admin.admin import Resource, ResourceType

    found = dict.fromkeys(names, 0)
    for at in range(0, len(names), _AT_ONCE):
        asked = [Resource(ResourceType.TOPIC, name) for name in names[at : at + _AT_ONCE]]
        for resource, configs in admin.describe_configs(asked, keys=[_MINIMUM]).items():
            for one in [] if isinstance(configs, Exception) else configs:
                found[resource.name] = int(one.value or 0)
    return found


def _say_stuck(left_behind: dict[TopicPartition, int], broker: int, others: Collection[int]) -> None:
    if not left_behind:
        return
    missing = max(left_behind.values())
    more = "one more broker" if missing == 1 else f"{missing} more brokers"
    lives = f"only {len(others)} live beside it, which have replicas of them already" if others else "no other lives"
    sys.stdout.write(
        f"{_partitions(left_behind)} on broker {broker} can go to no other broker, as {lives}: {_named(left_behind)}.\n"
        f"To empty broker {broker}, start {more}, or give these partitions fewer replicas.\n"
    )


def _say_outcome(outcome: _Outcome, *, dry_run: bool) -> None:
    broker = outcome.broker
    if outcome.leads is None:
        sys.stdout.write(f"broker {broker} would hold {outcome.holds} replicas\n")
    else:
        sys.stdout.write(f"broker {broker} leads {outcome.leads} partitions and holds {outcome.holds} replicas\n")
    after = "after that " if dry_run else ""
    if outcome.losses:
        unsafe = "would not be safe" if dry_run else "is not safe"
        sys.stdout.write(bad(f"stopping broker {broker} {after}{unsafe}:") + "\n")
        sys.stdout.write("".join(f"  {loss.text}\n" for loss in outcome.losses[:_NAMED]))
        if len(outcome.losses) > _NAMED:
            sys.stdout.write(f"  and {len(outcome.losses) - _NAMED} more partitions like these\n")
    elif not outcome.runs:
        sys.stdout.write(f"broker {broker} does not run, and no partition needs it\n")
    else:
        now = "would be safe" if dry_run else "is safe now"
        sys.stdout.write(
            good(f"stopping broker {broker} {after}{now}: every partition keeps the replicas in sync that it needs")
            + "\n"
        )


def _partitions(places: Collection[TopicPartition]) -> str:
    return "1 partition" if len(places) == 1 else f"{len(places)} partitions"


def _named(places: Iterable[TopicPartition]) -> str:
    names = [str(place) for place in sorted(places)]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _as_json(outcome: _Outcome, moves: list[dict[str, object]], *, dry_run: bool) -> dict[str, object]:
    return {
        "broker": outcome.broker,
        "dry_run": dry_run,
        "moves": moves,
        "nowhere_to_go": [
            {"topic": place.topic, "partition": place.partition, "brokers_missing": missing}
            for place, missing in sorted(outcome.stuck.items())
        ],
        "leads": outcome.leads,
        "replicas": outcome.holds,
        "safe_to_stop": not outcome.losses,
        "would_suffer": [
            {
                "topic": loss.place.topic,
                "partition": loss.place.partition,
                "in_sync": loss.in_sync,
                "min_in_sync": loss.needed,
            }
            for loss in outcome.losses
        ],
    }
