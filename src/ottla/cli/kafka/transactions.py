"""`kafka-transactions`: list and describe transactions and the producers of a partition, end transactions that hang."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

from ottla.cli.connect import admin_from
from ottla.cli.faults import Misuse
from ottla.cli.javamap import hash_order, partition_hash
from ottla.cli.kafka.java_errors import told
from ottla.cli.kafka.subcommands import choose, padded, required, required_number
from ottla.cli.options import Given, Option, Parser
from ottla.client.errors import ClientError, refused
from ottla.client.model import ProducerIdentity
from ottla.kernel.errors import ApiError, ErrorCode
from ottla.kernel.ids import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin.transactions import OpenTransaction
    from ottla.client.blocking.admin import Admin

_MINUTE_MS = 60_000
_USAGE = "usage: kafka-transactions.sh [-h] [-v] [--command-config FILE] --bootstrap-server host:port COMMAND ...\n"
_ABOUT = (
    "This tool is used to analyze the transactional state of producers in the cluster. "
    "It can be used to detect and recover from hanging transactions."
)
_TOPIC = Option("topic", "Topic name.", "TOPIC")
_PARTITION = Option("partition", "Partition number.", "PARTITION", "Integer")
_BROKER = Option("broker-id", "The broker to ask, of those that have a replica.", "BROKER_ID", "Integer")

_COMMON = Parser(
    _ABOUT,
    [
        Option("bootstrap-server", "REQUIRED: the brokers to connect to.", "host:port"),
        Option("command-config", "Property file with client options.", "FILE"),
    ],
)
_PARSERS = {
    "list": Parser(
        "list transactions",
        [
            Option("duration-filter", "Only those that run for longer than so many ms.", "DURATION_FILTER", "Long"),
            Option("transactional-id-pattern", "Only ids that this regular expression matches.", "PATTERN"),
        ],
    ),
    "describe": Parser(
        "describe the state of an active transactional-id",
        [Option("transactional-id", "Transactional id.", "ID")],
    ),
    "describe-producers": Parser(
        "describe the states of active producers for a topic partition", [_BROKER, _TOPIC, _PARTITION]
    ),
    "abort": Parser(
        "abort a hanging transaction (requires administrative privileges)",
        [
            _TOPIC,
            _PARTITION,
            Option("start-offset", "Where the transaction begins.", "START_OFFSET", "Long"),
            Option("producer-id", "Instead of the start offset, with both epochs.", "PRODUCER_ID", "Long"),
            Option("producer-epoch", "Producer epoch.", "PRODUCER_EPOCH", "Integer"),
            Option("coordinator-epoch", "Coordinator epoch.", "COORDINATOR_EPOCH", "Integer"),
        ],
    ),
    "find-hanging": Parser(
        "find hanging transactions",
        [
            _BROKER,
            Option("max-transaction-timeout", "Only those older, in minutes.", "MINUTES", "Integer", default="15"),
            _TOPIC,
            _PARTITION,
        ],
    ),
    "forceTerminateTransaction": Parser(
        "Force abort an ongoing transaction on transactionalId",
        [Option("transactionalId", "Transactional id.", "ID")],
    ),
}


class _Ended(Exception):
    """The tool has nothing more to do; the text is the reason."""


def command(arguments: Sequence[str]) -> int:
    try:
        chosen = choose(_COMMON, _PARSERS, arguments or ["--help"])
        for given in (chosen.before, chosen.behind):
            if "help" in given:
                sys.stdout.write(f"{_USAGE}\n{given.parser.about}\n{given.parser.table()}")
                return 0
            if "version" in given:
                sys.stdout.write("4.3.1\n")
                return 0
        server = required(chosen.before, "bootstrap-server")
        with admin_from(server, chosen.before.text("command-config")) as admin:
            _COMMANDS[chosen.name](admin, chosen.behind)
    except Misuse as fault:
        sys.stdout.flush()
        sys.stderr.write(f"{_USAGE}kafka-transactions.sh: error: {fault}\n")
        return 1
    except _Ended as end:
        sys.stdout.flush()
        sys.stderr.write(f"{end}\n")
        return 1
    return 0


def _fail(wish: str, fault: Exception) -> NoReturn:
    reason = told(fault).rstrip(".")
    raise _Ended(f"{wish}: {reason}. Enable debug logging for additional detail.") from fault


def _list(admin: Admin, given: Given) -> None:
    longer_than_ms = given.number("duration-filter")
    try:
        found = admin.list_transactions(
            longer_than_ms=-1 if longer_than_ms is None else longer_than_ms,
            pattern=given.text("transactional-id-pattern"),
        )
    except (ApiError, ClientError) as fault:
        _fail("Failed to list transactions", fault)
    rows = [(each.transactional_id, str(each.coordinator), str(each.producer_id), each.state) for each in found]
    sys.stdout.write(padded(("TransactionalId", "Coordinator", "ProducerId", "TransactionState"), rows))


def _describe(admin: Admin, given: Given) -> None:
    name = required(given, "transactional-id")
    found = admin.describe_transactions([name])[name]
    if isinstance(found, ApiError):
        if found.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            why = "failed because the ID could not be found"
            found = refused(found.code, name, f"DescribeTransactions request for transactionalId `{name}` {why}")
        _fail(f"Failed to describe transaction state of transactional-id `{name}`", found)
    is_open = found.started_ms >= 0
    partitions = hash_order(found.partitions, partition_hash)
    row = (
        str(found.coordinator),
        name,
        str(found.producer_id),
        str(found.producer_epoch),
        found.state,
        str(found.timeout_ms),
        str(found.started_ms) if is_open else "None",
        str(int(time.time() * 1000) - found.started_ms) if is_open else "None",
        ",".join(str(partition) for partition in partitions),
    )
    headers = (
        "CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState", "TransactionTimeoutMs",
        "CurrentTransactionStartTimeMs", "TransactionDurationMs", "TopicPartitions",
    )  # fmt: skip
    sys.stdout.write(padded(headers, [row]))


def _describe_producers(admin: Admin, given: Given) -> None:
    broker = given.number("broker-id")
    partition = TopicPartition(required(given, "topic"), required_number(given, "partition"))
    found = admin.describe_producers([partition], broker)[partition]
    if isinstance(found, Exception):
        where = "leader" if broker is None else f"broker {broker}"
        _fail(f"Failed to describe producers for partition {partition} on {where}", found)
    rows = [
        (
            str(each.producer_id),
            str(each.producer_epoch),
            str(max(each.coordinator_epoch, -1)),
            str(each.last_sequence),
            str(each.last_timestamp),
            str(each.current_txn_start_offset) if each.current_txn_start_offset >= 0 else "None",
        )
        for each in found
    ]
    headers = (
        "ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence", "LastTimestamp",
        "CurrentTransactionStartOffset",
    )  # fmt: skip
    sys.stdout.write(padded(headers, rows))


def _abort(admin: Admin, given: Given) -> None:
    partition = TopicPartition(required(given, "topic"), required_number(given, "partition"))
    start, producer_id = given.number("start-offset"), given.number("producer-id")
    if start is not None:
        producer, coordinator_epoch = _open_at(admin, partition, start)
    elif producer_id is not None:
        for name in ("producer-epoch", "coordinator-epoch"):
            if name not in given:
                raise _Ended(f"Missing required argument --{name}")
        producer = ProducerIdentity(producer_id, required_number(given, "producer-epoch"))
        coordinator_epoch = max(required_number(given, "coordinator-epoch"), 0)
    else:
        raise _Ended(
            "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above) or "
            "with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
        )
    try:
        admin.abort_in_partition(partition, producer, coordinator_epoch)
    except (ApiError, ClientError) as fault:
        spec = (
            f"AbortTransactionSpec(topicPartition={partition}, producerId={producer.producer_id}, "
            f"producerEpoch={producer.producer_epoch}, coordinatorEpoch={coordinator_epoch})"
        )
        _fail(f"Failed to abort transaction {spec}", _as_java_says_it(spec, coordinator_epoch, fault))


def _open_at(admin: Admin, partition: TopicPartition, start: int) -> tuple[ProducerIdentity, int]:
    producers = admin.describe_producers([partition])[partition]
    if isinstance(producers, Exception):
        _fail(f"Failed to validate producer state for partition {partition}", producers)
    for each in producers:
        if each.current_txn_start_offset == start >= 0:
            return ProducerIdentity(each.producer_id, each.producer_epoch), max(each.coordinator_epoch, 0)
    raise _Ended(f"Could not find any open transactions starting at offset {start} on partition {partition}")


def _as_java_says_it(spec: str, coordinator_epoch: int, fault: Exception) -> Exception:
    if not isinstance(fault, ApiError):
        return fault
    request = f"WriteTxnMarkers request with {spec}"
    if fault.code is ErrorCode.INVALID_PRODUCER_EPOCH:
        return refused(fault.code, spec, f"{request} failed due an invalid producer epoch")
    if fault.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
        why = f"since the provided coordinator epoch {coordinator_epoch} has been fenced by the active coordinator"
        return refused(fault.code, spec, f"{request} failed {why}")
    return fault


def _find_hanging(admin: Admin, given: Given) -> None:
    topic, index, broker = given.text("topic"), given.number("partition"), given.number("broker-id")
    if topic is None and broker is None:
        raise _Ended(
            "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search"
        )
    if index is not None and topic is None:
        raise _Ended("The --partition argument requires --topic to be provided")
    older_than_ms = given.count("max-transaction-timeout") * _MINUTE_MS
    partitions = None if topic is None or index is None else [TopicPartition(topic, index)]
    try:
        found = admin.hanging_transactions(
            older_than_ms, topics=None if topic is None else [topic], partitions=partitions, broker=broker
        )
    except (ApiError, ClientError) as fault:
        _fail("Failed to find hanging transactions", fault)
    headers = (
        "Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset", "LastTimestamp",
        "Duration(min)",
    )  # fmt: skip
    sys.stdout.write(padded(headers, [_hanging_row(each) for each in found]))


def _hanging_row(found: OpenTransaction) -> tuple[str, ...]:
    producer = found.producer
    return (
        found.partition.topic,
        str(found.partition.partition),
        str(producer.producer_id),
        str(producer.producer_epoch),
        str(max(producer.coordinator_epoch, -1)),
        str(producer.current_txn_start_offset),
        str(producer.last_timestamp),
        str((int(time.time() * 1000) - producer.last_timestamp) // _MINUTE_MS),
    )


def _force_terminate(admin: Admin, given: Given) -> None:
    name = required(given, "transactionalId")
    try:
        admin.terminate_transaction(name)
    except (ApiError, ClientError) as fault:
        _fail(f"Failed to force terminate transactionalId `{name}`", fault)


_COMMANDS: dict[str, Callable[[Admin, Given], None]] = {
    "list": _list,
    "describe": _describe,
    "describe-producers": _describe_producers,
    "abort": _abort,
    "find-hanging": _find_hanging,
    "forceTerminateTransaction": _force_terminate,
}
