"""`kafka-console-consumer`: records to standard output, one per line."""

from __future__ import annotations

import struct
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import BinaryIO

from ottla.cli.connect import client_settings, parse_pairs, read_properties
from ottla.cli.faults import Misuse
from ottla.cli.kafka.client_options import consumer_settings, gather
from ottla.cli.kafka.topics import include_pattern
from ottla.cli.leaving import interrupted_by_signals, take_each
from ottla.cli.options import Given, Option, Parser
from ottla.client.blocking.consumer import Consumer
from ottla.client.model import EARLIEST, LATEST, ConsumedRecord
from ottla.kernel.ids import TopicPartition
from ottla.kernel.java_numbers import double_text, float_text

_FORMATTERS = "org.apache.kafka.tools.consumer."
_DEFAULT_FORMATTER = f"{_FORMATTERS}DefaultMessageFormatter"
_NUMBERS = {"Integer": ">i", "Long": ">q", "Short": ">h", "Float": ">f", "Double": ">d"}

PARSER = Parser(
    "This tool helps to read data from Kafka topics and outputs it to standard output.",
    [
        Option("topic", "The topic to read.", "topic"),
        Option("include", "Regular expression of topics to read.", "Java regex (String)"),
        Option("partition", "The partition to read.", "partition", "Integer"),
        Option("offset", "Where to start: earliest, latest or a number.", "consume offset", default="latest"),
        Option("bootstrap-server", "REQUIRED: the brokers to connect to.", "server to connect to"),
        Option("group", "The consumer group.", "consumer group id"),
        Option("from-beginning", "Start at the first record where nothing is committed."),
        Option("max-messages", "Stop after so many.", "num_messages", "Integer", default="-1"),
        Option("timeout-ms", "Stop when nothing came for so long.", "timeout_ms", "Long"),
        Option("skip-message-on-error", "Go on where a record cannot be printed."),
        Option("isolation-level", "read_committed or read_uncommitted.", "", default="read_uncommitted"),
        Option("formatter", "Default, Logging, NoOp, Offsets, GroupMetadata.", "class", default=_DEFAULT_FORMATTER),
        Option("formatter-property", "print.timestamp, print.key, print.offset, print.epoch, print.partition, "
               "print.headers, print.value, print.delivery, key.separator, line.separator, headers.separator, "
               "null.literal.", "prop"),
        Option("property", "As --formatter-property (deprecated).", "prop"),
        Option("formatter-config", "File of formatter properties.", "config file"),
        Option("key-deserializer", "How keys are read.", "deserializer for key"),
        Option("value-deserializer", "How values are read.", "deserializer for values"),
        Option("command-property", "A consumer option: key=value.", "consumer_prop"),
        Option("consumer-property", "As --command-property (deprecated).", "consumer_prop"),
        Option("command-config", "File of consumer options.", "config file"),
        Option("consumer.config", "As --command-config (deprecated).", "config file"),
        Option("enable-systest-events", "Accepted without effect."),
    ],
)  # fmt: skip

Deserialize = Callable[[bytes], bytes]


class Formatter:
    """Prints one record as Kafka's DefaultMessageFormatter."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        def shown(name: str, default: str = "false") -> bool:
            return properties.get(f"print.{name}", default).strip().lower() == "true"

        self._timestamp, self._partition, self._offset = shown("timestamp"), shown("partition"), shown("offset")
        self._delivery, self._epoch, self._headers = shown("delivery"), shown("epoch"), shown("headers")
        self._key, self._value = shown("key"), shown("value", "true")
        self._separator = properties.get("key.separator", "\t").encode()
        self._end = properties.get("line.separator", "\n").encode()
        self._headers_separator = properties.get("headers.separator", ",").encode()
        self._null = properties.get("null.literal", "null").encode()
        self._read_key = deserializer(properties.get("key.deserializer"))
        self._read_value = deserializer(properties.get("value.deserializer"))
        self._read_header = deserializer(properties.get("headers.deserializer"))

    def write(self, record: ConsumedRecord, out: BinaryIO) -> None:
        parts: list[bytes] = []
        if self._timestamp:
            kind = "LogAppendTime" if record.timestamp_type else "CreateTime"
            parts.append(f"{kind}:{record.timestamp}".encode() if record.timestamp >= 0 else b"NO_TIMESTAMP")
        if self._partition:
            parts.append(f"Partition:{record.partition}".encode())
        if self._offset:
            parts.append(f"Offset:{record.offset}".encode())
        if self._delivery:
            parts.append(b"Delivery:NOT_PRESENT")
        if self._epoch:
            parts.append(b"Epoch:NOT_PRESENT")
        if self._headers:
            parts.append(self._header_text(record))
        if self._key:
            parts.append(self._null if record.key is None else self._read_key(record.key))
        if self._value:
            parts.append(self._null if record.value is None else self._read_value(record.value))
        out.write(self._separator.join(parts) + self._end)

    def _header_text(self, record: ConsumedRecord) -> bytes:
        if not record.headers:
            return b"NO_HEADERS"
        return self._headers_separator.join(
            name.encode() + b":" + (self._null if content is None else self._read_header(content))
            for name, content in record.headers
        )


class LoggingFormatter(Formatter):
    """Prints values; Kafka's tool also writes them to its log."""


class NoOpFormatter(Formatter):
    """Prints nothing: for counting."""

    def write(self, record: ConsumedRecord, out: BinaryIO) -> None:
        return


class OffsetsFormatter(Formatter):
    """Commits in `__consumer_offsets` as JSON, one after the other without line ends, as Kafka's tool does."""

    kinds: tuple[int, ...] = (0, 1)

    def write(self, record: ConsumedRecord, out: BinaryIO) -> None:
        from ottla.cli.kafka.offsets_decoder import consumed_text

        try:
            out.write(consumed_text(record.key, record.value, self.kinds).encode())
        except ValueError as fault:
            raise Misuse(f"not a record of __consumer_offsets at offset {record.offset}: {fault}") from None


class GroupMetadataFormatter(OffsetsFormatter):
    """Generations of groups in `__consumer_offsets`."""

    kinds = (2,)


def deserializer(name: str | None) -> Deserialize:
    """The formatter by the name of Kafka's class; without one bytes are printed as they are."""
    short = (name or "ByteArrayDeserializer").rsplit(".", 1)[-1].removesuffix("Deserializer")
    if short in ("ByteArray", "String", "Bytes", "ByteBuffer", "Void"):
        return bytes
    code = _NUMBERS.get(short)
    if code is None:
        raise Misuse(f"Unknown deserializer {name}. There are String, ByteArray and {', '.join(_NUMBERS)}")
    size = struct.calcsize(code)
    shown = {"Float": float_text, "Double": double_text}.get(short, str)

    def read(content: bytes) -> bytes:
        if len(content) != size:
            raise Misuse(f"Size of data received by {short}Deserializer is not {size}")
        return shown(struct.unpack(code, content)[0]).encode()

    return read


def command(arguments: Sequence[str]) -> int:
    given = PARSER.read(arguments)
    _check(given)
    properties = {
        "group.id": "",
        "auto.offset.reset": "earliest" if "from-beginning" in given else "latest",
        "isolation.level": given.need("isolation-level"),
        "client.id": "console-consumer",
    }
    given_ones = gather(given, ("command-config", "consumer.config"), ("consumer-property", "command-property"))
    properties |= given_ones
    if "group" in given:
        properties["group.id"] = given.need("group")
    if "from-beginning" in given and given_ones.get("auto.offset.reset", "earliest") != "earliest":
        PARSER.usage("Can't simultaneously specify --from-beginning and 'auto.offset.reset'")
    if not properties["group.id"]:
        del properties["group.id"]
    counter = [0]
    try:
        formatter = _formatter(given)
        with interrupted_by_signals():
            _run(given, properties, formatter, counter)
    except KeyboardInterrupt:
        _tell(counter[0])
        raise
    except Misuse as fault:
        sys.stdout.flush()
        sys.stderr.write(f"{fault}\n")
        _tell(counter[0])
        return 1
    _tell(counter[0])
    return 0


def _tell(count: int) -> None:
    sys.stdout.flush()
    sys.stderr.write(f"Processed a total of {count} messages\n")


def _check(given: Given) -> None:
    if ("topic" in given) == ("include" in given):
        PARSER.usage("Exactly one of the following arguments is required: [topic], [include]")
    PARSER.need(given, "bootstrap-server")
    if "partition" in given and "topic" not in given:
        PARSER.usage("The topic is required when partition is specified.")
    if "partition" in given and "group" in given:
        PARSER.usage("Options group and partition cannot be specified together.")
    if "offset" in given:
        if "partition" not in given:
            PARSER.usage("The partition is required when offset is specified.")
        if "from-beginning" in given:
            PARSER.usage("Options from-beginning and offset cannot be specified together.")
        text = given.need("offset")
        if text.lower() not in ("earliest", "latest") and not text.isdecimal():
            PARSER.usage(
                f"The provided offset value '{text}' is incorrect. "
                "Valid values are 'earliest', 'latest', or a non-negative long."
            )
    for new, old in (
        ("formatter-property", "property"),
        ("command-property", "consumer-property"),
        ("command-config", "consumer.config"),
    ):
        if new in given and old in given:
            PARSER.usage(f"Options --{old} and --{new} cannot be specified together.")
        if old in given:
            sys.stdout.write(
                f"Option --{old} is deprecated and will be removed in a future version. Use --{new} instead.\n"
            )


def _formatter(given: Given) -> Formatter:
    properties = read_properties(given.need("formatter-config"), trim=False) if "formatter-config" in given else {}
    properties |= parse_pairs(given.all("property") + given.all("formatter-property"))
    for option, name in (("key-deserializer", "key.deserializer"), ("value-deserializer", "value.deserializer")):
        if option in given:
            properties[name] = given.need(option)
    name = given.need("formatter").removeprefix("kafka.tools.").removeprefix(_FORMATTERS)
    kinds = {
        "DefaultMessageFormatter": Formatter,
        "LoggingMessageFormatter": LoggingFormatter,
        "NoOpMessageFormatter": NoOpFormatter,
        "OffsetsMessageFormatter": OffsetsFormatter,
        "GroupMetadataMessageFormatter": GroupMetadataFormatter,
    }
    if name not in kinds:
        raise Misuse(f"Unknown formatter {name}. There are {', '.join(kinds)}")
    return kinds[name](properties)


def _run(given: Given, properties: Mapping[str, str], formatter: Formatter, counter: list[int]) -> None:
    limit = given.count("max-messages")
    timeout_ms = given.number("timeout-ms")
    if timeout_ms is not None and timeout_ms < 0:
        timeout_ms = None
    out = sys.stdout.buffer
    sys.stdout.flush()

    def take(record: ConsumedRecord) -> None:
        counter[0] += 1
        _print(formatter, record, out, skip="skip-message-on-error" in given)

    with _consumer(given, properties) as consumer:
        deadline = time.monotonic() + (timeout_ms or 0) / 1000
        while limit < 0 or counter[0] < limit:
            left_ms = 1_000.0 if timeout_ms is None else (deadline - time.monotonic()) * 1000
            if left_ms <= 0:
                return
            most = consumer.core.settings.max_poll_records
            records = consumer.poll(min(left_ms, 1_000), most if limit < 0 else min(most, limit - counter[0]))
            if records:
                deadline = time.monotonic() + (timeout_ms or 0) / 1000
            take_each(consumer, records, take)
            out.flush()


def _print(formatter: Formatter, record: ConsumedRecord, out: BinaryIO, *, skip: bool) -> None:
    try:
        formatter.write(record, out)
    except Misuse as fault:
        if not skip:
            raise
        sys.stderr.write(f"Error processing message, skipping this message: {fault}\n")


def _consumer(given: Given, properties: Mapping[str, str]) -> Consumer:
    """A consumer at the place that the options name.

    Without a group it takes partitions by hand: no rebalance to wait for.
    """
    consumer = Consumer(
        given.need("bootstrap-server"), consumer=consumer_settings(properties), settings=client_settings(properties)
    )
    topic, include = given.text("topic"), given.text("include")
    partition = given.number("partition")
    if partition is not None and topic is not None:
        place = TopicPartition(topic, partition)
        consumer.assign([place])
        offset = given.need("offset").lower() if "offset" in given else ""
        if offset.isdecimal():
            consumer.seek(place, int(offset))
        elif offset or "from-beginning" in given or "group.id" not in properties:
            spec = EARLIEST if offset == "earliest" or (not offset and "from-beginning" in given) else LATEST
            consumer.seek(place, consumer.cluster.list_offsets([place], spec)[place].offset)
    elif "group.id" in properties:
        consumer.subscribe([topic] if topic is not None else include_pattern(include or ""))
    else:
        consumer.assign(_all_partitions(consumer, topic, include))
    return consumer


def _all_partitions(consumer: Consumer, topic: str | None, include: str | None) -> list[TopicPartition]:
    if topic is not None:
        plan = consumer.cluster.plan
        consumer.cluster.run(plan.ensure([topic], create=consumer.core.settings.allow_auto_create_topics))
        return consumer.cluster.partitions(topic)
    pattern = include_pattern(include or "")
    hidden = consumer.core.settings.exclude_internal_topics
    return [
        TopicPartition(view.name, index)
        for view in consumer.cluster.topics().values()
        if pattern.fullmatch(view.name) and not (hidden and view.is_internal)
        for index in view.partitions
    ]
