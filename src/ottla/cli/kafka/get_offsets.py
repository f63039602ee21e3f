"""`kafka-get-offsets`: the offset of partitions at a time."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence

from ottla.cli.connect import admin_from
from ottla.cli.faults import Misuse
from ottla.cli.kafka.java_errors import java, told
from ottla.cli.kafka.topics import include_pattern
from ottla.cli.options import Option, Parser
from ottla.client.errors import ClientError
from ottla.client.model import OffsetAtTime
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition

_SPECS = {
    "latest": -1,
    "-1": -1,
    "earliest": -2,
    "-2": -2,
    "max-timestamp": -3,
    "-3": -3,
    "earliest-local": -4,
    "-4": -4,
    "latest-tiered": -5,
    "-5": -5,
    "earliest-pending-upload": -6,
    "-6": -6,
}
_RULE = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")

PARSER = Parser(
    "An interactive shell for getting topic-partition offsets.",
    [
        Option("bootstrap-server", "REQUIRED: the brokers to connect to.", "HOST1:PORT1,...,HOST3:PORT3"),
        Option(
            "topic-partitions", "Patterns like topic, topic:0, topic:0-3, :0.", "topic1:1,topic2:0-3,topic3,topic5:5-"
        ),
        Option("topic", "The topic; a regular expression.", "topic"),
        Option("partitions", "Partition numbers, with commas.", "partition ids"),
        Option(
            "time",
            "-1 or latest, -2 or earliest, -3 or max-timestamp, or milliseconds since 1970.",
            "<timestamp> / -1 or latest / -2 or earliest / -3 or max-timestamp",
            default="latest",
        ),
        Option("command-config", "Property file with client options.", "config file"),
        Option("exclude-internal-topics", "Leave internal topics out."),
    ],
)

Filter = Callable[[str, int], bool]


def command(arguments: Sequence[str]) -> int:
    given = PARSER.read(arguments)
    PARSER.need(given, "bootstrap-server")
    try:
        if "topic-partitions" in given and ("topic" in given or "partitions" in given):
            raise Misuse("--topic-partitions cannot be used with --topic or --partitions")
        spec = _spec(given.need("time"))
        rules = given.text("topic-partitions")
        wanted = _by_rules(rules) if rules is not None else _by_topic(given.text("topic"), given.text("partitions"))
        with admin_from(given.need("bootstrap-server"), given.text("command-config")) as admin:
            hidden = "exclude-internal-topics" in given
            partitions = sorted(
                TopicPartition(topic.name, index)
                for topic in admin.list_topics().values()
                if not (hidden and topic.is_internal)
                for index in topic.partitions
                if wanted(topic.name, index)
            )
            if not partitions:
                raise Misuse("Could not match any topic-partitions with the specified filters")
            offsets = admin.list_offsets(dict.fromkeys(partitions, spec))
            for partition, found in sorted(offsets.items(), key=_as_texts):
                _print(partition, found)
    except Misuse as fault:
        sys.stderr.write(f"Error occurred: {fault}\n")
        return 1
    except (ClientError, ApiError) as fault:
        sys.stderr.write(f"Error occurred: {told(fault)}\n")
        return 1
    return 0


def _as_texts(found: tuple[TopicPartition, object]) -> tuple[str, str]:
    """Kafka's tool orders partitions as texts: 0, 1, 10, 2."""
    return found[0].topic, str(found[0].partition)


def _print(partition: TopicPartition, found: OffsetAtTime | Exception) -> None:
    if isinstance(found, ApiError) and found.code is not ErrorCode.LEADER_NOT_AVAILABLE:
        sys.stderr.write(
            f"Skip getting offsets for topic-partition {partition} due to error: {java(found).split(': ', 1)[-1]}\n"
        )
    elif isinstance(found, OffsetAtTime) and found.offset >= 0:
        sys.stdout.write(f"{partition.topic}:{partition.partition}:{found.offset}\n")


def _spec(text: str) -> int:
    if text in _SPECS:
        return _SPECS[text]
    try:
        return int(text)
    except ValueError:
        raise Misuse(
            f"Malformed time argument {text}. Please use -1 or latest / -2 or earliest / -3 or max-timestamp / "
            "-4 or earliest-local / -5 or latest-tiered / -6 or earliest-pending-upload, "
            "or a specified long format timestamp"
        ) from None


def _by_topic(topic: str | None, partitions: str | None) -> Filter:
    pattern = include_pattern(topic) if topic is not None else None
    try:
        numbers = {int(text) for text in partitions.split(",") if text} if partitions else None
    except ValueError:
        bad = next(text for text in (partitions or "").split(",") if not text.isdecimal())
        raise Misuse(
            f"--partitions expects a comma separated list of numeric partition ids, but received: {partitions}"
            if bad
            else ""
        ) from None
    return lambda name, index: (pattern is None or bool(pattern.fullmatch(name))) and (not numbers or index in numbers)


def _by_rules(text: str) -> Filter:
    """`topic:1-3`: partitions 1 and 2 of topics that match; any part may be left out."""
    filters: list[tuple[re.Pattern[str] | None, int, int]] = []
    for rule in text.split(","):
        found = _RULE.fullmatch(rule)
        if found is None or not rule:
            raise Misuse(f"Invalid rule specification: {rule}")
        topic, single, low, high = found.groups()
        pattern = include_pattern(topic) if topic else None
        if single:
            filters.append((pattern, int(single), int(single) + 1))
        else:
            filters.append((pattern, int(low) if low else 0, int(high) if high else 2**31))
    return lambda name, index: any(
        (pattern is None or pattern.fullmatch(name)) and low <= index < high for pattern, low, high in filters
    )
