"""Every option of a topic: names, types and defaults are Kafka's, but for `deletion.protection` and `write.caching`."""

from __future__ import annotations

from ottla.config.option import (
    OptionKind,
    OptionSet,
    OptionStatus,
    Synonym,
    Value,
    at_least,
    between,
    one_of,
    option,
    some_of,
)

KiB = 1024
MiB = 1024 * KiB
GiB = 1024 * MiB
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
LONG_MAX = (1 << 63) - 1
_NO_TIERS = "Tiered storage is not there: every segment stays on the broker's own disk."


def _gzip_level(value: Value) -> str | None:
    fits = isinstance(value, int) and (value == -1 or 1 <= value <= 9)
    return None if fits else "Value must be between 1 and 9 or equal to -1"


def _replicas(value: Value) -> str | None:
    for one in value if isinstance(value, tuple) else ():
        partition, colon, broker = one.partition(":")
        if one != "*" and not (colon and partition.isdigit() and broker.isdigit()):
            return "must be the literal '*' or a list of replicas in the format [partitionId]:[brokerId]"
    return None


class TopicConfig(OptionSet):
    """The options of a topic, for its log, its leader and its compaction."""

    # fmt: off
    cleanup_policy: tuple[str, ...] = option(
        "cleanup.policy", ("delete",), OptionKind.LIST, check=some_of("compact", "delete"),
        broker_name="log.cleanup.policy",
        doc="delete: old segments go by time and size. compact: the last value of each key stays. Both may be given; "
        "empty keeps everything.",
    )
    compression_type: str = option(
        "compression.type", "producer", OptionKind.STRING,
        check=one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), broker_name="compression.type",
        doc="The codec batches are stored in; producer keeps each as it came.",
    )
    compression_gzip_level: int = option(
        "compression.gzip.level", -1, OptionKind.INT, check=_gzip_level, broker_name="compression.gzip.level",
        doc="Level for batches that are compressed anew with gzip; -1 is the library's default.",
    )
    compression_lz4_level: int = option(
        "compression.lz4.level", 9, OptionKind.INT, check=between(1, 17), broker_name="compression.lz4.level",
        doc="Level for batches that are compressed anew with lz4.",
    )
    compression_zstd_level: int = option(
        "compression.zstd.level", 3, OptionKind.INT, check=between(-131072, 22), broker_name="compression.zstd.level",
        doc="Level for batches that are compressed anew with zstd.",
    )
    delete_retention_ms: int = option(
        "delete.retention.ms", DAY_MS, OptionKind.LONG, check=at_least(0),
        broker_name="log.cleaner.delete.retention.ms",
        doc="How long compaction keeps a tombstone, so that a reader who began earlier still sees the delete.",
    )
    deletion_protection: str = option(
        "deletion.protection", "auto", OptionKind.STRING, check=one_of("auto", "true", "false"),
        doc="Whether requests to delete the topic or its records are refused; auto: for internal topics and the "
        "registry's. false: an administrator lets them be deleted, and damaged transaction states be skipped.",
    )
    file_delete_delay_ms: int = option(
        "file.delete.delay.ms", MINUTE_MS, OptionKind.LONG, check=at_least(0),
        broker_name="log.segment.delete.delay.ms",
        doc="How long a deleted segment's file stays on disk under its .deleted name.",
    )
    flush_messages: int = option(
        "flush.messages", LONG_MAX, OptionKind.LONG, check=at_least(1), broker_name="log.flush.interval.messages",
        doc="Put the log on disk after this many records, besides the grouped sync that acks=all waits for.",
    )
    flush_ms: int = option(
        "flush.ms", LONG_MAX, OptionKind.LONG, check=at_least(0),
        broker_name=(Synonym("log.flush.interval.ms"), Synonym("log.flush.scheduler.interval.ms")),
        doc="Put the log on disk when its oldest unsynced record is this old.",
    )
    follower_replication_throttled_replicas: tuple[str, ...] = option(
        "follower.replication.throttled.replicas", (), OptionKind.LIST, check=_replicas,
        doc="Replicas, as PARTITION:BROKER,... or *, that are written no faster than "
        "follower.replication.throttled.rate while they are not in sync.",
    )
    index_interval_bytes: int = option(
        "index.interval.bytes", 4096, OptionKind.INT, check=at_least(0), broker_name="log.index.interval.bytes",
        doc="An entry of the sparse offset index for every so many bytes of log.",
    )
    internal_segment_bytes: int | None = option(
        "internal.segment.bytes", None, OptionKind.INT, internal=True,
        doc="For tests: stands in for segment.bytes, without its lower bound.",
    )
    leader_replication_throttled_replicas: tuple[str, ...] = option(
        "leader.replication.throttled.replicas", (), OptionKind.LIST, check=_replicas,
        doc="Replicas, as PARTITION:BROKER,... or *, from which others that are not in sync are served no faster than "
        "leader.replication.throttled.rate.",
    )
    local_retention_bytes: int = option(
        "local.retention.bytes", -2, OptionKind.LONG, check=at_least(-2), broker_name="log.local.retention.bytes",
        status=OptionStatus.REFUSED, doc=_NO_TIERS,
    )
    local_retention_ms: int = option(
        "local.retention.ms", -2, OptionKind.LONG, check=at_least(-2), broker_name="log.local.retention.ms",
        status=OptionStatus.REFUSED, doc=_NO_TIERS,
    )
    max_compaction_lag_ms: int = option(
        "max.compaction.lag.ms", LONG_MAX, OptionKind.LONG, check=at_least(1),
        broker_name="log.cleaner.max.compaction.lag.ms",
        doc="Compact at the latest when the oldest uncompacted record is this old, however little is dirty.",
    )
    max_message_bytes: int = option(
        "max.message.bytes", MiB + 12, OptionKind.INT, check=at_least(0), broker_name="message.max.bytes",
        doc="The largest record batch accepted, as it is after compression.",
    )
    message_timestamp_after_max_ms: int = option(
        "message.timestamp.after.max.ms", HOUR_MS, OptionKind.LONG, check=at_least(0),
        broker_name="log.message.timestamp.after.max.ms",
        doc="How far a record's own timestamp may lie ahead of the broker's clock.",
    )
    message_timestamp_before_max_ms: int = option(
        "message.timestamp.before.max.ms", LONG_MAX, OptionKind.LONG, check=at_least(0),
        broker_name="log.message.timestamp.before.max.ms",
        doc="How far a record's own timestamp may lie behind the broker's clock.",
    )
    message_timestamp_type: str = option(
        "message.timestamp.type", "CreateTime", OptionKind.STRING, check=one_of("CreateTime", "LogAppendTime"),
        broker_name="log.message.timestamp.type",
        doc="Whether records keep the producer's time or get the broker's at append.",
    )
    min_cleanable_dirty_ratio: float = option(
        "min.cleanable.dirty.ratio", 0.5, OptionKind.DOUBLE, check=between(0, 1),
        broker_name="log.cleaner.min.cleanable.ratio",
        doc="Compact once this share of the log is not yet compacted.",
    )
    min_compaction_lag_ms: int = option(
        "min.compaction.lag.ms", 0, OptionKind.LONG, check=at_least(0), broker_name="log.cleaner.min.compaction.lag.ms",
        doc="A record younger than this is not compacted away.",
    )
    min_insync_replicas: int = option(
        "min.insync.replicas", 1, OptionKind.INT, check=at_least(1), broker_name="min.insync.replicas",
        doc="acks=all is refused while fewer replicas than this are in sync.",
    )
    preallocate: bool = option(
        "preallocate", False, OptionKind.BOOLEAN, broker_name="log.preallocate", status=OptionStatus.REFUSED,
        doc="Segments grow as they are written: preallocation brought no gain, and its zero tail breaks tools.",
    )
    remote_log_copy_disable: bool = option(
        "remote.log.copy.disable", False, OptionKind.BOOLEAN, status=OptionStatus.REFUSED, doc=_NO_TIERS,
    )
    remote_log_delete_on_disable: bool = option(
        "remote.log.delete.on.disable", False, OptionKind.BOOLEAN, status=OptionStatus.REFUSED, doc=_NO_TIERS,
    )
    remote_storage_enable: bool = option(
        "remote.storage.enable", False, OptionKind.BOOLEAN, status=OptionStatus.REFUSED, doc=_NO_TIERS,
    )
    retention_bytes: int = option(
        "retention.bytes", -1, OptionKind.LONG, broker_name="log.retention.bytes",
        doc="Delete the oldest segments while the log would still hold this many bytes; -1: no limit.",
    )
    retention_ms: int = option(
        "retention.ms", 7 * DAY_MS, OptionKind.LONG, check=at_least(-1),
        broker_name=(
            Synonym("log.retention.ms"),
            Synonym("log.retention.minutes", MINUTE_MS),
            Synonym("log.retention.hours", HOUR_MS),
        ),
        doc="Delete segments whose newest record is older than this; -1: never.",
    )
    segment_bytes: int = option(
        "segment.bytes", GiB, OptionKind.INT, check=at_least(MiB), broker_name="log.segment.bytes",
        doc="Roll to a new segment once this one holds this many bytes.",
    )
    segment_index_bytes: int = option(
        "segment.index.bytes", 10 * MiB, OptionKind.INT, check=at_least(4), broker_name="log.index.size.max.bytes",
        doc="Roll to a new segment once this one's offset index holds this many bytes.",
    )
    segment_jitter_ms: int = option(
        "segment.jitter.ms", 0, OptionKind.LONG, check=at_least(0),
        broker_name=(Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", HOUR_MS)),
        doc="Take up to so much, at random, off segment.ms, so that segments do not all roll at once.",
    )
    segment_ms: int = option(
        "segment.ms", 7 * DAY_MS, OptionKind.LONG, check=at_least(1),
        broker_name=(Synonym("log.roll.ms"), Synonym("log.roll.hours", HOUR_MS)),
        doc="Roll to a new segment once this one's first record is this old.",
    )
    unclean_leader_election_enable: bool = option(
        "unclean.leader.election.enable", False, OptionKind.BOOLEAN, broker_name="unclean.leader.election.enable",
        doc="When no complete replica is alive, let an incomplete one lead: records are lost.",
    )
    write_caching: bool = option(
        "write.caching", False, OptionKind.BOOLEAN, broker_name="log.write.caching",
        doc="Count a record as held once it is in the page cache, as Apache Kafka does; else once it is on disk.",
    )
    # fmt: on

    @property
    def compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deleted(self) -> bool:
        """True if retention applies."""
        return "delete" in self.cleanup_policy
