"""The end of a log is read again at each start: a disk may have dropped writes that it had confirmed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from log_desk import T0, a_batch, a_directory, move_recovery_point, new_log, only_log, put, read_all, sync

from ottla.storage.directory.directory import LogDirectory
from ottla.storage.disk.memory import MemoryDisk
from ottla.storage.log import Log
from ottla.storage.segment.names import LOG
from ottla.storage.values import ALL_TAILS_BYTES, TAIL_BYTES, tail_bytes

VALUE = b"v" * 500
COUNT = 120
STOPS = ("clean", "killed")


def stopped(stop: str, **options: object) -> tuple[MemoryDisk, Log]:
    """A log whose records are all on disk, with its checkpoints; some index entries stand behind the harmed bytes."""
    disk = MemoryDisk()
    directory = a_directory(disk)
    log = new_log(directory, **options)
    for at in range(COUNT):
        put(log, a_batch(VALUE, timestamp=T0 + at), leader_epoch=4)
        sync(log)
    log.set_high_watermark(log.end_offset)
    if stop == "clean":
        directory.close(clean=True)
    else:
        move_recovery_point(directory, log)
        directory.checkpoint_high_watermarks()
    return disk, log


def started(disk: MemoryDisk) -> Log:
    directory: LogDirectory = a_directory(disk)
    return only_log(directory)


def zeros(body: bytearray, start: int, end: int) -> None:
    body[start:end] = bytes(end - start)


def flipped_bit(body: bytearray, start: int, end: int) -> None:
    body[(start + end) // 2] ^= 4


def harm(disk: MemoryDisk, path: str, how: Callable[[bytearray, int, int], None], first: int, last: int) -> None:
    """Harm a file from `first` to `last` bytes before its end."""
    body = bytearray(disk.read(path))
    how(body, len(body) - first, len(body) - last)
    disk.open(path).write_at(0, [bytes(body)])


def all_is_read_or_refused(log: Log) -> int:
    """The number of refused offsets; all others hold what was written."""
    found, refused = read_all(log)
    assert all(value == VALUE for value in found.values())
    assert set(found) | set(refused) == set(range(COUNT)) and log.end_offset == COUNT
    assert refused and log.recovered.remarks and all(log.damage.covers(offset) for offset in refused)
    return len(refused)


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("how", [zeros, flipped_bit])
@pytest.mark.parametrize("span", [(100, 0), (5000, 0), (30_000, 0), (3500, 1000), (30_000, 6000), (50_000, 49_500)])
def test_harm_near_the_end_is_found_at_a_start(
    stop: str, how: Callable[[bytearray, int, int], None], span: tuple[int, int]
) -> None:
    disk, log = stopped(stop)
    harm(disk, log.active.path(LOG), how, *span)
    again = started(disk)
    assert all_is_read_or_refused(again) < COUNT
    assert put(again, a_batch(b"new"), leader_epoch=5).base_offset == COUNT


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("how", [zeros, flipped_bit])
@pytest.mark.parametrize("span", [(100, 0), (5000, 0), (9000, 5000)])
def test_harm_at_the_end_of_a_closed_segment_near_the_end_is_found_at_a_start(
    stop: str, how: Callable[[bytearray, int, int], None], span: tuple[int, int]
) -> None:
    disk, log = stopped(stop, internal_segment_bytes=20_000)
    closed = log.segments[-2]
    harm(disk, closed.path(LOG), how, *span)
    all_is_read_or_refused(started(disk))


@pytest.mark.parametrize("stop", STOPS)
def test_a_log_that_is_nothing_but_zeros_keeps_its_offsets(stop: str) -> None:
    disk, log = stopped(stop)
    harm(disk, log.active.path(LOG), zeros, log.active.size, 0)
    assert all_is_read_or_refused(started(disk)) == COUNT


@pytest.mark.parametrize("stop", STOPS)
def test_known_damage_is_not_read_and_not_said_anew(stop: str) -> None:
    disk, log = stopped(stop)
    harm(disk, log.active.path(LOG), zeros, 5000, 0)
    directory = a_directory(disk)
    only_log(directory)
    directory.close(clean=True)
    assert started(disk).recovered.remarks == ()


def test_a_start_with_many_logs_reads_less_of_each() -> None:
    assert tail_bytes(0) == tail_bytes(1) == TAIL_BYTES
    for logs in (10, 100, 1000, 100_000):
        assert tail_bytes(logs) * logs <= ALL_TAILS_BYTES
