"""`kafka-consumer-groups --describe`: offsets and lag, members, state."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.cli.kafka.consumer_groups import chosen_groups, print_error
from ottla.cli.options import Given
from ottla.client.consume.group_protocol import decode_assignment
from ottla.client.core.plan import GROUP
from ottla.client.errors import UnsupportedVersion, refused
from ottla.client.model import LATEST, CommittedOffset, OffsetAtTime
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition

if TYPE_CHECKING:
    from ottla.client.blocking.admin import Admin
    from ottla.messages.consumer_group_describe import Assignment
    from ottla.messages.describe_groups import DescribedGroup

CLASSIC, CONSUMER = "classic", "consumer"
_DASH = "-"
_REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


class OffsetRow(NamedTuple):
    """The offsets of a group in one partition; None is printed as a dash."""

    partition: TopicPartition | None
    leader_epoch: int | None
    current: int | None
    end: int | None
    lag: int | None
    consumer_id: str
    host: str
    client_id: str


class DescribedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    epoch: int | None = None
    """Only for groups of the consumer protocol, which have a target."""
    target: tuple[TopicPartition, ...] = ()


class GroupDescription(NamedTuple):
    """A group of either protocol."""

    state: str
    assignor: str
    members: tuple[DescribedMember, ...]
    kind: str = CLASSIC
    epoch: int | None = None
    """Only for groups of the consumer protocol, which have an epoch of the target."""
    target_epoch: int | None = None


def describe(admin: Admin, given: Given) -> None:
    groups = sorted(chosen_groups(admin, given))
    described = {group: described_group(admin, group) for group in groups}
    verbose = "verbose" in given
    for group, found in described.items():
        if "members" in given:
            _print_members(group, found, verbose=verbose)
        elif "state" in given:
            _print_state(admin, group, found, verbose=verbose)
        else:
            _print_offsets(admin, group, found, verbose=verbose)


def described_group(admin: Admin, group: str) -> GroupDescription:
    """A group that exists; GROUP_ID_NOT_FOUND for one that does not."""
    newer = _consumer_group(admin, group)
    if newer is not None:
        return newer
    found = admin.describe_groups([group])[group]
    if isinstance(found, ApiError):
        if found.code is ErrorCode.GROUP_ID_NOT_FOUND:
            raise refused(found.code, f"group {group!r}", f"Group {group} not found.")
        raise found
    return GroupDescription(found.group_state, found.protocol_data, tuple(_classic_members(found)))


def state_of(admin: Admin, group: str) -> str:
    """The state of a group of either protocol; Dead if there is none."""
    try:
        return described_group(admin, group).state
    except ApiError as fault:
        if fault.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return "Dead"
        raise


def _consumer_group(admin: Admin, group: str) -> GroupDescription | None:
    """A group of the consumer protocol; None if it is of another kind, or the cluster has no such groups."""
    try:
        found = admin.describe_consumer_groups([group])[group]
    except UnsupportedVersion:
        return None
    if isinstance(found, ApiError):
        if found.code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
            return None
        raise found
    members = [
        DescribedMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            _places(member.assignment),
            member.member_epoch,
            _places(member.target_assignment),
        )
        for member in found.members
    ]
    return GroupDescription(
        found.group_state, found.assignor_name, tuple(members), CONSUMER, found.group_epoch, found.assignment_epoch
    )


def _places(assignment: Assignment) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic_name, index) for topic in assignment.topic_partitions for index in topic.partitions
    )


def _classic_members(found: DescribedGroup) -> list[DescribedMember]:
    return [
        DescribedMember(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            decode_assignment(bytes(member.member_assignment)),
        )
        for member in found.members
    ]


def offset_rows(admin: Admin, group: str, found: GroupDescription) -> list[OffsetRow]:
    """Rows of members' partitions, then committed partitions without a member, then members without partitions."""
    members = found.members
    committed = admin.committed_offsets(group)
    assigned = {partition for member in members for partition in member.assignment}
    ends = admin.list_offsets(dict.fromkeys([*assigned, *committed], LATEST))
    ordered = sorted(members, key=lambda each: -len(each.assignment))
    rows = [_row(each, committed, ends, member) for member in ordered for each in member.assignment]
    rows += [_row(each, committed, ends, None) for each in committed if each not in assigned]
    idle = [
        OffsetRow(None, None, None, None, None, member.member_id, member.host, member.client_id)
        for member in ordered
        if not member.assignment
    ]
    return sorted(rows, key=lambda row: row.partition or TopicPartition("", 0)) + idle


def _row(
    partition: TopicPartition,
    committed: dict[TopicPartition, CommittedOffset],
    ends: dict[TopicPartition, OffsetAtTime | Exception],
    member: DescribedMember | None,
) -> OffsetRow:
    at, found = committed.get(partition), ends.get(partition)
    end = found.offset if isinstance(found, OffsetAtTime) else None
    current = at.offset if at is not None else None
    return OffsetRow(
        partition,
        at.leader_epoch if at is not None and at.leader_epoch >= 0 else None,
        current,
        end,
        end - current if end is not None and current is not None else None,
        member.member_id if member else _DASH,
        member.host if member else _DASH,
        member.client_id if member else _DASH,
    )


def _worth_printing(group: str, state: str, rows: int) -> bool:
    """Print the special states of a group; return whether there is a table to print."""
    if state == "Dead":
        print_error(f"Consumer group '{group}' does not exist.")
    elif state == "Empty":
        sys.stdout.flush()
        sys.stderr.write(f"\nConsumer group '{group}' has no active members.\n")
    elif state in _REBALANCING:
        sys.stdout.flush()
        sys.stderr.write(f"\nWarning: Consumer group '{group}' is rebalancing.\n")
    return state != "Dead" and rows > 0


def _width(least: int, texts: Sequence[str]) -> int:
    return max([least, *map(len, texts)])


def _cell(value: int | None) -> str:
    return _DASH if value is None else str(value)


def _print_offsets(admin: Admin, group: str, found: GroupDescription, *, verbose: bool) -> None:
    rows = offset_rows(admin, group, found)
    if not _worth_printing(group, found.state, len(rows)):
        return
    topics = [row.partition.topic for row in rows if row.partition]
    widths = [_width(15, [group]), _width(15, topics), 10]
    widths += [15] * (4 if verbose else 3)
    widths += [_width(15, [row.consumer_id for row in rows]), _width(15, [row.host for row in rows])]
    titles = ["GROUP", "TOPIC", "PARTITION"] + (["LEADER-EPOCH"] if verbose else [])
    titles += ["CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID"]
    table = [titles]
    for row in rows:
        place = [row.partition.topic, str(row.partition.partition)] if row.partition else [_DASH, _DASH]
        epoch = [_cell(row.leader_epoch)] if verbose else []
        numbers = [_cell(row.current), _cell(row.end), _cell(row.lag)]
        table.append([group, *place, *epoch, *numbers, row.consumer_id, row.host, row.client_id])
    _print_table(table, widths)


def _print_table(table: Sequence[Sequence[str]], widths: Sequence[int]) -> None:
    """An empty line, then the lines; cells wider than their column are kept whole."""
    sys.stdout.write("\n")
    for line in table:
        cells = [f"{cell:<{width}}" for cell, width in zip(line, widths, strict=False)]
        sys.stdout.write(" ".join([*cells, *line[len(widths) :]]) + "\n")


def _print_members(group: str, found: GroupDescription, *, verbose: bool) -> None:
    members = found.members
    if not _worth_printing(group, found.state, len(members)) and found.state == "Dead":
        return
    static = any(member.instance_id for member in members)
    titles = ["GROUP", "CONSUMER-ID"] + (["GROUP-INSTANCE-ID"] if static else []) + ["HOST", "CLIENT-ID", "#PARTITIONS"]
    widths = [_width(15, [group] if members else []), _width(15, [member.member_id for member in members])]
    widths += [_width(17, [member.instance_id or "" for member in members])] if static else []
    widths += [_width(15, [member.host for member in members]), _width(15, [member.client_id for member in members])]
    widths.append(15)
    if verbose:
        titles += ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
        widths += [15, _width(20, [_assignment(member.assignment) for member in members]), 15]
        widths.append(_width(20, [_assignment(member.target) for member in members]))
    else:
        titles.append("")
    table = [titles]
    for member in members:
        line = [group, member.member_id] + ([member.instance_id or ""] if static else [])
        line += [member.host, member.client_id, str(len(member.assignment))]
        epochs = [_cell(member.epoch), _assignment(member.assignment), _cell(found.target_epoch)]
        table.append(line + ([*epochs, _assignment(member.target)] if verbose else [""]))
    _print_table(table, widths)


def _assignment(partitions: Sequence[TopicPartition]) -> str:
    """`topic:0,1;other:0`."""
    topics: dict[str, list[str]] = {}
    for partition in sorted(partitions):
        topics.setdefault(partition.topic, []).append(str(partition.partition))
    return ";".join(f"{topic}:{','.join(numbers)}" for topic, numbers in topics.items()) or _DASH


def _print_state(admin: Admin, group: str, found: GroupDescription, *, verbose: bool) -> None:
    if not _worth_printing(group, found.state, 1):
        return
    broker = admin.cluster.run(admin.cluster.plan.coordinator(group, GROUP))
    coordinator = f"{broker.host}:{broker.port}  ({broker.id})"
    strategy = found.assignor or _DASH
    titles = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE"]
    line = [group, coordinator, strategy, found.state]
    widths = [_width(15, [group]), _width(25, [coordinator]), 20, 20]
    if verbose:
        titles += ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]
        line += [_cell(found.epoch), _cell(found.target_epoch)]
        widths += [15, 25]
    _print_table([[*titles, "#MEMBERS"], [*line, str(len(found.members))]], widths)
