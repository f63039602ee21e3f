"""`kafka-log-dirs`: the content of the brokers' log directories, as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from ottla.cli.connect import admin_from
from ottla.cli.javamap import hash_order, partition_hash, string_hash
from ottla.cli.kafka.java_errors import java
from ottla.cli.options import Option, Parser
from ottla.client.errors import refused
from ottla.kernel.ids import TopicPartition
from ottla.messages.describe_log_dirs import DescribeLogDirsResult

PARSER = Parser(
    "This tool helps to query log directory usage on the specified brokers.",
    [
        Option("bootstrap-server", "REQUIRED: the brokers to connect to.", "The server(s) to use for bootstrapping"),
        Option("command-config", "Property file with client options.", "Admin client property file"),
        Option("describe", "Describe the log directories."),
        Option("topic-list", "Only these topics, with commas.", "Topic list", default=""),
        Option("broker-list", "Only these brokers, with commas.", "Broker list"),
    ],
)


def command(arguments: Sequence[str]) -> int:
    given = PARSER.read(arguments)
    PARSER.need(given, "bootstrap-server", "describe")
    topics = {name for name in given.need("topic-list").split(",") if name}
    with admin_from(given.need("bootstrap-server"), given.text("command-config")) as admin:
        brokers = admin.cluster.brokers()
        text = given.text("broker-list")
        try:
            wanted = [int(part) for part in text.split(",") if part] if text else sorted(brokers)
        except ValueError:
            sys.stderr.write(f"ERROR: --broker-list takes numbers with commas, not {text}\n")
            return 1
        missing = [broker for broker in wanted if broker not in brokers]
        if missing:
            known = ",".join(map(str, sorted(brokers)))
            absent = ",".join(map(str, missing))
            sys.stderr.write(
                f"ERROR: The given brokers do not exist from --broker-list: {absent}. "
                f"Current existent brokers: {known}\n"
            )
            return 1
        sys.stdout.write("Querying brokers for log directories information\n")
        found = admin.describe_log_dirs([brokers[broker] for broker in wanted])
    sys.stdout.write(f"Received log directory information from brokers {','.join(map(str, wanted))}\n")
    described = []
    for broker, results in found.items():
        if isinstance(results, Exception):
            raise results
        described.append({"broker": broker, "logDirs": _directories(results, topics)})
    sys.stdout.write(json.dumps({"brokers": described, "version": 1}, separators=(",", ":")) + "\n")
    return 0


def _directories(results: Sequence[DescribeLogDirsResult], topics: set[str]) -> list[dict[str, object]]:
    by_name = {result.log_dir: result for result in results}
    return [_directory(by_name[name], topics) for name in hash_order(by_name, string_hash, len(by_name))]


def _directory(result: DescribeLogDirsResult, topics: set[str]) -> dict[str, object]:
    held = {
        TopicPartition(topic.name, part.partition_index): part for topic in result.topics for part in topic.partitions
    }
    partitions = [
        {
            "partition": str(partition),
            "size": held[partition].partition_size,
            "offsetLag": held[partition].offset_lag,
            "isFuture": held[partition].is_future_key,
        }
        for partition in hash_order(held, partition_hash)
        if not topics or partition.topic in topics
    ]
    error = java(refused(result.error_code, result.log_dir)).partition(":")[0] if result.error_code else None
    return {"partitions": partitions, "error": error, "logDir": result.log_dir}
