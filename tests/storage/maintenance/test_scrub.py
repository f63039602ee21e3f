"""A scrub finds every detectable flipped bit, and how far the damage reaches; sound records around it are served."""

from __future__ import annotations

import errno
import os

import pytest
from log_desk import T0, a_batch, a_log, put, records_of, reopened, sync, values_of

from ottla.kernel.errors import ErrorCode
from ottla.records.header import HEADER_SIZE
from ottla.sim.disk import SimDisk
from ottla.storage.log import Log
from ottla.storage.maintenance.index_scrub import RebuiltIndexes
from ottla.storage.maintenance.scrub import (
    ScrubFinding,
    check_all,
    decode_findings,
    decode_segments,
    encode_findings,
    encode_segments,
)
from ottla.storage.segment.closed import ClosedSegment, check
from ottla.storage.segment.names import INDEX, LOG, TIME_INDEX
from ottla.storage.segment.walk import Extent
from ottla.storage.values import Appended, LogRead

BATCHES = 8
PER_BATCH = 3


def a_closed_segment(**options: object) -> Log:
    """One closed segment of eight batches of three records, followed by an active one."""
    size = a_batch(*[b"value-00"] * PER_BATCH).size
    log = a_log(internal_segment_bytes=BATCHES * size, **options)
    for number in range(BATCHES + 1):
        put(log, a_batch(*[b"value-%02d" % number] * PER_BATCH), leader_epoch=5)
    sync(log)
    assert len(log.segments) == 2
    return log


def told(log: Log, at: int = 0, *, epochs: bool = True) -> ClosedSegment:
    segment = log.segments[at]
    known = tuple(log.epochs.entries) if epochs else ()
    return ClosedSegment(segment.path(LOG), segment.base_offset, segment.next_offset, segment.size, known)


def found(log: Log, *, epochs: bool = True) -> list[Extent]:
    return [step for step in check(log.disk, told(log, epochs=epochs)) if isinstance(step, Extent)]


def note(log: Log) -> list[Extent]:
    extents = found(log)
    log.damage.note(log.segments[0].base_offset, extents)
    log.segments[0].forget_recent()
    return extents


def flip(log: Log, position: int, bit: int) -> None:
    assert isinstance(log.disk, SimDisk)
    log.disk.flip_bit(log.segments[0].path(LOG), position, bit)


def test_a_sound_segment_has_no_damage() -> None:
    assert found(a_closed_segment()) == []


@pytest.mark.parametrize("number", range(BATCHES))
def test_every_flipped_bit_of_a_header_costs_its_batch_alone_where_the_epochs_are_known(number: int) -> None:
    log = a_closed_segment(index_interval_bytes=1)
    start = number * (log.segments[0].size // BATCHES)
    for place in range(HEADER_SIZE):
        for bit in range(8):
            flip(log, start + place, bit)
            (extent,) = found(log)
            flip(log, start + place, bit)
            assert (extent.first_offset, extent.next_offset) == (number * PER_BATCH, (number + 1) * PER_BATCH)


@pytest.mark.parametrize("number", range(BATCHES))
def test_every_flipped_bit_of_a_header_is_found_in_its_batch_or_beside_it(number: int) -> None:
    """Base offset, length and epoch are in no CRC. If the epochs are unknown, a lower epoch in the first batch, or a
    higher one in the last, contradicts nothing."""
    log = a_closed_segment()
    start = number * (log.segments[0].size // BATCHES)
    for place in range(HEADER_SIZE):
        for bit in range(8):
            flip(log, start + place, bit)
            extents = found(log, epochs=False)
            flip(log, start + place, bit)
            if not extents:
                assert 12 <= place < 16 and number in (0, BATCHES - 1), (place, bit)
                continue
            first, last = extents[0], extents[-1]
            assert first.first_offset <= number * PER_BATCH < last.next_offset, (place, bit, extents)
            assert first.position <= start < last.end


def test_every_flipped_byte_of_records_costs_that_batch_alone() -> None:
    log = a_closed_segment()
    size = log.segments[0].size // BATCHES
    for number in range(BATCHES):
        for place in range(HEADER_SIZE, size, 5):
            flip(log, number * size + place, place % 8)
            whole = Extent(number * PER_BATCH, (number + 1) * PER_BATCH, number * size, (number + 1) * size)
            assert found(log) == [whole]
            flip(log, number * size + place, place % 8)


def test_an_offset_that_is_too_high_is_its_own_batchs_fault() -> None:
    log = a_closed_segment()
    size = log.segments[0].size // BATCHES
    flip(log, 2 * size + 7, 3)  # 6 becomes 14
    assert found(log) == [Extent(6, 9, 2 * size, 3 * size)]


def test_a_length_that_lies_is_left_behind_by_the_index() -> None:
    log = a_closed_segment(index_interval_bytes=1)
    size = log.segments[0].size // BATCHES
    flip(log, 3 * size + 8, 5)
    assert found(log) == [Extent(9, 12, 3 * size, 4 * size)]
    log.disk.remove(log.segments[0].path(INDEX))
    assert found(log) == [Extent(9, 12, 3 * size, 4 * size)], "without one, the next header is searched for"


def test_two_damaged_places_are_two_extents_and_a_cut_end_is_one() -> None:
    log = a_closed_segment()
    size = log.segments[0].size // BATCHES
    flip(log, size + 70, 0)
    flip(log, 5 * size + 70, 0)
    file = log.disk.open(log.segments[0].path(LOG))
    file.truncate(8 * size - 1)
    file.release()
    assert [(one.first_offset, one.next_offset) for one in found(log)] == [(3, 6), (15, 18), (21, 24)]


def test_a_sector_that_cannot_be_read_is_damage_and_another_error_is_the_disks() -> None:
    import errno

    log = a_closed_segment()
    assert isinstance(log.disk, SimDisk)
    log.disk.fail("read", errno.EIO)
    assert found(log) == []  # the second read succeeded
    for _ in range(2):
        log.disk.fail("read", errno.EIO)
    assert found(log) == [Extent(0, 24, 0, log.segments[0].size)]
    log.disk.fail("read", errno.EACCES)
    with pytest.raises(PermissionError):
        found(log)


def test_a_segment_that_is_gone_is_damage_and_the_others_are_checked() -> None:
    log = a_closed_segment()
    flip(log, 70, 0)
    gone = told(log)._replace(path="/data/t-0/00000000000000000999.log")
    steps = [step for step in check_all(log.disk, [gone, told(log)]) if isinstance(step, ScrubFinding)]
    assert [step.number for step in steps] == [0, 1]
    assert steps[0].extents == (Extent(0, 24, 0, log.segments[0].size),)
    assert decode_findings(encode_findings(steps)) == steps
    assert decode_segments(encode_segments([gone])) == [gone]


@pytest.mark.parametrize("kept", [0, 3])
def test_a_segment_that_was_emptied_or_cut_between_two_batches_is_damage(kept: int) -> None:
    log = a_closed_segment()
    size = log.segments[0].size // BATCHES
    file = log.disk.open(log.segments[0].path(LOG))
    file.truncate(kept * size)
    file.release()
    lost = Extent(kept * PER_BATCH, BATCHES * PER_BATCH, kept * size, BATCHES * size)
    assert found(log) == [lost]
    shorter = told(log)._replace(size=kept * size)  # as a start finds it
    assert [step for step in check(log.disk, shorter) if isinstance(step, Extent)] == [lost._replace(end=kept * size)]


# known damage is not served


def test_known_damage_is_refused_and_all_around_it_is_read() -> None:
    log = a_closed_segment(index_interval_bytes=1)
    size = log.segments[0].size // BATCHES
    flip(log, 2 * size + 70, 0)
    flip(log, 3 * size + 8, 5)
    assert [(one.first_offset, one.next_offset) for one in note(log)] == [(6, 12)]
    for offset in range(6, 12):
        assert log.read(offset, 1 << 20, limit_offset=log.end_offset) is ErrorCode.KAFKA_STORAGE_ERROR
    assert len(records_of(log, 0, limit=6)) == 6
    before = log.read(0, 1 << 20, limit_offset=log.end_offset)
    assert before.bytes == 2 * size, "a read in front of damage ends there"
    behind = [record.offset for record in records_of(log, 12)]
    assert behind == list(range(12, 27))


def test_a_limit_inside_a_damaged_segment_is_kept() -> None:
    log = a_closed_segment()
    size = log.segments[0].size // BATCHES
    flip(log, 2 * size + 70, 0)
    note(log)
    assert log.read(9, 1 << 20, limit_offset=15).bytes == 2 * size
    assert log.read(0, 1 << 20, limit_offset=3).bytes == size


def test_damage_is_remembered_when_the_log_is_opened_again() -> None:
    log = a_closed_segment()
    flip(log, 70, 0)
    extents = note(log)
    log.close(clean=True)
    again = reopened(log, clean=True)
    assert list(again.damage.of(0)) == extents
    assert again.read(0, 1 << 20, limit_offset=again.end_offset) is ErrorCode.KAFKA_STORAGE_ERROR
    again.truncate_fully_to(0, wall_ms=0)
    assert not again.damage
    assert not reopened(again).damage


def test_a_look_by_time_passes_over_damage() -> None:
    log = a_closed_segment()
    flip(log, 70, 0)
    note(log)
    earliest = log.offset_for_timestamp(0)
    assert earliest is not None and earliest.offset == 3
    assert log.max_timestamp_offset() is None or log.max_timestamp_offset().offset >= 3


def test_a_log_that_must_be_cut_behind_its_damage_stops_and_keeps_what_it_has() -> None:
    log = a_closed_segment()
    flip(log, 70, 0)
    note(log)
    log.truncate_to(12)
    assert log.refusing and log.damaged_at == 12
    assert len(log.segments) == 2


def test_a_log_is_cut_in_front_of_its_damage() -> None:
    log = a_closed_segment()
    size = log.segments[0].size // BATCHES
    flip(log, 5 * size + 70, 0)
    note(log)
    log.truncate_to(12)
    assert log.end_offset == 12 and not log.damage
    assert values_of(log) == [b"value-%02d" % number for number in range(4) for _ in range(PER_BATCH)]


def test_damage_of_a_segment_that_is_the_last_one_again_after_a_crash_is_forgotten(tmp_path: os.PathLike[str]) -> None:
    log = a_closed_segment()
    note_of = Extent(0, 3, 0, 10)
    log.damage.note(log.active.base_offset, [note_of])
    assert not reopened(log, recovery_point=24).damage


@pytest.mark.parametrize("number", range(BATCHES))
def test_a_read_passes_over_no_batch_whose_header_is_not_as_it_was(number: int) -> None:
    """Before damage is known, a read of an offset returns the batch that held it, or an error."""
    log = a_closed_segment()
    asked = number * PER_BATCH
    batch = log.segments[0].find(asked)
    assert batch is not None
    for at in (8, 9, 10, 11, 16, 23, 24, 25, 26):  # length, magic, last offset delta
        for bit in range(8):
            flip(log, batch.position + at, bit)
            log.segments[0].forget_recent()
            for offset in range(asked, log.segments[0].next_offset):
                got = log.read(offset, 1 << 20, limit_offset=log.end_offset)
                assert got == ErrorCode.KAFKA_STORAGE_ERROR or (isinstance(got, LogRead) and got.base_offset <= offset)
            flip(log, batch.position + at, bit)


@pytest.mark.parametrize("number", range(BATCHES))
@pytest.mark.parametrize("interval", [1, 4096])
def test_a_read_takes_no_batch_whose_offset_or_epoch_is_not_as_it_was(number: int, interval: int) -> None:
    """Both are outside the CRC: consumers would get the records under other offsets."""
    log = a_closed_segment(index_interval_bytes=interval)
    asked = number * PER_BATCH
    batch = log.segments[0].find(asked)
    assert batch is not None
    for at in (*range(8), *range(12, 16)):
        for bit in range(8):
            flip(log, batch.position + at, bit)
            log.segments[0].forget_recent()
            for offset in range(asked, asked + PER_BATCH):
                got = log.read(offset, 1, limit_offset=log.end_offset)
                assert got == ErrorCode.KAFKA_STORAGE_ERROR, (at, bit)
            flip(log, batch.position + at, bit)


def test_a_read_of_a_segment_whose_file_is_gone_is_refused_and_fails_no_directory() -> None:
    log = a_closed_segment()
    log.segments[0].forget_recent()
    log.segments[0].close()
    log.disk.remove(log.segments[0].path(LOG))
    assert log.read(3, 1 << 20, limit_offset=log.end_offset) is ErrorCode.KAFKA_STORAGE_ERROR
    assert records_of(log, 24)[0].offset == 24


def with_gaps() -> Log:
    """Four batches of one record, at offsets 0, 7, 20 and 33, two in a segment."""
    batches = [bytearray(a_batch(b"value").view) for _ in range(4)]
    kept = (0, 7, 20, 33)
    for batch, offset in zip(batches, kept, strict=True):
        batch[:8] = offset.to_bytes(8)
    log = a_log(internal_segment_bytes=2 * len(batches[0]), cleanup_policy=("compact",))
    for batch in batches:
        assert isinstance(log.append_run(batch, wall_ms=0), Appended)
    sync(log)
    assert len(log.segments) == 2
    for segment in log.segments:
        segment.forget_recent()
    return log


def test_a_gap_that_compaction_left_is_passed_over() -> None:
    log = with_gaps()
    for offset in range(34):
        got = log.read(offset, 1, limit_offset=34)
        assert isinstance(got, LogRead)
        assert got.base_offset == next(each for each in (0, 7, 20, 33) if each >= offset)


@pytest.mark.parametrize("place", [4, 8, 10])  # in its base offset, or in its length
@pytest.mark.parametrize("interval", [1, 4096])
def test_a_log_is_not_cut_below_what_was_asked_for_where_nobody_knew_of_the_damage(place: int, interval: int) -> None:
    """A length or an offset with a flipped bit must not decide where the log is cut."""
    log = a_closed_segment(index_interval_bytes=interval)
    log.segments[0].forget_recent()
    flip(log, 3 * (log.segments[0].size // BATCHES) + place, 4)
    log.set_high_watermark(12)
    log.truncate_to(12)
    assert log.refusing and log.damaged_at == 12
    assert (log.end_offset, log.high_watermark) == ((BATCHES + 1) * PER_BATCH, 12)
    assert [one.first_offset for one in log.damage.of(0)] == [9]


def test_nor_where_a_full_disk_has_no_room_to_note_the_damage() -> None:
    log = a_closed_segment()
    log.segments[0].forget_recent()
    flip(log, 3 * (log.segments[0].size // BATCHES) + 8, 4)
    assert isinstance(log.disk, SimDisk)
    log.disk.capacity_bytes = log.disk.used_bytes()
    log.truncate_to(12)
    assert log.refusing and log.damaged_at == 12 and log.damage.of(0)


def test_nor_where_it_is_in_the_segment_that_is_written() -> None:
    log = a_log()
    for number in range(BATCHES):
        put(log, a_batch(*[b"value-%02d" % number] * PER_BATCH), leader_epoch=5)
    sync(log)
    flip(log, 3 * (log.active.size // BATCHES) + 8, 4)
    log.truncate_to(12)
    assert log.refusing and log.damaged_at == 12 and log.end_offset == BATCHES * PER_BATCH


@pytest.mark.parametrize("place", [4, 8, 10, 70])
def test_what_is_cut_away_may_be_damaged_and_leaves_nothing_behind(place: int) -> None:
    log = a_closed_segment()
    size = log.segments[0].size // BATCHES
    log.segments[0].forget_recent()
    flip(log, 4 * size + place, 4)
    log.truncate_to(12)
    assert not log.refusing and log.end_offset == 12 and log.active.file.size() == 4 * size
    put(log, a_batch(b"after"), leader_epoch=6)
    assert values_of(log)[-1] == b"after"


def test_a_cut_to_the_middle_of_a_batch_is_no_damage() -> None:
    log = a_closed_segment()
    log.truncate_to(13)
    assert not log.refusing and log.end_offset == 12


def test_nor_is_a_cut_to_the_middle_of_what_a_compaction_took_away() -> None:
    log = with_gaps()
    log.truncate_to(25)
    assert not log.refusing and log.end_offset == 21


def an_indexed_segment(index_interval_bytes: int) -> Log:
    """A closed segment of eight batches of one record each, whose timestamps rise."""
    size = a_batch(b"value-00").size
    log = a_log(internal_segment_bytes=BATCHES * size, index_interval_bytes=index_interval_bytes)
    for number in range(BATCHES + 1):
        put(log, a_batch(b"value-%02d" % number, timestamp=T0 + number), leader_epoch=5)
    sync(log)
    return log


def told_all(log: Log) -> ClosedSegment:
    return told(log)._replace(index_interval=log.segments[0].index_interval)


@pytest.mark.parametrize("suffix", [INDEX, TIME_INDEX])
@pytest.mark.parametrize("harm", ["missing", "emptied", "halved", "torn", "unreadable"])
def test_an_index_that_is_not_whole_is_found_by_a_scrub_and_built_anew_as_it_was(suffix: str, harm: str) -> None:
    log = an_indexed_segment(index_interval_bytes=1)
    path = log.segments[0].path(suffix)
    before, entry = log.disk.read(path), 12 if suffix == TIME_INDEX else 8
    assert isinstance(log.disk, SimDisk)
    if harm == "missing":
        log.disk.remove(path)
    elif harm == "unreadable":
        log.disk.fail("read", errno.EACCES, where=path)
    else:
        file = log.disk.open(path)
        kept = {"emptied": 0, "halved": len(before) // (2 * entry) * entry, "torn": len(before) - 1}[harm]
        file.truncate(kept)
        file.release()
    (finding,) = [step for step in check_all(log.disk, [told_all(log)]) if isinstance(step, ScrubFinding)]
    assert not finding.extents and finding.index_fault
    rebuilt = RebuiltIndexes(log.disk, log.segments[0])
    list(rebuilt.pieces())
    rebuilt.install()
    assert log.disk.read(path) == before
    assert not [step for step in check_all(log.disk, [told_all(log)]) if isinstance(step, ScrubFinding)]
    assert decode_findings(encode_findings([finding])) == [finding]


@pytest.mark.parametrize("suffix", [INDEX, TIME_INDEX])
def test_every_flipped_bit_of_an_index_is_found_by_a_scrub(suffix: str) -> None:
    log = an_indexed_segment(index_interval_bytes=1)
    path = log.segments[0].path(suffix)
    assert isinstance(log.disk, SimDisk)
    for byte in range(log.disk.file_size(path)):
        for bit in range(8):
            log.disk.flip_bit(path, byte, bit)
            (finding,) = [step for step in check_all(log.disk, [told_all(log)]) if isinstance(step, ScrubFinding)]
            assert not finding.extents and finding.index_fault
            log.disk.flip_bit(path, byte, bit)


def test_an_index_with_fewer_entries_is_right_where_many_batches_were_appended_at_once() -> None:
    """Apache Kafka's followers write one entry for a run of batches; no later timestamp comes after it."""
    log = an_indexed_segment(index_interval_bytes=1 << 20)
    told_finer = told_all(log)._replace(index_interval=1)
    assert not [step for step in check_all(log.disk, [told_finer]) if isinstance(step, ScrubFinding)]
