"""`kafka-delete-records`: delete records below offsets named in a JSON file."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from ottla.cli.connect import admin_from
from ottla.cli.faults import Misuse, text_of
from ottla.cli.kafka.java_errors import java
from ottla.cli.options import Option, Parser
from ottla.kernel.ids import TopicPartition

PARSER = Parser(
    "This tool helps to delete records of the given partitions down to the specified offset.",
    [
        Option("bootstrap-server", "REQUIRED: the broker to connect to.", "server(s) to use for bootstrapping"),
        Option("offset-json-file", "REQUIRED: JSON file with the offset of each partition.", "Offset json file path"),
        Option("command-config", "Property file with client options.", "command config property file path"),
    ],
)


def command(arguments: Sequence[str]) -> int:
    given = PARSER.read(arguments)
    PARSER.need(given, "bootstrap-server", "offset-json-file")
    try:
        offsets = _read(text_of(given.need("offset-json-file")))
    except (Misuse, OSError) as fault:
        sys.stderr.write(f"{fault}\n")
        return 1
    with admin_from(given.need("bootstrap-server"), given.text("command-config")) as admin:
        sys.stdout.write("Executing records delete operation\n")
        outcome = admin.delete_records(offsets)
    sys.stdout.write("Records delete operation completed:\n")
    for partition in sorted(offsets):
        found = outcome[partition]
        if isinstance(found, Exception):
            sys.stdout.write(f"partition: {partition}\terror: {java(found)}\n")
        else:
            sys.stdout.write(f"partition: {partition}\tlow_watermark: {found}\n")
    return 0


def _read(text: str) -> dict[TopicPartition, int]:
    """`{"version": 1, "partitions": [{"topic": T, "partition": N, "offset": N}, ...]}`."""
    try:
        content = json.loads(text)
        version = content.get("version", 1)
        if version != 1:
            raise Misuse(f"Not supported version field value {version}")
        entries = content["partitions"]
        offsets: dict[TopicPartition, int] = {}
        for entry in entries:
            partition = TopicPartition(str(entry["topic"]), int(entry["partition"]))
            if partition in offsets:
                raise Misuse(f"Offset json file contains duplicate topic partitions: {partition}")
            offsets[partition] = int(entry["offset"])
    except json.JSONDecodeError:
        raise Misuse("The input string is not a valid JSON") from None
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        raise Misuse(f"Missing partitions field: the file needs topic, partition and offset ({fault})") from None
    return offsets
