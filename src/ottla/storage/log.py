"""One partition's log: the door that others use. It appends a leader's batches itself; its parts do the rest.

Plain synchronous code over an injected `Disk`. OSError rises to the caller, which fails the log directory (rule B3);
only a full disk is answered here, with KAFKA_STORAGE_ERROR and nothing written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ottla.config.topic import TopicConfig
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.kernel.seams import Buffer, Disk, SyncWork
from ottla.kernel.trusted_time import TimeFor
from ottla.records.batch import Batch
from ottla.records.header import MAGIC_AT, PLACE, SIZE_OVERHEAD
from ottla.storage import lookup, recovery
from ottla.storage.log_state import LogState
from ottla.storage.producers.producers import Mark
from ottla.storage.producers.sequencing import check_producer, note_producer
from ottla.storage.reading import Reading
from ottla.storage.replica_append import ANY_EPOCH, ReplicaAppend
from ottla.storage.retention import Retention
from ottla.storage.rolling import Rolling
from ottla.storage.segment.index import MAX_RELATIVE_OFFSET
from ottla.storage.segment.scan import FoundBatch
from ottla.storage.segment.segment import Segment
from ottla.storage.stamp import stamped_parts
from ottla.storage.syncing import Syncing
from ottla.storage.truncation import Truncation
from ottla.storage.values import (
    FULL_DISK,
    TAIL_BYTES,
    ActiveProducer,
    Appended,
    EpochEnd,
    Known,
    LogRead,
    Origin,
    TimestampOffset,
)

__all__ = ["FULL_DISK", "Log"]


class Log(LogState):
    """The batches of one partition in segments, their indexes, producer state and leader epochs."""

    __slots__ = (
        "_append_time", "_reading", "_replica_append", "_retention", "_rolling", "_truncation",
        "producer_expiration_ms", "syncing",
    )  # fmt: skip

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
        super().__init__(disk, directory, topic=topic, partition=partition, topic_id=topic_id)
        self.producer_expiration_ms: Final = producer_expiration_ms
        parts = (self.bounds, self.chain)
        self._reading: Final = Reading(*parts, self.epochs, self.damage, self._gate)
        self.syncing: Final = Syncing(*parts, self.producers, self._gate, on_synced)
        self._rolling: Final = Rolling(f"{topic}-{partition}", *parts, self.producers, self.syncing)
        self._retention: Final = Retention(*parts, self.epochs, self._gate, self._rolling, self.syncing)
        self._truncation: Final = Truncation(
            *parts,
            self.epochs,
            self.damage,
            self.producers,
            gate=self._gate,
            reading=self._reading,
            rolling=self._rolling,
            syncing=self.syncing,
        )
        self._replica_append: Final = ReplicaAppend(
            *parts,
            self.epochs,
            self.producers,
            gate=self._gate,
            retention=self._retention,
            rolling=self._rolling,
            truncation=self._truncation,
        )
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
        tail_bytes: int = TAIL_BYTES,
    ) -> Log:
        """Open the log, and recover it unless the last close was `clean`; `.recovered` reports what was read and cut.

        `committed` is the high watermark of its checkpoint. `cache_kept`: no power was lost since the log was written.
        `compacted`: it has been. `tail_bytes`: the bytes at its end that are read in any case.
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
        lasting = clean or cache_kept or not config.write_caching
        if compacted:
            log.chain.met_hole()
        compacted = compacted or config.compacted
        committed = committed if lasting else 0
        known = Known(clean, recovery_point, committed, log_start_offset, cache_kept, compacted, lasting, tail_bytes)
        log._recover(known, wall_ms)
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
            place = TopicPartition(topic, partition)
            recovery.create_files(disk, directory, topic_id, place, start_offset)
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
        if self._gate.closed:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if origin == 2:  # Origin.REPLICA, without the look-up
            return self._replica_append.append(batch.view, wall_ms=wall_ms)
        producer_id = batch.producer_id
        if producer_id >= 0:
            verdict = check_producer(self.producers, batch, origin, guard, bumps=bumps)
            if verdict is not None:
                return self._duplicate(verdict) if verdict.__class__ is Mark else verdict  # type: ignore[return-value]
        size = batch.size
        bounds = self.bounds
        base_offset = bounds.end
        next_offset = base_offset + batch.last_offset_delta + 1
        max_timestamp = batch.max_timestamp
        append_time_ms = -1
        parts: tuple[Buffer, ...]
        if self._append_time:
            max_timestamp = append_time_ms = wall_ms
            parts = stamped_parts(batch, base_offset, leader_epoch, wall_ms)
        else:
            parts = (PLACE.pack(base_offset, size - SIZE_OVERHEAD, leader_epoch), batch.view[MAGIC_AT:])
        active, rolling = self.chain.active, self._rolling
        try:
            if (
                active.size + size > rolling.segment_bytes
                or max_timestamp > rolling.roll_timestamp
                or active.index_full
                or active.size == 0
                or next_offset - active.base_offset > MAX_RELATIVE_OFFSET
            ):
                if size > rolling.segment_bytes:
                    return ErrorCode.RECORD_LIST_TOO_LARGE
                rolling.roll_if_due(size, base_offset, next_offset, max_timestamp, wall_ms)
                active = self.chain.active
            if leader_epoch != self.epochs.latest:
                if leader_epoch < self.epochs.latest:
                    return ErrorCode.FENCED_LEADER_EPOCH
                self.epochs.assign(leader_epoch, base_offset)
            active.append(parts, size, base_offset, next_offset, max_timestamp)
        except OSError as fault:
            return self._gate.refuse(fault)
        bounds.appended(next_offset)
        if producer_id >= 0:
            note_producer(self.producers, active.aborted, batch, base_offset, next_offset - 1, max_timestamp)
        return Appended(base_offset, next_offset, bounds.start, False, append_time_ms)

    def _duplicate(self, mark: Mark) -> Appended:
        timestamp = mark.timestamp if self._append_time else -1
        return Appended(mark.first_offset, mark.last_offset + 1, self.bounds.start, True, timestamp)

    def append_run(
        self, run_of_batches: Buffer, *, wall_ms: int, newest_epoch: int = ANY_EPOCH
    ) -> Appended | ErrorCode:
        """Append a leader's contiguous batches as they are (rules A11, E10): one check and one write for all.

        CORRUPT_MESSAGE where a CRC fails, or an offset or epoch cannot be right; OFFSET_OUT_OF_RANGE where the first
        batch starts below our end or later ones do not follow on, FENCED_LEADER_EPOCH where an epoch falls. A trailing
        incomplete batch is left out.
        """
        return self._replica_append.append(run_of_batches, wall_ms=wall_ms, newest_epoch=newest_epoch)

    def begin_epoch(self, leader_epoch: int) -> None:
        """This broker leads in `leader_epoch` from `end_offset` on; on disk before this returns (rule B2)."""
        self.epochs.assign(leader_epoch, self.bounds.end)

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

        Nothing beyond what was written is read either (rule B6).

        OFFSET_OUT_OF_RANGE below the log's start or above its end. With `at_least_one` the first batch comes whole
        even where it is larger than `max_bytes`; without it, nothing comes where the first batch does not fit.
        A later batch may be cut off in the middle, as Apache Kafka cuts it.
        """
        return self._reading.read(offset, max_bytes, limit_offset, at_least_one, with_aborted)

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record at or after a time; None where there is none."""
        return lookup.offset_for_timestamp(self.chain.segments, self.damage, self.bounds.start, timestamp)

    def max_timestamp_offset(self) -> TimestampOffset | None:
        """The record with the largest timestamp; None in an empty log."""
        return lookup.max_timestamp_offset(self.chain.segments, self.damage)

    def epoch_end(self, leader_epoch: int) -> EpochEnd | None:
        """OffsetForLeaderEpoch: None for an epoch newer than any here."""
        return self.epochs.end_of(leader_epoch, self.bounds.end)

    def active_producers(self) -> list[ActiveProducer]:
        """The producers as DescribeProducers answers them, by producer id."""
        return self.producers.active()

    # -- syncing (kernel.seams.Syncable) ------------------------------------------------------------------------------

    def begin_sync(self) -> SyncWork | None:
        """The work of a sync, for all that is dirty now; a successful sync makes its end `synced_offset` (rule B1).

        Indexes that cannot be written are reported as a failed sync, since the syncer has to go on with other logs.
        """
        try:
            return self.syncing.begin()
        except OSError as fault:
            self.syncing.failed(fault)
            return None

    def end_sync(self, work: SyncWork, error: OSError | None) -> None:
        """Raise `synced_offset` and tell `on_synced(offset)`; an error ends all writing, and `on_failed` is told."""
        self.syncing.end(work, error)

    def flush_due(self, wall_ms: int) -> bool:
        """True if a roll, flush.messages or flush.ms ask for a sync now (with write.caching=true nothing else does)."""
        return self.syncing.flush_due(self._config, wall_ms)

    def move_recovery_point(self) -> bool:
        """Let the next sync move the recovery point to where it began; whether there is anything to move it over."""
        return not self._gate.closed and self.syncing.take_indexes_along(write_caching=self._config.write_caching)

    def sync_now(self) -> None:
        """A whole sync on the caller's thread, indexes included: at close, at recovery, in tools."""
        self.syncing.sync_now()

    def listen(
        self,
        *,
        on_synced: Callable[[int], None] | None = None,
        on_failed: Callable[[OSError], None] | None = None,
        before_cut: Callable[[int], None] | None = None,
    ) -> None:
        """Set the callbacks; one that is left out stays as it was.

        `on_synced(offset)`: more is on disk. `on_failed(error)`: a sync failed, so the directory is to be taken offline
        (rule B3). `before_cut(offset)`: lower the checkpoints, as the log is about to be cut.
        """
        self.syncing.listen(on_synced=on_synced, on_failed=on_failed)
        if before_cut is not None:
            self._truncation.listen(before_cut)

    # -- the owner's decisions ---

    def set_high_watermark(self, offset: int) -> None:
        """Raise the high watermark, never above `end_offset`; a lower one than now is a broken invariant."""
        self.bounds.committed(offset)

    def take_back_committed(self, offset: int) -> None:
        """Lower the high watermark to that of an unclean leader, which lacks records that were committed here."""
        self.bounds.overruled(offset)

    def delete_records_before(self, offset: int) -> int | ErrorCode:
        """Raise the log's start (DeleteRecords; -1 is the high watermark); the new start, or OFFSET_OUT_OF_RANGE.

        The segments below go with the next `apply_retention`; the start is durable once it is checkpointed.
        """
        return self._retention.delete_records_before(offset)

    def start_as(self, other: Log) -> None:
        """Start where another copy of this log does, if that is later, so that deleted records do not come back."""
        self.bounds.start_raised(min(max(self.bounds.start, other.bounds.start), self.bounds.end))

    def apply_retention(self, wall_ms: int, *, time_for: TimeFor | None = None, leads: bool = True) -> int:
        """Take out the segments that time, size and the log's start allow; return their number.

        `time_for`: the trusted time, where it may be another than the wall clock (rule B9). A replica that does not
        lead deletes only below the log start that its leader has told it (rule H3).

        Their files go by `purge`, which comes after the new log start is checkpointed: a crash between must not
        bring the start back.
        """
        return self._retention.apply(self._config, wall_ms, time_for or (lambda retention_ms: wall_ms), leads=leads)

    def purge(self, wall_ms: int, *, one_by_one: bool = False) -> None:
        """Delete the files of segments taken out `file.delete.delay.ms` ago; `one_by_one` without a checkpoint."""
        self._retention.purge(wall_ms, self._config.file_delete_delay_ms, one_by_one=one_by_one)

    def expire_producers(self, wall_ms: int, *, time_for: TimeFor | None = None) -> None:
        """Forget producers idle for `producer.id.expiration.ms`, and ended transactions, as reads do.

        The time of a producer's last batch is when it was seen here, by the wall clock: records may have any timestamp,
        and a batch that is sent again must be known as such. Its age is judged by the trusted time, which may be less.
        """
        idle_ms = self.producer_expiration_ms
        self.producers.expire(wall_ms, (wall_ms if time_for is None else time_for(idle_ms)) - idle_ms)
        self.producers.forget_ended(self.bounds.high_watermark)

    def truncate_to(self, offset: int) -> None:
        """Drop everything from `offset` on, back to a batch boundary; producer state and epochs follow."""
        self._truncation.cut_to(offset)

    def truncate_fully_to(self, offset: int, *, wall_ms: int) -> None:
        """Drop everything and start again, empty, at `offset`."""
        self._truncation.restart_at(offset, wall_ms)

    def update_config(self, config: TopicConfig) -> None:
        """Take a new configuration, which holds from the next append on."""
        self._take_config(config)
        self._rolling.schedule()
        self.syncing.cut(self.bounds.end, self.chain.active.base_offset)

    def close(self, *, clean: bool) -> None:
        """Close the files; a `clean` close syncs everything and leaves a producer snapshot at the end."""
        self.syncing.close(clean=clean)

    # -- for maintenance ---

    @property
    def segment_bytes(self) -> int:
        """A segment is sealed once it would hold more."""
        return self._rolling.segment_bytes

    def roll(self, base_offset: int, wall_ms: int) -> None:
        """Begin a new segment at `base_offset`, which is the end, or behind it where offsets are left out."""
        self._rolling.roll(base_offset, wall_ms)

    def end_behind(self, end_offset: int, wall_ms: int) -> None:
        """End at a later offset; no batch holds the offsets in between."""
        self._rolling.roll(end_offset, wall_ms)
        self.bounds.appended(end_offset)

    def locate(self, offset: int) -> tuple[Segment, FoundBatch] | None:
        """The first batch whose last offset is at or above `offset`, and its segment."""
        return self._reading.locate(offset)

    def stop_writing(self) -> None:
        """Refuse all writes from now on."""
        self._gate.close()

    def relocated(self, directory: str) -> None:
        """Take the folder's new name; the files stay open."""
        self._folder.renamed(directory)
        self.epochs.relocate(directory)
        self.damage.relocate(directory)
        self.chain.renamed()

    def _recover(self, known: Known, wall_ms: int) -> None:
        self._recovered = recovery.Recovery(
            self.bounds, self.chain, self.epochs, self.damage, self.producers, known, wall_ms=wall_ms
        ).run()
        self.syncing.opened()
        self._rolling.schedule()

    def _take_config(self, config: TopicConfig) -> None:
        self._config = config
        self._append_time = config.message_timestamp_type == "LogAppendTime"
        self.chain.configure(config)
        self._rolling.configure(config)
        self.bounds.caching(config.write_caching)
