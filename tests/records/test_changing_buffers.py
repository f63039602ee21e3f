"""The compiled part between its two passes: buffers that change meanwhile, and buffers that it need not keep."""

from __future__ import annotations

from array import array
from struct import pack_into

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twins import NATIVE as native
from twins import NO_COMPILER

from ottla.records.batch import seal
from ottla.records.builder import build_batch
from ottla.records.compression import Codec
from ottla.records.header import HEADER_SIZE, LAST_DELTA_AT
from ottla.records.reader import Record

pytestmark = pytest.mark.skipif(native is None, reason=NO_COMPILER)

NO_END = 2**63 - 1
TWO_HEADERS = Record(0, 1, b"key", b"value", (("", b""), ("", b"")))
"""Each header takes two bytes, both 0: the lengths of its name and its content."""


def decoded(run: bytearray | bytes, decompressing, start: int = 0):
    return native.decode(run, 0, start, NO_END, 1, True, b"", True, 2**31 - 1, decompressing)


def changing(first: bytes, places: dict[int, int]):
    """Decode a plain batch whose bytes are changed while a compressed one behind it is decompressed."""
    second = build_batch([Record(0, 1, None, b"second")], base_offset=100, codec=Codec.ZSTD)
    plain = build_batch([Record(0, 1, None, b"second")])[HEADER_SIZE:]
    run = bytearray(first + second)

    def decompressing(*_: int) -> bytes:
        for place, byte in places.items():
            run[place] = byte
        return plain

    return decoded(run, decompressing)


def sound_offsets(offsets: bytearray, data_size: int) -> bool:
    numbers = array("i", bytes(offsets))
    return numbers[0] == 0 and list(numbers) == sorted(numbers) and numbers[-1] == data_size


def test_headers_that_are_fewer_at_the_second_look_are_refused():
    first = build_batch([TWO_HEADERS])
    end = len(first)
    # One header in the place of two: a name's length in three bytes, which is still 0, and a content's in one.
    places = {end - 5: 2, end - 4: 0x80, end - 3: 0x80, end - 2: 0, end - 1: 0}
    with pytest.raises(RuntimeError, match="changed while they were read"):
        changing(first, places)


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 3), st.dictionaries(st.integers(HEADER_SIZE, HEADER_SIZE + 50), st.sampled_from(range(256))))
def test_batches_that_change_give_sound_columns_or_none(count, places):
    first = build_batch([TWO_HEADERS._replace(key=b"k" * 5 * n) for n in range(count)])
    try:
        fault, _, _, rows, parts, nulls = changing(
            first, {place: byte for place, byte in places.items() if place < len(first)}
        )
    except RuntimeError:
        return
    assert (fault, rows) == (0, count + 1)
    assert all(sound_offsets(parts[at], len(parts[at + 1])) for at in (1, 4, 11, 14))
    assert sound_offsets(parts[10], nulls[3])


def test_a_batch_without_a_wanted_record_is_given_back():
    def gone_past(base_offset: int) -> bytes:
        """Compaction left record 0 alone of eleven."""
        whole = bytearray(build_batch([Record(0, 1, None, b"kept")], base_offset=base_offset, codec=Codec.ZSTD))
        pack_into(">i", whole, LAST_DELTA_AT, 10)
        seal(whole)
        return bytes(whole)

    given: list[bytearray] = []

    def decompressing(*_: int) -> bytearray:
        for earlier in given:
            earlier.clear()  # BufferError while somebody holds it
        given.append(bytearray(build_batch([Record(0, 1, None, b"kept")])[HEADER_SIZE:]))
        return given[-1]

    rows = decoded(gone_past(0) + gone_past(0), decompressing, start=5)[3]
    assert (rows, len(given)) == (0, 2)
