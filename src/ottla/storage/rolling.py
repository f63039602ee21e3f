"""When a log begins a new segment, and how. Comes from log.py's append; hands the sealed one to syncing.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.config.topic import TopicConfig
from ottla.records.checksum import crc32c
from ottla.storage.producers.snapshot import write_snapshot
from ottla.storage.segment.segment import LOG, MAX_RELATIVE_OFFSET, Segment

if TYPE_CHECKING:
    from ottla.storage.log import Log

ASK_THE_CLOCK = -2
"""Below every timestamp, so that each append comes to `roll_if_due`, which goes by the wall clock."""


def roll_if_due(log: Log, size: int, base_offset: int, next_offset: int, max_timestamp: int, wall_ms: int) -> None:
    """Roll where the segment is full, its first record too old, its index full, or the offset too far from it."""
    active = log.active
    too_far = next_offset - active.base_offset > MAX_RELATIVE_OFFSET
    if active.size == 0:
        if too_far:
            roll(log, base_offset, wall_ms)
        log.schedule_roll(max_timestamp)
        return
    if active.size + size > log.segment_bytes or active.index_full or too_far or _too_old(log, max_timestamp, wall_ms):
        # Named after our end, not after the batch: recovery then knows a gap between segments for a lost tail.
        gap = next_offset - log.end_offset > MAX_RELATIVE_OFFSET
        roll(log, base_offset if gap else log.end_offset, wall_ms)
        log.schedule_roll(max_timestamp)


def _too_old(log: Log, max_timestamp: int, wall_ms: int) -> bool:
    if log.active.first_timestamp < 0:
        return wall_ms - log.active.created_ms > segment_ms(log.config)
    return max_timestamp > log.roll_timestamp


def roll_timestamp(log: Log, first_timestamp: int) -> int:
    """The record time from which on the active segment is too old; ASK_THE_CLOCK where its records have none.

    The jitter is drawn from the segment's name, so that a replay draws the same.
    """
    if first_timestamp < 0:
        return ASK_THE_CLOCK
    longest = segment_ms(log.config)
    jitter = min(log.config.segment_jitter_ms, longest)
    if jitter:
        jitter = crc32c(f"{log.topic}-{log.partition}-{log.active.base_offset}".encode()) % jitter
    return first_timestamp + longest - jitter


def segment_ms(config: TopicConfig) -> int:
    """A compacted topic rolls within max.compaction.lag.ms too: compaction leaves the last segment alone."""
    return min(config.segment_ms, config.max_compaction_lag_ms) if config.compacted else config.segment_ms


def roll(log: Log, base_offset: int, wall_ms: int) -> None:
    """Begin a new segment; the sealed one and the directory go to the next sync (rule B1).

    Whatever fails half-way (a full disk) leaves the log as it was, apart from files that the next try replaces.
    """
    old = log.active
    sealed_files = [old.file, *old.write_indexes()]
    new = new_segment(log, base_offset, wall_ms)
    try:
        new.create_file().truncate(0)
        snapshot = write_snapshot(log.disk, log.directory, base_offset, log.producers)
    except OSError:
        new.close()
        log.disk.remove(new.path(LOG))
        raise
    log.syncing.rolled(old, sealed_files, snapshot)
    old.next_offset = base_offset
    old.seal()
    if len(log.segments) > 1:
        log.segments[-2].forget_recent()
    log.set_segments([*log.segments, new])


def new_segment(log: Log, base_offset: int, wall_ms: int) -> Segment:
    segment = Segment(log.disk, log.directory, base_offset, created_ms=wall_ms)
    segment.aborted.begin_empty()
    log.configure_segment(segment)
    return segment
