"""One partition's log: append, read, roll, sync. Comes from broker/replicas/partition.py; next door is segment.py.

Plain synchronous code over an injected `Disk`. OSError rises to the caller, which fails the log directory (rule B3);
only a full disk is answered here, with KAFKA_STORAGE_ERROR and nothing written. Opening is `recovery.py`, deleting
at the start `retention.py`, cutting the end `truncation.py`, finding by time `lookup.py`, cleaning `compaction.py`.
"""

from __future__ import annotations

import errno
import struct
from bisect import bisect_right
from collections.abc import Callable
from typing import Final

from ottla.config.topic import TopicConfig
from ottla.kernel.errors import ErrorCode
from ottla.kernel.retention import RetentionPause
from ottla.kernel.seams import Buffer, Disk, SyncWork
from ottla.records.batch import Batch
from ottla.records.control import EndOfTransaction
from ottla.storage import lookup, reading, recovery, replica_append, retention, rolling, truncation
from ottla.storage.bounds import LogBounds
from ottla.storage.opening import Known
from ottla.storage.producers import sequencing
from ottla.storage.producers.epochs import LeaderEpochs
from ottla.storage.producers.producers import Producers
from ottla.storage.segment.damage import Damage
from ottla.storage.segment.scan import OVERHEAD_BYTES
from ottla.storage.segment.segment import MAX_RELATIVE_OFFSET, Doomed, Segment
from ottla.storage.stamp import stamped_parts
from ottla.storage.syncing import Syncing
from ottla.storage.values import (
    ActiveProducer,
    Appended,
    EpochEnd,
    LogRead,
    Origin,
    Recovered,
    TimestampOffset,
)

FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
_PLACE = struct.Struct(">qii")


def _nothing_to_do(offset: int) -> None:
    """A log outside a log directory has no checkpoint."""


def _nobody_to_tell(error: OSError) -> None:
    """A log outside a broker refuses by itself."""


class Log:
    """The batches of one partition in segments, their indexes, producer state and leader epochs."""

    __slots__ = (
        "active",
        "append_time",
        "bases",
        "before_cut",
        "bounds",
        "config",
        "damage",
        "damaged_at",
        "directory",
        "disk",
        "doomed",
        "epochs",
        "marker",
        "on_failed",
        "on_synced",
        "partition",
        "pause",
        "producer_expiration_ms",
        "producers",
        "recovered",
        "refusing",
        "roll_timestamp",
        "segment_bytes",
        "segments",
        "sparse",
        "syncing",
        "topic",
        "topic_id",
        "write_caching",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        *,
        topic: str,
        partition: int,
        topic_id: bytes,
        config: TopicConfig,
        producer_expiration_ms: int,
        on_synced: Callable[[int], None],
    ) -> None:
        """Made by `open` and `create` only."""
        self.disk = disk
        self.directory = directory
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.producer_expiration_ms = producer_expiration_ms
        self.producers = Producers()
        self.epochs = LeaderEpochs(disk, directory)
        self.segments: list[Segment] = []
        self.bases: list[int] = []
        self.active: Segment
        self.bounds: Final = LogBounds()
        self.damaged_at: int | None = None
        """Offset of damage found below the recovery point: nothing from here on is served (rule A7)."""
        self.damage = Damage(disk, directory)
        self.sparse = config.compacted
        """Compaction may have left holes between batches: here, or in the log that this one copies."""
        self.recovered = Recovered(0, 0, 0, 0, 0)
        self.refusing = False
        """After a failed sync or a failed cut: nothing is written any more, the directory is to be failed."""
        self.doomed: list[Doomed] = []
        """Segments taken out of the log; their files go by `purge`."""
        self.pause = RetentionPause()
        self.on_synced = on_synced
        self.on_failed: Callable[[OSError], None] = _nobody_to_tell
        """Told of a failed sync: the owner takes the directory offline (rule B3)."""
        self.before_cut: Callable[[int], None] = _nothing_to_do
        """Lowers the checkpoints before a truncation to that offset: else a crash would look like damage."""
        self.syncing = Syncing()
        self.marker: EndOfTransaction | None = None
        """Of the control batch that is being appended."""
        self._take_config(config)

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        *,
        topic: str,
        partition: int,
        topic_id: bytes,
        config: TopicConfig,
        clean: bool,
        recovery_point: int,
        log_start_offset: int,
        wall_ms: int,
        producer_expiration_ms: int,
        on_synced: Callable[[int], None],
        committed: int = 0,
        cache_kept: bool = False,
        compacted: bool = False,
    ) -> Log:
        """Open what is there, recovering it unless the last close was `clean`; `.recovered` says what it cost and met.

        `committed` is the high watermark of its checkpoint. `cache_kept`: no power was lost since the log was written.
        `compacted`: it has been.
        """
        log = cls(
            disk,
            directory,
            topic=topic,
            partition=partition,
            topic_id=topic_id,
            config=config,
            producer_expiration_ms=producer_expiration_ms,
            on_synced=on_synced,
        )
        lasting = clean or cache_kept or not log.write_caching
        known = Known(clean, recovery_point, committed if lasting else 0, log_start_offset, cache_kept, compacted)
        log.sparse = log.sparse or compacted
        recovery.recover(log, known, wall_ms=wall_ms)
        return log

    @classmethod
    def create(
        cls,
        disk: Disk,
        directory: str,
        *,
        topic: str,
        partition: int,
        topic_id: bytes,
        config: TopicConfig,
        wall_ms: int,
        producer_expiration_ms: int,
        on_synced: Callable[[int], None],
        start_offset: int = 0,
    ) -> Log:
        """A new, empty log with its `partition.metadata`; the directory and its parent are synced."""
        with recovery.whole_or_gone(disk, directory):
            recovery.create_files(disk, directory, topic_id, start_offset)
            return cls.open(
                disk,
                directory,
                topic=topic,
                partition=partition,
                topic_id=topic_id,
                config=config,
                clean=True,
                recovery_point=start_offset,
                log_start_offset=start_offset,
                wall_ms=wall_ms,
                producer_expiration_ms=producer_expiration_ms,
                on_synced=on_synced,
            )

    # -- writing ---

    def append(
        self,
        batch: Batch,
        *,
        leader_epoch: int,
        wall_ms: int,
        origin: Origin = Origin.CLIENT,
        guard: object | None = None,
        bumps: bool = False,
    ) -> Appended | ErrorCode:
        """Append one checked batch; the view need not outlive the call.

        A duplicate is answered with the offset it first got. `sequencing.py` says what `guard` and `bumps` are.
        Written flat for speed: bench/append.py.
        """
        if self.refusing:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if origin == 2:  # Origin.REPLICA, without the look-up
            return replica_append.append_run(self, batch.view, wall_ms=wall_ms)
        producer_id = batch.producer_id
        if producer_id >= 0:
            verdict = sequencing.check_producer(self, batch, origin, guard, bumps=bumps)
            if verdict is not None:
                return verdict
        size = batch.size
        bounds = self.bounds
        base_offset = bounds.end
        next_offset = base_offset + batch.last_offset_delta + 1
        max_timestamp = batch.max_timestamp
        parts: tuple[Buffer, ...]
        if self.append_time:
            max_timestamp = wall_ms
            parts = stamped_parts(batch, base_offset, leader_epoch, wall_ms)
        else:
            parts = (_PLACE.pack(base_offset, size - OVERHEAD_BYTES, leader_epoch), batch.view[16:])
        active = self.active
        try:
            if (
                active.size + size > self.segment_bytes
                or max_timestamp > self.roll_timestamp
                or active.index_full
                or active.size == 0
                or next_offset - active.base_offset > MAX_RELATIVE_OFFSET
            ):
                if size > self.segment_bytes:
                    return ErrorCode.RECORD_LIST_TOO_LARGE
                rolling.roll_if_due(self, size, base_offset, next_offset, max_timestamp, wall_ms)
                active = self.active
            if leader_epoch != self.epochs.latest:
                if leader_epoch < self.epochs.latest:
                    return ErrorCode.FENCED_LEADER_EPOCH
                self.epochs.assign(leader_epoch, base_offset)
            active.append(parts, size, base_offset, next_offset, max_timestamp)
        except OSError as fault:
            return self.refuse(fault)
        bounds.appended(next_offset)
        if producer_id >= 0:
            sequencing.note_producer(self, batch, base_offset, next_offset - 1, max_timestamp)
        return Appended(base_offset, next_offset, bounds.start, False, wall_ms if self.append_time else -1)

    def append_run(
        self, run_of_batches: Buffer, *, wall_ms: int, newest_epoch: int = replica_append.ANY_EPOCH
    ) -> Appended | ErrorCode:
        """Append a leader's contiguous batches as they are (rules A11, E10): one check and one write for all.

        CORRUPT_MESSAGE where a CRC fails, or an offset or epoch cannot be right; OFFSET_OUT_OF_RANGE where the first
        batch starts below our end or later ones do not follow on, FENCED_LEADER_EPOCH where an epoch falls. A trailing
        incomplete batch is left out.
        """
        return replica_append.append_run(self, run_of_batches, wall_ms=wall_ms, newest_epoch=newest_epoch)

    def begin_epoch(self, leader_epoch: int) -> None:
        """This broker leads in `leader_epoch` from `end_offset` on; on disk before this returns (rule B2)."""
        self.epochs.assign(leader_epoch, self.bounds.end)

    # -- where it starts and ends ---

    @property
    def end_offset(self) -> int:
        """The offset after the last record appended."""
        return self.bounds.end

    @property
    def synced_offset(self) -> int:
        """The offset after the last record known to be on disk; equals `end_offset` with write.caching=true."""
        return self.bounds.synced

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read."""
        return self.bounds.start

    @property
    def high_watermark(self) -> int:
        """Everything below is committed."""
        return self.bounds.high_watermark

    @property
    def recovery_point(self) -> int:
        """Everything below is on disk, indexes included: what the recovery-point checkpoint holds."""
        return self.bounds.recovery_point

    # -- reading ---

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        limit_offset: int,
        at_least_one: bool = True,
        with_aborted: bool = False,
    ) -> LogRead | ErrorCode:
        """Batches from the one that holds `offset`, none at or above `limit_offset` (high watermark, stable, or end).

        OFFSET_OUT_OF_RANGE below the log's start or above its end. With `at_least_one` the first batch comes whole
        even where it is larger than `max_bytes`; without it, nothing comes where the first batch does not fit.
        A later batch may be cut off in the middle, as Apache Kafka cuts it.
        """
        return reading.read(self, offset, max_bytes, limit_offset, at_least_one, with_aborted)

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record at or after a time; None where there is none."""
        return lookup.offset_for_timestamp(self, timestamp)

    def max_timestamp_offset(self) -> TimestampOffset | None:
        """The record with the largest timestamp; None in an empty log."""
        return lookup.max_timestamp_offset(self)

    def epoch_end(self, leader_epoch: int) -> EpochEnd:
        """OffsetForLeaderEpoch: (-1, -1) for an epoch newer than any here."""
        return self.epochs.end_of(leader_epoch, self.end_offset)

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch in the log, -1 where there is none."""
        return self.epochs.latest

    @property
    def last_stable_offset(self) -> int:
        """Rule B8."""
        high_watermark = self.bounds.high_watermark
        if self.producers.no_transactions:
            return high_watermark
        unstable = self.producers.first_unstable(high_watermark)
        if unstable is None:
            return high_watermark
        return max(self.bounds.start, min(unstable, high_watermark))

    def active_producers(self) -> list[ActiveProducer]:
        """What DescribeProducers answers, by producer id."""
        return self.producers.active()

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def segments_count(self) -> int:
        return len(self.segments)

    # -- syncing (kernel.seams.Syncable) ------------------------------------------------------------------------------

    def begin_sync(self) -> SyncWork | None:
        """What is dirty now; its end is what a successful sync makes `synced_offset` (rule B1)."""
        return self.syncing.begin_or_tell(self)

    def end_sync(self, work: SyncWork, error: OSError | None) -> None:
        """Raise `synced_offset` and tell `on_synced(offset)`; an error ends all writing, and `on_failed` is told."""
        self.syncing.end(self, work, error)

    def flush_due(self, wall_ms: int) -> bool:
        """Whether a roll, flush.messages or flush.ms ask for a sync now (with write.caching=true nothing else does)."""
        return self.syncing.flush_due(self, wall_ms)

    def move_recovery_point(self) -> bool:
        """Let the next sync move the recovery point to where it began; whether there is anything to move it over."""
        return not self.refusing and self.syncing.take_indexes_along(self)

    def sync_now(self) -> None:
        """A whole sync on the caller's thread, indexes included: at close, at recovery, in tools."""
        self.syncing.sync_now(self)

    # -- the owner's decisions ---

    def set_high_watermark(self, offset: int) -> None:
        """Never above `end_offset`; the owner keeps it from going back."""
        self.bounds.committed(offset)

    def delete_records_before(self, offset: int) -> int | ErrorCode:
        """Raise the log's start (DeleteRecords; -1 is the high watermark); the new start, or OFFSET_OUT_OF_RANGE.

        The segments below go with the next `apply_retention`; the start is durable once it is checkpointed.
        """
        return retention.delete_records_before(self, offset)

    def start_as(self, other: Log) -> None:
        """Start where another copy of this log does, if that is later: what it has deleted does not come back."""
        self.bounds.start_raised(min(max(self.bounds.start, other.bounds.start), self.bounds.end))

    def apply_retention(self, wall_ms: int, *, mono_ms: int) -> int:
        """Take out what time, size and the log's start allow; how many segments went. A clock jump pauses it (B9).

        Their files go by `purge`, which comes after the new log start is checkpointed: a crash between must not
        bring the start back.
        """
        return retention.apply_retention(self, wall_ms, mono_ms)

    def purge(self, wall_ms: int, *, one_by_one: bool = False) -> None:
        """Delete the files of segments taken out `file.delete.delay.ms` ago; `one_by_one` without a checkpoint."""
        retention.purge(self, wall_ms, one_by_one=one_by_one)

    def expire_producers(self, wall_ms: int) -> None:
        """Forget producers idle for `producer.id.expiration.ms`, and ended transactions, as nobody may read here."""
        self.producers.expire(wall_ms - self.producer_expiration_ms)
        self.producers.forget_ended(self.high_watermark)

    def truncate_to(self, offset: int) -> None:
        """Drop everything from `offset` on, back to a batch boundary; producer state and epochs follow."""
        truncation.truncate_to(self, offset)

    def truncate_fully_to(self, offset: int, *, wall_ms: int) -> None:
        """Drop everything and start again, empty, at `offset`."""
        truncation.truncate_fully_to(self, offset, wall_ms)

    def update_config(self, config: TopicConfig) -> None:
        """Takes effect from the next append on."""
        self._take_config(config)
        self.configure_segment(self.active)
        self.schedule_roll(self.active.first_timestamp)
        self.syncing.cut(self.bounds.end, self.active.base_offset)

    def close(self, *, clean: bool) -> None:
        """Let the files go; a `clean` close syncs everything and leaves a producer snapshot at the end."""
        self.syncing.close(self, clean=clean)

    # -- for the modules beside this one ---

    def segment_at(self, offset: int) -> int:
        """Index of the segment that would hold `offset`; -1 below the first."""
        return bisect_right(self.bases, offset) - 1

    def set_segments(self, segments: list[Segment]) -> None:
        self.segments = segments
        self.bases = [segment.base_offset for segment in segments]
        self.active = segments[-1]
        self.schedule_roll(self.active.first_timestamp)

    def configure_segment(self, segment: Segment) -> None:
        segment.index_interval = self.config.index_interval_bytes
        segment.max_entries = max(1, self.config.segment_index_bytes // 12)

    def schedule_roll(self, first_timestamp: int) -> None:
        """When the active segment is too old, by the time of its first record."""
        self.roll_timestamp = rolling.roll_timestamp(self, first_timestamp)

    def refuse(self, fault: OSError) -> ErrorCode:
        """A full disk refuses the batch and nothing more; any other error is the directory's end."""
        if fault.errno in FULL_DISK:
            return ErrorCode.KAFKA_STORAGE_ERROR
        self.refusing = True
        raise fault

    def _take_config(self, config: TopicConfig) -> None:
        self.sparse = self.sparse or config.compacted
        self.config = config
        self.segment_bytes = config.internal_segment_bytes or config.segment_bytes
        self.append_time = config.message_timestamp_type == "LogAppendTime"
        self.write_caching = config.write_caching
        self.bounds.caching(config.write_caching)
        self.roll_timestamp = rolling.ASK_THE_CLOCK
