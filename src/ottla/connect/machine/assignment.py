"""The work of each worker: connectors to own and tasks to run, evenly, moved one step after the other. Pure.

Work that changes hands is taken from its worker in one generation of the group, and given out in the next, when that
worker has let go of it: so nothing runs twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ottla.client.consume.group_protocol import MemberSubscription
from ottla.connect.machine.state import Configs
from ottla.kernel.ids import TopicPartition

Unit = TopicPartition
"""A connector's name with the number of a task, or with -1 for the connector itself: the form groups carry."""
OWNER: Final = -1
PROTOCOL: Final = "ottla-connect-1"


def units_of(configs: Configs) -> list[Unit]:
    """All work that there is."""
    units = []
    for name in configs.names:
        found = configs.get(name)
        assert found is not None
        units += [Unit(name, number) for number in range(OWNER, len(found.tasks))]
    return units


def assign(wanted: Sequence[Unit], members: Mapping[str, MemberSubscription]) -> dict[str, list[Unit]]:
    """The work of each member. Connectors are spread evenly, and so are tasks."""
    held = _held(members)
    assignment: dict[str, list[Unit]] = {member: [] for member in sorted(members)}
    for of_tasks in (False, True):
        _spread([unit for unit in wanted if (unit.partition != OWNER) is of_tasks], held, assignment)
    return assignment


def _held(members: Mapping[str, MemberSubscription]) -> dict[Unit, str]:
    """The member that holds each unit; of two that say so the one of the later generation."""
    held: dict[Unit, str] = {}
    for member in sorted(members, key=lambda each: (members[each].generation, each)):
        held |= dict.fromkeys(members[member].owned, member)
    return held


def _spread(wanted: Sequence[Unit], held: Mapping[Unit, str], assignment: dict[str, list[Unit]]) -> None:
    """Leave work where it is up to an even share; give out what nobody holds."""
    kept: dict[str, list[Unit]] = {member: [] for member in assignment}
    for unit in wanted:
        if unit in held:
            kept[held[unit]].append(unit)
    share, extra = divmod(len(wanted), len(assignment))
    for rank, member in enumerate(sorted(kept, key=lambda each: (-len(kept[each]), each))):
        kept[member] = kept[member][: share + (rank < extra)]
    for unit in wanted:
        if unit not in held:
            lightest = min(kept, key=lambda each: (len(kept[each]), len(assignment[each]), each))
            kept[lightest].append(unit)
    for member, units in kept.items():
        assignment[member] += units
