"""`ottla transaction`: lists transactions and the producers of a partition, and ends transactions that hang."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ottla.cli.command import Command, complain, connected, noun, print_json, print_table, wants_json
from ottla.cli.faults import Misuse
from ottla.cli.options import Given, Option
from ottla.client.model import ProducerIdentity
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition

if TYPE_CHECKING:
    from ottla.client.blocking.admin import Admin
    from ottla.messages.describe_producers import ProducerState


def command(arguments: Sequence[str]) -> int:
    return noun("transaction", VERBS, arguments)


def _list(given: Given) -> int:
    longer = given.duration_ms("longer-than")
    with connected(given) as admin:
        found = admin.list_transactions(
            states=given.all("state"),
            producer_ids=[_number(text) for text in given.all("producer-id")],
            longer_than_ms=-1 if longer is None else longer,
            pattern=given.text("pattern"),
        )
    found.sort(key=lambda each: each.transactional_id)
    rows = [[each.transactional_id, each.state, each.producer_id, each.coordinator] for each in found]
    if wants_json(given):
        print_json([dict(zip(("id", "state", "producer", "coordinator"), row, strict=True)) for row in rows])
    elif not rows:
        sys.stderr.write("there are no transactional ids\n" if len(given.values) <= 1 else "none is like that\n")
    else:
        print_table(["ID", "STATE", "PRODUCER", "COORDINATOR"], rows)
    return 0


def _describe(given: Given) -> int:
    with connected(given) as admin:
        described = admin.describe_transactions(given.words)
    found = [each for each in described.values() if not isinstance(each, ApiError)]
    now_ms = time.time() * 1000
    rows = [
        {
            "id": each.transactional_id,
            "state": each.state,
            "producer": each.producer_id,
            "epoch": each.producer_epoch,
            "coordinator": each.coordinator,
            "timeout_ms": each.timeout_ms,
            "open_ms": max(0, int(now_ms - each.started_ms)) if each.started_ms >= 0 else None,
            "partitions": [str(partition) for partition in sorted(each.partitions)],
        }
        for each in found
    ]
    if wants_json(given):
        print_json(rows)
    elif rows:
        titles = ["ID", "STATE", "PRODUCER", "EPOCH", "COORDINATOR", "TIMEOUT MS", "OPEN MS", "PARTITIONS"]
        print_table(titles, [[*list(row.values())[:-1], _joined(row["partitions"])] for row in rows])
    return _complain(given, described.values())


def _joined(partitions: object) -> str | None:
    assert isinstance(partitions, list)
    return ",".join(partitions) or None


def _complain(given: Given, outcomes: Iterable[object]) -> int:
    """Print the failures; return the exit code."""
    return 1 if sum(complain(given, each) for each in outcomes if isinstance(each, Exception)) else 0


def _producers(given: Given) -> int:
    with connected(given) as admin:
        partitions = _partitions(admin, given.words[0])
        described = admin.describe_producers(partitions, given.number("broker-id"))
    rows = [
        _producer_row(partition, each)
        for partition, producers in sorted(described.items())
        if not isinstance(producers, Exception)
        for each in producers
    ]
    _show(given, rows, "no producer is known there")
    return _complain(given, described.values())


def _producer_row(partition: TopicPartition, producer: ProducerState) -> dict[str, object]:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "producer": producer.producer_id,
        "epoch": producer.producer_epoch,
        "coordinator_epoch": producer.coordinator_epoch if producer.coordinator_epoch >= 0 else None,
        "last_sequence": producer.last_sequence if producer.last_sequence >= 0 else None,
        "last_timestamp": producer.last_timestamp if producer.last_timestamp >= 0 else None,
        "open_from": producer.current_txn_start_offset if producer.current_txn_start_offset >= 0 else None,
    }


def _show(given: Given, rows: Sequence[dict[str, object]], nothing: str) -> None:
    if wants_json(given):
        print_json(rows)
    elif not rows:
        sys.stderr.write(f"{nothing}\n")
    else:
        print_table([name.upper().replace("_", " ") for name in rows[0]], [list(row.values()) for row in rows])


def _find_hanging(given: Given) -> int:
    topics = given.all("topic") or None
    with connected(given) as admin:
        found = admin.hanging_transactions(
            given.duration_ms("older-than") or 0, topics=topics, broker=given.number("broker-id")
        )
    _show(given, [_producer_row(each.partition, each.producer) for each in found], "nothing hangs")
    return 0


def _abort(given: Given) -> int:
    start = given.number("start-offset")
    with connected(given) as admin:
        if start is None:
            _check_known(admin, given.words[0])
            admin.terminate_transaction(given.words[0])
            done = f"aborted what {given.words[0]} had open; its producer is fenced"
        else:
            (partition,) = _partitions(admin, given.words[0], most=1)
            _abort_at(admin, partition, start)
            done = f"aborted the transaction that began at offset {start} of {partition}"
    if wants_json(given):
        print_json({"aborted": given.words[0], "start_offset": start})
    else:
        sys.stdout.write(done + "\n")
    return 0


def _check_known(admin: Admin, name: str) -> None:
    """Refuse an id that no coordinator knows: fencing its producer would create it."""
    found = admin.describe_transactions([name])[name]
    if isinstance(found, ApiError) and found.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND and ":" in name:
        raise Misuse(
            f"there is no transactional id {name!r}; to end what hangs in a partition give its --start-offset too, "
            f"which `ottla transaction producers {name}` shows"
        )
    if isinstance(found, ApiError):
        raise found


def _abort_at(admin: Admin, partition: TopicPartition, start: int) -> None:
    producers = admin.describe_producers([partition])[partition]
    if isinstance(producers, Exception):
        raise producers
    for each in producers:
        if each.current_txn_start_offset == start:
            identity = ProducerIdentity(each.producer_id, each.producer_epoch)
            admin.abort_in_partition(partition, identity, max(each.coordinator_epoch, 0))
            return
    raise Misuse(f"no transaction that is open in {partition} begins at offset {start}")


def _partitions(admin: Admin, text: str, *, most: int = 1 << 31) -> list[TopicPartition]:
    """TOPIC, or TOPIC:0,1."""
    name, colon, numbers = text.partition(":")
    every = admin.cluster.partitions(name)
    wanted = numbers.split(",") if colon else [str(place.partition) for place in every]
    if not all(number.isdecimal() and int(number) < len(every) for number in wanted):
        raise Misuse(f"{text!r} is not TOPIC or TOPIC:PARTITION,... of a topic with {len(every)} partitions")
    if len(wanted) > most:
        raise Misuse(f"name one partition, as {name}:0")
    return [TopicPartition(name, int(number)) for number in wanted]


def _number(text: str) -> int:
    if not text.isdecimal():
        raise Misuse(f"{text!r} is not a producer id")
    return int(text)


_BROKER = Option("broker-id", "The broker to ask, of those that have a replica; default: each leader.", "ID", "Integer")

VERBS = {
    "list": Command(
        "ottla transaction list [--state STATE] [--longer-than TIME]",
        "List transactional ids.",
        _list,
        [
            Option("state", "Only of this state, such as Ongoing; may be repeated.", "STATE"),
            Option("producer-id", "Only of this producer id; may be repeated.", "ID", "Long"),
            Option("longer-than", "Only those that are open for longer, such as 90s.", "TIME", "Duration", bare="ms"),
            Option("pattern", "Only ids that match this regular expression as a whole.", "PATTERN"),
        ],
    ),
    "describe": Command(
        "ottla transaction describe ID...",
        "Show state, producer, and the partitions of an open transaction.",
        _describe,
        words=(1, 1000),
    ),
    "producers": Command(
        "ottla transaction producers TOPIC[:0,1]",
        "Show who writes to partitions, and the transactions that are open there.",
        _producers,
        [_BROKER],
        words=(1, 1),
    ),
    "find-hanging": Command(
        "ottla transaction find-hanging [--topic TOPIC] [--older-than TIME]",
        "Find open transactions that no coordinator will end: readers of committed records wait for ever there.",
        _find_hanging,
        [
            Option("topic", "Only this topic; may be repeated. Default: all.", "TOPIC", short="t"),
            Option(
                "older-than", "Only those whose last record is older.", "TIME", "Duration", default="15m", bare="ms"
            ),
            _BROKER,
        ],
    ),
    "abort": Command(
        "ottla transaction abort ID | TOPIC:PARTITION --start-offset OFFSET",
        "Abort what a transactional id has open and fence its producer; or end what hangs in a partition.",
        _abort,
        [Option("start-offset", "Where the hanging transaction begins in the partition.", "OFFSET", "Long")],
        words=(1, 1),
    ),
}
