"""Lookups by time never return deleted records, and of equal timestamps return the first offset."""

from __future__ import annotations

from log_desk import T0, a_batch, a_log, put, reopened, sync

from ottla.records.batch import Batch
from ottla.records.builder import build_batch
from ottla.records.reader import Record
from ottla.storage.log import Log
from ottla.storage.values import TimestampOffset


def a_batch_at(*timestamps: int) -> Batch:
    return Batch(build_batch([Record(at, stamp, None, b"v") for at, stamp in enumerate(timestamps)]))


def started_at(log: Log, offset: int) -> Log:
    """The log after DeleteRecords up to an offset."""
    log.set_high_watermark(log.end_offset)
    assert log.delete_records_before(offset) == offset
    return log


def test_a_deleted_record_of_the_batch_that_the_log_starts_in_is_not_found() -> None:
    log = a_log()
    put(log, a_batch_at(T0 + 9, T0 + 1, T0 + 5))
    assert log.offset_for_timestamp(T0 + 2) == TimestampOffset(T0 + 9, 0, 0)
    started_at(log, 1)
    assert log.offset_for_timestamp(T0 + 2) == TimestampOffset(T0 + 5, 2, 0)
    assert log.offset_for_timestamp(T0 + 9) is None


def test_a_batch_below_the_log_start_does_not_lend_its_time_to_the_record_there() -> None:
    log = a_log(message_timestamp_type="LogAppendTime")
    for at in range(2):
        put(log, a_batch(b"v"), wall_ms=T0 + at)
    started_at(log, 1)
    assert log.offset_for_timestamp(T0) == TimestampOffset(T0 + 1, 1, 0)


def test_a_time_entry_of_no_batch_does_not_hide_records() -> None:
    """A bit has flipped in it that left the entries in order: it says that all up to its offset is older."""
    log = a_log(index_interval_bytes=150)
    for at in range(12):
        put(log, a_batch_at(T0 + 10 * at))
    times = log.segments[-1].times
    assert times.keys is not None and len(times.keys) > 2
    stamp, offset = times.entries()[1]
    assert stamp - times.keys[0] > 20, "entries are further apart than batches"
    times.keys[1] = stamp - 15
    assert log.offset_for_timestamp(stamp - 12) == TimestampOffset(stamp - 10, offset - 1, 0)


def test_of_equal_largest_timestamps_in_one_segment_the_first_is_found() -> None:
    log = a_log()
    for stamp in (T0, T0 + 7, T0 + 3, T0 + 7):
        put(log, a_batch_at(stamp))
    sync(log)
    for state in (log, reopened(log), reopened(log, clean=True)):
        assert state.max_timestamp_offset() == TimestampOffset(T0 + 7, 1, 0)


def test_of_equal_largest_timestamps_in_two_segments_the_first_is_found() -> None:
    log = a_log(internal_segment_bytes=100)
    for stamp in (T0, T0 + 7, T0 + 3, T0 + 7):
        put(log, a_batch_at(stamp))
    assert len(log.segments) == 4
    sync(log)
    for state in (log, reopened(log), reopened(log, clean=True)):
        assert state.max_timestamp_offset() == TimestampOffset(T0 + 7, 1, 0)


def test_of_equal_largest_timestamps_in_one_batch_the_first_is_found() -> None:
    log = a_log()
    put(log, a_batch_at(T0, T0 + 7, T0 + 3, T0 + 7))
    assert log.max_timestamp_offset() == TimestampOffset(T0 + 7, 1, 0)
