"""Kafka's command-line tools and ours, run with the same arguments against the same broker: the same output.

Run against Apache Kafka and against ottla. Standard output and exit code are compared, byte for byte, and the first
line on standard error if the tool's message is there. Java's own lines (logging, stack traces) are left out.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from apache_kafka import ApacheKafka, run_tool
from ottla_process import TemporaryBroker, run_our_tool

from ottla.cli.javamap import string_hash
from ottla.client.admin.admin import NewTopic
from ottla.client.blocking.admin import Admin
from ottla.client.blocking.consumer import Consumer
from ottla.client.blocking.producer import Producer
from ottla.client.consume.settings import ConsumerSettings
from ottla.client.model import CommittedOffset
from ottla.kernel.ids import TopicPartition

pytestmark = pytest.mark.kafka
at_length = pytest.mark.compat
"""Run by `make compat`: each case costs a start of a JVM."""

Change = Callable[[str], str]


class Server(NamedTuple):
    bootstrap: str
    data: Path


@pytest.fixture(scope="module", params=["apache", "ottla"])
def server(request: pytest.FixtureRequest, kafka_libs: Path) -> Iterator[Server]:
    """A broker with topics, records and groups, two of which have members that commit only on request."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTTLA_KAFKA_JARS", str(kafka_libs))
        if request.param == "apache":
            with ApacheKafka() as kafka:
                yield from _furnished(Server(kafka.bootstrap, kafka.data))
        else:
            with TemporaryBroker() as process:
                yield from _furnished(Server(process.bootstrap, process.folder / "data"))


def _furnished(server: Server) -> Iterator[Server]:
    topics = [
        NewTopic("one", 3, 1, {"retention.ms": "-1"}),
        NewTopic("t.wo", 1, 1, {"retention.ms": "604800001", "cleanup.policy": "compact,delete"}),
        NewTopic("other", 2, 1),
        NewTopic("empty", 1, 1),
    ]
    with Admin(server.bootstrap) as admin, Producer(server.bootstrap) as producer:
        admin.create_topics(topics)
        for number in range(30):
            timestamp = 1_700_000_000_000 + number
            producer.produce("one", f"v{number}", f"k{number}", partition=number % 3, timestamp=timestamp)
            producer.produce("other", f"v{number}", None, partition=number % 2, headers=[("h", b"x"), ("n", None)])
        producer.flush(60)
        admin.commit_offsets(
            "away", {TopicPartition("one", 0): CommittedOffset(4), TopicPartition("one", 1): CommittedOffset(9)}
        )
        admin.commit_offsets("gone", {TopicPartition("other", 1): CommittedOffset(15)})
    settings = ConsumerSettings(group_id="live", auto_offset_reset="earliest", enable_auto_commit=False)
    static = replace(settings, group_id="static", instance_id="inst-1")
    with Consumer(server.bootstrap, consumer=settings) as one, Consumer(server.bootstrap, consumer=static) as two:
        one.subscribe(["one", "other"])
        two.subscribe(["empty"])
        while not (one.assignment and two.assignment):
            one.poll(100)
            two.poll(100)
        one.poll(500)
        one.commit()
        two.commit()
        ended = threading.Event()
        threads = [threading.Thread(target=_stay, args=(each, ended)) for each in (one, two)]
        for thread in threads:
            thread.start()
        try:
            yield server
        finally:
            ended.set()
            for thread in threads:
                thread.join()


def _stay(consumer: Consumer, ended: threading.Event) -> None:
    """Poll on, so that the group stays as it is."""
    for partition in consumer.assignment:
        consumer.pause([partition])
    while not ended.is_set():
        consumer.poll(100)


def _without_java(text: str) -> str:
    dropped = ("SLF4J", "\tat ", "The consumer rebalance protocol (KIP-848)")
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(dropped))


def compare(
    server: Server, tool: str, *arguments: str, stdin: str = "", change: Change = str, stderr: bool = False
) -> str:
    """Run both tools, check that their outputs are the same, and return the output."""
    words = [word.replace("$B", server.bootstrap).replace("$D", str(server.data)) for word in arguments]
    theirs = run_tool(tool, words, input_text=stdin)
    mine = run_our_tool(tool, words, input_text=stdin)
    assert change(mine.stdout) == change(_without_java(theirs.stdout))
    assert mine.returncode == theirs.returncode
    if stderr:
        assert mine.stderr.splitlines()[:1] == _without_java(theirs.stderr).splitlines()[:1]
    return mine.stdout


AT = ("--bootstrap-server", "$B")


@at_length
@pytest.mark.parametrize(
    "arguments",
    [
        "--list",
        "--list --exclude-internal",
        "--describe",
        "--describe --topic o.*,empty",
        "--describe --topics-with-overrides",
        "--describe --under-replicated-partitions",
        "--describe --at-min-isr-partitions --exclude-internal",
        "--describe --topic nope",
        "--describe --topic nope --if-exists",
        "--create --topic one",
        "--create --topic t_wo",
        "--create --topic one --if-not-exists",
        "--create --topic x --config nope=1",
        "--create --topic bad/name",
        "--create --topic x --replication-factor 3",
        "--create --topic x --partitions abc",
        "--alter --topic one --partitions 1",
        "--alter --topic nope --partitions 9",
        "--delete --topic nope",
        "--version",
    ],
)
def test_kafka_topics(server: Server, arguments: str) -> None:
    compare(server, "kafka-topics", *AT, *arguments.split())


@at_length
@pytest.mark.parametrize("arguments", ["", "--list --nope", "--create", "--list --describe"])
def test_kafka_topics_says_what_is_wrong_with_a_command_line(server: Server, arguments: str) -> None:
    compare(server, "kafka-topics", *AT, *arguments.split(), stderr=True)


def test_topics_are_created_altered_and_deleted_alike(server: Server) -> None:
    for tool in (lambda *words: run_tool("kafka-topics", words), lambda *words: run_our_tool("kafka-topics", words)):
        at = ("--bootstrap-server", server.bootstrap, "--topic", "made-here")
        made = tool(*at, "--create", "--partitions", "2", "--config", "retention.ms=9")
        assert (made.returncode, made.stdout) == (0, "Created topic made-here.\n")
        assert tool(*at, "--alter", "--partitions", "3").stdout == ""
        compare(server, "kafka-topics", *AT, "--describe", "--topic", "made-here")
        assert (tool(*at, "--delete").returncode, tool(*at, "--list").stdout) == (0, "\n")


@at_length
@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "--topic one --time earliest",
        "--topic one --time -3",
        "--topic one --time 1700000000010",
        "--topic one --time 99999999999999",
        "--topic-partitions one:0-2,other --exclude-internal-topics",
        "--partitions 0",
        "--topic nope",
        "--time soon",
    ],
)
def test_kafka_get_offsets(server: Server, arguments: str) -> None:
    compare(server, "kafka-get-offsets", *AT, *arguments.split(), stderr=True)


def _sorted_lines(text: str) -> str:
    """Sorted lines, for output whose order changes between runs of Java."""
    return "".join(sorted(text.splitlines(keepends=True)))


def test_kafka_delete_records(server: Server, tmp_path: Path) -> None:
    wanted = [("other", 0, 3), ("other", 1, 999), ("one", 0, 0)]
    path = tmp_path / "offsets.json"
    parts = [{"topic": topic, "partition": index, "offset": offset} for topic, index, offset in wanted]
    path.write_text(json.dumps({"partitions": parts, "version": 1}))
    told = compare(server, "kafka-delete-records", *AT, "--offset-json-file", str(path), change=_sorted_lines)
    assert "partition: other-0\tlow_watermark: 3\n" in told
    compare(server, "kafka-delete-records", *AT, stderr=True)
    path.write_text("{")
    compare(server, "kafka-delete-records", *AT, "--offset-json-file", str(path))


@at_length
@pytest.mark.parametrize("arguments", ["--describe --topic-list one,other", "--describe --broker-list 7", ""])
def test_kafka_log_dirs(server: Server, arguments: str) -> None:
    compare(server, "kafka-log-dirs", *AT, *arguments.split(), stderr=True)


def test_each_tool_says_the_same_for_one_command_line_of_its_own(server: Server) -> None:
    """A small selection for every run; the tests marked `compat` go through the rest."""
    for words in (
        "kafka-topics --describe",
        "kafka-get-offsets",
        "kafka-log-dirs --describe --topic-list one",
        "kafka-consumer-groups --describe --group live",
        "kafka-consumer-groups --reset-offsets --group away --topic one --to-latest --dry-run",
        "kafka-configs --entity-type topics --entity-name t.wo --describe",
        "kafka-console-consumer --topic other --partition 1 --offset 3 --max-messages 4",
    ):
        tool, *arguments = words.split()
        compare(server, tool, *AT, *arguments)
    compare(server, "kafka-dump-log", "--files", "$D/one-0/00000000000000000000.log", "--print-data-log")


def test_kafka_broker_api_versions(server: Server) -> None:
    compare(server, "kafka-broker-api-versions", *AT)


@at_length
@pytest.mark.parametrize(
    "arguments",
    [
        "--list",
        "--list --state",
        "--list --type --state",
        "--list --state stable",
        "--describe --group away",
        "--describe --group away --verbose",
        "--describe --group away --members",
        "--describe --group away --state",
        "--describe --group away --group gone",
        "--describe --group live",
        "--describe --group live --members",
        "--describe --group live --members --verbose",
        "--describe --group live --state",
        "--describe --group static --members",
        "--describe --all-groups --state --verbose",
        "--describe --group nope",
        "--reset-offsets --group away --topic one --to-earliest --dry-run",
        "--reset-offsets --group away --topic one --to-latest",
        "--reset-offsets --group away --topic one:0 --to-offset 2 --dry-run --export",
        "--reset-offsets --group away --topic one:0,1 --shift-by -3 --dry-run",
        "--reset-offsets --group away --topic one:2 --shift-by 1 --dry-run",
        "--reset-offsets --group nope --topic one --to-current --dry-run",
        "--reset-offsets --group away --all-topics --to-datetime 2030-01-01T00:00:00.000 --dry-run",
        "--reset-offsets --group away --group gone --all-topics --to-earliest --dry-run --export",
        "--reset-offsets --group live --topic one --to-latest --execute",
        "--reset-offsets --group away --topic one --to-offset 5 --execute",
        "--reset-offsets --group away --topic one",
        "--delete-offsets --group live --topic one",
        "--delete-offsets --group nope --topic one",
        "--delete --group live",
        "--delete --group nope --group live",
        "",
        "--delete --group away --topic one",
    ],
)
def test_kafka_consumer_groups(server: Server, arguments: str) -> None:
    compare(server, "kafka-consumer-groups", *AT, *arguments.split())


@at_length
@pytest.mark.parametrize(
    "arguments",
    [
        "--entity-type topics --entity-name t.wo --describe",
        "--entity-type topics --entity-name one --describe --all",
        "--topic one --describe",
        "--entity-type topics --describe",
        "--entity-type topics --entity-name nope --describe",
        "--entity-type topics --entity-name empty --alter --add-config segment.ms=99,cleanup.policy=[compact,delete]",
        "--entity-type topics --entity-name empty --alter --delete-config segment.ms",
        "--entity-type brokers --entity-name 1 --describe",
        "--entity-type brokers --entity-name 1 --describe --all",
        "--entity-type brokers --describe",
        "--entity-type brokers --entity-name 7 --describe",
        "--broker-defaults --describe",
        "--entity-type groups --entity-name nope --describe",
        "--entity-type groups --describe",
        "--describe",
        "--entity-type moons --describe",
        "--entity-type topics --entity-name one --alter",
    ],
)
def test_kafka_configs(server: Server, arguments: str) -> None:
    in_any_order = "groups --describe" in arguments
    change = _sorted_lines if in_any_order else str
    compare(server, "kafka-configs", *AT, *arguments.split(), change=change)


def test_lines_are_produced_alike_and_consumed_alike(server: Server) -> None:
    """Each tool writes the same lines into a topic of its own; each reads both topics."""
    lines = {
        "": "a\nb\n\n",
        "parse.key=true null.marker=NULL": "k\tv\nq\t\nNULL\tx\nz\tNULL\n",
        "parse.key=true parse.headers=true": "h1:v1,h2:v2\tkey\tval\n",
    }
    at = ["--bootstrap-server", server.bootstrap]
    for properties, stdin in lines.items():
        words = [word for each in properties.split() for word in ("--reader-property", each)]
        for topic, tool in (("by-java", run_tool), ("by-ottla", None)):
            arguments = [*at, "--topic", topic, "--compression-codec", "zstd", *words]
            done = (
                run_tool("kafka-console-producer", arguments, input_text=stdin)
                if tool
                else run_our_tool("kafka-console-producer", arguments, input_text=stdin)
            )
            assert (done.returncode, done.stdout) == (0, "")
    shown = [
        word
        for part in ("key", "headers", "partition", "offset", "epoch", "delivery")
        for word in ("--formatter-property", f"print.{part}=true")
    ]
    read = ("--partition", "0", "--offset", "earliest", "--max-messages", "8", *shown)
    by_java, by_ottla = (
        compare(server, "kafka-console-consumer", *AT, "--topic", topic, *read, stderr=True)
        for topic in ("by-java", "by-ottla")
    )
    assert by_java == by_ottla
    assert by_java.count("\n") == 8


@at_length
@pytest.mark.parametrize(
    "arguments",
    [
        "--topic other --partition 1 --offset 3 --max-messages 4 --property print.headers=true",
        "--topic one --partition 2 --offset earliest --max-messages 3 --formatter-property print.timestamp=true",
        "--topic one --partition 0 --offset latest --timeout-ms 400",
        "--topic one --partition 0 --offset 2 --max-messages 2 --formatter-property line.separator=#",
        "--include em.* --from-beginning --timeout-ms 3000",
        "--topic one --offset 3",
        "--partition 0",
        "--topic one --partition 0 --offset soon",
    ],
)
def test_kafka_console_consumer(server: Server, arguments: str) -> None:
    compare(server, "kafka-console-consumer", *AT, *arguments.split(), stderr=True)


@at_length
@pytest.mark.parametrize(
    ("arguments", "stdin"),
    [
        ("--topic one --reader-property parse.key=true", "nokey\n"),
        ("", "x\n"),
        ("--topic one --property a=b --reader-property c=d", ""),
    ],
)
def test_kafka_console_producer_says_what_is_wrong(server: Server, arguments: str, stdin: str) -> None:
    compare(server, "kafka-console-producer", *AT, *arguments.split(), stdin=stdin, stderr=True)


def _shape(text: str) -> str:
    """Text with every number as N, to compare only the form."""
    return re.sub(r"\d[-\d.:]*", "N", text)


def test_the_performance_tools_report_in_the_same_form(server: Server) -> None:
    produce = ("--topic", "perf", "--num-records", "2000", "--record-size", "50", "--throughput", "-1")
    compare(server, "kafka-producer-perf-test", *AT, *produce, change=_shape)
    deprecated = ("--producer-props", "bootstrap.servers=$B", "acks=1", "--warmup-records", "10")
    compare(server, "kafka-producer-perf-test", *produce, *deprecated, change=_shape)
    consume = ("--topic", "perf", "--num-records", "4000", "--timeout", "10000")
    compare(server, "kafka-consumer-perf-test", *AT, *consume, change=_shape)
    compare(server, "kafka-consumer-perf-test", *AT, *consume, "--hide-header", change=_shape)


@at_length
@pytest.mark.parametrize(
    "arguments",
    [
        "--files $D/one-0/00000000000000000000.log",
        "--files $D/one-0/00000000000000000000.log,$D/other-1/00000000000000000000.log --print-data-log",
        "--files $D/one-0/00000000000000000000.log --print-data-log --skip-record-metadata",
        "--files $D/one-0/partition.metadata.none",
        "",
    ],
)
def test_kafka_dump_log(server: Server, arguments: str) -> None:
    compare(server, "kafka-dump-log", *arguments.split())


def test_kafka_dump_log_decodes_what_groups_store(server: Server) -> None:
    logs = sorted(server.data.glob("__consumer_offsets-*/00000000000000000000.log"))
    (kept,) = [log for log in logs if b"\x00\x04away" in log.read_bytes()]
    told = compare(server, "kafka-dump-log", "--offsets-decoder", "--files", str(kept))
    assert '"group":"away"' in told


@at_length
@pytest.mark.parametrize("formatter", ["OffsetsMessageFormatter", "GroupMetadataMessageFormatter"])
def test_what_groups_store_is_consumed_as_json(server: Server, formatter: str) -> None:
    partition = string_hash("away") % 5
    read = ("--topic", "__consumer_offsets", "--partition", str(partition), "--offset", "earliest")
    full_name = f"org.apache.kafka.tools.consumer.{formatter}"
    compare(server, "kafka-console-consumer", *AT, *read, "--timeout-ms", "4000", "--formatter", full_name)
