"""Kafka's producer and consumer options, as tools are given them, turned into this client's settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import TypeVar

from ottla.cli.connect import number, parse_pairs, read_properties
from ottla.cli.faults import Misuse
from ottla.cli.options import Given
from ottla.client.consume.assignors import ASSIGNORS, COOPERATIVE_STICKY, RANGE, Assignor
from ottla.client.consume.settings import ConsumerSettings, FetchSettings
from ottla.client.model import IsolationLevel
from ottla.client.produce.partitioners import PARTITIONERS, murmur2_partitioner
from ottla.client.produce.settings import ProducerSettings
from ottla.config.option import ConfigError, OptionKind
from ottla.config.topic import TopicConfig
from ottla.records.compression import Codec

S = TypeVar("S")

_ACKS = {"all": -1, "-1": -1, "0": 0, "1": 1}


def gather(given: Given, file_options: tuple[str, ...], pair_options: tuple[str, ...]) -> dict[str, str]:
    """Properties from files and from key=value options; the latter win."""
    properties: dict[str, str] = {}
    for name in file_options:
        path = given.text(name)
        if path is not None:
            properties |= read_properties(path)
    for name in pair_options:
        properties |= parse_pairs(given.all(name))
    return properties


def switch(properties: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = properties.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise Misuse(f"Invalid value {text} for configuration {name}: Expected value to be either true or false")
    return text == "true"


def codec(name: str) -> Codec:
    try:
        return Codec[name.upper()]
    except KeyError:
        raise Misuse(f"Unknown compression name: {name}. Choose none, gzip, snappy, lz4 or zstd") from None


def _refusals_in_words(make: Callable[[Mapping[str, str]], S]) -> Callable[[Mapping[str, str]], S]:
    """Settings that the client refuses are a mistake of the command line: one line instead of a traceback."""

    @wraps(make)
    def made(properties: Mapping[str, str]) -> S:
        try:
            return make(properties)
        except ValueError as fault:
            raise Misuse(str(fault)) from None

    return made


@_refusals_in_words
def producer_settings(properties: Mapping[str, str]) -> ProducerSettings:
    """Settings of a producer."""
    acks = properties.get("acks", "all").lower()
    if acks not in _ACKS:
        raise Misuse(f"Invalid value {acks} for configuration acks: String must be one of: all, -1, 0, 1")
    partitioner = properties.get("partitioner", "")
    if partitioner and partitioner not in PARTITIONERS:
        raise Misuse(f"Unknown partitioner {partitioner}. Choose one of {', '.join(PARTITIONERS)}")
    defaults = ProducerSettings()
    chosen = codec(properties.get("compression.type", "none"))
    return ProducerSettings(
        acks=_ACKS[acks],
        enable_idempotence=switch(properties, "enable.idempotence", default=True),
        linger_ms=number(properties, "linger.ms", defaults.linger_ms, kind=OptionKind.LONG),
        batch_size=number(properties, "batch.size", defaults.batch_size),
        buffer_memory=number(properties, "buffer.memory", defaults.buffer_memory, kind=OptionKind.LONG),
        max_request_size=number(properties, "max.request.size", defaults.max_request_size),
        compression=chosen,
        compression_level=_level(properties, f"compression.{chosen.name.lower()}.level"),
        delivery_timeout_ms=number(properties, "delivery.timeout.ms", defaults.delivery_timeout_ms),
        request_timeout_ms=number(properties, "request.timeout.ms", defaults.request_timeout_ms),
        max_block_ms=number(properties, "max.block.ms", defaults.max_block_ms, kind=OptionKind.LONG),
        partitioner=PARTITIONERS.get(partitioner, murmur2_partitioner),
        transactional_id=properties.get("transactional.id"),
        transaction_timeout_ms=number(properties, "transaction.timeout.ms", defaults.transaction_timeout_ms),
    )


def _level(properties: Mapping[str, str], name: str) -> int | None:
    """A codec's level, which has the bounds of the topic's option of the same name."""
    declared = TopicConfig.BY_NAME.get(name)
    if declared is None or name not in properties:
        return None
    try:
        found = declared.parse(properties[name])
    except ConfigError as fault:
        raise Misuse(str(fault)) from None
    assert isinstance(found, int)
    return found


@_refusals_in_words
def consumer_settings(properties: Mapping[str, str]) -> ConsumerSettings:
    """Settings of a consumer."""
    defaults = ConsumerSettings()
    fetch = FetchSettings()
    isolation = properties.get("isolation.level", "read_uncommitted").upper()
    if isolation not in IsolationLevel.__members__:
        raise Misuse(f"Invalid value {isolation.lower()} for configuration isolation.level")
    reset = properties.get("auto.offset.reset", "latest")
    if reset not in ("earliest", "latest", "none"):
        raise Misuse(f"auto.offset.reset is earliest, latest or none, not {reset}")
    return ConsumerSettings(
        group_id=properties.get("group.id"),
        instance_id=properties.get("group.instance.id"),
        assignors=_assignors(properties.get("partition.assignment.strategy")),
        session_timeout_ms=number(properties, "session.timeout.ms", defaults.session_timeout_ms),
        heartbeat_interval_ms=number(properties, "heartbeat.interval.ms", defaults.heartbeat_interval_ms, least=1),
        max_poll_interval_ms=number(properties, "max.poll.interval.ms", defaults.max_poll_interval_ms, least=1),
        max_poll_records=number(properties, "max.poll.records", defaults.max_poll_records, least=1),
        enable_auto_commit=switch(properties, "enable.auto.commit", default=True),
        auto_commit_interval_ms=number(properties, "auto.commit.interval.ms", defaults.auto_commit_interval_ms),
        auto_offset_reset=reset,
        allow_auto_create_topics=switch(properties, "allow.auto.create.topics", default=True),
        exclude_internal_topics=switch(properties, "exclude.internal.topics", default=True),
        fetch=FetchSettings(
            min_bytes=number(properties, "fetch.min.bytes", fetch.min_bytes),
            max_wait_ms=number(properties, "fetch.max.wait.ms", fetch.max_wait_ms),
            max_bytes=number(properties, "fetch.max.bytes", fetch.max_bytes),
            max_partition_bytes=number(properties, "max.partition.fetch.bytes", fetch.max_partition_bytes),
            isolation_level=IsolationLevel[isolation],
            check_crcs=switch(properties, "check.crcs", default=True),
        ),
    )


def _assignors(text: str | None) -> tuple[Assignor, ...]:
    """By short name or by the class name that Java clients use."""
    if not text:
        return (RANGE, COOPERATIVE_STICKY)
    chosen = []
    for word in text.split(","):
        name = word.strip().rsplit(".", 1)[-1].removesuffix("Assignor")
        key = {"RoundRobin": "roundrobin", "CooperativeSticky": "cooperative-sticky"}.get(name, name.lower())
        if key not in ASSIGNORS:
            raise Misuse(f"Unknown assignor {word.strip()}. Choose one of {', '.join(ASSIGNORS)}")
        chosen.append(ASSIGNORS[key])
    return tuple(chosen)
