"""Records of MirrorMaker 2, against bytes that MirrorMaker 2 of Kafka 4.3.1 has written."""

from __future__ import annotations

import pytest

from ottla.mirror.formats import Checkpoint, Heartbeat, OffsetSync


def test_an_offset_sync_is_what_mirror_maker_writes() -> None:
    sync = OffsetSync("bulk", 1, 11, 10)
    assert sync.key().hex() == "000462756c6b00000001"
    assert sync.value() == (11).to_bytes(8, "big") + (10).to_bytes(8, "big")
    assert OffsetSync.read(sync.key(), sync.value()) == sync


def test_a_checkpoint_is_what_mirror_maker_writes() -> None:
    checkpoint = Checkpoint("g1", "a.bulk", 1, 1000, 999)
    assert checkpoint.key() == b"\0\2g1" + b"\0\6a.bulk" + b"\0\0\0\1"
    assert checkpoint.value() == b"\0\0" + (1000).to_bytes(8, "big") + (999).to_bytes(8, "big") + b"\0\0"
    assert Checkpoint.read(checkpoint.key(), checkpoint.value()) == checkpoint


def test_a_heartbeat_is_what_mirror_maker_writes() -> None:
    beat = Heartbeat("a", "b", 1_764_000_000_000)
    assert beat.key() == b"\0\1a\0\1b"
    assert beat.value() == b"\0\0" + (1_764_000_000_000).to_bytes(8, "big")
    assert Heartbeat.read(beat.key(), beat.value()) == beat


@pytest.mark.parametrize(
    ("key", "value"), [(b"\0\4bu", b""), (b"\0\1a\0\0\0\1", b"\0" * 15), (b"\xff\xff", b"\0" * 16)]
)
def test_bytes_that_are_no_offset_sync_are_refused(key: bytes, value: bytes) -> None:
    with pytest.raises(ValueError, match="not an offset sync"):
        OffsetSync.read(key, value)
