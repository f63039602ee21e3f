"""The four codecs: others' output is read, bombs stay bounded, damage is refused."""

from __future__ import annotations

import gzip
import random
import subprocess
import sys
import tracemalloc
import zlib

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.kernel.errors import ErrorCode
from ottla.records.compression import Codec, compress, decompress
from ottla.records.faults import CorruptRecords

PACKING = [codec for codec in Codec if codec is not Codec.NONE]
DATA = b"a sentence, " * 9000 + random.Random(3).randbytes(70_000)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(list(Codec)), st.binary(max_size=2000), st.integers(0, 40))
def test_what_goes_in_comes_out(codec, data, times):
    data *= times
    assert decompress(codec, compress(codec, data)) == data
    assert decompress(codec, memoryview(bytearray(compress(codec, memoryview(data)))), len(data)) == data


@pytest.mark.parametrize("codec", list(Codec))
def test_the_limit_is_the_last_size_that_is_let_through(codec):
    packed = compress(codec, DATA)
    assert decompress(codec, packed, len(DATA)) == DATA
    with pytest.raises(CorruptRecords) as refused:
        decompress(codec, packed, len(DATA) - 1)
    assert refused.value.error is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_a_bomb_takes_no_more_memory_than_the_limit_and_a_little(codec):
    packed = compress(codec, bytes(200_000_000))
    tracemalloc.start()
    with pytest.raises(CorruptRecords):
        decompress(codec, packed, 1_000_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6_000_000


def test_a_snappy_block_that_claims_too_much_is_refused_before_it_is_given_memory():
    claims_4_gib = b"\xff\xff\xff\xff\x0f" + b"\x00" * 40
    for data in (claims_4_gib, b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x2d" + claims_4_gib):
        with pytest.raises(CorruptRecords) as refused:
            decompress(Codec.SNAPPY, data, 2**40)
        assert refused.value.error is ErrorCode.INVALID_RECORD
        with pytest.raises(CorruptRecords) as refused:
            decompress(Codec.SNAPPY, data)
        assert refused.value.error is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", PACKING)
def test_a_cut_stream_is_refused_wherever_it_is_cut(codec):
    packed = compress(codec, DATA[:200] + random.Random(4).randbytes(300))
    for end in range(1, len(packed)):
        try:
            found = decompress(codec, packed[:end])
        except CorruptRecords as refused:
            assert refused.error is ErrorCode.INVALID_RECORD
        else:
            # Only snappy's framing can be cut between whole blocks: less comes out, and the records do not parse.
            assert codec is Codec.SNAPPY
            assert len(found) < 500


@pytest.mark.parametrize("codec", PACKING)
def test_noise_and_flipped_bits_never_raise_anything_else(codec):
    dice = random.Random(codec)
    packed = compress(codec, DATA[:3000])
    for _ in range(300):
        changed = bytearray(packed if dice.random() < 0.8 else dice.randbytes(dice.randrange(40)))
        for _ in range(dice.choice((1, 2, 8))):
            if changed:
                changed[dice.randrange(len(changed))] = dice.randrange(256)
        try:
            assert len(decompress(codec, bytes(changed), 100_000)) <= 100_000
        except CorruptRecords as refused:
            assert refused.error in (ErrorCode.INVALID_RECORD, ErrorCode.MESSAGE_TOO_LARGE)


def test_raw_snappy_is_read_too():
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(DATA))) == DATA


def test_snappy_is_written_as_java_frames_it():
    packed = compress(Codec.SNAPPY, DATA)
    assert packed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    first = int.from_bytes(packed[16:20], "big")
    assert bytes(cramjam.snappy.decompress_raw(packed[20 : 20 + first])) == DATA[: 32 * 1024]


def test_several_frames_after_one_another_are_one_stream():
    assert decompress(Codec.GZIP, gzip.compress(b"one") + gzip.compress(b"two")) == b"onetwo"
    assert decompress(Codec.LZ4, lz4.frame.compress(b"one") + lz4.frame.compress(b"two")) == b"onetwo"
    unsized = zstandard.ZstdCompressor(write_content_size=False, write_checksum=True)
    skipped = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
    assert decompress(Codec.ZSTD, unsized.compress(b"one") + skipped + unsized.compress(b"two")) == b"onetwo"


def test_of_many_tiny_members_none_is_given_all_the_rest(monkeypatch):
    """The bytes that a member leaves unused are copied: given all the rest, many members take quadratic time."""
    given: list[int] = []

    class Counted:
        """A decompressor that notes how much it is given."""

        def __init__(self, real) -> None:
            self.real = real

        def decompress(self, data, most):
            given.append(len(data))
            return self.real.decompress(data, most)

        def __getattr__(self, name):
            return getattr(self.real, name)

    real_gzip, real_lz4 = zlib.decompressobj, lz4.frame.LZ4FrameDecompressor
    monkeypatch.setattr(zlib, "decompressobj", lambda window: Counted(real_gzip(window)))
    monkeypatch.setattr(lz4.frame, "LZ4FrameDecompressor", lambda: Counted(real_lz4()))
    for codec, member in ((Codec.GZIP, gzip.compress(b"")), (Codec.LZ4, lz4.frame.compress(b""))):
        given.clear()
        assert decompress(codec, member * 9000 + compress(codec, DATA)) == DATA
        assert len(given) > 9000 and sorted(given)[-10] <= 1 << 16


def test_zstd_frames_without_their_size_are_read():
    packer = zstandard.ZstdCompressor().compressobj()
    packed = packer.compress(DATA) + packer.flush()
    assert zstandard.frame_content_size(packed) < 0
    assert decompress(Codec.ZSTD, packed) == DATA
    with pytest.raises(CorruptRecords):
        decompress(Codec.ZSTD, packed, len(DATA) - 1)


def test_lz4_blocks_are_independent_as_javas_reader_wants_them():
    assert not lz4.frame.get_frame_info(compress(Codec.LZ4, DATA))["block_linked"]


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_a_level_is_taken(codec):
    least, most = (compress(codec, DATA, level) for level in (1, 9))
    assert len(most) <= len(least)
    assert decompress(codec, most) == DATA


def test_no_library_is_imported_before_it_is_needed():
    code = (
        "import sys; import ottla.records.batch, ottla.records.columns, ottla.records.builder; "
        "print(sorted({'lz4', 'zstandard', 'cramjam', 'google_crc32c'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert shown.strip() == "[]"
