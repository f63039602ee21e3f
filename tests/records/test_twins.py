"""The compiled part and its pure twin: the same answer, or the same refusal, on the same bytes."""

from __future__ import annotations

import random
from array import array
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from twins import NATIVE as native
from twins import NO_COMPILER, PURE, exact

from ottla.records.batch import Batch, check_batch, seal
from ottla.records.builder import build_batch
from ottla.records.compression import Codec, compress, decompress
from ottla.records.faults import CorruptRecords
from ottla.records.header import HEADER_SIZE
from ottla.records.reader import Record

pytestmark = pytest.mark.skipif(native is None, reason=NO_COMPILER)

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TIMES = st.one_of(st.integers(-2, 10), st.integers(10**12, 10**12 + 50), INT64)
HEADERS = st.lists(st.tuples(st.text(max_size=4), st.none() | st.binary(max_size=6)), max_size=3)
RECORDS = st.lists(
    st.builds(
        Record,
        st.just(0),
        st.integers(10**12, 10**12 + 100),
        st.none() | st.binary(max_size=70),
        st.none() | st.binary(max_size=200),
        HEADERS.map(tuple),
    ),
    max_size=12,
)


def outcome(function, *args):
    """The result of a call: its value, or the type of the exception that it raised."""
    try:
        return function(*args)
    except (ValueError, OverflowError, TypeError) as refused:
        return type(refused)


def same(name: str, *args):
    """The one outcome of both twins."""
    theirs, ours = outcome(getattr(native, name), *args), outcome(getattr(PURE, name), *args)
    assert theirs == ours
    assert outcome(getattr(native, name), *map(exact, args)) == ours
    return ours


@st.composite
def payloads(draw) -> tuple[bytes, int]:
    """Record bytes and a count: sound, with some bytes changed, cut, or noise."""
    records = draw(RECORDS)
    payload = bytearray(build_batch(records)[HEADER_SIZE:])
    for _ in range(draw(st.sampled_from((0, 1, 1, 2, 4)))):
        if payload:
            payload[draw(st.integers(0, len(payload) - 1))] = draw(st.integers(0, 255))
    if draw(st.integers(0, 5)) == 0:
        payload = payload[: draw(st.integers(0, len(payload)))]
    if draw(st.integers(0, 8)) == 0:
        payload = bytearray(draw(st.binary(max_size=60)))
    count = len(records) if draw(st.integers(0, 5)) else draw(st.one_of(st.integers(-1, 14), INT32))
    return bytes(payload), count


@settings(max_examples=600, deadline=None)
@given(payloads(), TIMES, TIMES, TIMES, st.booleans())
def test_both_scan_and_read_alike(payload, base, earliest, latest, need_keys):
    view, count = payload
    same("scan", view, count, base)
    same("offenders", view, count, base, need_keys, earliest, latest, 3)
    same("read", Record, view, count, 2**40, base, None)
    same("read", Record, view, count, base, 0, 77)


def test_both_refuse_records_cut_off_at_any_byte_alike():
    record = Record(0, 2**40, b"key", b"v" * 70, (("name", b"content"), ("", None)))
    whole = build_batch([record, Record(0, 1, None, None)])
    payload = whole[HEADER_SIZE:]
    for cut in range(len(payload)):
        for count in (1, 2):
            same("scan", payload[:cut], count, 0)
            same("offenders", payload[:cut], count, 0, True, 0, 0, 3)
            same("read", Record, payload[:cut], count, 0, 0, None)
        run = bytearray(whole[: HEADER_SIZE + cut])
        seal(run)
        fault, *_ = same("decode", bytes(run), 0, 0, 9, 1, True, b"", True, 1000, decoding_of(b""))
        assert fault, "the batch says two records"


def captured_batches() -> list[bytes]:
    """Every sound batch inside the captured frames of tests/golden, from clients and from Apache Kafka."""
    found: set[bytes] = set()
    for path in sorted((Path(__file__).parent.parent / "golden" / "frames").glob("*.txt")):
        for line in path.read_text().splitlines():
            _, key, _, _, data = line.split(" ")
            frame = bytes.fromhex(data)
            if key not in ("0", "1"):
                continue
            for at in range(len(frame) - HEADER_SIZE):
                size = int.from_bytes(frame[at + 8 : at + 12], "big") + 12
                if frame[at + 16] == 2 and HEADER_SIZE < size <= len(frame) - at and Batch(frame[at:]).crc_holds():
                    found.add(frame[at : at + size])
    return sorted(found)


def run_of(batches: list[bytes], cut: int) -> bytes:
    run = b"".join(batches)
    return run[: len(run) - cut] if cut else run


@st.composite
def runs(draw) -> bytes:
    """Contiguous batches as a fetch response holds them, with some bytes changed and, mostly, right CRCs."""
    batches, offset = [], draw(st.integers(0, 30))
    for _ in range(draw(st.integers(0, 4))):
        records = draw(RECORDS)
        whole = bytearray(
            build_batch(
                records,
                base_offset=offset,
                codec=draw(st.sampled_from((Codec.NONE, Codec.NONE, Codec.LZ4, Codec.ZSTD))),
                producer_id=draw(st.sampled_from((-1, 1, 2))),
                is_transactional=draw(st.booleans()),
                is_control=draw(st.integers(0, 4)) == 0,
                append_time_ms=draw(st.none() | st.just(5)),
            )
        )
        for _ in range(draw(st.sampled_from((0, 0, 0, 1, 2)))):
            whole[draw(st.integers(0, len(whole) - 1))] = draw(st.integers(0, 255))
        if draw(st.integers(0, 9)):
            seal(whole)
        offset += max(len(records), 1) + draw(st.sampled_from((0, 0, 3)))
        batches.append(bytes(whole))
    return run_of(batches, draw(st.sampled_from((0, 0, 1, 30))))


CAPTURED = captured_batches()


@pytest.mark.parametrize("index", range(len(CAPTURED)))
def test_both_read_what_real_clients_wrote_alike_whole_and_mutated(index):
    dice = random.Random(index)
    for number in range(40):
        whole = bytearray(CAPTURED[index])
        for _ in range(0 if number == 0 else dice.choice((1, 1, 2, 5))):
            whole[dice.randrange(17, len(whole))] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
        seal(whole)
        batch = Batch(whole)
        payload = bytes(batch.payload)
        same("scan", payload, batch.records_count, batch.base_timestamp)
        same("read", Record, payload, batch.records_count, batch.base_offset, batch.base_timestamp, None)
        args = (bytes(whole), 0, 0, 2**63 - 1, 1000, True, b"", True, 2**31 - 1, decoding_of(bytes(whole)))
        decoded = same("decode", *args)
        if number == 0:
            assert decoded[0] == 0
            assert check_batch(batch, from_client=False) == 0


def test_captured_batches_come_from_every_client():
    assert len(CAPTURED) >= 10


def decoding_of(run: bytes):
    def decompressing(codec: int, start: int, stop: int):
        return decompress(Codec(codec), memoryview(run)[start:stop], 10_000)

    return decompressing


@settings(max_examples=500, deadline=None)
@given(
    runs(),
    st.sampled_from((0, 0, 61, 100)),
    st.sampled_from((0, 0, 5, 20)),
    st.sampled_from((2**63 - 1, 2**63 - 1, 15)),
    st.sampled_from((1, 1000)),
    st.booleans(),
    st.lists(st.tuples(st.sampled_from((1, 2)), st.integers(0, 40)), max_size=3),
    st.booleans(),
    st.sampled_from((2**31 - 1, 2**31 - 1, 300)),
)
def test_both_decode_a_run_alike(run, position, start, end, scale, headers, aborted, check_crc, max_bytes):
    pairs = array("q", [n for pair in sorted(aborted, key=lambda pair: pair[1]) for n in pair]).tobytes()
    args = (run, position, start, end, scale, headers, pairs, check_crc, max_bytes, decoding_of(run))
    same("decode", *args)
    # A writable buffer takes the other path in the compiled part, which keeps the GIL.
    assert outcome(native.decode, bytearray(run), *args[1:]) == outcome(native.decode, *args)


@settings(max_examples=300, deadline=None)
@given(RECORDS, st.sampled_from((0, 0, 3, 7)), st.sampled_from((1, 1000)), st.integers(62, 600), st.randoms())
def test_both_encode_columns_alike(records, start, scale, max_bytes, dice: random.Random):
    _, _, _, rows, parts, _ = native.decode(
        build_batch(records), 0, 0, 2**63 - 1, scale, True, b"", True, 2**31 - 1, lambda *_: b""
    )
    buffers = [bytearray(part) for part in parts]
    for _ in range(dice.choice((0, 0, 1, 3))):
        changed = dice.choice(buffers)
        if changed:
            changed[dice.randrange(len(changed))] = dice.randrange(256)
    if dice.random() < 0.1:
        del dice.choice(buffers)[5:]
    key = dice.choice((None, tuple(buffers[0:3]), (None, *buffers[1:3])))
    value = dice.choice((None, tuple(buffers[3:6])))
    times = dice.choice((None, (None, buffers[7]), (buffers[0], buffers[7])))
    names = (None, buffers[11], buffers[12])
    headers = dice.choice((None, (buffers[9], buffers[10], names, tuple(buffers[13:16]))))
    same("encode", start, rows, max_bytes, key, value, times, dice.choice((-1, 5)), scale, headers)


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(st.integers(0, 5), INT32, st.just(2**31)),
    st.one_of(st.integers(-5, 5), INT64, st.just(2**63), st.just(-(2**63) - 1)),
    st.none() | st.binary(max_size=300) | st.binary(max_size=9).map(bytearray),
    st.none() | st.binary(max_size=300) | st.binary(max_size=9).map(memoryview),
    st.lists(st.tuples(st.text(max_size=4) | st.binary(max_size=3), st.none() | st.binary(max_size=6)), max_size=3),
)
def test_both_append_a_record_alike(offset_delta, timestamp_delta, key, value, headers):
    theirs, ours = bytearray(b"before"), bytearray(b"before")
    args = (offset_delta, timestamp_delta, key, value, headers)
    assert outcome(native.append_record, theirs, *args) == outcome(PURE.append_record, ours, *args)
    assert theirs == ours


VALUES = st.lists(st.none() | st.binary(max_size=60), max_size=6)


@settings(max_examples=300, deadline=None)
@given(
    st.data(),
    VALUES,
    st.integers(0, 300),
    st.one_of(st.integers(0, 3), st.just(2**31 - 2)),
    st.one_of(st.integers(0, 5), INT64),
    st.lists(st.tuples(st.text(max_size=4), st.none() | st.binary(max_size=6)), max_size=2),
)
def test_both_append_a_run_alike(data, values, max_bytes, first_delta, base_timestamp, headers):
    count = len(values)
    keys = data.draw(
        st.none() | st.binary(max_size=5) | st.lists(st.none() | st.binary(), min_size=count, max_size=count)
    )
    times = data.draw(INT64 | st.lists(INT64, min_size=count, max_size=count))
    start = data.draw(st.integers(0, count + 1))
    theirs, ours = bytearray(b"before"), bytearray(b"before")
    args = (max_bytes, first_delta, base_timestamp, times, keys, values, headers, start)
    assert outcome(native.append_run, theirs, *args) == outcome(PURE.append_run, ours, *args)
    assert theirs == ours


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=40), st.integers(0, 30_000), st.integers(0, 9), st.integers(0, 2**32 - 1))
@example(b"x", 24_577, 3, 0)
def test_every_way_to_a_crc_gives_the_same(seed, size, start, initial):
    import google_crc32c

    data = random.Random(seed).randbytes(size)[start:]
    assert native.crc32c(data) == native.crc32c_by_tables(data) == google_crc32c.value(data)
    assert native.crc32c(memoryview(data), initial) == google_crc32c.extend(initial, data)
    middle = len(data) // 3
    assert native.crc32c(data[middle:], native.crc32c(data[:middle])) == native.crc32c(data)


def test_a_payload_that_does_not_decompress_is_the_same_refusal():
    whole = bytearray(build_batch([Record(0, 1, b"k", b"v" * 100)], codec=Codec.ZSTD))
    whole[-3] ^= 0xFF
    seal(whole)
    for twin in (native, PURE):
        with pytest.raises(CorruptRecords):
            twin.decode(bytes(whole), 0, 0, 9, 1, False, b"", True, 1000, decoding_of(bytes(whole)))


def test_both_refuse_arguments_that_make_no_sense():
    column = (None, bytes(8), b"")
    for args in (
        (0, 0, 100, None, None, None, 0, 1, None),
        (-1, 1, 100, None, None, None, 0, 1, None),
        (0, 1, 100, None, None, None, 0, 0, None),
        (0, 2, 100, column, None, None, 0, 1, None),
        (0, 1, 100, None, None, (None, bytes(7)), 0, 1, None),
        (0, 9, 100, (bytes(1), bytes(40), b""), None, None, 0, 1, None),
        (0, 1, 100, None, None, None, 0, 1, (None, bytes(4), column, column)),
        (0, 1, 100, None, None, None, 0, 1, (None, bytes(8), None, column)),
    ):
        assert same("encode", *args) is ValueError
    for scale, most in ((0, 10), (1, 2**31)):
        assert same("decode", b"", 0, 0, 9, scale, False, b"", True, most, decoding_of(b"")) is ValueError


def test_compress_is_used_by_both(part):
    run = build_batch([Record(0, 1, b"k", b"v" * 500)] * 9, codec=Codec.LZ4)
    assert len(run) < 300
    assert decompress(Codec.LZ4, compress(Codec.LZ4, b"v" * 500)) == b"v" * 500
