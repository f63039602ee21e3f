"""The log without faults: append, read, roll, look up, delete, truncate."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random

import pytest
from log_desk import (
    DAY_MS,
    T0,
    a_batch,
    a_log,
    put,
    read_at,
    records_of,
    reopened,
    sync,
    values_of,
)
from tests.descriptors import descriptors

from ottla.kernel.errors import ErrorCode
from ottla.kernel.seams import Disk, OpenFile
from ottla.records.batch import Batch, iterate_batches
from ottla.records.builder import build_batch
from ottla.records.control import Marker, build_marker
from ottla.records.reader import Record
from ottla.sim.disk import SimDisk
from ottla.storage.checkpoint import read_epochs
from ottla.storage.disk.local import LocalDisk
from ottla.storage.disk.memory import MemoryDisk
from ottla.storage.log import Log
from ottla.storage.producers import producers
from ottla.storage.values import AbortedTransaction, Appended, EpochEnd, LogRead, Origin, TimestampOffset


@pytest.fixture(params=["local", "simulated", "memory"])
def disk_and_path(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Disk, str]:
    if request.param == "local":
        return LocalDisk(), f"{tmp_path}/t-0"
    return (SimDisk(), "/data/t-0") if request.param == "simulated" else (MemoryDisk(), "/data/t-0")


# -- append and read ---


def test_what_is_appended_is_read_back_from_any_offset_on_any_disk(disk_and_path: tuple[Disk, str]) -> None:
    disk, path = disk_and_path
    log = a_log(disk, directory=path, internal_segment_bytes=900, index_interval_bytes=150)
    expected = []
    for at in range(90):
        values = [b"%d-%d" % (at, row) for row in range(at % 3 + 1)]
        assert put(log, a_batch(*values)).base_offset == len(expected)
        expected += values
    assert log.segments_count > 5
    for start in range(len(expected)):
        assert values_of(log, start=start, max_bytes=Random(start).choice((1, 200, 1 << 20))) == expected[start:]
    log.close(clean=True)
    again = reopened(log, clean=True)
    assert values_of(again) == expected


def test_offset_and_leader_epoch_are_patched_and_every_other_byte_is_the_producers() -> None:
    log = a_log()
    put(log, a_batch(b"first"))
    sent = a_batch(b"a", b"b", key=b"k", producer_id=3, sequence=0)
    before = bytes(sent.view)
    put(log, sent, leader_epoch=5)
    (stored,) = list(iterate_batches(read_at(log, 1).data()))
    assert (stored.base_offset, stored.leader_epoch) == (1, 5)
    assert bytes(stored.view)[8:12] + bytes(stored.view)[16:] == before[8:12] + before[16:]
    assert stored.crc_holds()


def test_the_frame_may_be_overwritten_once_append_has_returned() -> None:
    log = a_log(MemoryDisk())
    frame = bytearray(a_batch(b"value").view)
    put(log, Batch(memoryview(frame)))
    frame[:] = b"\xdd" * len(frame)
    assert values_of(log) == [b"value"]


def test_log_append_time_is_stamped_with_a_crc_that_holds() -> None:
    log = a_log(message_timestamp_type="LogAppendTime")
    appended = put(log, a_batch(b"a", b"b", timestamp=5), wall_ms=T0 + 7)
    assert appended.append_time_ms == T0 + 7
    (stored,) = list(iterate_batches(read_at(log, 0).data()))
    assert stored.is_append_time and stored.max_timestamp == T0 + 7 and stored.crc_holds()
    assert [record.timestamp for record in records_of(log)] == [T0 + 7] * 2
    assert log.offset_for_timestamp(T0) == TimestampOffset(T0 + 7, 0, 0)


def test_a_read_ends_on_a_batch_boundary_at_its_byte_limit() -> None:
    log = a_log()
    sizes = [a_batch(b"x" * at).size for at in (10, 20, 30)]
    for at in (10, 20, 30):
        put(log, a_batch(b"x" * at))
    assert read_at(log, 0, sum(sizes[:2]) + 5).bytes == sum(sizes[:2])
    assert read_at(log, 0, sum(sizes)).bytes == sum(sizes)
    assert read_at(log, 1, sizes[1]).bytes == sizes[1]


def test_the_first_batch_comes_whole_where_one_is_asked_for_and_not_at_all_where_not() -> None:
    log = a_log()
    size = put(log, a_batch(b"x" * 500)) and a_batch(b"x" * 500).size
    assert read_at(log, 0, 10, at_least_one=True).bytes == size
    assert read_at(log, 0, 10, at_least_one=False).slices == []
    sealed = a_log(internal_segment_bytes=600)
    for _ in range(3):
        put(sealed, a_batch(b"x" * 500))
    assert read_at(sealed, 0, 10, at_least_one=True).bytes == size
    assert read_at(sealed, 0, 10, at_least_one=False).slices == []


@pytest.mark.parametrize("segment_bytes", [1 << 20, 400])
def test_nothing_at_or_above_the_limit_is_ever_read(segment_bytes: int) -> None:
    log = a_log(internal_segment_bytes=segment_bytes, index_interval_bytes=100)
    ends = [put(log, a_batch(*[b"v"] * (at % 3 + 1))).next_offset for at in range(40)]
    for limit in range(ends[-1] + 1):
        for start in range(0, limit + 1, 3):
            found = read_at(log, start, limit=limit)
            batches = list(iterate_batches(found.data()))
            assert all(batch.next_offset <= limit for batch in batches)
            whole = [end for end in ends if start < end <= limit]
            if whole and segment_bytes > 1000:
                assert batches[-1].next_offset == whole[-1]


def test_offsets_outside_the_log_are_out_of_range() -> None:
    log = a_log()
    put(log, a_batch(b"a"))
    log.set_high_watermark(1)
    assert log.read(2, 100, limit_offset=1) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert read_at(log, 1).slices == []
    assert log.delete_records_before(1) == 1
    assert log.read(0, 100, limit_offset=1) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_slice_outlives_the_deletion_of_its_segment(tmp_path: Path) -> None:
    log = a_log(LocalDisk(), directory=f"{tmp_path}/t-0", internal_segment_bytes=100, file_delete_delay_ms=0)
    for at in range(4):
        put(log, a_batch(b"%d" % at))
    sync(log)
    log.set_high_watermark(4)
    found = read_at(log, 0)
    log.delete_records_before(3)
    assert log.apply_retention(T0) == 3
    log.purge(T0)
    assert not (tmp_path / "t-0" / f"{0:020d}.log").exists()
    assert found.slices[0].read()[:8] == bytes(8)
    found.release()


# -- rolling ---


def test_a_segment_rolls_before_it_would_grow_over_its_size() -> None:
    log = a_log(internal_segment_bytes=200)
    for _ in range(10):
        put(log, a_batch(b"x" * 20))
    assert [segment.size <= 200 for segment in log.segments] == [True] * log.segments_count
    assert log.segments_count == 5
    too_large = log.append(a_batch(b"x" * 200), leader_epoch=0, wall_ms=T0)
    assert too_large is ErrorCode.RECORD_LIST_TOO_LARGE


def test_a_segment_rolls_when_its_first_record_is_too_old_by_record_time() -> None:
    log = a_log(segment_ms=1000)
    put(log, a_batch(timestamp=T0))
    put(log, a_batch(timestamp=T0 + 1000))
    assert log.segments_count == 1
    put(log, a_batch(timestamp=T0 + 1001))
    assert log.bases == [0, 2]


def test_records_without_a_time_roll_by_the_wall_clock() -> None:
    log = a_log(segment_ms=1000)
    put(log, a_batch(timestamp=-1), wall_ms=T0)
    put(log, a_batch(timestamp=-1), wall_ms=T0 + 1000)
    assert log.segments_count == 1
    put(log, a_batch(timestamp=-1), wall_ms=T0 + 1001)
    assert log.segments_count == 2


def test_the_jitter_rolls_earlier_and_always_the_same() -> None:
    def rolled_at() -> int:
        log = a_log(segment_ms=1000, segment_jitter_ms=900)
        for after in range(1100):
            put(log, a_batch(timestamp=T0 + after))
            if log.segments_count > 1:
                return after
        raise AssertionError

    assert rolled_at() == rolled_at() < 1001


def test_a_full_index_rolls() -> None:
    log = a_log(index_interval_bytes=0, segment_index_bytes=36)
    for _ in range(9):
        put(log, a_batch())
    assert [segment.index.count for segment in log.segments[:-1]] == [3] * (log.segments_count - 1)
    assert log.segments_count > 1


def test_an_offset_too_far_from_the_base_rolls() -> None:
    log = a_log(cleanup_policy=("compact",))
    put(log, a_batch())
    far = build_batch([Record(0, T0, None, b"far")], base_offset=2**31 + 5, leader_epoch=0)
    assert isinstance(log.append_run(far, wall_ms=T0), Appended)
    assert log.segments_count == 2
    assert records_of(log)[-1].offset == 2**31 + 5


def test_a_compacted_topic_rolls_within_its_maximum_compaction_lag() -> None:
    log = a_log(cleanup_policy=("compact",), max_compaction_lag_ms=500)
    put(log, a_batch(timestamp=T0))
    put(log, a_batch(timestamp=T0 + 501))
    assert log.segments_count == 2


# -- producers ---


def test_a_retry_of_any_of_the_last_five_batches_gets_the_offset_of_its_first_try() -> None:
    log = a_log()
    for at in range(7):
        put(log, a_batch(b"%d" % at, b"+", producer_id=1, sequence=2 * at))
    for at in range(2, 7):
        again = put(log, a_batch(b"%d" % at, b"+", producer_id=1, sequence=2 * at))
        assert (again.duplicate, again.base_offset, again.next_offset) == (True, 2 * at, 2 * at + 2)
    older = log.append(a_batch(b"1", b"+", producer_id=1, sequence=2), leader_epoch=0, wall_ms=T0)
    assert older is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.end_offset == 14


def test_retries_are_known_after_a_restart_clean_or_not_and_after_deletion_of_the_segments() -> None:
    log = a_log(internal_segment_bytes=150, file_delete_delay_ms=0)
    for at in range(6):
        put(log, a_batch(b"%d" % at, producer_id=1, sequence=at))
    put(log, a_batch(b"other"))
    put(log, a_batch(b"other"))
    log.close(clean=True)
    log = reopened(log, clean=True)
    log.set_high_watermark(8)
    sync(log)
    assert log.delete_records_before(8) == 8
    log.apply_retention(T0)
    log.purge(T0)
    log.close(clean=False)
    log = reopened(log, recovery_point=log.recovery_point, log_start_offset=8)
    for at in range(1, 6):
        again = put(log, a_batch(b"%d" % at, producer_id=1, sequence=at))
        assert again.duplicate and again.base_offset == at


def test_a_gap_in_the_sequence_is_out_of_order_and_an_unknown_producer_may_begin_anywhere() -> None:
    log = a_log()
    put(log, a_batch(producer_id=1, sequence=41))
    refused = log.append(a_batch(producer_id=1, sequence=43), leader_epoch=0, wall_ms=T0)
    assert refused is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    put(log, a_batch(producer_id=1, sequence=42))


def test_a_newer_epoch_begins_at_zero_and_fences_the_older() -> None:
    log = a_log()
    put(log, a_batch(producer_id=1, sequence=0))
    bad = log.append(a_batch(producer_id=1, epoch=1, sequence=1), leader_epoch=0, wall_ms=T0)
    assert bad is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    put(log, a_batch(producer_id=1, epoch=1, sequence=0))
    old = log.append(a_batch(producer_id=1, epoch=0, sequence=1), leader_epoch=0, wall_ms=T0)
    assert old is ErrorCode.INVALID_PRODUCER_EPOCH


def test_the_sequence_wraps_from_int_max_to_zero() -> None:
    log = a_log()
    put(log, a_batch(b"a", b"b", producer_id=1, sequence=2**31 - 2))
    put(log, a_batch(b"c", producer_id=1, sequence=0))
    put(log, a_batch(b"d", b"e", b"f", producer_id=2, sequence=2**31 - 2))
    assert put(log, a_batch(b"d", b"e", b"f", producer_id=2, sequence=2**31 - 2)).duplicate
    put(log, a_batch(b"g", producer_id=2, sequence=1))


def test_idle_producers_are_forgotten_unless_their_transaction_is_open() -> None:
    log = a_log()
    put(log, a_batch(producer_id=1, sequence=0))
    put(log, a_batch(producer_id=2, sequence=0, transactional=True))
    log.expire_producers(T0)
    log.expire_producers(T0 + DAY_MS)
    assert [producer.producer_id for producer in log.active_producers()] == [1, 2]
    log.expire_producers(T0 + DAY_MS + 1)
    assert [producer.producer_id for producer in log.active_producers()] == [2]


def test_a_producer_of_old_records_is_known_for_as_long_as_any_other() -> None:
    """Apache Kafka forgets it at the next look, and takes a batch that is sent again for a new one."""
    log = a_log()
    put(log, a_batch(producer_id=1, sequence=0, timestamp=0))
    put(log, a_batch(producer_id=2, sequence=0, timestamp=T0 + 1000 * DAY_MS))
    log.expire_producers(T0)
    log.expire_producers(T0 + DAY_MS)
    assert put(log, a_batch(producer_id=1, sequence=0, timestamp=0)).duplicate
    log.expire_producers(T0 + DAY_MS + 1)
    assert log.active_producers() == [], "neither counts by its timestamps"


def test_b9_a_proven_time_that_catches_up_forgets_no_producer_that_wrote_meanwhile() -> None:
    log, lag_ms = a_log(), 30 * DAY_MS
    put(log, a_batch(producer_id=1, sequence=0))
    log.expire_producers(T0 + lag_ms, time_for=lambda retention_ms: T0)
    log.expire_producers(T0 + lag_ms + 1)
    assert put(log, a_batch(producer_id=1, sequence=0)).duplicate


def test_the_time_for_which_a_producer_is_idle_goes_on_after_a_restart() -> None:
    log = a_log()
    put(log, a_batch(producer_id=1, sequence=0))
    log.expire_producers(T0)
    sync(log)
    log.close(clean=True)
    again = reopened(log, recovery_point=log.end_offset)
    again.expire_producers(T0 + DAY_MS)
    assert len(again.active_producers()) == 1
    again.expire_producers(T0 + DAY_MS + 1)
    assert again.active_producers() == []


def test_b7_at_the_bound_new_producers_are_refused_and_none_that_is_known_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producers, "MAX_PRODUCERS", 3)
    log, known = a_log(), [1, 2, 3]
    for producer_id in known:
        put(log, a_batch(producer_id=producer_id, sequence=0))
    new = a_batch(producer_id=4, sequence=0, timestamp=T0 + 1)
    assert log.append(new, leader_epoch=0, wall_ms=T0) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert log.end_offset == 3
    for producer_id in known:
        assert put(log, a_batch(producer_id=producer_id, sequence=0)).duplicate
        put(log, a_batch(producer_id=producer_id, sequence=1))
    put(log, a_batch(b"of nobody"))
    log.expire_producers(T0)
    log.expire_producers(T0 + DAY_MS + 1)
    put(log, new)
    assert [producer.producer_id for producer in log.active_producers()] == [4]


def test_b7_what_its_leader_took_a_follower_takes_beyond_the_bound_too(monkeypatch: pytest.MonkeyPatch) -> None:
    leader, follower = a_log(), a_log()
    for producer_id in (1, 2):
        put(leader, a_batch(producer_id=producer_id, sequence=0))
    monkeypatch.setattr(producers, "MAX_PRODUCERS", 1)
    assert isinstance(follower.append_run(_runs(leader), wall_ms=T0), Appended)
    assert [producer.producer_id for producer in follower.active_producers()] == [1, 2]


def _marker(kind: Marker, producer_id: int = 1, coordinator_epoch: int = 0) -> Batch:
    return Batch(
        build_marker(kind, producer_id=producer_id, producer_epoch=0, coordinator_epoch=coordinator_epoch, timestamp=T0)
    )


def test_the_last_stable_offset_waits_for_the_marker_to_be_committed() -> None:
    log = a_log()
    put(log, a_batch(b"plain"))
    put(log, a_batch(b"in", producer_id=1, sequence=0, transactional=True))
    put(log, a_batch(b"plain"))
    log.set_high_watermark(3)
    assert log.last_stable_offset == 1
    put(log, _marker(Marker.COMMIT), origin=Origin.COORDINATOR)
    assert log.last_stable_offset == 1
    log.set_high_watermark(4)
    assert log.last_stable_offset == 4


def test_a_reader_of_committed_records_is_told_the_aborted_transactions_of_its_range() -> None:
    log = a_log(internal_segment_bytes=300)
    for at in range(3):
        put(log, a_batch(b"a", producer_id=1, sequence=at, transactional=True))
        put(log, a_batch(b"b", producer_id=2, sequence=at, transactional=True))
        put(log, _marker(Marker.ABORT), origin=Origin.COORDINATOR)
        put(log, _marker(Marker.COMMIT, producer_id=2), origin=Origin.COORDINATOR)
    log.set_high_watermark(12)
    assert log.segments_count > 1 and log.last_stable_offset == 12
    expected = [AbortedTransaction(1, first) for first in (0, 4, 8)]
    for again in (log, reopened(log)):
        first = again.read(0, 1 << 20, limit_offset=12, with_aborted=True)
        assert isinstance(first, LogRead) and first.aborted == expected[:1], "no batch of the others is returned"
        assert [read_at(again, at, limit=12, with_aborted=True).aborted for at in (4, 8)] == [
            expected[1:2],
            expected[2:],
        ]
        assert read_at(again, 3, limit=12, with_aborted=True).aborted == []
        assert read_at(again, 0, limit=4, with_aborted=True).aborted == expected[:1]


def test_a_marker_of_an_older_coordinator_or_producer_epoch_is_refused() -> None:
    log = a_log()
    put(log, a_batch(producer_id=1, sequence=0, transactional=True))
    put(log, _marker(Marker.COMMIT, coordinator_epoch=5), origin=Origin.COORDINATOR)
    stale = log.append(
        _marker(Marker.ABORT, coordinator_epoch=4), leader_epoch=0, wall_ms=T0, origin=Origin.COORDINATOR
    )
    assert stale is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    put(log, a_batch(producer_id=1, epoch=1, sequence=0))
    old = log.append(_marker(Marker.ABORT, coordinator_epoch=6), leader_epoch=0, wall_ms=T0, origin=Origin.COORDINATOR)
    assert old is ErrorCode.INVALID_PRODUCER_EPOCH


def test_d3_a_marker_that_comes_again_in_the_same_epoch_is_taken_and_ends_nothing_more() -> None:
    log = a_log()
    put(log, a_batch(producer_id=1, sequence=0, transactional=True))
    for _ in range(2):
        put(log, _marker(Marker.ABORT), origin=Origin.COORDINATOR)
    log.set_high_watermark(3)
    assert log.last_stable_offset == 3
    assert read_at(log, 0, limit=3, with_aborted=True).aborted == [AbortedTransaction(1, 0)]


# -- followers ---


def _runs(leader: Log) -> bytes:
    return b"".join(segment.file.read_at(0, segment.size) for segment in leader.segments)


def test_a_follower_appends_a_run_of_batches_as_they_are() -> None:
    leader = a_log(internal_segment_bytes=500)
    for at in range(20):
        put(leader, a_batch(b"%d" % at, producer_id=1, sequence=at), leader_epoch=at // 7)
    follower = a_log(internal_segment_bytes=333)
    whole = _runs(leader)
    appended = follower.append_run(whole + whole[:30], wall_ms=T0)
    assert isinstance(appended, Appended) and (appended.base_offset, appended.next_offset) == (0, 20)
    assert _runs(follower) == whole and follower.segments_count > 3
    assert follower.epochs.entries == leader.epochs.entries == [(0, 0), (1, 7), (2, 14)]
    assert follower.active_producers() == leader.active_producers()
    retry = put(follower, a_batch(b"18", producer_id=1, sequence=18), leader_epoch=2)
    assert retry.duplicate and retry.base_offset == 18


def test_a_follower_refuses_a_run_that_does_not_fit_and_writes_nothing_of_it() -> None:
    leader = a_log()
    for at in range(4):
        put(leader, a_batch(b"%d" % at), leader_epoch=at)
    whole = _runs(leader)
    size = len(whole) // 4
    follower = a_log()
    broken = bytearray(whole)
    broken[3 * size + 65] ^= 1
    assert follower.append_run(broken, wall_ms=T0) is ErrorCode.CORRUPT_MESSAGE
    assert follower.append_run(whole[size:] + whole[:size], wall_ms=T0) is ErrorCode.OFFSET_OUT_OF_RANGE
    falling = bytearray(whole)
    falling[3 * size + 15] = 1
    assert follower.append_run(falling, wall_ms=T0) is ErrorCode.FENCED_LEADER_EPOCH
    assert follower.append_run(b"\x00" * 200, wall_ms=T0) is ErrorCode.CORRUPT_MESSAGE
    endless = bytearray(whole)  # its end is out of range; the base offset is not in the CRC
    endless[3 * size : 3 * size + 8] = (2**63 - 1).to_bytes(8)
    assert follower.append_run(endless, wall_ms=T0) is ErrorCode.CORRUPT_MESSAGE
    assert follower.end_offset == 0 and follower.size_bytes == 0
    assert isinstance(follower.append_run(whole, wall_ms=T0), Appended)
    assert follower.append_run(whole, wall_ms=T0) is ErrorCode.OFFSET_OUT_OF_RANGE


def _placed(offset: int, epoch: int = 0) -> bytes:
    body = bytearray(a_batch(b"x").view)
    body[:8], body[12:16] = offset.to_bytes(8), epoch.to_bytes(4)
    return bytes(body)


def test_a_follower_believes_a_hole_only_where_the_batch_behind_goes_on_from_there() -> None:
    """One flipped bit in the base offset of the leader's last batch makes a gap that nothing confirms."""
    log = a_log()
    put(log, a_batch(b"0"))
    assert log.append_run(_placed(65), wall_ms=T0) is ErrorCode.CORRUPT_MESSAGE
    assert log.append_run(_placed(65) + _placed(2), wall_ms=T0) is ErrorCode.CORRUPT_MESSAGE
    taken = log.append_run(_placed(1) + _placed(66), wall_ms=T0)
    assert isinstance(taken, Appended) and taken.next_offset == 2, "what cannot be believed yet comes again"
    assert isinstance(log.append_run(_placed(66) + _placed(67), wall_ms=T0), Appended)
    assert log.end_offset == 68 and log.sparse
    compacted = a_log(cleanup_policy=("compact",))
    assert isinstance(compacted.append_run(_placed(65), wall_ms=T0), Appended)


def test_a_follower_takes_no_epoch_above_that_of_its_leader() -> None:
    log = a_log()
    refused = log.append_run(_placed(0, epoch=3 | 1 << 20), wall_ms=T0, newest_epoch=3)
    assert refused is ErrorCode.CORRUPT_MESSAGE and log.epochs.latest == -1
    assert isinstance(log.append_run(_placed(0, epoch=3), wall_ms=T0, newest_epoch=3), Appended)


def test_a_log_of_which_all_is_deleted_takes_a_batch_that_its_end_lies_in() -> None:
    """The leader has lost other records than this log, as is possible without waiting for the disk."""
    leader, follower = a_log(), a_log()
    put(leader, a_batch(*[b"v"] * 4))
    put(follower, a_batch(*[b"w"] * 3))
    follower.set_high_watermark(3)
    assert follower.delete_records_before(3) == 3
    run = leader.read(0, 1 << 20, limit_offset=4)
    assert isinstance(run, LogRead)
    assert isinstance(follower.append_run(run.data(), wall_ms=T0), Appended)
    assert (follower.log_start_offset, follower.end_offset) == (3, 4)
    assert values_of(follower) == [b"v"]


def test_a_batch_without_room_leaves_a_log_that_starts_inside_it_where_it_was() -> None:
    disk = SimDisk()
    leader, follower = a_log(), a_log(disk)
    follower.truncate_fully_to(2, wall_ms=T0)
    put(leader, a_batch(*[b"v"] * 4))
    read = leader.read(0, 1 << 20, limit_offset=4)
    assert isinstance(read, LogRead)
    run = read.data()
    disk.fail("write", errno.ENOSPC, where=".log")
    assert follower.append_run(run, wall_ms=T0) is ErrorCode.KAFKA_STORAGE_ERROR
    assert (follower.log_start_offset, follower.high_watermark, follower.end_offset) == (2, 2, 2)
    assert isinstance(follower.append_run(run, wall_ms=T0), Appended)
    assert (follower.log_start_offset, follower.end_offset) == (2, 4)


def test_a_follower_starts_with_the_batch_in_the_middle_of_which_its_leader_starts() -> None:
    leader = a_log()
    put(leader, a_batch(b"a", b"b", b"c"))
    put(leader, a_batch(b"d"))
    leader.set_high_watermark(4)
    assert leader.delete_records_before(1) == 1
    follower = a_log()
    follower.truncate_fully_to(1, wall_ms=T0)
    assert isinstance(follower.append_run(_runs(leader), wall_ms=T0), Appended)
    assert (follower.log_start_offset, follower.end_offset) == (1, 4)
    assert _runs(follower) == _runs(leader)
    assert follower.append_run(_runs(leader), wall_ms=T0) is ErrorCode.OFFSET_OUT_OF_RANGE


# -- epochs and truncation ---


def test_an_epoch_ends_where_the_next_begins() -> None:
    log = a_log()
    assert log.epoch_end(0) is None
    for epoch in (2, 2, 4, 7):
        put(log, a_batch(), leader_epoch=epoch)
    assert log.epoch_end(2) == EpochEnd(2, 2)
    assert log.epoch_end(3) == EpochEnd(2, 2)
    assert log.epoch_end(4) == EpochEnd(4, 3)
    assert log.epoch_end(7) == EpochEnd(7, 4)
    assert log.epoch_end(8) is None
    assert log.epoch_end(1) == EpochEnd(1, 0)
    fenced = log.append(a_batch(), leader_epoch=6, wall_ms=T0)
    assert fenced is ErrorCode.FENCED_LEADER_EPOCH


def test_the_first_epoch_of_a_leadership_is_on_disk_before_its_first_record() -> None:
    disk = SimDisk()
    log = a_log(disk)
    log.begin_epoch(3)
    disk.lose_unsynced()
    assert read_epochs(disk, f"{log.directory}/leader-epoch-checkpoint") == [(3, 0)]


def test_an_epoch_that_holds_nothing_gives_way_when_the_log_is_cut_at_its_end() -> None:
    log = a_log()
    put(log, a_batch(b"a"), leader_epoch=2)
    log.begin_epoch(3)
    other = build_batch([Record(0, T0, None, b"b")], base_offset=1, leader_epoch=2)
    assert log.append_run(other, wall_ms=T0) is ErrorCode.FENCED_LEADER_EPOCH
    log.truncate_to(1)
    assert isinstance(log.append_run(other, wall_ms=T0), Appended)
    assert log.epochs.entries == [(2, 0)] and values_of(log) == [b"a", b"b"]


def _with_an_empty_epoch() -> Log:
    """A log that was closed cleanly and opened again; epoch 3 has begun and is empty."""
    log = a_log()
    put(log, a_batch(b"a"), leader_epoch=2)
    log.begin_epoch(3)
    log.close(clean=True)
    return reopened(log, clean=True)


def test_a_clean_start_does_not_write_an_empty_epoch_off_that_its_next_role_does() -> None:
    log = _with_an_empty_epoch()
    path = f"{log.directory}/leader-epoch-checkpoint"
    assert log.epochs.entries == [(2, 0)] and log.latest_epoch == 2
    assert read_epochs(log.disk, path) == [(2, 0), (3, 1)]
    log.begin_epoch(5)
    assert read_epochs(log.disk, path) == log.epochs.entries == [(2, 0), (5, 1)]


def test_an_empty_epoch_is_off_the_disk_before_records_of_an_older_one_come_in_its_place() -> None:
    other = build_batch([Record(0, T0, None, b"b")], base_offset=1, leader_epoch=2)
    for follow in (lambda log: log.epochs.cut_end(log.end_offset), lambda log: log.append_run(other, wall_ms=T0)):
        log = _with_an_empty_epoch()
        follow(log)
        assert read_epochs(log.disk, f"{log.directory}/leader-epoch-checkpoint") == [(2, 0)]


def test_an_empty_epoch_is_written_off_at_once_after_a_crash() -> None:
    log = a_log()
    put(log, a_batch(b"a"), leader_epoch=2)
    sync(log)
    log.begin_epoch(3)
    again = reopened(log, recovery_point=1)
    assert read_epochs(again.disk, f"{log.directory}/leader-epoch-checkpoint") == again.epochs.entries == [(2, 0)]


@pytest.mark.parametrize("offset", range(0, 31, 3))
def test_truncation_drops_records_indexes_epochs_and_producer_state_above_it(offset: int) -> None:
    log = a_log(internal_segment_bytes=400, index_interval_bytes=100)
    for at in range(30):
        put(log, a_batch(b"%d" % at, producer_id=1, sequence=at, timestamp=T0 + at), leader_epoch=at // 10)
    sync(log)
    log.truncate_to(offset)
    end = min(offset, 30)
    for state in (log, reopened(log, recovery_point=log.recovery_point)):
        assert state.end_offset == end and state.synced_offset <= end
        assert values_of(state) == [b"%d" % at for at in range(end)]
        assert state.latest_epoch == ((end - 1) // 10 if end else -1)
        producers = state.active_producers()
        assert [producer.last_sequence for producer in producers] == ([end - 1] if end else [])
        latest = state.max_timestamp_offset()
        assert latest == (TimestampOffset(T0 + end - 1, end - 1, (end - 1) // 10) if end else None)
    log = reopened(log, recovery_point=log.recovery_point)
    put(log, a_batch(b"new", producer_id=1, sequence=end), leader_epoch=9)
    assert values_of(log)[-1] == b"new"


def test_a_sync_that_began_before_a_truncation_does_not_vouch_for_what_came_after() -> None:
    synced: list[int] = []
    log = a_log(synced=synced)
    for _ in range(5):
        put(log, a_batch())
    work = log.begin_sync()
    assert work is not None and work.end_offset == 5
    log.truncate_to(2)
    for _ in range(5):
        put(log, a_batch(), leader_epoch=1)
    log.end_sync(work, None)
    assert log.synced_offset == 2 and synced == [2]


def test_starting_anew_at_an_offset_leaves_nothing_of_before() -> None:
    log = a_log(internal_segment_bytes=200)
    for at in range(10):
        put(log, a_batch(b"%d" % at, producer_id=1, sequence=at), leader_epoch=2)
    log.truncate_fully_to(500, wall_ms=T0)
    assert (log.log_start_offset, log.end_offset, log.segments_count, log.latest_epoch) == (500, 500, 1, -1)
    assert log.active_producers() == []
    assert put(log, a_batch(b"new")).base_offset == 500
    assert values_of(reopened(log, log_start_offset=500)) == [b"new"]


@pytest.mark.parametrize("purged", [True, False])
def test_what_waits_for_its_deletion_takes_no_new_segment_of_the_same_name_along(purged: bool) -> None:
    log = a_log(internal_segment_bytes=100, file_delete_delay_ms=60_000)
    for at in range(5):
        put(log, a_batch(b"%d" % at))
    sync(log)
    log.set_high_watermark(5)
    log.delete_records_before(3)
    assert log.apply_retention(T0) == 3
    if purged:
        log.purge(T0)
    log.truncate_to(0)  # by a leader that was elected uncleanly
    put(log, a_batch(b"new"), leader_epoch=7)
    sync(log)
    log.purge(T0 + 60_000)
    assert values_of(reopened(log)) == [b"new"]


# -- room on the disk ---


def _sizes(directory: Path) -> dict[str, tuple[int, int]]:
    """(size, bytes allocated on the disk) of each file by name."""
    found = {path.name: path.stat() for path in directory.iterdir()}
    return {name: (each.st_size, each.st_blocks * 512) for name, each in found.items()}


@pytest.mark.parametrize("segment_bytes", [1 << 30, 1 << 20], ids=["as configured by default", "small segments"])
def test_b10_files_hold_and_take_what_was_written_and_no_more(segment_bytes: int, tmp_path: Path) -> None:
    log = a_log(LocalDisk(), directory=f"{tmp_path}/t-0", segment_bytes=segment_bytes)
    slack = 64 << 10  # some file systems allocate a little more for a while
    for _ in range(4):
        sync(log)
        sizes = _sizes(tmp_path / "t-0")
        for segment in log.segments:
            assert sizes[f"{segment.base_offset:020d}.log"][0] == segment.size
        for name, (size, taken) in sizes.items():
            assert taken <= 2 * size + slack, name
        for _ in range(8):
            put(log, a_batch(b"x" * 100_000))
    assert (log.segments_count > 1) == (segment_bytes < 1 << 30)
    log.close(clean=True)
    sizes = _sizes(tmp_path / "t-0")
    for segment in log.segments:
        assert 0 < sizes[f"{segment.base_offset:020d}.index"][0] == 8 * segment.index.count
        assert 0 < sizes[f"{segment.base_offset:020d}.timeindex"][0] == 12 * segment.times.count
    assert sum(taken for _, taken in sizes.values()) <= 2 * log.size_bytes + slack * len(sizes)


# -- syncing ---


def test_synced_is_the_end_as_it_was_when_the_sync_began() -> None:
    synced: list[int] = []
    log = a_log(synced=synced)
    put(log, a_batch())
    work = log.begin_sync()
    assert work is not None
    put(log, a_batch())
    log.end_sync(work, None)
    assert log.synced_offset == 1 and synced == [1]
    sync(log)
    assert log.synced_offset == 2 and log.begin_sync() is None


def test_a_roll_hands_the_sealed_segment_and_the_directory_to_the_next_sync() -> None:
    log = a_log(internal_segment_bytes=150)
    for _ in range(3):
        put(log, a_batch(b"x" * 60))
    work = log.begin_sync()
    assert work is not None
    names = [file.path.rsplit("/", 1)[1] for file in work.files]
    assert {f"{base:020d}.log" for base in log.bases} <= set(names)
    assert work.directories == (log.directory,)
    log.end_sync(work, None)


def test_with_write_caching_the_end_is_synced_at_once_and_flush_options_say_when_to_sync() -> None:
    synced: list[int] = []
    log = a_log(synced=synced, write_caching=True, flush_messages=3, flush_ms=1000)
    put(log, a_batch())
    assert log.synced_offset == 1
    assert not log.flush_due(T0)
    assert not log.flush_due(T0 + 999)
    assert log.flush_due(T0 + 1000)
    sync(log)
    assert not log.flush_due(T0 + 5000)
    for _ in range(3):
        put(log, a_batch())
    assert log.flush_due(T0 + 5000)
    assert synced == []


# -- time ---


@pytest.mark.parametrize("segment_bytes", [1 << 20, 500])
def test_the_first_record_at_or_after_a_time_is_found_in_offset_order(segment_bytes: int) -> None:
    log = a_log(internal_segment_bytes=segment_bytes, index_interval_bytes=120)
    random = Random(3)
    stamps: list[int] = []
    for _ in range(60):
        batch = [Record(row, T0 + random.randrange(1000), None, b"v") for row in range(random.randrange(1, 4))]
        put(log, Batch(build_batch(batch)))
        stamps += [record.timestamp for record in batch]
    log.sync_now()
    for state in (log, reopened(log, recovery_point=log.recovery_point)):
        for wanted in range(T0 - 5, T0 + 1005, 7):
            first = next((at for at, stamp in enumerate(stamps) if stamp >= wanted), None)
            found = state.offset_for_timestamp(wanted)
            assert (found.offset if found else None) == first
            assert found is None or found.timestamp == stamps[found.offset]
        latest = state.max_timestamp_offset()
        assert latest is not None and (latest.timestamp, latest.offset) == (max(stamps), stamps.index(max(stamps)))


# -- retention ---


def _aged(committed: int = 6, **options: object) -> Log:
    log = a_log(internal_segment_bytes=100, file_delete_delay_ms=0, **options)
    for at in range(6):
        put(log, a_batch(b"%d" % at, timestamp=T0 + at * 1000))
    sync(log)
    log.set_high_watermark(committed)
    return log


def test_segments_go_once_their_newest_record_is_older_than_the_retention() -> None:
    log = _aged(retention_ms=10_000)
    assert log.apply_retention(T0 + 12_000) == 2
    assert log.log_start_offset == 2 and values_of(log)[0] == b"2"
    log.purge(T0 + 12_000)
    assert f"{0:020d}.log" not in log.disk.list(log.directory)


def test_the_last_segment_is_sealed_first_and_goes_in_a_later_round() -> None:
    log = _aged(retention_ms=10_000)
    assert log.apply_retention(T0 + 60_000) == 5
    assert log.flush_due(T0)
    sync(log)
    assert log.apply_retention(T0 + 60_001) == 1
    assert log.log_start_offset == log.end_offset == 6
    assert put(log, a_batch(b"next", timestamp=T0 + 60_000)).base_offset == 6


def test_the_oldest_segments_go_while_the_log_holds_more_than_its_bytes() -> None:
    log = _aged(retention_ms=-1, retention_bytes=3 * a_batch(b"0").size)
    assert log.apply_retention(T0) == 3
    assert log.size_bytes == 3 * a_batch(b"0").size


def test_retention_bytes_of_zero_keeps_no_records_like_kafka() -> None:
    log = _aged(retention_ms=-1, retention_bytes=0)
    assert log.apply_retention(T0) == 5
    sync(log)
    assert log.apply_retention(T0) == 1
    assert log.log_start_offset == log.end_offset == 6
    assert log.apply_retention(T0) == 0


def test_nothing_uncommitted_is_deleted_and_nothing_at_all_without_delete() -> None:
    log = _aged(committed=1, retention_ms=10_000)
    assert log.apply_retention(T0 + 60_000) == 1
    compacted = _aged(retention_ms=10_000, cleanup_policy=("compact",))
    assert compacted.apply_retention(T0 + 60_000) == 0


def test_of_two_copies_the_one_that_stays_starts_where_the_other_did_and_what_was_deleted_was_committed():
    disk = SimDisk()
    kept, left = a_log(disk), a_log(disk, directory="/data/t-0.other-future")
    for log in (kept, left):
        put(log, a_batch(b"0", b"1", b"2"))
    left.set_high_watermark(2)
    left.delete_records_before(2)
    kept.start_as(left)
    assert (kept.log_start_offset, kept.high_watermark) == (2, 2)
    left.truncate_fully_to(9, wall_ms=T0)
    kept.start_as(left)
    assert (kept.log_start_offset, kept.high_watermark) == (3, 3), "no log starts behind its end"


def test_b9_age_is_judged_by_the_trusted_time_and_not_by_the_wall_clock() -> None:
    log = _aged(retention_ms=10_000)
    assert log.apply_retention(T0 + 5_000 + 100_000, time_for=lambda retention_ms: T0 + 5_000) == 0
    assert log.apply_retention(T0 - 100_000, time_for=lambda retention_ms: T0 + 12_500) == 3


def test_h3_a_replica_that_does_not_lead_deletes_only_what_its_leader_has_deleted() -> None:
    log = _aged(retention_ms=10_000, retention_bytes=1)
    assert log.apply_retention(T0 + 10 * DAY_MS, leads=False) == 0
    log.delete_records_before(3)
    assert log.apply_retention(T0, leads=False) == 3
    assert log.apply_retention(T0 + 10 * DAY_MS, leads=True) > 0


def test_delete_records_raises_the_start_and_frees_whole_segments() -> None:
    log = _aged(retention_ms=-1)
    assert log.delete_records_before(7) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.delete_records_before(3) == 3
    assert log.delete_records_before(2) == 3
    assert values_of(log) == [b"3", b"4", b"5"]
    assert log.apply_retention(T0) == 3
    assert log.delete_records_before(-1) == 6
    assert log.epoch_end(0) == EpochEnd(0, 6)


def test_a_log_that_starts_inside_a_batch_with_the_brokers_time_is_found_from_its_start_on() -> None:
    log = a_log(message_timestamp_type="LogAppendTime")
    put(log, a_batch(b"0", b"1", b"2"), wall_ms=T0)
    put(log, a_batch(b"3"), wall_ms=T0 + 5)
    log.set_high_watermark(4)
    log.delete_records_before(1)
    assert log.offset_for_timestamp(T0) == (T0, 1, 0)
    assert log.offset_for_timestamp(T0 + 1) == (T0 + 5, 3, 0)


def test_a_follower_from_which_nobody_reads_forgets_transactions_that_have_ended() -> None:
    leader, follower = a_log(), a_log()
    for at in range(10):
        put(leader, a_batch(producer_id=5, sequence=at, transactional=True))
        put(leader, _marker(Marker.ABORT, 5), origin=Origin.COORDINATOR)
    sent = read_at(leader, 0).data()
    assert isinstance(follower.append_run(sent, wall_ms=T0), Appended)
    follower.set_high_watermark(18)
    follower.expire_producers(T0)
    assert not follower.producers.no_transactions, "the last marker is not committed"
    follower.set_high_watermark(20)
    follower.expire_producers(T0)
    assert follower.producers.no_transactions


def test_a_deleted_segment_keeps_its_file_under_another_name_for_the_delay() -> None:
    log = _aged(retention_ms=-1)
    log.update_config(log.config.replace(file_delete_delay_ms=1000))
    log.delete_records_before(1)
    log.apply_retention(T0)
    log.purge(T0 + 999)
    assert f"{0:020d}.log.deleted" in log.disk.list(log.directory)
    log.purge(T0 + 1000)
    assert not [name for name in log.disk.list(log.directory) if "deleted" in name]


# -- a failing disk ---


def test_a_full_disk_refuses_the_batch_and_works_again_once_there_is_room() -> None:
    disk = SimDisk()
    log = a_log(disk, internal_segment_bytes=400)
    for at in range(3):
        put(log, a_batch(b"%d" % at, producer_id=1, sequence=at))
    for extra in range(0, 200, 9):
        disk.capacity_bytes = disk.used_bytes() + extra
        refused = log.append(a_batch(b"x" * 250, producer_id=1, sequence=3), leader_epoch=0, wall_ms=T0)
        assert refused is ErrorCode.KAFKA_STORAGE_ERROR
        assert log.end_offset == 3 and log.active.file.size() == log.active.size
        assert values_of(log) == [b"0", b"1", b"2"]
    disk.capacity_bytes = 1 << 62
    assert put(log, a_batch(b"x" * 250, producer_id=1, sequence=3)).base_offset == 3
    sync(log)
    assert log.synced_offset == 4
    disk.lose_unsynced()
    again = reopened(log)
    assert again.end_offset == 4 and again.active_producers()[0].last_sequence == 3


class _NoRoomForSnapshots(LocalDisk):
    def open(self, path: str, *, create: bool = False) -> OpenFile:
        if create and ".snapshot" in path:
            raise OSError(errno.ENOSPC, "no space left on device", path)
        return super().open(path, create=create)


def test_a_roll_without_room_for_its_snapshot_leaves_no_file_open(tmp_path: Path) -> None:
    """The producer tries again and again; the note of aborted transactions had room."""
    log = a_log(_NoRoomForSnapshots(), directory=f"{tmp_path}/t-0", internal_segment_bytes=400)
    put(log, a_batch(b"aborted", producer_id=1, sequence=0, transactional=True))
    marker = build_marker(Marker.ABORT, producer_id=1, producer_epoch=0, coordinator_epoch=1, timestamp=T0)
    put(log, Batch(marker), origin=Origin.COORDINATOR)
    opened = []
    for _ in range(3):
        assert log.append(a_batch(b"x" * 300), leader_epoch=0, wall_ms=T0) is ErrorCode.KAFKA_STORAGE_ERROR
        opened.append(sum(target.startswith(str(tmp_path)) for target in descriptors()))
    assert opened[0] == opened[1] == opened[2]


def test_a_short_write_is_cut_back_in_the_same_call() -> None:
    disk = SimDisk()
    log = a_log(disk)
    put(log, a_batch(b"good"))
    disk.fail("short write", errno.ENOSPC, where=".log")
    assert log.append(a_batch(b"bad"), leader_epoch=0, wall_ms=T0) is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.active.file.size() == log.active.size
    put(log, a_batch(b"after"))
    assert values_of(log) == [b"good", b"after"]


@pytest.mark.parametrize("operation", ["write", "short write"])
def test_an_io_error_ends_all_writing_but_not_reading(operation: str) -> None:
    disk = SimDisk()
    log = a_log(disk)
    put(log, a_batch(b"good"))
    disk.fail(operation, errno.EIO, where=".log")
    with pytest.raises(OSError):
        log.append(a_batch(b"bad"), leader_epoch=0, wall_ms=T0)
    assert log.append(a_batch(b"more"), leader_epoch=0, wall_ms=T0) is ErrorCode.KAFKA_STORAGE_ERROR
    assert values_of(log) == [b"good"]


def test_a_failed_cut_back_is_an_io_error_even_on_a_full_disk() -> None:
    disk = SimDisk()
    log = a_log(disk)
    put(log, a_batch(b"good"))
    disk.fail("short write", errno.ENOSPC, where=".log")
    disk.fail("truncate", errno.ENOSPC, where=".log")
    with pytest.raises(OSError, match="cut back"):
        log.append(a_batch(b"bad"), leader_epoch=0, wall_ms=T0)
    assert log.refusing
