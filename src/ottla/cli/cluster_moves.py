"""`ottla cluster rebalance`, and the parts that `drain` shares with it: reassignments, and then elections.

The plans are made in client/admin/placement.py.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from ottla.cli.command import connected, print_json, print_table, wants_json
from ottla.cli.move_progress import MoveProgress
from ottla.cli.options import Given, Option
from ottla.client.admin.placement import Lagging, Placement, changes, lagging_of, placement_of, rebalanced
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition

if TYPE_CHECKING:
    from ottla.client.blocking.admin import Admin

DRY_RUN = Option("dry-run", "Show what would move, and move nothing.")
TIMEOUT = Option(
    "timeout", "The time that moves may take; they go on behind.", "TIME", "Duration", default="10m", bare="s"
)
_LOOK_EVERY_S = 0.1
_AT_ONCE = 200
"""The most partitions in one request."""
_NAMED = 10
"""The most partitions that a fault is told of, each in a line."""


def rebalance(given: Given) -> int:
    with connected(given) as admin:
        before, lagging = placement(admin)
        after = rebalanced(before, admin.cluster.brokers(), lagging)
        planned = changes(before, after)
        if "dry-run" not in given and not move(admin, planned, set(after), given.duration_ms("timeout") or 0):
            return 1
    if wants_json(given):
        print_json(moves_json(before, planned))
    else:
        show_moves(before, planned)
    return 0


def placement(admin: Admin) -> tuple[Placement, Lagging]:
    """The placement once all moves under way are done, and the replicas that are out of sync now."""
    topics = admin.list_topics().values()
    placed = placement_of(topics)
    for place, found in admin.list_reassignments().items():
        placed[place] = tuple(number for number in found.replicas if number not in found.removing)
    return placed, lagging_of(topics)


def move(admin: Admin, planned: Placement, elected: set[TopicPartition], timeout_ms: int) -> bool:
    """Reassign, wait until all replicas are in place, then have the first ones elected.

    False if it takes too long, or if a partition may not move; the others move all the same.
    """
    refused = _reassign(admin, planned)
    for place, fault in list(refused.items())[:_NAMED]:
        sys.stderr.write(f"ottla: {place} is not moved: {fault}\n")
    if len(refused) > _NAMED:
        sys.stderr.write(f"ottla: and {len(refused) - _NAMED} more partitions are not moved\n")
    moving = {place: replicas for place, replicas in planned.items() if place not in refused}
    if not _wait(admin, moving, timeout_ms):
        sys.stderr.write("ottla: not all is moved yet; `ottla cluster status` tells, and moves go on\n")
        return False
    _elect(admin, elected - refused.keys())
    return not refused


def _reassign(admin: Admin, planned: Placement) -> dict[TopicPartition, Exception]:
    """Begin the moves; return the partitions that may not move, with the reasons."""
    refused: dict[TopicPartition, Exception] = {}
    places = sorted(planned)
    for at in range(0, len(places), _AT_ONCE):
        wanted = {place: planned[place] for place in places[at : at + _AT_ONCE]}
        answers = admin.alter_reassignments(wanted)
        refused |= {place: fault for place, fault in answers.items() if fault is not None}
    return refused


def _wait(admin: Admin, planned: Placement, timeout_ms: int) -> bool:
    end = time.monotonic() + timeout_ms / 1000
    with MoveProgress(admin, planned) as progress:
        while planned:
            moving = {place: found for place, found in admin.list_reassignments().items() if place in planned}
            if not moving:
                break
            if time.monotonic() > end:
                return False
            progress.show(moving)
            time.sleep(_LOOK_EVERY_S)
    return True


def _elect(admin: Admin, places: set[TopicPartition]) -> None:
    """Move leaders to the preferred replicas."""
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


def moves_json(before: Placement, planned: Placement) -> list[dict[str, object]]:
    return [
        {"topic": place.topic, "partition": place.partition, "from": before[place], "to": planned[place]}
        for place in sorted(planned)
    ]


def show_moves(before: Placement, planned: Placement) -> None:
    if not planned:
        sys.stdout.write("nothing has to move\n")
        return
    rows = [[place.topic, place.partition, _text(before[place]), _text(planned[place])] for place in sorted(planned)]
    print_table(["TOPIC", "PARTITION", "FROM", "TO"], rows)


def _text(replicas: tuple[int, ...]) -> str:
    return ",".join(map(str, replicas))
