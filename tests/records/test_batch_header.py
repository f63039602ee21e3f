"""Headers: read, patched, stamped, walked and checked."""

from __future__ import annotations

from struct import pack_into

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.records.batch import (
    Batch,
    Scan,
    check_batch,
    iterate_batches,
    patch,
    produced_batch,
    scan_records,
    seal,
    settled,
)
from ottla.records.builder import build_batch
from ottla.records.checksum import crc32c
from ottla.records.compression import Codec
from ottla.records.faults import CorruptRecords
from ottla.records.reader import Record, read_records

NOW = 1_700_000_000_000
THREE = [Record(0, NOW + n, b"k%d" % n, b"v" * n) for n in range(3)]


def changed(batch: bytes, kind: str, position: int, value: int) -> Batch:
    whole = bytearray(batch)
    pack_into(">" + kind, whole, position, value)
    seal(whole)
    return Batch(whole)


def test_offset_and_epoch_are_assigned_without_touching_the_crc():
    built = build_batch(THREE)
    head, rest = Batch(built).placed(1234, 8)
    placed = Batch(head + bytes(rest))
    assert (placed.base_offset, placed.leader_epoch, placed.next_offset) == (1234, 8, 1237)
    assert placed.crc_holds()
    run = bytearray(built + built)
    patch(run, 1234, 8, len(built))
    assert bytes(run) == built + bytes(placed.view)


def test_a_view_longer_than_the_batch_is_cut_to_it():
    built = build_batch(THREE)
    batch = Batch(memoryview(built + b"more"))
    assert bytes(batch.view) == built and batch.size == len(built)
    assert check_batch(batch) is ErrorCode.NONE


def test_an_owned_batch_outlives_the_frame():
    frame = bytearray(build_batch(THREE))
    batch = Batch(memoryview(frame))
    owned = batch.owned()
    frame[:] = b"\xdd" * len(frame)
    assert owned.crc_holds() and not batch.crc_holds()
    assert [record.key for record in read_records(owned)] == [b"k0", b"k1", b"k2"]


def test_fewer_bytes_than_a_header_are_refused():
    with pytest.raises(CorruptRecords):
        Batch(build_batch(THREE)[:60])


def test_sequences_wrap():
    assert Batch(build_batch(THREE)).last_sequence == -1
    assert Batch(build_batch(THREE, producer_id=1, producer_epoch=0, base_sequence=5)).last_sequence == 7
    assert Batch(build_batch(THREE, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)).last_sequence == 0


def test_a_stamped_batch_has_the_brokers_time_and_a_right_crc():
    built = build_batch(THREE, codec=Codec.LZ4)
    stamped = Batch(built).stamped(max_timestamp=NOW + 77, append_time=True)
    assert stamped.crc_holds() and stamped.is_append_time and stamped.compression is Codec.LZ4
    assert {record.timestamp for record in read_records(stamped)} == {NOW + 77}
    back = stamped.stamped(max_timestamp=NOW + 2, append_time=False)
    assert bytes(back.view) == built


def test_settling_leaves_a_right_batch_alone_and_puts_a_wrong_time_right():
    right = Batch(build_batch(THREE))
    found = scan_records(right)
    assert found == Scan(ErrorCode.NONE, "", NOW + 2, 2)
    assert settled(right, found, append_time=False, now_ms=1) is right
    wrong = changed(bytes(right.view), "q", 35, NOW + 10**9)
    assert bytes(settled(wrong, scan_records(wrong), append_time=False, now_ms=1).view) == bytes(right.view)
    assert settled(right, found, append_time=True, now_ms=9).max_timestamp == 9


def test_a_replica_takes_sparse_and_control_batches_but_no_damaged_ones():
    built = build_batch(THREE, base_offset=40)
    assert check_batch(Batch(built)) is ErrorCode.INVALID_RECORD
    assert check_batch(Batch(built), from_client=False) is ErrorCode.NONE
    assert check_batch(changed(built, "i", 23, 9), from_client=False) is ErrorCode.NONE
    assert check_batch(changed(built, "i", 23, 1), from_client=False) is ErrorCode.INVALID_RECORD
    assert check_batch(changed(built, "i", 57, -1), from_client=False) is ErrorCode.INVALID_RECORD
    assert check_batch(changed(built, "h", 21, 0x20), from_client=False) is ErrorCode.NONE
    flipped = bytearray(built)
    flipped[-1] ^= 1
    assert check_batch(Batch(flipped), from_client=False) is ErrorCode.CORRUPT_MESSAGE
    assert check_batch(Batch(built[:-1]), from_client=False) is ErrorCode.CORRUPT_MESSAGE


def test_a_batch_larger_than_the_topic_allows_is_too_large():
    batch = Batch(build_batch(THREE))
    assert check_batch(batch, max_bytes=batch.size) is ErrorCode.NONE
    assert check_batch(batch, max_bytes=batch.size - 1) is ErrorCode.MESSAGE_TOO_LARGE


def test_no_records_at_all_are_invalid():
    assert produced_batch(None) is ErrorCode.INVALID_RECORD
    assert produced_batch(b"") is ErrorCode.INVALID_RECORD


def test_refused_records_are_named(part):
    records = [Record(0, NOW + 10**9 * (n == 4), b"k" if n % 2 else None, b"v") for n in range(6)]
    batch = Batch(build_batch(records, codec=Codec.ZSTD))
    assert scan_records(batch).error is ErrorCode.NONE
    found = scan_records(batch, need_keys=True)
    assert found.error is ErrorCode.INVALID_RECORD
    assert [refused.batch_index for refused in found.record_errors] == [0, 2, 4]
    late = scan_records(batch, latest_ms=NOW + 5)
    assert late.error is ErrorCode.INVALID_TIMESTAMP
    assert [refused.batch_index for refused in late.record_errors] == [4]
    wanted = f"Timestamp {NOW + 10**9} of the record is out of range. It should be within [{NOW - 5}, {NOW + 5}]"
    assert scan_records(batch, earliest_ms=NOW - 5, latest_ms=NOW + 5).record_errors[0].message == wanted


def test_a_batch_that_claims_the_brokers_time_is_told_so(part):
    batch = Batch(build_batch([Record(0, NOW, b"k", b"v")] * 2, append_time_ms=NOW))
    found = scan_records(batch, append_time=True)
    assert found.error is ErrorCode.INVALID_TIMESTAMP
    assert [each.message for each in found.record_errors] == [
        "The producer should not set the timestamp type to LogAppendTime."
    ] * 2


def test_a_bomb_is_too_large_for_the_broker(part):
    batch = Batch(build_batch([Record(0, NOW, b"k", bytes(3_000_000))], codec=Codec.ZSTD))
    assert batch.size < 1000
    assert scan_records(batch, limit_bytes=2_000_000).error is ErrorCode.MESSAGE_TOO_LARGE
    assert scan_records(batch, limit_bytes=4_000_000).error is ErrorCode.NONE


def test_walking_a_run_refuses_what_is_no_batch():
    built = build_batch(THREE)
    for position, value in ((16, 1), (11, 30)):
        damaged = bytearray(built + built)
        damaged[len(built) + position] = value
        walk = iterate_batches(bytes(damaged))
        assert next(walk).records_count == 3
        with pytest.raises(CorruptRecords):
            next(walk)


def test_a_crc_goes_on_from_the_one_before():
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"6789", crc32c(b"12345")) == 0xE3069283
    assert crc32c(memoryview(bytearray(b"x123456789"))[1:]) == 0xE3069283
