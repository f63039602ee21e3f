"""`ottla group`: list, describe, reset and delete consumer groups."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.cli.command import Command, complain, connected, noun, print_json, print_table, wants_json
from ottla.cli.faults import Misuse
from ottla.cli.offsets import within
from ottla.cli.options import Given, Option
from ottla.client.errors import refused
from ottla.client.model import EARLIEST, LATEST, CommittedOffset, OffsetAtTime
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.kernel.quantities import moment_ms

if TYPE_CHECKING:
    from ottla.client.blocking.admin import Admin


def command(arguments: Sequence[str]) -> int:
    return noun("group", VERBS, arguments)


def _list(given: Given) -> int:
    from ottla.cli.kafka.groups_describe import CLASSIC

    with connected(given) as admin:
        groups = sorted(admin.list_groups(), key=lambda group: group.group_id)
    rows = [
        [group.group_id, group.group_type or CLASSIC, group.group_state, group.protocol_type or None]
        for group in groups
    ]
    if wants_json(given):
        print_json([dict(zip(("group", "type", "state", "protocol"), row, strict=True)) for row in rows])
    elif not rows:
        sys.stderr.write("there are no consumer groups\n")
    else:
        print_table(["GROUP", "TYPE", "STATE", "PROTOCOL"], rows)
    return 0


def _describe(given: Given) -> int:
    from ottla.cli.kafka.groups_describe import described_group, offset_rows

    described: list[dict[str, object]] = []
    with connected(given) as admin:
        for name in given.words:
            found = described_group(admin, name)
            rows = [
                {
                    "topic": row.partition.topic if row.partition else None,
                    "partition": row.partition.partition if row.partition else None,
                    "committed": row.current,
                    "end": row.end,
                    "lag": row.lag,
                    "member": None if row.consumer_id == "-" else row.consumer_id,
                    "host": None if row.host == "-" else row.host.lstrip("/"),
                }
                for row in offset_rows(admin, name, found)
            ]
            described.append(
                {
                    "group": name,
                    "type": found.kind,
                    "state": found.state,
                    "epoch": found.epoch,
                    "target_epoch": found.target_epoch,
                    "assignor": found.assignor or None,
                    "members": len(found.members),
                    "lag": sum(int(str(row["lag"])) for row in rows if row["lag"] is not None),
                    "partitions": rows,
                }
            )
    if wants_json(given):
        print_json(described)
        return 0
    for each in described:
        state = str(each["state"]).lower()
        epochs = "" if each["epoch"] is None else f", epoch {each['epoch']}, target {each['target_epoch']}"
        kind = f"{each['type']}, {state}{epochs}"
        sys.stdout.write(f"group {each['group']}  {kind}, {each['members']} members, lag {each['lag']}\n")
        parts = each["partitions"]
        assert isinstance(parts, list)
        if parts:
            titles = ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER", "HOST"]
            print_table(titles, [list(part.values()) for part in parts])
    return 0


def _reset(given: Given) -> int:
    from ottla.cli.kafka.groups_describe import state_of

    group = given.words[0]
    with connected(given) as admin:
        state = state_of(admin, group)
        if state not in ("Empty", "Dead"):
            raise refused(
                ErrorCode.NON_EMPTY_GROUP, f"group {group!r}", f"it is {state.lower()}: stop its members first"
            )
        partitions = _partitions(admin, given, group)
        if not partitions:
            raise refused(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"group {group!r}",
                "it has no offsets to reset: name a --topic to begin it",
            )
        offsets = offsets_at(admin, partitions, given.need("to"))
        if "execute" in given and offsets:
            committed = {place: CommittedOffset(offset) for place, offset in offsets.items()}
            for fault in admin.commit_offsets(group, committed).values():
                if fault is not None:
                    raise fault
    rows = [[place.topic, place.partition, offset] for place, offset in sorted(offsets.items())]
    if wants_json(given):
        print_json([{"topic": topic, "partition": index, "offset": offset} for topic, index, offset in rows])
    else:
        print_table(["TOPIC", "PARTITION", "NEW OFFSET"], rows)
        if "execute" not in given:
            sys.stderr.write("nothing was changed: add --execute to commit these offsets\n")
    return 0


def _partitions(admin: Admin, given: Given, group: str) -> list[TopicPartition]:
    if "topic" not in given:
        return list(admin.committed_offsets(group))
    partitions: list[TopicPartition] = []
    for text in given.all("topic"):
        name, colon, numbers = text.partition(":")
        every = admin.cluster.partitions(name)
        wanted = numbers.split(",") if colon else [str(place.partition) for place in every]
        if not all(number.isdecimal() and int(number) < len(every) for number in wanted):
            raise Misuse(f"{text!r} is not TOPIC or TOPIC:PARTITION,... of a topic with {len(every)} partitions")
        partitions += [TopicPartition(name, int(number)) for number in wanted]
    return partitions


def offsets_at(admin: Admin, partitions: Sequence[TopicPartition], to: str) -> dict[TopicPartition, int]:
    """By `earliest`, `latest`, an offset, or a moment: `-90m`, `yesterday 10:00`, 2026-01-31T12:00Z."""
    if to.isdecimal():
        first, end = _listed(admin, partitions, EARLIEST), _listed(admin, partitions, LATEST)
        return {place: within(place, int(to), first[place], end[place]) for place in partitions}
    if to in ("earliest", "latest"):
        return _listed(admin, partitions, EARLIEST if to == "earliest" else LATEST)
    found = _listed(admin, partitions, _moment(to))
    late = _listed(admin, [place for place, offset in found.items() if offset < 0], LATEST)
    return found | late


def _moment(to: str) -> int:
    try:
        return moment_ms(to, int(time.time() * 1000))
    except ValueError as fault:
        raise Misuse(f"--to: {fault}; earliest, latest and an offset do as well") from None


def _listed(admin: Admin, partitions: Sequence[TopicPartition], spec: int) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for place, at in (admin.list_offsets(dict.fromkeys(partitions, spec)) if partitions else {}).items():
        if not isinstance(at, OffsetAtTime):
            raise at
        found[place] = at.offset
    return found


def _delete(given: Given) -> int:
    with connected(given) as admin:
        outcome = admin.delete_groups(given.words)
    for name, fault in outcome.items():
        if fault is not None:
            complain(given, fault)
        elif not wants_json(given):
            sys.stdout.write(f"deleted group {name}\n")
    if wants_json(given):
        print_json([name for name, fault in outcome.items() if fault is None])
    return 1 if any(outcome.values()) else 0


VERBS = {
    "list": Command("ottla group list", "List consumer groups.", _list),
    "describe": Command("ottla group describe NAME...", "Show offsets, lag and members.", _describe, words=(1, 1000)),
    "reset": Command(
        "ottla group reset NAME --to WHERE [--topic TOPIC[:0,1]] [--execute]",
        "Set where an inactive group goes on; without --execute it is only shown.",
        _reset,
        [
            Option(
                "to",
                "earliest, latest, an offset, or a time: -90m, yesterday 10:00, 2026-01-31T12:00 (UTC).",
                "WHERE",
                default="latest",
            ),
            Option("topic", "Only this topic, or TOPIC:0,1; default: all that it has offsets for.", "TOPIC", short="t"),
            Option("execute", "Commit the new offsets."),
        ],
        words=(1, 1),
    ),
    "delete": Command("ottla group delete NAME...", "Delete groups without members.", _delete, words=(1, 1000)),
}
