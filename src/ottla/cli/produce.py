"""`ottla produce`: records from arguments, standard input or a file."""

from __future__ import annotations

import base64
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from ottla.cli.faults import BadInput, Misuse
from ottla.cli.options import Given, Option
from ottla.cli.own import Command, pairs, print_json, wants_json
from ottla.client.model import Header

if TYPE_CHECKING:
    from ottla.client.blocking.producer import Delivery, Producer
    from ottla.client.produce.accumulator import Delivered

_CODECS = "none|gzip|snappy|lz4|zstd"


class _Outgoing(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: list[Header]
    partition: int | None = None
    timestamp: int | None = None


def command(arguments: Sequence[str]) -> int:
    return COMMAND.run(arguments)


def _produce(given: Given) -> int:
    from ottla.cli.connect import client_settings, read_properties
    from ottla.cli.kafka.client_options import producer_settings
    from ottla.client.blocking.producer import Producer

    path = given.text("command-config")
    properties = {
        "acks": given.need("acks"),
        "compression.type": given.need("compression"),
        "partitioner": given.need("partitioner"),
        "batch.size": "131072",
        **({"transactional.id": given.need("transactional-id")} if "transactional-id" in given else {}),
        **(read_properties(path) if path else {}),
        **pairs(given.all("property")),
    }
    topic, values = _topic(given)
    try:
        producer = Producer(
            given.need("bootstrap-server"),
            producer=producer_settings(properties),
            settings=client_settings(properties),
        )
    except ValueError as fault:
        raise Misuse(str(fault)) from None
    with producer:
        records = _records(given, values)
        send_all = _all_or_none if producer.producer_settings.transactional_id is not None else _one_by_one
        delivered = send_all(producer, topic, records)
    if wants_json(given):
        print_json([each._asdict() for each in delivered])
        return 0
    counts = Counter(each.partition for each in delivered)
    spread = ", ".join(f"{count} to partition {partition}" for partition, count in sorted(counts.items()))
    sys.stderr.write(f"wrote {len(delivered)} records to {topic}{f' ({spread})' if spread else ''}\n")
    return 0


def _one_by_one(producer: Producer, topic: str, records: Iterator[_Outgoing]) -> list[Delivered]:
    deliveries: list[Delivery] = []
    try:
        deliveries.extend(_send(producer, topic, record) for record in records)
    except BadInput as fault:
        producer.flush()
        written = len([delivery.result() for delivery in deliveries])
        before = "the record before it is" if written == 1 else f"the {written} records before it are"
        raise BadInput(f"{fault}; {before if written else 'nothing is'} written to {topic}") from None
    producer.flush()
    return [delivery.result() for delivery in deliveries]


def _all_or_none(producer: Producer, topic: str, records: Iterator[_Outgoing]) -> list[Delivered]:
    """In one transaction: after any error nothing of it is there for readers of committed records."""
    producer.init_transactions()
    try:
        with producer.transaction():
            deliveries = [_send(producer, topic, record) for record in records]
    except BadInput as fault:
        raise BadInput(f"{fault}; the transaction is aborted: nothing is written to {topic}") from None
    return [delivery.result() for delivery in deliveries]


def _send(producer: Producer, topic: str, record: _Outgoing) -> Delivery:
    return producer.produce(
        topic,
        record.value,
        record.key,
        headers=record.headers,
        partition=record.partition,
        timestamp=record.timestamp,
    )


def _topic(given: Given) -> tuple[str, list[str]]:
    """The topic and the values: `-t TOPIC VALUE...` or `TOPIC VALUE...`."""
    named = given.text("topic")
    if named is None and not given.words:
        raise Misuse("which topic?")
    return (named, given.words) if named is not None else (given.words[0], given.words[1:])


def _records(given: Given, values: Sequence[str]) -> Iterator[_Outgoing]:
    """Values on the command line, else lines of the file or of standard input."""
    headers: list[Header] = [(name, value.encode()) for name, value in pairs(given.all("header")).items()]
    key = given.text("key")
    common = _Outgoing(key.encode() if key is not None else None, None, headers, given.number("partition"))
    if values:
        return (common._replace(value=word.encode()) for word in values)
    if "tombstone" in given:
        return iter([common])
    path = given.text("file")
    source: BinaryIO = open(path, "rb") if path is not None else sys.stdin.buffer  # noqa: SIM115
    lines = (line.removesuffix(b"\n") for line in source)
    if "input" in given and given.need("input") == "json":
        return (_from_json(line, common) for line in lines if line.strip())
    if "input" in given and given.need("input") != "lines":
        raise Misuse(f"--input is lines or json, not {given.need('input')}")
    separator = given.text("key-separator")
    return _from_lines(lines, common, separator.encode().decode("unicode_escape").encode() if separator else None)


def _from_lines(lines: Iterable[bytes], common: _Outgoing, separator: bytes | None) -> Iterator[_Outgoing]:
    for number, line in enumerate(lines, 1):
        if separator is None:
            yield common._replace(value=line)
            continue
        key, found, value = line.partition(separator)
        if not found:
            raise BadInput(
                f"line {number} has no key separator {separator.decode()!r}: {line.decode('utf-8', 'replace')}"
            )
        yield common._replace(key=key, value=value)


def _from_json(line: bytes, common: _Outgoing) -> _Outgoing:
    """A line as `ottla consume --format json` prints it; topic and offset are not looked at."""
    try:
        content = json.loads(line)
        headers = [(str(name), _bytes(value)) for name, value in content.get("headers", [])]
        partition = content.get("partition") if common.partition is None else common.partition
        return _Outgoing(
            _bytes(content.get("key"), content.get("key_base64")),
            _bytes(content.get("value"), content.get("value_base64")),
            headers + common.headers,
            partition,
            content.get("timestamp"),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as fault:
        raise BadInput(f"not a record in JSON ({fault}): {line.decode('utf-8', 'replace')[:200]}") from None


def _bytes(text: Any, encoded: str | None = None) -> bytes | None:
    if encoded is not None:
        return base64.b64decode(encoded)
    if text is None or isinstance(text, str):
        return None if text is None else text.encode()
    return json.dumps(text, separators=(",", ":")).encode()


COMMAND = Command(
    "ottla produce TOPIC [VALUE...] [-k KEY] [-H NAME=VALUE] [-p N] [--key-separator S] [--file FILE]",
    "Write records: values given here, else one per line of standard input.",
    _produce,
    [
        Option("topic", "The topic, where it is not the first word.", "TOPIC", short="t"),
        Option("key", "The key of every record.", "KEY", short="k"),
        Option("key-separator", "Lines are KEY, this, VALUE.", "TEXT", short="K"),
        Option("header", "A header; may come several times.", "NAME=VALUE", short="H"),
        Option("partition", "Write to this partition.", "N", "Integer", short="p"),
        Option("file", "Read this file instead of standard input.", "FILE", short="f"),
        Option("input", "lines, or json as `ottla consume --format json` prints.", "lines|json", default="lines"),
        Option("tombstone", "Write one record without a value."),
        Option("compression", "How batches are compressed.", _CODECS, default="none", short="z"),
        Option("acks", "all, 1 or 0.", "ACKS", default="all"),
        Option("transactional-id", "Write all records in one transaction under this id, or none.", "ID"),
        Option(
            "partitioner",
            "murmur2 as Java's client; consistent_random as librdkafka's default; consistent, random.",
            "NAME",
            default="murmur2",
        ),
        Option("property", "A producer option of Kafka's.", "KEY=VALUE", short="X"),
    ],
    words=(0, 100_000),
)
