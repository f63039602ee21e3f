"""Opening after a crash: the torn end is cut, only the tail above the recovery point is read, damage is marked."""

from __future__ import annotations

import pytest
from log_desk import T0, a_batch, a_log, put, read_at, reopened, sync, values_of

from ottla.kernel.errors import ErrorCode
from ottla.records.batch import Batch
from ottla.records.control import Marker, build_marker
from ottla.sim.disk import SimDisk
from ottla.storage import syncing
from ottla.storage.log import Log
from ottla.storage.segment.names import INDEX, LOG, TIME_INDEX, segment_path
from ottla.storage.values import Appended, Origin

FIVE = [b"zero", b"one", b"two", b"three", b"four" * 30]


def _five(**options: object) -> Log:
    log = a_log(**options)
    for at, value in enumerate(FIVE):
        put(log, a_batch(value, producer_id=1, sequence=at, timestamp=T0 + at))
    return log


def _log_path(log: Log, base: int = 0) -> str:
    return segment_path(log.directory, base, LOG)


def _cut_file(log: Log, size: int, base: int = 0) -> None:
    file = log.disk.open(_log_path(log, base))
    file.truncate(size)
    file.release()


def test_the_last_batch_cut_at_every_byte_leaves_exactly_the_batches_before_it() -> None:
    whole = _five()
    size = whole.active.size
    start = size - a_batch(FIVE[4], producer_id=1, sequence=4).size
    for cut in range(start, size):
        log = _five()
        _cut_file(log, cut)
        again = reopened(log)
        assert again.damaged_at is None
        assert values_of(again) == FIVE[:4] and again.synced_offset == 4
        assert again.recovered.truncated_bytes == cut - start
        assert again.disk.file_size(_log_path(again)) == start
        (producer,) = again.active_producers()
        assert producer.last_sequence == 3
        assert put(again, a_batch(FIVE[4], producer_id=1, sequence=4)).base_offset == 4
    assert reopened(whole).end_offset == 5


def test_the_last_batch_with_any_single_byte_changed_under_its_crc_is_cut() -> None:
    size = _five().active.size
    start = size - a_batch(FIVE[4], producer_id=1, sequence=4).size
    for position in [*range(start + 8, start + 12), *range(start + 16, size, 7)]:
        log = _five()
        assert isinstance(log.disk, SimDisk)
        log.disk.flip_bit(_log_path(log), position, bit=1)
        again = reopened(log)
        assert values_of(again) == FIVE[:4], position


@pytest.mark.parametrize("tail", [b"\x00" * 100, b"\xff" * 70, b"\x00" * 4096])
def test_garbage_behind_the_last_batch_is_cut(tail: bytes) -> None:
    log = _five()
    log.active.file.write_at(log.active.size, [tail])
    again = reopened(log)
    assert values_of(again) == FIVE and again.recovered.truncated_bytes == len(tail)


def test_what_follows_a_torn_segment_is_dropped_with_it() -> None:
    log = a_log(internal_segment_bytes=100)
    for at in range(5):
        put(log, a_batch(b"%d" % at))
    assert log.bases == [0, 1, 2, 3, 4]
    _cut_file(log, 20, base=2)
    again = reopened(log, recovery_point=1)
    assert again.end_offset == 2 and again.bases == [0, 1, 2]
    assert values_of(again) == [b"0", b"1"]


def test_recovery_reads_the_tail_above_the_recovery_point_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syncing, "CHECKPOINT_BYTES", 2000)
    monkeypatch.setattr(syncing, "SNAPSHOT_BYTES", 4000)
    scanned = []
    for count in (200, 400, 800):
        log = a_log(index_interval_bytes=500)
        for at in range(count):
            put(log, a_batch(b"x" * 30, producer_id=1, sequence=at))
            sync(log)
        tail = log.end_offset - log.recovery_point
        assert 0 <= tail < 40
        again = reopened(log, recovery_point=log.recovery_point, tail_bytes=0)
        assert again.end_offset == count
        assert again.recovered.scanned_bytes <= 2000 + 500 + 3 * 101
        assert again.recovered.replayed_batches <= 100
        assert again.active_producers()[0].last_sequence == count - 1
        scanned.append(again.recovered.scanned_bytes)
    assert max(scanned) < 3000


def test_sealed_segments_below_the_recovery_point_are_not_read() -> None:
    log = a_log(internal_segment_bytes=1000, index_interval_bytes=0)
    for at in range(100):
        put(log, a_batch(b"%d" % at))
    log.sync_now()
    log.close(clean=False)
    again = reopened(log, recovery_point=log.recovery_point, tail_bytes=0)
    assert log.segments_count > 5 and again.recovered.scanned_bytes < 200
    assert again.recovered.rebuilt_indexes == 0
    assert values_of(again) == [b"%d" % at for at in range(100)]


@pytest.mark.parametrize("tail_bytes", [0, 500, 3000])
def test_after_a_clean_close_no_more_than_the_tail_is_read(tail_bytes: int) -> None:
    log = a_log(index_interval_bytes=0, internal_segment_bytes=2000)
    for at in range(100):
        put(log, a_batch(b"%d" % at, producer_id=1, sequence=at))
    log.close(clean=True)
    again = reopened(log, clean=True, tail_bytes=tail_bytes)
    assert again.end_offset == again.synced_offset == 100
    assert tail_bytes <= again.recovered.scanned_bytes < tail_bytes + 100 and again.recovered.replayed_batches == 0
    assert again.active_producers()[0].last_sequence == 99


@pytest.mark.parametrize("suffix", [INDEX, TIME_INDEX])
@pytest.mark.parametrize("harm", ["missing", "torn", "empty", "falling"])
@pytest.mark.parametrize("clean", [True, False])
def test_an_index_that_is_missing_torn_or_wrong_is_built_again(suffix: str, harm: str, clean: bool) -> None:
    log = a_log(index_interval_bytes=100, internal_segment_bytes=1500)
    for at in range(60):
        put(log, a_batch(b"%d" % at, timestamp=T0 + at))
    log.close(clean=True)
    for base in log.bases:
        path = segment_path(log.directory, base, suffix)
        file = log.disk.open(path, create=True)
        size = file.size()
        if harm == "missing":
            log.disk.remove(path)
        elif harm == "torn":
            file.truncate(max(size - 3, 0))
        elif harm == "empty":
            file.truncate(0)
        elif size >= 24:
            file.write_at(size - 12, [bytes(12)])
        file.release()
    again = reopened(log, clean=clean, recovery_point=60)
    assert again.damaged_at is None and again.end_offset == 60
    for start in range(60):
        assert values_of(again, start=start, max_bytes=200) == [b"%d" % at for at in range(start, 60)]
    for at in range(60):
        found = again.offset_for_timestamp(T0 + at)
        assert found is not None and found.offset == at


def test_damage_below_the_recovery_point_is_marked_kept_and_not_served() -> None:
    log = _five()
    log.sync_now()
    size = log.active.size
    _cut_file(log, size - 3)
    again = reopened(log, recovery_point=5)
    assert again.end_offset == 5 and again.damage.covers(4)
    assert values_of(again, limit=4) == FIVE[:4]
    assert again.disk.file_size(_log_path(again)) == size - 3, "the file is evidence"
    assert again.read(4, 100, limit_offset=5) is ErrorCode.KAFKA_STORAGE_ERROR
    assert put(again, a_batch(b"x")).base_offset == 5
    assert values_of(again, start=5) == [b"x"]
    again.truncate_fully_to(0, wall_ms=T0)
    assert not again.damage


def test_a_flipped_bit_below_the_recovery_point_in_the_scanned_segment_is_damage_not_a_torn_end() -> None:
    log = _five()
    log.sync_now()
    assert isinstance(log.disk, SimDisk)
    log.disk.flip_bit(_log_path(log), 2 * a_batch(b"zero", producer_id=1, sequence=0).size + 65)
    again = reopened(log, recovery_point=5)
    assert again.damage.covers(2) and not again.damage.covers(3)
    assert values_of(again, limit=2) == FIVE[:2] and values_of(again, start=3) == FIVE[3:]


def test_a_sealed_segment_that_lost_its_end_below_the_recovery_point_is_damage() -> None:
    log = a_log(internal_segment_bytes=250)
    for at in range(12):
        put(log, a_batch(b"%d" % at))
    log.sync_now()
    first_end = log.bases[1]
    _cut_file(log, log.segments[0].size - 5)
    log.disk.remove(segment_path(log.directory, 0, INDEX))
    again = reopened(log, recovery_point=12)
    assert [(one.first_offset, one.next_offset) for one in again.damage.of(0)] == [(first_end - 1, first_end)]
    assert values_of(again, limit=first_end - 1) == [b"%d" % at for at in range(first_end - 1)]
    assert values_of(again, start=first_end) == [b"%d" % at for at in range(first_end, 12)]


def test_segments_below_the_checkpointed_start_are_removed_at_the_opening() -> None:
    log = a_log(internal_segment_bytes=100)
    for at in range(5):
        put(log, a_batch(b"%d" % at))
    log.close(clean=True)
    again = reopened(log, clean=True, log_start_offset=3)
    assert again.bases == [3, 4] and again.log_start_offset == 3
    assert values_of(again) == [b"3", b"4"]


@pytest.mark.parametrize("suffix", [".fetched", ".cleaned", ".snapshot.tmp"])
def test_left_over_files_are_removed(suffix: str) -> None:
    log = _five()
    log.disk.open(f"{log.directory}/{99:020d}.log{suffix}", create=True).release()
    again = reopened(log)
    assert not [name for name in again.disk.list(again.directory) if name.endswith(suffix)]
    assert values_of(again) == FIVE


def _abort(log: Log) -> None:
    put(log, a_batch(b"x", producer_id=5, sequence=0, transactional=True))
    marker = build_marker(Marker.ABORT, producer_id=5, producer_epoch=0, coordinator_epoch=1, timestamp=T0)
    put(log, Batch(marker), origin=Origin.COORDINATOR)


@pytest.mark.parametrize("clean", [True, False])
def test_aborted_transactions_of_closed_segments_stay_known_where_all_snapshots_were_lost(clean: bool) -> None:
    log = a_log()
    _abort(log)
    log.roll(2, T0)
    put(log, a_batch(b"tail"))
    log.close(clean=True)
    for name in log.disk.list(log.directory):
        if name.endswith(".snapshot"):
            log.disk.remove(f"{log.directory}/{name}")
    again = log
    for power_cut in (False, False, True):
        if power_cut:
            assert isinstance(log.disk, SimDisk)
            log.disk.lose_unsynced()
        again = reopened(again, clean=clean, recovery_point=3)
        assert [(one.producer_id, one.first_offset, one.last_offset) for one in again.segments[0].aborted.entries] == [
            (5, 0, 1)
        ]
        again.close(clean=clean)


def test_an_aborted_transaction_whose_records_were_lost_is_not_known_any_more() -> None:
    """An interrupted sync may have put the index on disk, and nothing of the segment."""
    log = a_log()
    put(log, a_batch(b"0"))
    log.roll(1, T0)
    sync(log)
    _abort(log)
    for file in log.active.write_indexes():
        file.sync()
    log.disk.sync_directory(log.directory)
    assert isinstance(log.disk, SimDisk)
    log.disk.lose_unsynced()
    again = reopened(log)
    assert again.end_offset == 1
    assert again.active.aborted.entries == []


@pytest.mark.parametrize("clean", [True, False])
def test_indexes_whose_segment_is_gone_are_not_those_of_the_next_one_of_its_name(clean: bool) -> None:
    """A power cut may keep an index and lose its segment, when it is created or when a truncation removes both."""
    log = a_log(index_interval_bytes=0)
    put(log, a_batch(b"0"))
    log.roll(1, T0)
    _abort(log)
    for _ in range(8):
        put(log, a_batch(b"y"))
    log.sync_now()
    log.disk.remove(_log_path(log, 1))
    after = reopened(log, recovery_point=1)
    assert after.damaged_at is None and after.end_offset == 1
    after.roll(1, T0)
    for at in range(4):
        put(after, a_batch(*[b"%d" % at] * (20 if at == 2 else 1)))
    after.roll(24, T0)
    put(after, a_batch(b"4"))
    after.close(clean=True)
    again = reopened(after, clean=clean, recovery_point=25)
    assert values_of(again, start=23) == [b"3", b"4"]
    assert not again.segments[1].aborted.entries


def test_a_batch_that_was_cut_does_not_come_back_as_one_of_the_epoch_that_went_on_in_its_place() -> None:
    """Seed 151299 of three brokers: a follower cut one leader's batch, took another's, and lost its power.

    Its leader compares only epochs, and would have left it with bytes that no other replica has.
    """
    log = a_log(SimDisk())
    put(log, a_batch(b"both have it"))
    put(log, a_batch(b"mine"), leader_epoch=1)
    log.sync_now()
    log.truncate_to(1)
    put(log, a_batch(b"other"))
    put(log, a_batch(b"later"), leader_epoch=2)
    assert isinstance(log.disk, SimDisk)
    log.disk.lose_unsynced()
    again = reopened(log)
    assert values_of(again) == [b"both have it"]
    assert again.epochs.entries == [(0, 0)]


def test_a_lost_epoch_checkpoint_is_rebuilt_from_the_batches() -> None:
    log = a_log(internal_segment_bytes=300)
    for at in range(12):
        put(log, a_batch(b"%d" % at), leader_epoch=at // 4)
    log.close(clean=True)
    path = f"{log.directory}/leader-epoch-checkpoint"
    for body in (b"0\n7\nnonsense\n", b"garbage", b""):
        file = log.disk.open(path, create=True)
        file.truncate(0)
        file.write_at(0, [body])
        file.release()
        assert reopened(log, clean=True).epochs.entries == [(0, 0), (1, 4), (2, 8)]


def test_a_torn_producer_snapshot_is_passed_over_for_an_older_one_and_the_batches() -> None:
    log = a_log(internal_segment_bytes=300)
    for at in range(12):
        put(log, a_batch(b"%d" % at, producer_id=1, sequence=at))
    log.close(clean=True)
    newest = max(name for name in log.disk.list(log.directory) if name.endswith(".snapshot"))
    file = log.disk.open(f"{log.directory}/{newest}")
    file.truncate(file.size() - 1)
    file.release()
    again = reopened(log, clean=True)
    assert again.active_producers()[0].last_sequence == 11
    answer = again.append(a_batch(b"8", producer_id=1, sequence=8), leader_epoch=0, wall_ms=T0)
    assert isinstance(answer, Appended) and answer.duplicate


def test_an_opening_that_finds_no_segment_begins_one_at_the_start() -> None:
    log = a_log()
    log.close(clean=False)
    log.disk.remove(_log_path(log))
    again = reopened(log, log_start_offset=7)
    assert (again.log_start_offset, again.end_offset) == (7, 7)
    assert put(again, a_batch(b"a")).base_offset == 7
    assert read_at(again, 7).base_offset == 7
