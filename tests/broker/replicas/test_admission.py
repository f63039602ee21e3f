"""Tests of the checks of a producer's batch against its topic, before anything is written."""

from __future__ import annotations

import pytest

from ottla.broker.replicas.admission import Admission, RefusedBatch
from ottla.config.topic import TopicConfig
from ottla.kernel.errors import ErrorCode
from ottla.records.batch import Batch
from ottla.records.builder import build_batch
from ottla.records.checksum import crc32c
from ottla.records.compression import Codec
from ottla.records.reader import Record, read_records

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
MiB = 1024 * 1024


def body(*values: bytes, timestamp: int = NOW_MS, key: bytes | None = None, **how: object) -> memoryview:
    records = [Record(at, timestamp, key, value) for at, value in enumerate(values or (b"value",))]
    return memoryview(build_batch(records, **how))  # type: ignore[arg-type]


def admitted(records: memoryview, **options: object) -> Batch:
    batch = Admission(TopicConfig(**options)).admit(records, NOW_MS)
    assert isinstance(batch, Batch), batch
    return batch


def refused(records: memoryview | None, **options: object) -> ErrorCode:
    found = Admission(TopicConfig(**options)).admit(records, NOW_MS)
    assert not isinstance(found, Batch)
    return found.error if isinstance(found, RefusedBatch) else found


def test_a_sound_batch_comes_through_as_it_is():
    records = body(b"a", b"b")
    assert bytes(admitted(records).view) == bytes(records)


def test_no_batch_and_two_batches_are_refused():
    assert refused(None) is ErrorCode.INVALID_RECORD
    two = bytes(body()) * 2
    assert refused(memoryview(two)) is ErrorCode.INVALID_RECORD


def test_a_batch_whose_crc_fails_is_refused():
    damaged = bytearray(body(b"value"))
    damaged[-2] ^= 1
    assert refused(memoryview(damaged)) is ErrorCode.CORRUPT_MESSAGE


def test_a_batch_larger_than_the_topic_takes_is_refused():
    assert refused(body(b"x" * 500), max_message_bytes=400) is ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_that_grows_over_the_limit_in_the_topics_codec_is_refused():
    small = body(b"x" * 500, codec=Codec.GZIP)
    assert small.nbytes < 400
    assert refused(small, max_message_bytes=400, compression_type="uncompressed") is ErrorCode.MESSAGE_TOO_LARGE
    admitted(small, max_message_bytes=600, compression_type="uncompressed")
    admitted(small, max_message_bytes=400)


def test_a_topic_of_large_messages_takes_them_compressed_too():
    large = body(bytes(33 * MiB), codec=Codec.ZSTD)
    assert refused(large) is ErrorCode.MESSAGE_TOO_LARGE, "a bomb"
    admitted(large, max_message_bytes=64 * MiB)
    admitted(large, max_message_bytes=64 * MiB, compression_type="gzip")


def test_a_compacted_topic_takes_no_record_without_a_key():
    assert refused(body(b"a"), cleanup_policy=("compact",)) is ErrorCode.INVALID_RECORD
    admitted(body(b"a", key=b"k"), cleanup_policy=("compact",))


def test_a_timestamp_outside_the_topics_bounds_is_refused():
    late = body(timestamp=NOW_MS + 2 * HOUR_MS)
    assert refused(late, message_timestamp_after_max_ms=HOUR_MS) is ErrorCode.INVALID_TIMESTAMP
    early = body(timestamp=NOW_MS - 2 * HOUR_MS)
    assert refused(early, message_timestamp_before_max_ms=HOUR_MS) is ErrorCode.INVALID_TIMESTAMP
    admitted(early, message_timestamp_before_max_ms=3 * HOUR_MS)


def test_where_the_broker_stamps_the_producers_time_does_not_matter():
    late = body(timestamp=NOW_MS + 2 * HOUR_MS)
    admitted(late, message_timestamp_after_max_ms=HOUR_MS, message_timestamp_type="LogAppendTime")


def test_a_transactional_batch_is_taken_from_who_names_the_transactional_id_alone():
    records = body(producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    assert refused(records) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert isinstance(Admission(TopicConfig()).admit_transactional(records, NOW_MS), Batch)
    nobodys = body(is_transactional=True)
    assert Admission(TopicConfig()).admit_transactional(nobodys, NOW_MS) is ErrorCode.INVALID_RECORD


def test_the_topics_codec_is_put_in_place_of_the_producers():
    batch = admitted(body(b"a" * 100, b"b" * 100), compression_type="gzip")
    assert batch.compression is Codec.GZIP
    assert batch.crc_holds()
    assert [record.value for record in read_records(batch)] == [b"a" * 100, b"b" * 100]


def test_a_producer_that_compressed_already_is_left_alone():
    records = body(b"a" * 100, codec=Codec.LZ4)
    assert bytes(admitted(records, compression_type="lz4").view) == bytes(records)
    assert bytes(admitted(records).view) == bytes(records)


@pytest.mark.parametrize("transactional", [False, True])
def test_one_wrong_bit_anywhere_is_never_taken_for_what_was_sent(transactional: bool):
    """Except in the leader epoch (bytes 12 to 15), which the broker sets and which the CRC does not cover."""
    admission = Admission(TopicConfig())
    admit = admission.admit_transactional if transactional else admission.admit
    sound = bytes(body(b"a", b"b", producer_id=7, producer_epoch=0, base_sequence=3, is_transactional=transactional))
    for position in range(len(sound)):
        damaged = bytearray(sound)
        damaged[position] ^= 1
        found = admit(memoryview(damaged), NOW_MS)
        assert isinstance(found, Batch) == (12 <= position < 16), position


def with_header(records: memoryview, *, magic: int | None = None, attributes: int | None = None) -> memoryview:
    """A batch with another byte in its header, whose checksum holds all the same."""
    changed = bytearray(records)
    if magic is not None:
        changed[16] = magic
    if attributes is not None:
        changed[21:23] = attributes.to_bytes(2, "big")
    changed[17:21] = crc32c(bytes(changed[21:])).to_bytes(4, "big")
    return memoryview(changed)


@pytest.mark.parametrize("magic", [0, 1, 3, 127, 255])
def test_a_batch_of_another_format_is_refused(magic: int):
    assert refused(with_header(body(), magic=magic)) in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_that_there_is_not_is_refused(codec: int):
    assert refused(with_header(body(), attributes=codec)) in (
        ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, ErrorCode.INVALID_RECORD,
    )  # fmt: skip


def test_nobody_but_a_coordinator_writes_control_batches():
    records = body(producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True, is_control=True)
    assert Admission(TopicConfig()).admit_transactional(records, NOW_MS) is ErrorCode.INVALID_RECORD
    assert refused(body(is_control=True)) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_a_bomb_of_any_codec_is_refused(codec: Codec):
    bomb = body(bytes(33 * MiB), codec=codec)
    assert bomb.nbytes < 33 * MiB / 20
    assert refused(bomb, max_message_bytes=2 * MiB) is ErrorCode.MESSAGE_TOO_LARGE
