"""Pieces are read in a thread step by step; whatever happens to it, the loop hears of the end of each piece."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ottla.server import cold_reads
from ottla.server.cold_reads import ColdReads

STEP, PIECE = 1000, 4000


@pytest.fixture
def descriptor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(cold_reads, "_STEP_BYTES", STEP)
    (tmp_path / "file").write_bytes(bytes(2 * PIECE))
    return os.open(tmp_path / "file", os.O_RDONLY)


def warmed(descriptor: int, pieces: int, meanwhile: Callable[[ColdReads], None]) -> list[tuple[int, int, bool]]:
    """Ask for pieces, and return the steps that the loop is told of, each with the number of its piece."""
    heard: list[tuple[int, int, bool]] = []

    async def run() -> None:
        cold = ColdReads(asyncio.get_running_loop())
        ended = asyncio.Event()

        def hear(piece: int, position: int, is_last: bool) -> None:
            heard.append((piece, position, is_last))
            if sum(each[2] for each in heard) == pieces:
                ended.set()

        for piece in range(pieces):
            cold.warm(descriptor, 0, PIECE, lambda position, is_last, piece=piece: hear(piece, position, is_last))
        meanwhile(cold)
        async with asyncio.timeout(10):
            await ended.wait()
        cold.stop()

    asyncio.run(run())
    os.close(descriptor)
    return heard


def test_each_step_is_told_and_the_last_as_such(descriptor: int) -> None:
    told = warmed(descriptor, 1, lambda cold: None)
    assert told == [(0, 1000, False), (0, 2000, False), (0, 3000, False), (0, 4000, True)]


def test_a_disk_that_fails_ends_a_piece_at_once(descriptor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The send that follows meets the same error, and closes the connection."""

    def fails(descriptor: int, length: int, position: int) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "pread", fails)
    assert warmed(descriptor, 2, lambda cold: None) == [(0, PIECE, True), (1, PIECE, True)]


def test_a_stop_waits_for_the_step_under_way_alone(descriptor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow disk may have a piece to read for each of many connections, which are closed by then."""
    reads: list[int] = []
    begun, stopping = threading.Event(), threading.Event()
    shutdown = ThreadPoolExecutor.shutdown

    def slow(descriptor: int, length: int, position: int) -> bytes:
        reads.append(position)
        begun.set()
        assert stopping.wait(10)
        return b""

    def noted(pool: ThreadPoolExecutor) -> None:
        stopping.set()
        shutdown(pool)

    monkeypatch.setattr(os, "pread", slow)
    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", noted)

    def stop(cold: ColdReads) -> None:
        assert begun.wait(10)
        cold.stop()

    told = warmed(descriptor, 3, stop)
    assert reads == [0]
    assert [each[0] for each in told if each[2]] == [0, 1, 2], "the files of all are let go"
