"""Frames come out complete however their bytes arrive, and take no more memory than has arrived."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.wire.frame import FramePool, FrameReader, FrameTooLarge


def a_reader(*, shared: int = 1024, budget: int = 8 << 20, largest: int = 4 << 20):
    pool = FramePool(budget)
    return FrameReader(memoryview(bytearray(shared)), pool, largest), pool


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


def feed(reader: FrameReader, stream: bytes, piece: int) -> list[bytes]:
    """Receive `stream` at most `piece` bytes at a time, as from a socket; return the frames."""
    frames = []
    while stream:
        target = reader.target()
        assert target is not None
        count = min(len(target), piece, len(stream))
        target[:count] = stream[:count]
        stream = stream[count:]
        reader.received(count)
        while (frame := reader.next()) is not None:
            frames.append(bytes(frame))
        assert reader.park()
    return frames


@settings(max_examples=200, deadline=None)
@given(
    payloads=st.lists(st.binary(max_size=3000) | st.integers(60_000, 300_000).map(bytes), max_size=6),
    piece=st.integers(1, 200_000),
)
def test_frames_come_out_as_they_went_in(payloads, piece):
    reader, pool = a_reader(shared=256 << 10)
    if sum(map(len, payloads)) / piece > 5000:
        piece = 997
    assert feed(reader, b"".join(map(framed, payloads)), piece) == payloads
    reader.close()
    assert pool.lent_bytes == 0


def test_a_frame_too_large_is_refused_before_it_gets_memory():
    reader, pool = a_reader(largest=1000)
    target = reader.target()
    target[:8] = (1001).to_bytes(4, "big") + b"GET "
    reader.received(8)
    with pytest.raises(FrameTooLarge):
        reader.next()
    assert pool.lent_bytes == 0


def test_a_negative_length_is_refused():
    reader, _ = a_reader()
    reader.target()[:4] = b"\xff\xff\xff\xff"
    reader.received(4)
    with pytest.raises(FrameTooLarge):
        reader.next()


def test_a_length_field_alone_gets_no_more_than_the_smallest_buffer():
    reader, pool = a_reader(largest=100 << 20, budget=256 << 20)
    reader.target()[:4] = (90 << 20).to_bytes(4, "big")
    reader.received(4)
    assert reader.next() is None
    assert reader.park()
    assert pool.lent_bytes <= 128 << 10


def test_a_spent_pool_holds_the_connection_back_and_loses_nothing():
    reader, pool = a_reader(budget=128 << 10, shared=4096)
    taken = pool.take(128 << 10)
    payload = bytes(range(256)) * 400
    stream = framed(payload)
    target = reader.target()
    target[:4096] = stream[:4096]
    reader.received(4096)
    assert reader.next() is None
    assert not reader.park()
    assert reader.target() is None
    pool.give(taken)
    assert feed(reader, stream[4096:], 10_000) == [payload]


def test_whole_frames_are_kept_while_another_request_waits():
    reader, _ = a_reader()
    stream = framed(b"one") + framed(b"two") + framed(b"three")[:5]
    reader.target()[: len(stream)] = stream
    reader.received(len(stream))
    assert bytes(reader.next()) == b"one"
    assert reader.park()
    assert reader.parked_whole_frames
    reader._shared[:] = b"\xdd" * len(reader._shared)
    assert bytes(reader.next()) == b"two"
    assert reader.next() is None
    assert reader.park()
    assert feed(reader, framed(b"three")[5:], 100) == [b"three"]


def test_frames_that_wait_are_kept_once_however_often_their_connection_is_held():
    reader, _ = a_reader(shared=4096)
    stream = b"".join(framed(bytes([number]) * 100) for number in range(20))
    target = reader.target()
    target[: len(stream)] = stream
    reader.received(len(stream))
    kept = set()
    for number in range(20):
        assert reader.park()
        frame = reader.next()
        assert bytes(frame) == bytes([number]) * 100
        kept.add(id(frame.obj))
    assert len(kept) == 1
    assert reader.park()
    assert reader.target() is not None


def test_what_waits_behind_other_requests_counts_against_the_budget():
    reader, pool = a_reader(shared=1 << 20)
    stream = framed(bytes(100_000)) * 3
    reader.target()[: len(stream)] = stream
    reader.received(len(stream))
    assert reader.next() is not None
    assert reader.park()
    assert pool.lent_bytes == 2 * 100_004
    assert not reader.parks_too_much
    pool.budget_bytes = 200_000
    assert reader.parks_too_much
    assert reader.next() is not None
    assert reader.next() is not None
    assert reader.park()
    assert pool.lent_bytes == 0
    assert not reader.parks_too_much


def test_what_waited_is_given_back_at_the_close():
    reader, pool = a_reader(shared=1 << 20)
    stream = framed(bytes(100_000)) * 3
    reader.target()[: len(stream)] = stream
    reader.received(len(stream))
    assert reader.park()
    assert pool.lent_bytes == len(stream)
    reader.close()
    assert pool.lent_bytes == 0


def readers_that_began(count: int, *, budget: int = 8 << 20):
    """Readers of one pool, each with a buffer for the first 1000 bytes of a frame of 1 MiB, taken at 10.0, 11.0 ..."""
    pool = FramePool(budget)
    readers = [FrameReader(memoryview(bytearray(1 << 20)), pool, 4 << 20) for _ in range(count)]
    for at, reader in enumerate(readers):
        pool.now = 10.0 + at
        feed(reader, framed(bytes(1 << 20))[:1000], 1000)
    return pool, readers


def test_who_has_held_memory_longest_and_keeps_others_waiting_is_closed():
    pool, (slow, later) = readers_that_began(2)
    assert pool.holder_to_close(before=9.9) is None
    assert pool.holder_to_close(before=10.0) is slow
    assert pool.holder_to_close(before=99.0) is slow
    slow.close()
    assert pool.holder_to_close(before=10.9) is None
    assert pool.holder_to_close(before=11.0) is later
    feed(later, bytes((1 << 20) + 4 - 1000), 1 << 20)
    assert pool.holders == {}


def test_who_stops_where_its_buffer_is_full_still_keeps_others_waiting():
    pool, (stopped, _) = readers_that_began(2)
    feed(stopped, bytes((128 << 10) - 1000), 1 << 20)
    assert stopped.waits_for_bytes
    assert pool.holder_to_close(before=99.0) is stopped


def test_who_wants_more_memory_itself_is_closed_only_where_all_do():
    pool, (wants, slow) = readers_that_began(2, budget=256 << 10)
    feed(wants, bytes((128 << 10) - 1000), 1 << 20)
    assert wants.target() is None
    assert pool.holder_to_close(before=99.0) is slow
    slow.close()
    assert pool.holder_to_close(before=99.0) is wants
    pool.budget_bytes = 8 << 20
    assert wants.target() is not None
    assert wants.waits_for_bytes


def test_who_is_held_by_the_broker_is_closed_only_where_no_client_is_slow():
    pool, (held, slow) = readers_that_began(2)
    held.held = lambda: True
    assert pool.holder_to_close(before=99.0) is slow
    slow.close()
    assert pool.holder_to_close(before=99.0) is held


def test_who_has_much_parked_holds_memory_until_it_is_served():
    reader, pool = a_reader(shared=1 << 20)
    pool.now = 10.0
    stream = framed(bytes(40_000)) * 3
    reader.target()[: len(stream)] = stream
    reader.received(len(stream))
    assert reader.park()
    reader.held = lambda: True
    assert pool.holder_to_close(before=9.9) is None
    assert pool.holder_to_close(before=10.0) is reader
    while reader.next() is not None:
        pass
    assert reader.park()
    assert pool.holders == {}
