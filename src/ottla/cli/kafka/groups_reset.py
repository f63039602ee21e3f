"""`kafka-consumer-groups --reset-offsets`: plan new offsets, show them, commit them."""

from __future__ import annotations

import csv
import io
import re
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ottla.cli.faults import Misuse, text_of
from ottla.cli.javamap import hash_order, partition_hash, string_hash
from ottla.cli.kafka.consumer_groups import NoSuchTopic, chosen_groups, parse_topics, print_error
from ottla.cli.kafka.groups_describe import state_of
from ottla.cli.options import Given
from ottla.client.model import EARLIEST, LATEST, CommittedOffset, OffsetAtTime
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition

if TYPE_CHECKING:
    from ottla.client.blocking.admin import Admin

Offsets = dict[TopicPartition, int]
_RESETTABLE = ("Empty", "Dead")
_DURATION = re.compile(
    r"([-+]?)P(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:[.](\d{1,9}))?S)?)?", re.IGNORECASE
)


def reset(admin: Admin, given: Given) -> None:
    groups = chosen_groups(admin, given)
    planned: dict[str, Offsets] = {}
    for group in groups:
        state = state_of(admin, group)
        if state not in _RESETTABLE:
            print_error(
                f"Assignments can only be reset if the group '{group}' is inactive, but the current state is {state}."
            )
            planned[group] = {}
            continue
        planned[group] = plan(admin, given, group)
        if "execute" in given and "dry-run" not in given:
            commit = {each: CommittedOffset(offset) for each, offset in planned[group].items()}
            for fault in admin.commit_offsets(group, commit).values() if commit else ():
                if fault is not None:
                    raise fault
    if "export" in given:
        sys.stdout.write(_as_csv(planned) + "\n")
    else:
        _print(planned)


def plan(admin: Admin, given: Given, group: str) -> Offsets:
    """The new offsets of one group."""
    if "from-file" in given:
        wanted = _from_file(given.need("from-file"), group)
        return _within(admin, wanted)
    partitions = _partitions(admin, given, group)
    if "to-offset" in given:
        offset = given.number("to-offset") or 0
        return _within(admin, dict.fromkeys(partitions, offset))
    if "to-earliest" in given:
        return _listed(admin, dict.fromkeys(partitions, EARLIEST))
    if "to-latest" in given:
        return _listed(admin, dict.fromkeys(partitions, LATEST))
    committed = (
        {each: at.offset for each, at in admin.committed_offsets(group, partitions).items()} if partitions else {}
    )
    if "shift-by" in given:
        for partition in hash_order(partitions, partition_hash):
            if partition not in committed:
                raise Misuse(
                    f"Cannot shift offset for partition {partition} since there is no current committed offset"
                )
        by = given.number("shift-by") or 0
        return _within(admin, {each: committed[each] + by for each in partitions})
    if "to-current" in given:
        rest = [each for each in partitions if each not in committed]
        return _within(admin, {each: committed[each] for each in partitions if each in committed}) | _listed(
            admin, dict.fromkeys(rest, LATEST)
        )
    return _at_time(admin, partitions, _moment(given))


def _partitions(admin: Admin, given: Given, group: str) -> list[TopicPartition]:
    if "all-topics" in given:
        return list(admin.committed_offsets(group))
    if "topic" not in given:
        raise Misuse("One of the reset scopes should be defined: --all-topics, --topic.")
    partitions, missing = parse_topics(admin, given)
    if missing:
        raise NoSuchTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return partitions


def _listed(admin: Admin, specs: dict[TopicPartition, int]) -> Offsets:
    offsets: Offsets = {}
    for partition, found in admin.list_offsets(specs).items() if specs else ():
        if not isinstance(found, OffsetAtTime):
            raise found
        offsets[partition] = found.offset
    return offsets


def _within(admin: Admin, wanted: Offsets) -> Offsets:
    """Offsets moved into the range that the log keeps."""
    first = _listed(admin, dict.fromkeys(wanted, EARLIEST))
    end = _listed(admin, dict.fromkeys(wanted, LATEST))
    return {each: min(max(offset, first[each]), end[each]) for each, offset in wanted.items()}


def _at_time(admin: Admin, partitions: list[TopicPartition], moment_ms: int) -> Offsets:
    found = _listed(admin, dict.fromkeys(partitions, moment_ms))
    late = [each for each in hash_order(found, partition_hash) if found[each] < 0]
    for topic, number in late:
        sys.stdout.write(
            f"\nWarn: Partition {number} from topic {topic} is empty. Falling back to latest known offset.\n"
        )
    return found | _listed(admin, dict.fromkeys(late, LATEST))


def _moment(given: Given) -> int:
    """--to-datetime or --by-duration in milliseconds since 1970."""
    text = given.text("to-datetime")
    if text is not None:
        return parse_datetime(text)
    duration = given.need("by-duration")
    found = _DURATION.fullmatch(duration)
    if found is None or not any(found.groups()[1:]):
        raise Misuse(f"Text cannot be parsed to a Duration: {duration}")
    sign, days, hours, minutes, seconds, fraction = found.groups()
    total = (
        int(days or 0) * 86_400_000
        + int(hours or 0) * 3_600_000
        + int(minutes or 0) * 60_000
        + int(seconds or 0) * 1_000
        + int((fraction or "").ljust(3, "0")[:3])
    )
    return int(time.time() * 1000) - (-total if sign == "-" else total)


def parse_datetime(text: str) -> int:
    """`YYYY-MM-DDTHH:mm:SS.sss`, UTC unless an offset like +02:00 or Z follows."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Misuse(f"Error parsing timestamp: {text!r} is not like 2026-01-31T12:00:00.000") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def _from_file(path: str, group: str) -> Offsets:
    """CSV of topic,partition,offset or group,topic,partition,offset."""
    offsets: Offsets = {}
    for row in csv.reader(io.StringIO(text_of(path))):
        if not row:
            continue
        cells = row if len(row) == 4 else [group, *row]
        try:
            name, topic, number, offset = cells
            if name == group:
                offsets[TopicPartition(topic, int(number))] = int(offset)
        except ValueError:
            raise Misuse(f"{path}: not topic,partition,offset: {','.join(row)}") from None
    return offsets


def _as_csv(planned: dict[str, Offsets]) -> str:
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    several = len(planned) > 1
    for group in hash_order(planned, string_hash):
        for partition in hash_order(planned[group], partition_hash):
            line = [partition.topic, partition.partition, planned[group][partition]]
            lines.writerow([group, *line] if several else line)
    return out.getvalue()


def _print(planned: dict[str, Offsets]) -> None:
    groups = hash_order(planned, string_hash)
    rows = [
        (group, partition, planned[group][partition])
        for group in groups
        for partition in hash_order(planned[group], partition_hash)
    ]
    wide = max([15, *(len(group) for group, _, _ in rows)])
    topic_wide = max([15, *(len(partition.topic) for _, partition, _ in rows)])
    sys.stdout.write(f"\n{'GROUP':<{wide}} {'TOPIC':<{topic_wide}} {'PARTITION':<10} NEW-OFFSET\n")
    for group, partition, offset in rows:
        sys.stdout.write(f"{group:<{wide}} {partition.topic:<{topic_wide}} {partition.partition:<10} {offset}\n")
