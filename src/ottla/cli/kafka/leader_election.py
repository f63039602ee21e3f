"""`kafka-leader-election`: preferred leaders back in their place, or any leader if no complete replica is left."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from ottla.cli.connect import admin_from
from ottla.cli.faults import Misuse, text_of
from ottla.cli.javamap import hash_order, partition_hash
from ottla.cli.kafka.java_errors import java
from ottla.cli.options import Given, Option, Parser
from ottla.client.admin.replicas import Election
from ottla.client.errors import RequestTimedOut
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition

PARSER = Parser(
    "This tool attempts to elect a new leader for a set of topic partitions. "
    "The type of elections supported are preferred replicas and unclean replicas.",
    [
        Option("bootstrap-server", "REQUIRED: the broker to connect to.", "host:port"),
        Option("admin.config", "Deprecated: --command-config.", "config file"),
        Option("command-config", "Property file with client options.", "Config file"),
        Option("path-to-json-file", "JSON file with the partitions.", "Path to JSON file"),
        Option("topic", "The topic of one partition.", "topic name"),
        Option("partition", "The partition of --topic.", "partition id", "Integer"),
        Option("all-topic-partitions", "Every partition that can have another leader."),
        Option("election-type", "REQUIRED: preferred or unclean.", "election type"),
    ],
)
_WHICH = ("topic", "all-topic-partitions", "path-to-json-file")


def command(arguments: Sequence[str]) -> int:
    given = PARSER.read(arguments)
    try:
        _check(given)
        election = Election[given.need("election-type").upper()]
        partitions = _partitions(given)
        config = given.text("command-config")
        if "admin.config" in given:
            sys.stdout.write(
                "Option --admin.config has been deprecated and will be removed in a future version. "
                "Use --command-config instead.\n"
            )
            config = given.text("admin.config")
        with admin_from(given.need("bootstrap-server"), config) as admin:
            try:
                outcome = admin.elect_leaders(election, partitions)
            except RequestTimedOut:
                sys.stdout.write("Timeout waiting for election results\n")
                raise Misuse("Timeout waiting for election results") from None
            except ApiError as fault:
                if fault.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                    sys.stdout.write("Not authorized to perform leader election\n")
                    raise Misuse("Not authorized to perform leader election") from None
                raise Misuse(java(fault)) from None
    except (Misuse, OSError) as fault:
        sys.stderr.write(f"{fault}\n")
        return 1
    return _report(election, outcome)


def _check(given: Given) -> None:
    missing = [name for name in ("bootstrap-server", "election-type") if name not in given]
    if missing:
        raise Misuse(f"Missing required option(s): {', '.join(missing)}")
    if given.need("election-type").upper() not in Election.__members__:
        raise Misuse(f"Cannot parse argument '{given.text('election-type')}' of option election-type")
    PARSER.exclusive(given, "admin.config", "command-config")
    if sum(name in given for name in _WHICH) != 1:
        raise Misuse(f"One and only one of the following options is required: {', '.join(_WHICH)}")
    if "topic" in given and "partition" not in given:
        raise Misuse("Missing required option(s): partition")
    if "partition" in given and "topic" not in given:
        raise Misuse("Option partition is only allowed if topic is used")


def _partitions(given: Given) -> list[TopicPartition] | None:
    """The partitions; None for all."""
    path = given.text("path-to-json-file")
    if path is not None:
        return _read(text_of(path))
    topic = given.text("topic")
    return None if topic is None else [TopicPartition(topic, given.number("partition") or 0)]


def _read(text: str) -> list[TopicPartition]:
    """`{"partitions": [{"topic": T, "partition": N}, ...]}`."""
    try:
        content = json.loads(text)
    except json.JSONDecodeError:
        raise Misuse("Replica election data is empty") from None
    if not isinstance(content, dict) or "partitions" not in content:
        raise Misuse('Replica election data is missing "partitions" field')
    try:
        found = [TopicPartition(str(entry["topic"]), int(entry["partition"])) for entry in content["partitions"]]
    except (KeyError, TypeError, ValueError) as fault:
        raise Misuse(f"Each partition needs a topic and a number: {fault}") from None
    if twice := {one for one in found if found.count(one) > 1}:
        names = ", ".join(map(str, hash_order(sorted(twice), partition_hash)))
        raise Misuse(f"Replica election data contains duplicate partitions: [{names}]")
    return found


def _report(election: Election, outcome: dict[TopicPartition, ApiError | None]) -> int:
    in_order = hash_order(outcome, partition_hash)
    done = [one for one in in_order if outcome[one] is None]
    failed = {one: fault for one in in_order if (fault := outcome[one]) is not None}
    needless = [one for one, fault in failed.items() if fault.code is ErrorCode.ELECTION_NOT_NEEDED]
    if done:
        names = ", ".join(map(str, done))
        sys.stdout.write(f"Successfully completed leader election ({election.name}) for partitions {names}\n")
    if needless:
        sys.stdout.write(f"Valid replica already elected for partitions {', '.join(map(str, needless))}\n")
    really = {one: fault for one, fault in failed.items() if one not in needless}
    for one, fault in really.items():
        sys.stdout.write(f"Error completing leader election ({election.name}) for partition: {one}: {java(fault)}\n")
    if really:
        sys.stdout.flush()
        sys.stderr.write(f"{len(really)} replica(s) could not be elected\n")
    return 1 if really else 0
