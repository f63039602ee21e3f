"""`ottla cluster drain` and `rebalance`: a plan (client/admin/spread.py), its reassignments, and then the elections."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from ottla.cli.faults import Misuse
from ottla.cli.options import Given, Option
from ottla.cli.own import connected, print_json, print_table, wants_json
from ottla.client.admin.spread import Placement, changes, drained, placement_of, rebalanced
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition

if TYPE_CHECKING:
    from ottla.client.blocking.admin import Admin

DRY_RUN = Option("dry-run", "Show what would move, and move nothing.")
TIMEOUT = Option("timeout", "How many seconds moves may take; they go on behind.", "SECONDS", "Integer", default="600")
BROKER = Option("broker", "The broker to empty.", "N", "Integer")
LEADERS_ONLY = Option("leaders-only", "Move leaderships only; replicas stay where they are.")
_LOOK_EVERY_S = 0.1
_AT_ONCE = 200
"""Partitions asked for by one request."""


def drain(given: Given) -> int:
    broker = given.number("broker")
    if broker is None:
        raise Misuse("which one? give --broker N")
    with connected(given) as admin:
        before = _placement(admin)
        brokers = admin.cluster.brokers()
        if broker not in brokers and not any(broker in replicas for replicas in before.values()):
            raise Misuse(f"there is no broker {broker}; there are {', '.join(map(str, sorted(brokers)))}")
        after = drained(before, broker, brokers, leaders_only="leaders-only" in given)
        code = _carry_out(admin, given, before, after)
        if code or "dry-run" in given:
            return code
        topics = admin.list_topics()
    left = sum(broker in replicas for replicas in placement_of(topics.values()).values())
    leads = sum(view.leader == broker for topic in topics.values() for view in topic.partitions.values())
    if not wants_json(given):
        sys.stdout.write(f"broker {broker} leads {leads} partitions and holds {left} replicas\n")
    return 1 if leads else 0


def rebalance(given: Given) -> int:
    with connected(given) as admin:
        before = _placement(admin)
        return _carry_out(admin, given, before, rebalanced(before, admin.cluster.brokers()))


def _placement(admin: Admin) -> Placement:
    """As it will be when the moves are done that are on their way."""
    placed = placement_of(admin.list_topics().values())
    for place, move in admin.list_reassignments().items():
        placed[place] = tuple(number for number in move.replicas if number not in move.removing)
    return placed


def _carry_out(admin: Admin, given: Given, before: Placement, after: Placement) -> int:
    """Show the plan; reassign, wait until all is in its new place, then have the first replicas elected."""
    planned = changes(before, after)
    if "dry-run" not in given:
        _reassign(admin, planned)
        if not _wait(admin, planned, given.count("timeout")):
            sys.stderr.write("ottla: not all is moved yet; `ottla cluster status` tells, and moves go on\n")
            return 1
        _elect(admin, set(planned) if "broker" in given else set(after))
    _show(given, before, planned)
    return 0


def _reassign(admin: Admin, planned: Placement) -> None:
    places = sorted(planned)
    for at in range(0, len(places), _AT_ONCE):
        wanted = {place: planned[place] for place in places[at : at + _AT_ONCE]}
        for fault in admin.alter_reassignments(wanted).values():
            if fault is not None:
                raise fault


def _wait(admin: Admin, planned: Placement, timeout_s: int) -> bool:
    end = time.monotonic() + timeout_s
    while planned and set(admin.list_reassignments()) & set(planned):
        if time.monotonic() > end:
            return False
        time.sleep(_LOOK_EVERY_S)
    return True


def _elect(admin: Admin, places: set[TopicPartition]) -> None:
    """Leaders that are not where they are preferred move there."""
    from ottla.client.admin.replicas import Election

    misled = [
        place
        for topic in admin.list_topics().values()
        for index, view in topic.partitions.items()
        if (place := TopicPartition(topic.name, index)) in places and view.replicas and view.leader != view.replicas[0]
    ]
    fine = (ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
    for place, fault in admin.elect_leaders(Election.PREFERRED, misled).items() if misled else ():
        if isinstance(fault, ApiError) and fault.code not in fine:
            sys.stderr.write(f"ottla: {place}: {fault.message}\n")


def _show(given: Given, before: Placement, planned: Placement) -> None:
    if wants_json(given):
        print_json(
            [
                {"topic": place.topic, "partition": place.partition, "from": before[place], "to": planned[place]}
                for place in sorted(planned)
            ]
        )
    elif not planned:
        sys.stdout.write("nothing has to move\n")
    else:
        rows = [
            [place.topic, place.partition, _text(before[place]), _text(planned[place])] for place in sorted(planned)
        ]
        print_table(["TOPIC", "PARTITION", "FROM", "TO"], rows)


def _text(replicas: tuple[int, ...]) -> str:
    return ",".join(map(str, replicas))
