"""`kafka-console-producer`: lines of standard input become records."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import BinaryIO, NamedTuple

from ottla.cli.connect import client_settings, parse_pairs, read_properties
from ottla.cli.faults import Misuse
from ottla.cli.kafka.client_options import gather, producer_settings
from ottla.cli.leaving import interrupted_by_signals
from ottla.cli.options import Given, Option, Parser
from ottla.client.core.plan import parse_bootstrap
from ottla.client.errors import ClientError
from ottla.client.model import Header
from ottla.client.produce.accumulator import Delivered
from ottla.kernel.errors import ApiError

_LINE_READER = "org.apache.kafka.tools.LineMessageReader"

PARSER = Parser(
    "This tool helps to read data from standard input and publish it to Kafka.",
    [
        Option("topic", "REQUIRED: the topic to write to.", "topic"),
        Option("bootstrap-server", "REQUIRED: the brokers to connect to.", "server to connect to"),
        Option("sync", "Wait for each record before the next is read."),
        Option(
            "compression-codec",
            "none, gzip, snappy, lz4 or zstd; gzip where left out.",
            "compression-codec",
            optional=True,
        ),
        Option("batch-size", "Bytes of a batch.", "size", "Integer", default="16384"),
        Option(
            "message-send-max-retries",
            "Accepted; --command-property delivery.timeout.ms bounds retries.",
            "",
            "Integer",
            default="3",
        ),
        Option("retry-backoff-ms", "Pause before another attempt.", "", "Long", default="100"),
        Option("timeout", "How long a record may wait for others (linger).", "timeout_ms", "Long", default="1000"),
        Option("request-required-acks", "all, -1, 0 or 1.", "request required acks", default="-1"),
        Option("request-timeout-ms", "For one request.", "request timeout ms", "Integer", default="1500"),
        Option(
            "metadata-expiry-ms",
            "When metadata is refreshed.",
            "metadata expiration interval",
            "Long",
            default="300000",
        ),
        Option("max-block-ms", "How long sending may block.", "max block on send", "Long", default="60000"),
        Option(
            "max-memory-bytes", "Memory for records that wait.", "total memory in bytes", "Long", default="33554432"
        ),
        Option(
            "max-partition-memory-bytes",
            "As --batch-size (deprecated).",
            "memory in bytes per partition",
            "Integer",
            default="16384",
        ),
        Option("socket-buffer-size", "Accepted without effect.", "size", "Integer", default="102400"),
        Option("line-reader", f"Only {_LINE_READER}.", "reader_class", default=_LINE_READER),
        Option(
            "reader-property",
            "parse.key, key.separator, parse.headers, headers.delimiter, headers.separator, headers.key.separator, "
            "null.marker, ignore.error.",
            "prop",
        ),
        Option("property", "As --reader-property (deprecated).", "prop"),
        Option("reader-config", "File of reader properties.", "config file"),
        Option("command-property", "A producer option: key=value.", "producer_prop"),
        Option("producer-property", "As --command-property (deprecated).", "producer_prop"),
        Option("command-config", "File of producer options.", "config file"),
        Option("producer.config", "As --command-config (deprecated).", "config file"),
        Option(
            "partitioner", "Not Kafka's: murmur2, consistent (librdkafka's crc32), consistent_random, random.", "name"
        ),
    ],
)


class LineRecord(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: list[Header]


class LineReader:
    """Splits lines into headers, key and value as Kafka's LineMessageReader does."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._parse_key = _true(properties, "parse.key")
        self._parse_headers = _true(properties, "parse.headers")
        self._key_separator = properties.get("key.separator", "\t").encode()
        self._headers_delimiter = properties.get("headers.delimiter", "\t").encode()
        separator = properties.get("headers.separator", ",")
        self._headers_separator = _java_pattern(separator)
        self._header_key_separator = properties.get("headers.key.separator", ":").encode()
        self._ignore_error = _true(properties, "ignore.error")
        marker = properties.get("null.marker")
        self._null_marker = marker.encode() if marker is not None else None
        self._check(
            {
                "headers.delimiter": properties.get("headers.delimiter", "\t"),
                "headers.separator": separator,
                "headers.key.separator": properties.get("headers.key.separator", ":"),
            },
            properties.get("key.separator", "\t"),
            marker,
        )

    def _check(self, of_headers: Mapping[str, str], key_separator: str, marker: str | None) -> None:
        """Misuse where two texts that part a line are the same, or the null marker is one of them."""
        for one, other in combinations(of_headers, 2):
            if of_headers[one] == of_headers[other]:
                raise Misuse(f"{one} and {other} may not be equal")
        marked = ("key.separator", "headers.separator", "headers.delimiter", "headers.key.separator")
        texts = {"key.separator": key_separator, **of_headers}
        for name in marked:
            if texts[name] == marker:
                raise Misuse(f"null.marker and {name} may not be equal")

    def read(self, lines: BinaryIO, *, prompt: bool) -> Iterator[LineRecord]:
        number = 0
        while True:
            if prompt:
                sys.stdout.write(">")
                sys.stdout.flush()
            line = lines.readline()
            if not line:
                return
            for part in line.removesuffix(b"\n").removesuffix(b"\r").split(b"\r"):  # Java's lines end with \r, too
                number += 1
                yield self.parse(part, number)

    def parse(self, line: bytes, number: int) -> LineRecord:
        """One line; Misuse if a separator is missing."""
        headers: list[Header] = []
        rest = line
        if self._parse_headers:
            head, found, rest = self._cut(line, self._headers_delimiter, number, "headers delimiter", line)
            if found and head != self._null_marker:
                headers = [self._header(part, number) for part in _java_split(self._headers_separator, head)]
        key: bytes | None = None
        value: bytes | None = rest
        if self._parse_key:
            first, found, last = self._cut(rest, self._key_separator, number, "key separator", line)
            if found:
                key, value = first, last
            else:
                value = rest
        if self._null_marker is not None:
            key = None if key == self._null_marker else key
            value = None if value == self._null_marker else value
        return LineRecord(key, value, headers)

    def _cut(self, text: bytes, mark: bytes, number: int, what: str, line: bytes) -> tuple[bytes, bytes, bytes]:
        head, found, rest = text.partition(mark)
        if not found and not self._ignore_error:
            raise Misuse(f"No {what} found on line number {number}: '{line.decode('utf-8', 'replace')}'")
        return (head, found, rest) if found else (b"", b"", text)

    def _header(self, part: bytes, number: int) -> Header:
        name, found, content = part.partition(self._header_key_separator)
        if not found and not self._ignore_error:
            raise Misuse(
                f"No header key separator found in pair '{part.decode('utf-8', 'replace')}' on line number {number}"
            )
        if found and name == self._null_marker:
            raise Misuse(
                f"Header keys should not be equal to the null marker '{name.decode('utf-8', 'replace')}' as they can't "
                "be null"
            )
        value = None if self._null_marker is not None and content == self._null_marker else content
        return name.decode("utf-8", "replace"), value if found else None


def _java_pattern(text: str) -> re.Pattern[bytes]:
    """The separator as the pattern that Kafka's reader takes it for."""
    try:
        return re.compile(text.encode())
    except re.error as fault:
        raise Misuse(f"headers.separator {text!r} is not a regular expression: {fault}") from None


def _java_split(pattern: re.Pattern[bytes], text: bytes) -> list[bytes]:
    """`Pattern.split` of Java: empty parts at the end are left out, and one before a match of nothing at the start."""
    parts, at = [], 0
    for found in pattern.finditer(text):
        if found.end() > 0:
            parts.append(text[at : found.start()])
            at = found.end()
    if not parts:
        return [text]
    parts.append(text[at:])
    while parts and not parts[-1]:
        parts.pop()
    return parts


def _true(properties: Mapping[str, str], name: str) -> bool:
    return properties.get(name, "false").strip().lower() == "true"


def command(arguments: Sequence[str]) -> int:
    given = PARSER.read(arguments)
    PARSER.need(given, "topic")
    _exclusive_aliases(given)
    try:
        parse_bootstrap(given.text("bootstrap-server") or "")
    except ValueError:
        named = "bootstrap-server" in given
        what = "Please provide valid host:port like host1:9091,host2:9092\n" if named else ""
        PARSER.usage(what or "Error while validating the bootstrap address\n")
    try:
        with interrupted_by_signals():
            return _run(given)
    except Misuse as fault:
        sys.stdout.flush()
        sys.stderr.write(f"org.apache.kafka.common.KafkaException: {fault}\n")
        return 1


def _exclusive_aliases(given: Given) -> None:
    """Refuse deprecated options beside their replacements; else warn."""
    for new, old in (
        ("command-property", "producer-property"),
        ("command-config", "producer.config"),
        ("reader-property", "property"),
        ("batch-size", "max-partition-memory-bytes"),
    ):
        if new in given and old in given:
            PARSER.usage(f"Options --{new} and --{old} cannot be specified together.")
        if old in given:
            sys.stdout.write(
                f"Warning: --{old} is deprecated and will be removed in a future version. Use --{new} instead.\n"
            )
    if given.text("line-reader") != _LINE_READER:
        PARSER.usage(f"Only the line reader {_LINE_READER} is there, not {given.text('line-reader')}")


def _properties(given: Given) -> dict[str, str]:
    properties = {
        "acks": given.need("request-required-acks"),
        "linger.ms": given.need("timeout"),
        "batch.size": given.need(
            "max-partition-memory-bytes" if "max-partition-memory-bytes" in given else "batch-size"
        ),
        "buffer.memory": given.need("max-memory-bytes"),
        "max.block.ms": given.need("max-block-ms"),
        "request.timeout.ms": given.need("request-timeout-ms"),
        "retry.backoff.ms": given.need("retry-backoff-ms"),
        "metadata.max.age.ms": given.need("metadata-expiry-ms"),
        "client.id": "console-producer",
    }
    if "compression-codec" in given:
        properties["compression.type"] = given.text("compression-codec") or "gzip"
    named = gather(given, ("command-config", "producer.config"), ("producer-property", "command-property"))
    if "partitioner" in given:
        named["partitioner"] = given.need("partitioner")
    for option, name in (("timeout", "linger.ms"), ("request-required-acks", "acks")):
        if option in given:
            named.pop(name, None)
    return properties | named


def _run(given: Given) -> int:
    from ottla.client.blocking.producer import Producer

    properties = _properties(given)
    reader_properties = read_properties(given.need("reader-config"), trim=False) if "reader-config" in given else {}
    reader = LineReader(reader_properties | parse_pairs(given.all("property") + given.all("reader-property")))
    topic, sync = given.need("topic"), "sync" in given
    failures: list[Exception] = []

    def ended(outcome: Delivered | Exception) -> None:
        if isinstance(outcome, Exception):
            failures.append(outcome)
            sys.stderr.write(f"Error when sending message to topic {topic}: {outcome}\n")

    producer = Producer(
        given.need("bootstrap-server"),
        producer=producer_settings(properties),
        settings=client_settings({k: v for k, v in properties.items() if k != "request.timeout.ms"}),
    )
    with producer:
        for record in reader.read(sys.stdin.buffer, prompt=sys.stdin.isatty()):
            try:
                delivery = producer.produce(
                    topic, record.value, record.key, headers=record.headers, on_delivery=None if sync else ended
                )
                if sync:
                    producer.flush()
                    delivery.result()
            except (ApiError, ClientError) as fault:
                ended(fault)
    return 0
