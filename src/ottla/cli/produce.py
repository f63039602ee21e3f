"""`ottla produce`: records from arguments, standard input or a file."""

from __future__ import annotations

import base64
import json
import os
import sys
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from ottla.cli.command import Command, counted, pairs, print_json, unescaped, wants_json
from ottla.cli.faults import BadInput, Misuse, explain
from ottla.cli.leaving import interrupted_by_signals
from ottla.cli.options import Given, Option
from ottla.client.errors import ClientError
from ottla.client.model import Header
from ottla.kernel.errors import ApiError

if TYPE_CHECKING:
    from ottla.client.blocking.producer import Delivery, Producer
    from ottla.client.produce.accumulator import Delivered

_CODECS = "none|gzip|snappy|lz4|zstd"
_PROPERTIES = {
    "acks": "acks",
    "compression": "compression.type",
    "partitioner": "partitioner",
    "transactional-id": "transactional.id",
}
"""Options of the command that are properties of a producer. Where they are given they count more than a file's."""


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
        **{name: given.need(option) for option, name in _PROPERTIES.items() if given.text(option) is not None},
        "batch.size": "131072",
        **(read_properties(path) if path else {}),
        **{name: given.need(option) for option, name in _PROPERTIES.items() if option in given},
        **pairs(given.all("property")),
    }
    topic, values = _topic(given)
    _check(given, values)
    try:
        producer = Producer(
            given.need("bootstrap-server"),
            producer=producer_settings(properties),
            settings=client_settings(properties),
        )
    except ValueError as fault:
        raise Misuse(str(fault)) from None
    outcomes = _Outcomes(keep=wants_json(given))
    with interrupted_by_signals(), producer:
        records = _records(given, values)
        send_all = _all_or_none if producer.producer_settings.transactional_id is not None else _one_by_one
        code = send_all(producer, topic, records, outcomes)
    if code == 0 and wants_json(given):
        print_json([each._asdict() for each in outcomes.kept])
    elif code == 0:
        spread = ", ".join(f"{count} to partition {index}" for index, count in sorted(outcomes.written.items()))
        wrote = counted(outcomes.written.total(), "record")
        sys.stderr.write(f"wrote {wrote} to {topic}{f' ({spread})' if spread else ''}\n")
    return code


class _Outcomes:
    """The outcomes of the records that were sent. A record is forgotten once its outcome is known, unless it is kept.

    An input without an end thus takes bounded memory, and its first failure is raised while it goes on.
    """

    def __init__(self, *, keep: bool) -> None:
        self.written: Counter[int] = Counter()
        """The number of records by partition."""
        self.kept: list[Delivered] = []
        self._keep = keep
        self._waiting: deque[Delivery] = deque()

    def add(self, delivery: Delivery) -> None:
        """Take a record that was sent; raises the error of an earlier one."""
        self._waiting.append(delivery)
        while self._waiting and self._waiting[0].done:
            self._take()

    def finish(self) -> None:
        """Wait for all sent records; raise the first error."""
        while self._waiting:
            self._take()

    def count_failed(self) -> int:
        """Wait for all sent records without an outcome yet; return the number of failed ones."""
        failed = 0
        while self._waiting:
            try:
                self._take()
            except (ApiError, ClientError):
                failed += 1
        return failed

    def _take(self) -> None:
        one = self._waiting.popleft().result()
        self.written[one.partition] += 1
        if self._keep:
            self.kept.append(one)


def _one_by_one(producer: Producer, topic: str, records: Iterator[_Outgoing], outcomes: _Outcomes) -> int:
    """Send records, each for itself; the exit code."""
    try:
        for record in records:
            outcomes.add(_send(producer, topic, record))
        producer.flush()
        outcomes.finish()
    except BadInput as fault:
        producer.flush()
        outcomes.finish()
        written = outcomes.written.total()
        before = "the record before it is" if written == 1 else f"the {written} records before it are"
        raise BadInput(f"{fault}; {before if written else 'nothing is'} written to {topic}") from None
    except (ApiError, ClientError) as fault:
        producer.flush()
        failed = outcomes.count_failed()
        written = outcomes.written.total()
        if not written and not failed:
            raise
        others = f"; {counted(failed, 'more record')} failed" if failed else ""
        how_many = f"{counted(written, 'record')} {'is' if written == 1 else 'are'}"
        sys.stderr.write(f"{explain(fault)}{others}; {how_many} written to {topic}\n")
        return 1
    return 0


def _all_or_none(producer: Producer, topic: str, records: Iterator[_Outgoing], outcomes: _Outcomes) -> int:
    """Send in one transaction: after any error readers of committed records see nothing of it."""
    producer.init_transactions()
    try:
        with producer.transaction():
            for record in records:
                outcomes.add(_send(producer, topic, record))
    except BadInput as fault:
        raise BadInput(f"{fault}; the transaction is aborted: nothing is written to {topic}") from None
    outcomes.finish()
    return 0


def _send(producer: Producer, topic: str, record: _Outgoing) -> Delivery:
    """Hand a record to the producer; BadInput if the topic has no such partition, or the time is impossible."""
    try:
        return producer.produce(
            topic,
            record.value,
            record.key,
            headers=record.headers,
            partition=record.partition,
            timestamp=record.timestamp,
        )
    except ValueError as fault:
        raise BadInput(str(fault)) from None


def _topic(given: Given) -> tuple[str, list[str]]:
    """The topic and the values: `-t TOPIC VALUE...` or `TOPIC VALUE...`."""
    named = given.text("topic")
    if named is None and not given.words:
        raise Misuse("which topic?")
    return (named, given.words) if named is not None else (given.words[0], given.words[1:])


def _records(given: Given, values: Sequence[str]) -> Iterator[_Outgoing]:
    """Values on the command line, else lines of the file or of standard input."""
    headers: list[Header] = [(name, os.fsencode(value)) for name, value in pairs(given.all("header")).items()]
    key = given.text("key")
    common = _Outgoing(os.fsencode(key) if key is not None else None, None, headers, given.number("partition"))
    if values:
        return (common._replace(value=os.fsencode(word)) for word in values)
    if "tombstone" in given:
        return iter([common])
    path = given.text("file")
    source: BinaryIO = open(path, "rb") if path is not None else sys.stdin.buffer  # noqa: SIM115
    lines = (line.removesuffix(b"\n").removesuffix(b"\r") for line in source)
    if given.need("input") == "json":
        return (_from_json(line, common) for line in lines if line.strip())
    separator = given.text("key-separator")
    return _from_lines(lines, common, None if separator is None else os.fsencode(unescaped(separator)))


def _check(given: Given, values: Sequence[str]) -> None:
    """Refuse options that would be without effect beside others."""
    if given.need("input") not in ("lines", "json"):
        raise Misuse(f"--input is lines or json, not {given.need('input')}")
    if given.text("key-separator") == "":
        raise Misuse("--key-separator is empty")
    is_json = given.need("input") == "json"
    beside = {
        "VALUE": ("tombstone", "file", "input", "key-separator") if values else (),
        "--tombstone": ("file", "input", "key-separator") if "tombstone" in given else (),
        "--input json": ("key", "key-separator") if is_json else (),
        "--key-separator": ("key",) if "key-separator" in given else (),
    }
    for one, others in beside.items():
        for other in others:
            if other in given:
                raise Misuse(f"{one} goes without --{other}, which would have no effect")


def _from_lines(lines: Iterable[bytes], common: _Outgoing, separator: bytes | None) -> Iterator[_Outgoing]:
    for number, line in enumerate(lines, 1):
        if separator is None:
            yield common._replace(value=line)
            continue
        key, found, value = line.partition(separator)
        if not found:
            raise BadInput(
                f"line {number} has no key separator {os.fsdecode(separator)!r}: {line.decode('utf-8', 'replace')}"
            )
        yield common._replace(key=key, value=value)


def _from_json(line: bytes, common: _Outgoing) -> _Outgoing:
    """A line as `ottla consume --format json` prints it; topic and offset are ignored."""
    try:
        content = json.loads(line)
        if not isinstance(content, dict):
            raise ValueError("it is no object")
        partition = _whole_number(content, "partition")
        return _Outgoing(
            _bytes(content.get("key"), content.get("key_base64")),
            _bytes(content.get("value"), content.get("value_base64")),
            [*_headers(content), *common.headers],
            partition if common.partition is None else common.partition,
            _whole_number(content, "timestamp"),
        )
    except (ValueError, RecursionError) as fault:
        raise BadInput(f"not a record in JSON ({fault}): {line.decode('utf-8', 'replace')[:200]}") from None


def _whole_number(content: dict[str, Any], name: str) -> int | None:
    found = content.get(name)
    if found is not None and (not isinstance(found, int) or isinstance(found, bool)):
        raise ValueError(f"its {name} is no whole number")
    return found


def _headers(content: dict[str, Any]) -> list[Header]:
    """The members `headers` and `headers_base64`, lists of pairs."""
    found: list[Header] = []
    for member in ("headers", "headers_base64"):
        pairs_given = content.get(member) or []
        if not isinstance(pairs_given, list) or not all(isinstance(one, list) and len(one) == 2 for one in pairs_given):
            raise ValueError(f"its {member} are no list of [NAME, VALUE]")
        for name, value in pairs_given:
            if not isinstance(name, str):
                raise ValueError(f"a name in its {member} is no text")
            in_base64 = member == "headers_base64" and value is not None
            found.append((name, _bytes(None, value) if in_base64 else _bytes(value)))
    return found


def _bytes(text: Any, encoded: Any = None) -> bytes | None:
    if encoded is not None:
        if not isinstance(encoded, str):
            raise ValueError("Base64 is text")
        return base64.b64decode(encoded, validate=True)
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
