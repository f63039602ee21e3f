"""Every `kafka.*` setting: honoured, accepted without effect, or refused by name."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping
from dataclasses import dataclass

from ottla.client.security import OPTIONS as SECURITY
from ottla.client.security import PLAINTEXT, Security, security_of

log = logging.getLogger("ottla.spark")

_MOST = (1 << 31) - 1
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """The `kafka.*` settings that have an effect here."""

    bootstrap_servers: str
    client_id: str = "ottla-spark"
    group_id: str | None = None
    read_committed: bool = False
    request_timeout_ms: int = 30_000
    fetch_max_bytes: int = 8 << 20
    fetch_max_wait_ms: int = 500
    check_crcs: bool = True
    acks: int = -1
    security: Security = PLAINTEXT
    compression: str = "none"
    batch_size: int = 1 << 20
    delivery_timeout_ms: int = 120_000
    transaction_timeout_ms: int = 300_000
    """A longer default than Kafka's one minute, which is little for a task that waits for slow rows."""


_SHARED_WITHOUT_EFFECT = """
    client.dns.lookup config.providers connections.max.idle.ms default.api.timeout.ms enable.metrics.push
    metadata.max.age.ms metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy metric.reporters
    metrics.num.samples metrics.recording.level metrics.sample.window.ms receive.buffer.bytes
    reconnect.backoff.max.ms reconnect.backoff.ms retry.backoff.max.ms retry.backoff.ms
    send.buffer.bytes socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
"""
CONSUMER_WITHOUT_EFFECT = frozenset(
    (
        _SHARED_WITHOUT_EFFECT
        + """
    allow.auto.create.topics auto.commit.interval.ms client.rack exclude.internal.topics fetch.min.bytes
    group.instance.id group.protocol group.remote.assignor heartbeat.interval.ms max.partition.fetch.bytes
    max.poll.interval.ms max.poll.records partition.assignment.strategy session.timeout.ms
    share.acknowledgement.mode share.acquire.mode
"""
    ).split()
)
PRODUCER_WITHOUT_EFFECT = frozenset(
    (
        _SHARED_WITHOUT_EFFECT
        + """
    buffer.memory compression.gzip.level compression.lz4.level compression.zstd.level linger.ms max.block.ms
    max.in.flight.requests.per.connection metadata.max.idle.ms partitioner.adaptive.partitioning.enable
    partitioner.availability.timeout.ms partitioner.ignore.keys retries
    transaction.two.phase.commit.enable
"""
    ).split()
)

_REFUSED_BY_BOTH = {
    "interceptor.classes": "Kafka option 'interceptor.classes' is not supported",
}
REFUSED_BY_SOURCE = {
    "auto.offset.reset": (
        "Kafka option 'auto.offset.reset' is not supported. Instead set the source option 'startingOffsets' to "
        "'earliest' or 'latest' to specify where to start. Structured Streaming manages which offsets are consumed "
        "internally, rather than relying on the kafkaConsumer to do it. Note that 'startingOffsets' only applies when "
        "a new Streaming query is started, and that resuming will always pick up from where the query left off."
    ),
    "key.deserializer": (
        "Kafka option 'key.deserializer' is not supported as keys are deserialized as byte arrays with "
        "ByteArrayDeserializer. Use DataFrame operations to explicitly deserialize the keys."
    ),
    "value.deserializer": (
        "Kafka option 'value.deserializer' is not supported as values are deserialized as byte arrays with "
        "ByteArrayDeserializer. Use DataFrame operations to explicitly deserialize the values."
    ),
    "enable.auto.commit": "Kafka option 'enable.auto.commit' is not supported",
    **_REFUSED_BY_BOTH,
}
REFUSED_BY_SINK = {
    "key.serializer": (
        "Kafka option 'key.serializer' is not supported as keys are serialized with ByteArraySerializer."
    ),
    "value.serializer": (
        "Kafka option 'value.serializer' is not supported as value are serialized with ByteArraySerializer."
    ),
    "transactional.id": (
        "Kafka option 'transactional.id' is not supported: with option 'delivery' exactly-once each task has an id of "
        "its own, which begins with option 'delivery.prefix'"
    ),
    "partitioner.class": (
        "Kafka option 'partitioner.class' is not supported: rows go to the partition in the column 'partition', "
        "else by the murmur2 hash of their key, else spread"
    ),
    **_REFUSED_BY_BOTH,
}
_ALWAYS = {"bootstrap.servers", "client.id", "request.timeout.ms", *SECURITY}
READ = frozenset({"group.id", "isolation.level", "fetch.max.bytes", "fetch.max.wait.ms", "check.crcs"} | _ALWAYS)
WRITTEN = frozenset(
    {
        "acks",
        "compression.type",
        "batch.size",
        "max.request.size",
        "delivery.timeout.ms",
        "enable.idempotence",
        "transaction.timeout.ms",
    }
    | _ALWAYS
)


_ALL = (
    READ
    | WRITTEN
    | CONSUMER_WITHOUT_EFFECT
    | PRODUCER_WITHOUT_EFFECT
    | REFUSED_BY_SOURCE.keys()
    | REFUSED_BY_SINK.keys()
)
"""Settings of Kafka's clients. One for the other side is ignored aloud: programs share settings between both."""


def consumer_settings(settings: Mapping[str, str]) -> KafkaSettings:
    """The settings of a source; `settings` without their prefix. ValueError for one that is refused."""
    _judge(settings, REFUSED_BY_SOURCE, READ, CONSUMER_WITHOUT_EFFECT)
    isolation = settings.get("isolation.level", "read_uncommitted").strip().lower()
    if isolation not in ("read_uncommitted", "read_committed"):
        raise ValueError(
            f"Kafka option 'isolation.level' must be read_uncommitted or read_committed, got '{isolation}'"
        )
    if "group.id" in settings:
        log.warning(
            "Kafka option 'kafka.group.id' has been set on this query. It is only used to publish how far the query "
            "has read; queries that share a group id overwrite each other's offsets there."
        )
    default = KafkaSettings("")
    return KafkaSettings(
        bootstrap_servers=_bootstrap(settings, "consumer"),
        client_id=settings.get("client.id", default.client_id),
        group_id=settings.get("group.id"),
        read_committed=isolation == "read_committed",
        request_timeout_ms=_number(settings, "request.timeout.ms", default.request_timeout_ms),
        security=security_of(settings),
        fetch_max_bytes=_number(settings, "fetch.max.bytes", default.fetch_max_bytes),
        fetch_max_wait_ms=_number(settings, "fetch.max.wait.ms", default.fetch_max_wait_ms),
        check_crcs=_flag(settings, "check.crcs"),
    )


def producer_settings(settings: Mapping[str, str]) -> KafkaSettings:
    """The settings of a sink; `settings` without their prefix. ValueError for one that is refused."""
    _judge(settings, REFUSED_BY_SINK, WRITTEN, PRODUCER_WITHOUT_EFFECT)
    compression = settings.get("compression.type", "none").strip().lower()
    if compression not in ("none", "gzip", "snappy", "lz4", "zstd"):
        raise ValueError(
            f"Kafka option 'compression.type' must be none, gzip, snappy, lz4 or zstd, got '{compression}'"
        )
    acks = settings.get("acks", "all").strip().lower()
    if acks not in ("all", "-1"):
        raise ValueError(
            f"Kafka option 'acks' must be all, got '{acks}': the sink is idempotent, and a task that ends must have "
            "its rows in Kafka"
        )
    if settings.get("enable.idempotence", "true").strip().lower() != "true":
        log.warning("Kafka option 'enable.idempotence' has no effect: this sink is always idempotent")
    default = KafkaSettings("")
    return KafkaSettings(
        bootstrap_servers=_bootstrap(settings, "producer"),
        client_id=settings.get("client.id", default.client_id),
        request_timeout_ms=_number(settings, "request.timeout.ms", default.request_timeout_ms),
        security=security_of(settings),
        compression=compression,
        batch_size=min(
            _number(settings, "batch.size", default.batch_size),
            _number(settings, "max.request.size", default.batch_size),  # a request holds one batch
        ),
        delivery_timeout_ms=_number(settings, "delivery.timeout.ms", default.delivery_timeout_ms),
        transaction_timeout_ms=_number(settings, "transaction.timeout.ms", default.transaction_timeout_ms),
    )


def _bootstrap(settings: Mapping[str, str], role: str) -> str:
    if not settings.get("bootstrap.servers", "").strip():
        raise ValueError(f"Option 'kafka.bootstrap.servers' must be specified for configuring Kafka {role}")
    return settings["bootstrap.servers"].strip()


def _judge(
    settings: Mapping[str, str], refused: Mapping[str, str], honoured: frozenset[str], without_effect: frozenset[str]
) -> None:
    for name in sorted(settings):
        for prefix, why in refused.items():
            if name == prefix or (prefix.endswith(".") and name.startswith(prefix)):
                raise ValueError(why if name == prefix else f"Kafka option '{name}' is not supported: {why}")
        if name not in honoured and name not in without_effect:
            if name not in _ALL:
                near = difflib.get_close_matches(name, honoured | without_effect, n=1)
                hint = f"; did you mean kafka.{near[0]}?" if near else ""
                raise ValueError(f"Option 'kafka.{name}' is not known{hint}")
            log.warning("Kafka option '%s' has no effect here", name)


def _flag(settings: Mapping[str, str], name: str) -> bool:
    text = settings.get(name, "true").strip().lower()
    if text not in ("true", "false"):
        raise ValueError(f"Kafka option '{name}' must be true or false, got '{text}'")
    return text == "true"


def _number(settings: Mapping[str, str], name: str, default: int) -> int:
    text = settings.get(name)
    if text is None:
        return default
    try:
        number = int(text)
    except ValueError:
        raise ValueError(f"Kafka option '{name}' must be a whole number, got '{text}'") from None
    if not 0 <= number <= _MOST:
        raise ValueError(f"Kafka option '{name}' must be between 0 and {_MOST}, got {number}")
    return number
