"""`ottla consume`: records of topics, alone or in a group."""

from __future__ import annotations

import base64
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.cli.command import Command, pairs, registry_beside_cluster, unescaped, wants_json
from ottla.cli.connect import client_settings, read_properties
from ottla.cli.consume_values import Aligned, ValuesOut
from ottla.cli.faults import Misuse
from ottla.cli.leaving import interrupted_by_signals, take_each
from ottla.cli.offsets import within
from ottla.cli.options import Given, Option
from ottla.cli.schemas import Decoding
from ottla.client.model import EARLIEST, LATEST, ConsumedRecord
from ottla.config.profiles import DEFAULT_REGISTRY
from ottla.kernel.ids import TopicPartition
from ottla.kernel.quantities import moment_ms
from ottla.kernel.terminal import colours

if TYPE_CHECKING:
    from ottla.client.blocking.consumer import Consumer

_VALUES = "%v\\n"
_PLACES = frozenset("tpokvhTS%")


def command(arguments: Sequence[str]) -> int:
    return COMMAND.run(arguments)


def _consume(given: Given) -> int:
    from ottla.cli.kafka.client_options import consumer_settings
    from ottla.client.blocking.runs import RunConsumer

    start = _start(given)
    if "count" in given and given.count("count") < 1:
        raise Misuse("--count is at least 1")
    topics = [*given.all("topic"), *given.words]
    if not topics:
        raise Misuse("which topic?")
    path = given.text("command-config")
    by_flags: dict[str, str] = {}
    if "from" in given or "from-beginning" in given:
        by_flags["auto.offset.reset"] = "earliest" if start == "beginning" else "latest"
    if "committed" in given:
        by_flags["isolation.level"] = "read_committed"
    properties = {**(read_properties(path) if path else {}), **by_flags, **pairs(given.all("property"))}
    if "group" in given:
        properties["group.id"] = given.need("group")
    show = as_json if wants_json(given) else template(given.need("output"))
    if "registry" in given and "schema" not in given:
        raise Misuse("--registry goes with --schema, which decodes values")
    decoding = Decoding(registry_beside_cluster(given)) if "schema" in given else None
    if decoding is not None and "output" not in given and not wants_json(given) and colours(sys.stdout):
        show = Aligned().show
    only_values = given.need("output") == _VALUES and not wants_json(given) and decoding is None
    try:
        consumer = RunConsumer(
            given.need("bootstrap-server"), consumer=consumer_settings(properties), settings=client_settings(properties)
        )
    except ValueError as fault:
        raise Misuse(str(fault)) from None
    with interrupted_by_signals(), consumer:
        ends = _place(consumer, given, topics, start)
        if only_values:
            ValuesOut(consumer, ends, given.number("count"), given.duration_ms("timeout")).read()
        else:
            _read(consumer, given, ends, show, decoding)
    return 0


def _start(given: Given) -> str:
    """The place where to begin; Misuse where it would be without effect."""
    if "from-beginning" in given and "from" in given:
        raise Misuse("give --from-beginning or --from, not both")
    start = "beginning" if "from-beginning" in given else given.need("from")
    if "group" in given and start not in ("beginning", "end"):
        raise Misuse(
            "a group goes on where it has committed: beside --group, --from is beginning or end, for partitions "
            "without a commit; `ottla group reset` moves a group"
        )
    return start


def _place(consumer: Consumer, given: Given, topics: Sequence[str], start: str) -> dict[TopicPartition, int]:
    """Subscribe or assign; with --exit the offsets at which to stop."""
    if "group" in given:
        if "partition" in given or "exit" in given:
            raise Misuse("--group shares partitions with others: it goes with neither --partition nor --exit")
        consumer.subscribe(topics)
        return {}
    partitions = _partitions(consumer, topics, _wanted(given))
    isolation = consumer.core.settings.fetch.isolation_level
    ends = {each: at.offset for each, at in consumer.cluster.list_offsets(partitions, LATEST, isolation).items()}
    consumer.assign(partitions)
    for place, offset in _starts(consumer, partitions, start, ends).items():
        consumer.seek(place, offset)
    return ends if "exit" in given else {}


def _wanted(given: Given) -> set[int]:
    """The numbers of --partition; empty if all partitions are meant."""
    texts = [number.strip() for text in given.all("partition") for number in text.split(",")]
    for text in texts:
        if not (text.isascii() and text.isdecimal()):
            raise Misuse(f"{text!r} is not a partition: write --partition 0 or --partition 0,2")
    return set(map(int, texts))


def _partitions(consumer: Consumer, topics: Sequence[str], wanted: set[int]) -> list[TopicPartition]:
    """The partitions of these topics with these numbers; Misuse where no topic has one of them."""
    every = [place for topic in topics for place in consumer.cluster.partitions(topic)]
    missing = wanted - {place.partition for place in every}
    if missing:
        raise Misuse(f"there is no partition {', '.join(map(str, sorted(missing)))} in {', '.join(topics)}")
    return [place for place in every if not wanted or place.partition in wanted]


def _starts(
    consumer: Consumer, partitions: Sequence[TopicPartition], start: str, ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """`beginning`, `end`, an offset, `-N` records before the end, or a time."""
    if start == "end":
        return dict(ends)
    first = {each: at.offset for each, at in consumer.cluster.list_offsets(partitions, EARLIEST).items()}
    if start == "beginning":
        return first
    if start.isdecimal():
        return {each: within(each, int(start), first[each], ends[each]) for each in partitions}
    if start.startswith("-") and start[1:].isdecimal():
        return {each: max(ends[each] - int(start[1:]), first[each]) for each in partitions}
    try:
        since_ms = moment_ms(start, int(time.time() * 1000))
    except ValueError as fault:
        raise Misuse(f"--from: {fault}; beginning, end and an offset do as well") from None
    found = consumer.cluster.list_offsets(partitions, since_ms)
    return {each: at.offset if at.offset >= 0 else ends[each] for each, at in found.items()}


def _read(
    consumer: Consumer,
    given: Given,
    ends: Mapping[TopicPartition, int],
    show: Callable[[ConsumedRecord], bytes],
    decoding: Decoding | None,
) -> None:
    limit, timeout_ms = given.number("count"), given.duration_ms("timeout")
    out = sys.stdout.buffer
    seen = 0
    last = time.monotonic()

    def take(record: ConsumedRecord) -> None:
        nonlocal seen
        if not ends or record.offset < ends[TopicPartition(record.topic, record.partition)]:
            out.write(show(record))
            seen += 1

    while True:
        if ends and all(consumer.position(each) >= end for each, end in ends.items()):
            break
        if limit is not None and seen >= limit:
            break
        records = consumer.poll(200, None if limit is None else min(limit - seen, 500))
        take_each(consumer, records, take, decoding.decoded if decoding is not None else None)
        out.flush()
        now = time.monotonic()
        if records:
            last = now
        elif timeout_ms is not None and (now - last) * 1000 > timeout_ms:
            break


def as_json(record: ConsumedRecord) -> bytes:
    """One line of JSON; bytes that are not UTF-8 are Base64 under `key_base64`, `value_base64`, `headers_base64`."""
    content: dict[str, object] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
    }
    for name, raw in (("key", record.key), ("value", record.value)):
        try:
            content[name] = None if raw is None else raw.decode()
        except UnicodeDecodeError:
            content[f"{name}_base64"] = base64.b64encode(raw or b"").decode()
    if record.headers:
        try:
            content["headers"] = [[name, None if value is None else value.decode()] for name, value in record.headers]
        except UnicodeDecodeError:
            content["headers_base64"] = [
                [name, None if value is None else base64.b64encode(value).decode()] for name, value in record.headers
            ]
    return (json.dumps(content, ensure_ascii=False) + "\n").encode()


def template(text: str) -> Callable[[ConsumedRecord], bytes]:
    """%t topic, %p partition, %o offset, %k key, %v value, %h headers, %T timestamp, %S size of the value."""
    pieces: list[str] = unescaped(text).split("%")
    literal, parts = pieces[0], []
    rest = pieces[1:]
    while rest:
        piece = rest.pop(0)
        if not piece and rest:
            parts.append(("%", rest.pop(0)))
            continue
        if piece[:1] not in _PLACES:
            raise Misuse(f"%{piece[:1]} means nothing in --output: there are %t %p %o %k %v %h %T %S %%")
        parts.append((piece[0], piece[1:]))

    def show(record: ConsumedRecord) -> bytes:
        out = bytearray(os.fsencode(literal))
        for place, after in parts:
            out += _told(record, place)
            out += os.fsencode(after)
        return bytes(out)

    return show


def _told(record: ConsumedRecord, place: str) -> bytes:
    if place == "k":
        return b"null" if record.key is None else record.key
    if place == "v":
        return b"null" if record.value is None else record.value
    if place == "h":
        return b",".join(name.encode() + b"=" + (b"null" if value is None else value) for name, value in record.headers)
    numbers = {
        "t": record.topic,
        "p": record.partition,
        "o": record.offset,
        "T": record.timestamp,
        "S": -1 if record.value is None else len(record.value),
        "%": "%",
    }
    return str(numbers[place]).encode()


COMMAND = Command(
    "ottla consume TOPIC... [--from WHERE] [-n N] [-e] [-g GROUP] [-o '%k: %v\\n']",
    "Print records as they come; -e stops at the end as it is now, -n after so many.",
    _consume,
    [
        Option(
            "from",
            "beginning, end, an offset, -N records before the end, or a time: -1h, yesterday, 2026-01-31T12:00:00.",
            "WHERE",
            default="end",
        ),
        Option("topic", "A topic, beside those that are words.", "TOPIC", short="t"),
        Option("from-beginning", "As --from beginning."),
        Option("group", "Read as a member of this group.", "GROUP", short="g"),
        Option("partition", "Only these partitions, with commas.", "N", short="p"),
        Option("count", "Stop after so many records.", "N", "Long", short="n"),
        Option("exit", "Stop at what is the end now.", short="e"),
        Option("timeout", "Stop when nothing came for so long: 5s, or milliseconds.", "TIME", "Duration", bare="ms"),
        Option("committed", "Leave out records of open and aborted transactions."),
        Option("schema", "Show values in JSON, decoded by the schemas of a registry that they name."),
        Option("registry", f"The registry of --schema. Default: that of the profile, or {DEFAULT_REGISTRY}.", "URL"),
        Option("output", "%t %p %o %k %v %h %T %S in a text.", "TEMPLATE", default=_VALUES, short="o"),
        Option("property", "A consumer option of Kafka's.", "KEY=VALUE", short="X"),
    ],
    words=(0, 1000),
)
