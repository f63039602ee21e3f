"""A decoder returns a message or raises MalformedMessage for any bytes, and trusts no claimed count."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.messages.building import each_version, messages, version_id

from ottla.schema.codec import MalformedMessage, decode, decoder, encode
from ottla.schema.message import Message

PAIRS = list(each_version())
BOUNDED = settings(
    max_examples=4,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
ENOUGH_BYTES = 200_000
"""More memory than a decoder needs for a frame of this file, and far less than its counts claim."""


@pytest.mark.parametrize(("cls", "version"), PAIRS, ids=version_id)
def test_a_message_cut_short_anywhere_is_malformed(cls: type[Message], version: int) -> None:
    decode_from = decoder(cls, version)

    @BOUNDED
    @given(message=messages(cls, version))
    def cut(message: Message) -> None:
        data = encode(message, version)
        for length in range(len(data)):
            with pytest.raises(MalformedMessage):
                decode_from(memoryview(data)[:length], 0)

    cut()


@pytest.mark.parametrize(("cls", "version"), PAIRS, ids=version_id)
def test_changed_bytes_are_malformed_or_another_message(cls: type[Message], version: int) -> None:
    decode_from = decoder(cls, version)

    @BOUNDED
    @given(message=messages(cls, version), seed=st.integers(0, 1 << 32))
    def change(message: Message, seed: int) -> None:
        for data in changed(encode(message, version), random.Random(seed)):
            try:
                other, position = decode_from(memoryview(data), 0)
            except MalformedMessage:
                continue
            assert 0 <= position <= len(data)
            again = encode(other, version)  # bytes are compared: a number that is none (NaN) equals not even itself
            assert encode(decode(cls, version, again), version) == again

    change()


def changed(data: bytes, chance: random.Random) -> Iterator[bytes]:
    """The same bytes with one to three of them changed, cut out or doubled."""
    for _ in range(20 if data else 0):
        bent = bytearray(data)
        for _ in range(chance.randint(1, 3)):
            place = chance.randrange(len(bent)) if bent else 0
            what = chance.randrange(4)
            if what == 0 and bent:
                bent[place] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
            elif what == 1:
                bent[place : place + 4] = b"\x7f\xff\xff\xff"
            elif what == 2:
                del bent[place : place + chance.randint(1, 4)]
            else:
                bent[place:place] = bytes([chance.randrange(256)])
        yield bytes(bent)


@pytest.mark.parametrize(("cls", "version"), PAIRS, ids=version_id)
def test_no_claimed_count_is_allocated(cls: type[Message], version: int) -> None:
    decode_from = decoder(cls, version)
    frames = [
        bytes(before) + claim + bytes(20)
        for before in range(24)
        for claim in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\x7f\xff", b"\xff\xff\xff\xff\x0f")
    ]
    tracemalloc.start()
    try:
        for frame in frames:
            try:
                decode_from(memoryview(frame), 0)
            except MalformedMessage:
                continue
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < ENOUGH_BYTES
