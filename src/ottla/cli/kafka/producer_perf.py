"""`kafka-producer-perf-test`: the records that a producer delivers per second, and the latency of each."""

from __future__ import annotations

import itertools
import random
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import uuid4

from ottla.cli.connect import client_settings, parse_pairs, read_properties
from ottla.cli.faults import Misuse
from ottla.cli.kafka.client_options import producer_settings
from ottla.cli.options import Given, Option, Parser
from ottla.client.blocking.producer import Producer
from ottla.client.produce.accumulator import Delivered
from ottla.kernel.errors import ApiError

_MIB = 1024 * 1024
_SAMPLES = 500_000
_TRANSACTION_MS = 3_000

PARSER = Parser(
    "This tool is used to verify the producer performance.",
    [
        Option("bootstrap-server", "The brokers to connect to.", "BOOTSTRAP-SERVERS"),
        Option("topic", "REQUIRED: the topic to write to.", "TOPIC"),
        Option("num-records", "REQUIRED: how many records.", "NUM-RECORDS", "Long"),
        Option("throughput", "REQUIRED: at most so many records a second; -1: as fast as can be.", "THROUGHPUT"),
        Option("record-size", "Bytes of each record.", "RECORD-SIZE", "Integer"),
        Option("payload-file", "File whose lines are the records, drawn at random.", "PAYLOAD-FILE"),
        Option("payload-delimiter", "What ends a record in the payload file.", "PAYLOAD-DELIMITER", default="\\n"),
        Option("payload-monotonic", "Records are numbers that count up."),
        Option("command-property", "Producer options: key=value.", "PROP-NAME=PROP-VALUE"),
        Option("producer-props", "As --command-property (deprecated).", "PROP-NAME=PROP-VALUE"),
        Option("command-config", "File of producer options.", "CONFIG-FILE"),
        Option("producer.config", "As --command-config (deprecated).", "CONFIG-FILE"),
        Option("print-metrics", "Accepted; this client keeps no such metrics."),
        Option("transactional-id", "Send in transactions, under this id.", "TRANSACTIONAL-ID"),
        Option("transaction-duration-ms", "Commit after so long; 3000 if only an id is given.", "MS", "Long"),
        Option("warmup-records", "The first so many are told apart.", "WARMUP-RECORDS", "Long", default="0"),
        Option("reporting-interval", "Milliseconds between lines.", "INTERVAL-MS", "Long", default="5000"),
    ],
    words=True,
)  # fmt: skip


class Stats:
    """Latencies of delivered records: all of them, and those of the current window."""

    def __init__(self, num_records: int, interval_ms: int, *, steady: bool = False) -> None:
        self.started = time.monotonic()
        self._every = max(1, num_records // min(num_records, _SAMPLES)) if num_records else 1
        self._interval_ms = interval_ms
        self._steady = steady
        self.reports = True
        self._latencies: list[int] = []
        self._count = self._bytes = self._total = self._worst = 0
        self._window_started = self.started
        self._window = [0, 0, 0, 0]

    def record(self, latency_ms: int, size: int) -> None:
        if self._count % self._every == 0:
            self._latencies.append(latency_ms)
        self._count += 1
        self._bytes += size
        self._total += latency_ms
        self._worst = max(self._worst, latency_ms)
        window = self._window
        window[0] += 1
        window[1] += size
        window[2] += latency_ms
        window[3] = max(window[3], latency_ms)
        now = time.monotonic()
        if self.reports and (now - self._window_started) * 1000 >= self._interval_ms:
            self._print_window(now)

    def _print_window(self, now: float) -> None:
        count, size, total, worst = self._window
        elapsed = now - self._window_started
        if self._steady and count == self._count:
            sys.stdout.write("In steady state.\n")
        sys.stdout.write(
            f"{count} records sent, {count / elapsed:.1f} records/sec ({size / elapsed / _MIB:.2f} MB/sec), "
            f"{total / count:.1f} ms avg latency, {float(worst):.1f} ms max latency.\n"
        )
        sys.stdout.flush()
        self._window_started = now
        self._window = [0, 0, 0, 0]

    def print_total(self) -> None:
        elapsed = max(time.monotonic() - self.started, 0.001)
        count = self._count
        middle = [self._percentile(part) for part in (0.5, 0.95, 0.99, 0.999)]
        average = self._total / count if count else 0.0
        sys.stdout.write(
            f"{count}{' steady state' if self._steady else ''} records sent, {count / elapsed:f} records/sec "
            f"({self._bytes / elapsed / _MIB:.2f} MB/sec), {average:.2f} ms avg latency, "
            f"{float(self._worst):.2f} ms max latency, {middle[0]} ms 50th, {middle[1]} ms 95th, {middle[2]} ms 99th, "
            f"{middle[3]} ms 99.9th.\n"
        )

    def _percentile(self, part: float) -> int:
        ordered = sorted(self._latencies)
        return ordered[int(part * len(ordered))] if ordered else 0


class Transactions:
    """Commits the sent records once a transaction has reached its age; the next record begins another."""

    def __init__(self, producer: Producer, duration_ms: int) -> None:
        self._producer = producer
        self._duration_ms = duration_ms
        self._began: float | None = None
        producer.init_transactions()

    def before_record(self) -> None:
        if self._began is None:
            self._producer.begin_transaction()
            self._began = time.monotonic()

    def after_record(self) -> None:
        if self._began is not None and (time.monotonic() - self._began) * 1000 >= self._duration_ms:
            self.commit()

    def commit(self) -> None:
        if self._began is not None:
            self._producer.commit_transaction()
            self._began = None


def command(arguments: Sequence[str]) -> int:
    given = PARSER.read(_spread(arguments))
    try:
        return _run(given)
    except Misuse as fault:
        sys.stderr.write(f"usage: kafka-producer-perf-test [options]\nkafka-producer-perf-test: error: {fault}\n")
        return 1


def _spread(arguments: Sequence[str]) -> list[str]:
    """Options that take several values (`--producer-props a=1 b=2`) as one option per value."""
    out: list[str] = []
    several = ""
    for word in arguments:
        if word.startswith("--"):
            several = word if word in ("--producer-props", "--command-property") else ""
            if not several:
                out.append(word)
        elif several:
            out += [several, word]
        else:
            out.append(word)
    return out


def _properties(given: Given) -> dict[str, str]:
    for old, new in (("producer-props", "command-property"), ("producer.config", "command-config")):
        if old in given:
            sys.stdout.write(
                f"Option --{old} has been deprecated and will be removed in a future version. Use --{new} instead.\n"
            )
    properties: dict[str, str] = {}
    for name in ("command-config", "producer.config"):
        if name in given:
            properties |= read_properties(given.need(name))
    properties |= parse_pairs(given.all("producer-props") + given.all("command-property"))
    if "bootstrap-server" in given:
        properties["bootstrap.servers"] = given.need("bootstrap-server")
    if "bootstrap.servers" not in properties:
        raise Misuse("At least one of --bootstrap-server, --command-property, --producer-props, --producer.config or "
                     "--command-config must be specified.")  # fmt: skip
    if "transactional-id" in given:
        properties["transactional.id"] = given.need("transactional-id")
    elif "transaction-duration-ms" in given and "transactional.id" not in properties:
        properties["transactional.id"] = f"performance-producer-{uuid4()}"
    return {"client.id": "perf-producer-client", **properties}


def _payloads(given: Given) -> Iterator[bytes]:
    """The payloads to send, without end."""
    ways = [name for name in ("record-size", "payload-file", "payload-monotonic") if name in given]
    if len(ways) != 1:
        raise Misuse("one of the arguments --record-size --payload-file --payload-monotonic is required")
    chance = random.Random(0)
    if "payload-file" in given:
        path = Path(given.need("payload-file"))
        mark = given.need("payload-delimiter").encode().decode("unicode_escape").encode()
        if not path.exists() or not path.stat().st_size:
            raise Misuse(f"File does not exist or empty file provided: {path}")
        lines = [line for line in path.read_bytes().split(mark) if line]
        sys.stdout.write(f"Reading payloads from: {path.resolve()}\nNumber of records read: {len(lines)}\n")
        return iter(lambda: chance.choice(lines), None)
    if "payload-monotonic" in given:
        return (str(number).encode() for number in itertools.count())
    size = given.number("record-size") or 0
    if size <= 0:
        raise Misuse("--record-size should be greater than zero.")
    block = bytes(chance.choices(range(65, 91), k=size + 4096))
    return iter(lambda: block[(start := chance.randrange(4096)) : start + size], None)


def _run(given: Given) -> int:
    for name in ("topic", "num-records", "throughput"):
        if name not in given:
            raise Misuse(f"argument --{name} is required")
    count, warmup = given.number("num-records") or 0, given.count("warmup-records")
    try:
        throughput = float(given.need("throughput"))
    except ValueError:
        raise Misuse(f"argument --throughput: could not convert '{given.need('throughput')}' to a number") from None
    if warmup >= count > 0:
        raise Misuse("The value for --warmup-records must be strictly fewer than the number of records in the test")
    properties = _properties(given)
    payloads = _payloads(given)
    if warmup:
        sys.stdout.write(
            f"Warmup first {warmup} records. Steady state results will print after the complete test summary.\n"
        )
    interval_ms = given.count("reporting-interval")
    duration_ms = _transaction_duration_ms(given)
    everything = Stats(count, interval_ms)
    steady: Stats | None = None
    with Producer(
        properties["bootstrap.servers"], producer=producer_settings(properties), settings=client_settings(properties)
    ) as producer:
        topic = given.need("topic")
        transactions = Transactions(producer, duration_ms) if "transactional.id" in properties else None
        for number, payload in zip(range(count), payloads, strict=False):
            if warmup and number == warmup:
                everything.reports = False
                steady = Stats(count - warmup, interval_ms, steady=True)
            _pace(everything.started, number, throughput)
            if transactions is not None:
                transactions.before_record()
            _send(producer, topic, payload, everything, steady)
            if transactions is not None:
                transactions.after_record()
        if transactions is not None:
            transactions.commit()
        producer.flush()
        everything.print_total()
        if steady is not None:
            steady.print_total()
    return 0


def _transaction_duration_ms(given: Given) -> int:
    duration_ms = given.number("transaction-duration-ms")
    if duration_ms is not None and duration_ms <= 0:
        raise Misuse("--transaction-duration-ms should be greater than zero.")
    return _TRANSACTION_MS if duration_ms is None else duration_ms


def _pace(started: float, sent: int, throughput: float) -> None:
    """Wait until this record is due."""
    if throughput > 0:
        wait = started + sent / throughput - time.monotonic()
        if wait > 0.001:
            time.sleep(wait)


def _send(producer: Producer, topic: str, payload: bytes, all_stats: Stats, steady: Stats | None) -> None:
    sent = time.monotonic()

    def ended(outcome: Delivered | Exception) -> None:
        if isinstance(outcome, Exception):
            sys.stderr.write(f"{outcome.message if isinstance(outcome, ApiError) else outcome}\n")
            return
        latency_ms = int((time.monotonic() - sent) * 1000)
        all_stats.record(latency_ms, len(payload))
        if steady is not None:
            steady.record(latency_ms, len(payload))

    producer.produce(topic, payload, on_delivery=ended)
