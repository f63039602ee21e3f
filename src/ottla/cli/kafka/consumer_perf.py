"""`kafka-consumer-perf-test`: how fast a consumer reads."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from ottla.cli.connect import client_settings
from ottla.cli.faults import Misuse
from ottla.cli.kafka.client_options import consumer_settings, gather
from ottla.cli.kafka.topics import include_pattern
from ottla.cli.options import Given, Option, Parser
from ottla.client.blocking.consumer import Consumer
from ottla.kernel.ids import TopicPartition

_MIB = 1024 * 1024
_DATE_PARTS = {
    "yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "SSS": "%f",
}  # fmt: skip
_HEADER = (
    "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)

PARSER = Parser(
    "This tool is used to verify the consumer performance.",
    [
        Option("bootstrap-server", "REQUIRED: the brokers to connect to.", "server to connect to"),
        Option("topic", "The topic to read.", "topic"),
        Option("include", "Regular expression of topics to read.", "Java regex (String)"),
        Option("group", "The consumer group.", "gid"),
        Option("num-records", "REQUIRED: how many records.", "count", "Long"),
        Option("messages", "As --num-records (deprecated).", "count", "Long"),
        Option("fetch-size", "Bytes of a partition in one fetch.", "size", "Integer", default="1048576"),
        Option("from-latest", "Start at the end where nothing is committed."),
        Option("socket-buffer-size", "Accepted without effect.", "size", "Integer", default="2097152"),
        Option("command-property", "A consumer option: key=value.", "prop1=val1"),
        Option("command-config", "File of consumer options.", "config file"),
        Option("consumer.config", "As --command-config (deprecated).", "config file"),
        Option("print-metrics", "Accepted; this client keeps no such metrics."),
        Option("show-detailed-stats", "A line for each interval."),
        Option("timeout", "Stop when nothing came so long.", "milliseconds", "Long", optional=True, default="10000"),
        Option("reporting-interval", "Milliseconds between lines.", "interval_ms", "Long", default="5000"),
        Option("date-format", "How times are written.", "date format", default="yyyy-MM-dd HH:mm:ss:SSS"),
        Option("hide-header", "Leave the first line out."),
    ],
)  # fmt: skip


@dataclass(slots=True)
class PerfCounts:
    """Counts of records and bytes read, and the time that rebalancing took."""

    records: int = 0
    size: int = 0
    rebalance_ms: float = 0.0
    since: float | None = field(default_factory=time.monotonic)

    def assigned(self, _partitions: list[TopicPartition]) -> None:
        if self.since is not None:
            self.rebalance_ms += (time.monotonic() - self.since) * 1000
            self.since = None

    def revoked(self, _partitions: list[TopicPartition]) -> None:
        self.since = time.monotonic()


def command(arguments: Sequence[str]) -> int:
    given = PARSER.read(arguments)
    PARSER.need(given, "bootstrap-server")
    if ("topic" in given) == ("include" in given):
        PARSER.usage("Exactly one of the following arguments is required: [topic], [include]")
    if ("num-records" in given) == ("messages" in given):
        PARSER.usage("Exactly one of the following arguments is required: [messages], [num-records]")
    if "messages" in given:
        sys.stdout.write("Warning: --messages is deprecated. Use --num-records instead.\n")
    try:
        _run(given)
    except Misuse as fault:
        sys.stderr.write(f"{fault}\n")
        return 1
    return 0


def date_text(moment: float, pattern: str) -> str:
    """A time in the letters of Java's SimpleDateFormat."""
    told = pattern
    for letters, directive in _DATE_PARTS.items():
        told = told.replace(letters, directive)
    at = datetime.fromtimestamp(moment)
    return at.strftime(told.replace("%f", f"{at.microsecond // 1000:03d}"))


def _consumer(given: Given) -> Consumer:
    named = gather(given, ("command-config", "consumer.config"), ("command-property",))
    properties = {
        "group.id": given.text("group") or f"perf-consumer-{random.randrange(100_000)}",
        "max.partition.fetch.bytes": given.need("fetch-size"),
        "auto.offset.reset": "latest" if "from-latest" in given else "earliest",
        "check.crcs": "false",
        "client.id": "perf-consumer-client",
        **named,
    }
    return Consumer(
        given.need("bootstrap-server"), consumer=consumer_settings(properties), settings=client_settings(properties)
    )


def _run(given: Given) -> None:
    detailed = "show-detailed-stats" in given
    if "hide-header" not in given:
        sys.stdout.write(("time, threadId, " if detailed else "start.time, end.time, ") + _HEADER + "\n")
        sys.stdout.flush()
    wanted = given.number("num-records") or given.number("messages") or 0
    timeout_ms = given.number("timeout") or 10_000
    pattern = given.need("date-format")
    progress = PerfCounts()
    with _consumer(given) as consumer:
        topic = given.text("topic")
        topics = [topic] if topic is not None else include_pattern(given.need("include"))
        started, wall = time.monotonic(), time.time()
        consumer.subscribe(topics, on_assign=progress.assigned, on_revoke=progress.revoked)
        last = report = started
        told = (0, 0, 0.0)
        while progress.records < wanted:
            records = consumer.poll(100)
            now = time.monotonic()
            if records:
                last = now
                progress.records += len(records)
                progress.size += sum(len(record.key or b"") + len(record.value or b"") for record in records)
            elif (now - last) * 1000 > timeout_ms:
                sys.stdout.write(
                    "WARNING: Exiting before consuming the expected number of records: timeout "
                    f"({timeout_ms} ms) exceeded. You can use the --timeout option to increase the timeout.\n"
                )
                break
            if detailed and (now - report) * 1000 >= given.count("reporting-interval"):
                told = _print_interval(progress, told, (now - report) * 1000, date_text(time.time(), pattern))
                report = now
        elapsed_ms, end = (time.monotonic() - started) * 1000, time.time()
    if not detailed:
        span = f"{date_text(wall, pattern)}, {date_text(end, pattern)}"
        sys.stdout.write(f"{span}, {_figures(progress.size, progress.records, elapsed_ms, progress.rebalance_ms)}\n")


def _print_interval(
    progress: PerfCounts, before: tuple[int, int, float], elapsed_ms: float, at: str
) -> tuple[int, int, float]:
    """A line for what was read since the last one; the totals, to compare with next time."""
    size, records, rebalance_ms = before
    rates = _figures(
        progress.size - size, progress.records - records, elapsed_ms, progress.rebalance_ms - rebalance_ms
    ).split(", ")
    rates[0], rates[2] = f"{progress.size / _MIB:.4f}", str(progress.records)
    sys.stdout.write(f"{at}, 0, {', '.join(rates)}\n")
    sys.stdout.flush()
    return progress.size, progress.records, progress.rebalance_ms


def _figures(size: int, records: int, elapsed_ms: float, rebalance_ms: float) -> str:
    fetch_ms = max(elapsed_ms - rebalance_ms, 0.0)

    def rate(amount: float, ms: float) -> float:
        return amount / ms * 1000 if ms > 0 else 0.0

    mb = size / _MIB
    return (
        f"{mb:.4f}, {rate(mb, elapsed_ms):.4f}, {records}, {rate(records, elapsed_ms):.4f}, "
        f"{rebalance_ms:.0f}, {fetch_ms:.0f}, {rate(mb, fetch_ms):.4f}, {rate(records, fetch_ms):.4f}"
    )
