"""One partition's log: append, read, roll, sync. Comes from broker/partition.py; next door is segment.py.

Plain synchronous code over an injected `Disk`. OSError rises to the caller, which fails the log directory (rule B3);
only a full disk is answered here, with KAFKA_STORAGE_ERROR and nothing written.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.config.topic import TopicConfig
from ottla.kernel.errors import ErrorCode
from ottla.kernel.seams import Buffer, Disk, SyncWork
from ottla.records.batch import Batch
from ottla.storage.values import ActiveProducer, Appended, EpochEnd, LogRead, Origin, Recovered, TimestampOffset


class Log:
    """The batches of one partition in segments, their indexes, producer state and leader epochs."""

    # read by owners, never written by them
    directory: str
    topic: str
    partition: int
    topic_id: bytes
    end_offset: int
    """The offset after the last record appended."""
    synced_offset: int
    """The offset after the last record known to be on disk; equals `end_offset` with write.caching=true."""
    log_start_offset: int
    high_watermark: int
    recovery_point: int
    """Below this everything, indexes included, is on disk: what the recovery-point checkpoint holds."""
    damaged_at: int | None
    """Offset of damage found below the recovery point: nothing from here on is served (rule A7)."""
    recovered: Recovered

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
    ) -> Log:
        """Open what is there, recovering it unless the last close was `clean`; `.recovered` says what it cost."""
        raise NotImplementedError

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
        raise NotImplementedError

    # -- writing -----------------------------------------------------------------------------------------------------

    def append(
        self, batch: Batch, *, leader_epoch: int, wall_ms: int, origin: Origin = Origin.CLIENT
    ) -> Appended | ErrorCode:
        """Append one checked batch; the view need not outlive the call.

        A duplicate of one of its producer's last five batches is answered with the offset it first got.
        """
        raise NotImplementedError

    def append_run(self, run: Buffer, *, wall_ms: int) -> Appended | ErrorCode:
        """Append a leader's contiguous batches as they are (rules A11, E10): one check and one write for all.

        CORRUPT_MESSAGE where a CRC fails, OFFSET_OUT_OF_RANGE where the first batch does not start at our end or later
        batches do not follow on, FENCED_LEADER_EPOCH where an epoch falls. A trailing incomplete batch is left out.
        """
        raise NotImplementedError

    def begin_epoch(self, leader_epoch: int) -> None:
        """This broker leads in `leader_epoch` from `end_offset` on; on disk before this returns (rule B2)."""
        raise NotImplementedError

    # -- reading -----------------------------------------------------------------------------------------------------

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
        raise NotImplementedError

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record at or after a time; None where there is none."""
        raise NotImplementedError

    def max_timestamp_offset(self) -> TimestampOffset | None:
        """The record with the largest timestamp; None in an empty log."""
        raise NotImplementedError

    def epoch_end(self, leader_epoch: int) -> EpochEnd:
        """OffsetForLeaderEpoch: (-1, -1) for an epoch before the first known."""
        raise NotImplementedError

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch in the log, -1 where there is none."""
        raise NotImplementedError

    @property
    def last_stable_offset(self) -> int:
        """Rule B8."""
        raise NotImplementedError

    def active_producers(self) -> list[ActiveProducer]:
        """What DescribeProducers answers, by producer id."""
        raise NotImplementedError

    @property
    def size_bytes(self) -> int:
        raise NotImplementedError

    @property
    def segments_count(self) -> int:
        raise NotImplementedError

    # -- syncing (kernel.seams.Syncable) ------------------------------------------------------------------------------

    def begin_sync(self) -> SyncWork | None:
        """What is dirty now; its end is what a successful sync makes `synced_offset` (rule B1)."""
        raise NotImplementedError

    def end_sync(self, work: SyncWork, error: OSError | None) -> None:
        """Raise `synced_offset`, tell `on_synced(offset)`; an error makes this log refuse everything from now on."""
        raise NotImplementedError

    def flush_due(self, wall_ms: int) -> bool:
        """With write.caching=true, whether flush.messages or flush.ms ask for a sync now."""
        raise NotImplementedError

    def sync_now(self) -> None:
        """A whole sync on the caller's thread: at close, at recovery, in tools."""
        raise NotImplementedError

    # -- the owner's decisions ------------------------------------------------------------------------------------------

    def set_high_watermark(self, offset: int) -> None:
        """Never above `end_offset`; the owner keeps it from going back."""
        raise NotImplementedError

    def delete_records_before(self, offset: int) -> int | ErrorCode:
        """Raise the log's start (DeleteRecords; -1 is the high watermark); the new start, or OFFSET_OUT_OF_RANGE."""
        raise NotImplementedError

    def apply_retention(self, wall_ms: int, *, mono_ms: int) -> int:
        """Delete what time, size and the log's start allow; how many segments went. A clock jump pauses it (B9)."""
        raise NotImplementedError

    def expire_producers(self, wall_ms: int) -> None:
        """Forget producers idle for `producer.id.expiration.ms`."""
        raise NotImplementedError

    def truncate_to(self, offset: int) -> None:
        """Drop everything from `offset` on, back to a batch boundary; producer state and epochs follow."""
        raise NotImplementedError

    def truncate_fully_to(self, offset: int) -> None:
        """Drop everything and start again, empty, at `offset`."""
        raise NotImplementedError

    def update_config(self, config: TopicConfig) -> None:
        """Takes effect from the next append on."""
        raise NotImplementedError

    def close(self, *, clean: bool) -> None:
        """Let the files go; a `clean` close syncs everything and leaves a producer snapshot at the end."""
        raise NotImplementedError
