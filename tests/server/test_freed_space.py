"""Space of large deleted files is given back step by step, and never taken from somebody who still reads it."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.server import freed_space
from ottla.server.freed_space import FreedSpace
from ottla.storage.disk.local import LARGE_BYTES, LocalDisk

SIZE = 10_000


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes to which files were cut; steps are small here, and looks frequent."""
    seen: list[int] = []
    ftruncate = os.ftruncate

    def counted(descriptor: int, size: int) -> None:
        seen.append(size)
        ftruncate(descriptor, size)

    monkeypatch.setattr(os, "ftruncate", counted)
    monkeypatch.setattr(freed_space, "_STEP_BYTES", 4000)
    monkeypatch.setattr(freed_space, "_LOOK_AGAIN_S", 0.01)
    return seen


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], bool]]:
    """Tells whether a descriptor is closed within ten seconds."""
    ended: dict[int, threading.Event] = {}
    close = os.close

    def noted(descriptor: int) -> None:
        close(descriptor)
        ended.setdefault(descriptor, threading.Event()).set()

    monkeypatch.setattr(os, "close", noted)
    yield lambda descriptor: ended.setdefault(descriptor, threading.Event()).wait(10)


def a_file(path: Path) -> int:
    path.write_bytes(bytes(SIZE))
    return os.open(path, os.O_RDWR)


def test_a_file_without_a_name_is_freed_in_steps_and_closed(tmp_path: Path, steps: list[int], closed) -> None:
    freed = FreedSpace()
    descriptor = a_file(tmp_path / "f")
    os.unlink(tmp_path / "f")
    freed.take(descriptor)
    assert closed(descriptor)
    assert steps == [8000, 4000]
    freed.stop()


def test_a_file_that_somebody_reads_is_whole_until_it_is_closed(tmp_path: Path, steps: list[int], closed) -> None:
    freed = FreedSpace()
    descriptor = a_file(tmp_path / "f")
    other = a_file(tmp_path / "g")
    reader = os.open(tmp_path / "f", os.O_RDONLY)
    os.unlink(tmp_path / "f")
    os.unlink(tmp_path / "g")
    freed.take(descriptor)
    freed.take(other)
    assert closed(other), "it does not hold up others"
    assert steps == [8000, 4000]
    assert os.pread(reader, SIZE, 0) == bytes(SIZE)
    os.close(reader)
    assert closed(descriptor)
    assert steps == [8000, 4000] * 2
    freed.stop()


@pytest.mark.parametrize("odd_bytes", [100, 4096])
def test_what_a_socket_still_holds_of_a_file_stays_as_it_was_sent(odd_bytes: int, tmp_path: Path, closed) -> None:
    """sendfile() lends the socket pages of the cache; a cut in the midst of one writes zeros into the rest of it."""
    ours, peer = socket.socketpair()
    size = LARGE_BYTES + (1 << 20) + odd_bytes
    (tmp_path / "f").write_bytes(b"x" * size)
    descriptor = os.open(tmp_path / "f", os.O_RDWR)
    with (tmp_path / "f").open("rb") as file:
        sent = sum(os.sendfile(ours.fileno(), file.fileno(), at, 20_000) for at in (1 << 20, LARGE_BYTES - 10_000))
    os.unlink(tmp_path / "f")
    freed = FreedSpace()
    freed.take(descriptor)
    assert closed(descriptor)
    freed.stop()
    ours.close()
    with peer, peer.makefile("rb") as received:
        assert received.read() == b"x" * sent


def test_a_file_that_has_another_name_stays_as_it_is(tmp_path: Path, steps: list[int], closed) -> None:
    freed = FreedSpace()
    descriptor = a_file(tmp_path / "f")
    os.link(tmp_path / "f", tmp_path / "backup")
    os.unlink(tmp_path / "f")
    freed.take(descriptor)
    assert closed(descriptor)
    assert (tmp_path / "backup").stat().st_size == SIZE
    assert steps == []
    freed.stop()


@pytest.mark.parametrize("named", [True, False])
def test_who_opens_a_file_while_it_is_looked_at_does_not_end_the_process(
    named: bool, tmp_path: Path, steps: list[int], closed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An open breaks a lease, and by default the kernel tells its holder by SIGIO, which ends it."""
    descriptor = a_file(tmp_path / "f")
    os.link(tmp_path / "f", tmp_path / "backup")
    if not named:
        os.unlink(tmp_path / "backup")
    os.unlink(tmp_path / "f")
    other_way = tmp_path / "backup" if named else Path(f"/proc/self/fd/{descriptor}")
    signals: list[int] = []
    asked = fcntl.fcntl

    def opened_meanwhile(given: int, command: int, argument: int) -> int:
        answer = asked(given, command, argument)
        if (command, argument) == (fcntl.F_SETLEASE, fcntl.F_WRLCK):
            with pytest.raises(BlockingIOError):
                os.open(other_way, os.O_RDONLY | os.O_NONBLOCK)
        return answer

    monkeypatch.setattr(fcntl, "fcntl", opened_meanwhile)
    before = signal.signal(signal.SIGIO, lambda number, _: signals.append(number))
    try:
        freed = FreedSpace()
        freed.take(descriptor)
        assert closed(descriptor)
        freed.stop()
    finally:
        signal.signal(signal.SIGIO, before)
    assert signals == []


def test_where_leases_are_refused_a_file_is_only_closed(
    tmp_path: Path, steps: list[int], closed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(fcntl, "fcntl", refused)
    freed = FreedSpace()
    descriptor = a_file(tmp_path / "f")
    os.unlink(tmp_path / "f")
    freed.take(descriptor)
    assert closed(descriptor)
    assert steps == []
    freed.stop()


def test_an_error_of_a_close_holds_up_no_other_file(
    tmp_path: Path, steps: list[int], closed, monkeypatch: pytest.MonkeyPatch
) -> None:
    freed = FreedSpace()
    descriptor, other = a_file(tmp_path / "f"), a_file(tmp_path / "g")
    close = os.close

    def fails(given: int) -> None:
        close(given)
        if given == descriptor:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "close", fails)
    for name in "fg":
        os.unlink(tmp_path / name)
    freed.take(descriptor)
    freed.take(other)
    assert closed(descriptor)
    assert closed(other)
    freed.stop()


def test_logs_keep_half_of_all_descriptors(tmp_path: Path, steps: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that can open no file for its next segment goes offline: rather free some files in one go."""
    freed = FreedSpace()
    descriptor = a_file(tmp_path / "f")
    reader = os.open(tmp_path / "f", os.O_RDONLY)
    os.unlink(tmp_path / "f")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (2 * descriptor + 1, resource.RLIM_INFINITY))
    freed.take(descriptor)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    assert os.pread(reader, SIZE, 0) == bytes(SIZE)
    os.close(reader)
    freed.stop()


def test_where_no_thread_is_to_be_had_a_file_is_only_closed(
    tmp_path: Path, steps: list[int], closed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    freed = FreedSpace()
    descriptor, later = a_file(tmp_path / "f"), a_file(tmp_path / "g")
    for name in "fg":
        os.unlink(tmp_path / name)
    with monkeypatch.context() as without_threads:
        without_threads.setattr(threading.Thread, "start", refused)
        freed.take(descriptor)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    freed.take(later)
    assert closed(later)
    assert steps == [8000, 4000]
    freed.stop()


def test_a_stop_closes_all(tmp_path: Path, steps: list[int], closed) -> None:
    freed = FreedSpace()
    descriptor = a_file(tmp_path / "f")
    reader = os.open(tmp_path / "f", os.O_RDONLY)
    os.unlink(tmp_path / "f")
    freed.take(descriptor)
    freed.stop()
    assert closed(descriptor)
    late = a_file(tmp_path / "g")
    freed.take(late)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(late)
    assert os.pread(reader, SIZE, 0) == bytes(SIZE)
    os.close(reader)


def test_the_disk_hands_over_large_files_alone_and_only_once_their_name_is_gone(tmp_path: Path) -> None:
    taken: list[tuple[int, bool]] = []
    disk = LocalDisk(lambda descriptor: taken.append((os.fstat(descriptor).st_size, (tmp_path / "f").exists())))
    for size in (LARGE_BYTES, LARGE_BYTES + 1):
        with (tmp_path / "f").open("wb") as file:
            file.truncate(size)
        disk.remove(str(tmp_path / "f"))
        assert not (tmp_path / "f").exists()
    assert taken == [(LARGE_BYTES + 1, False)]
    disk.remove(str(tmp_path / "f"))


def test_the_disk_hands_over_a_large_file_that_another_one_replaces(tmp_path: Path) -> None:
    taken: list[tuple[int, bytes]] = []
    disk = LocalDisk(lambda descriptor: taken.append((os.fstat(descriptor).st_nlink, (tmp_path / "f").read_bytes())))
    for name in ("f", "g"):
        (tmp_path / name).touch()
    os.truncate(tmp_path / "f", LARGE_BYTES + 1)
    disk.rename(str(tmp_path / "g"), str(tmp_path / "f"))
    assert taken == [(0, b"")]
    disk.rename(str(tmp_path / "f"), str(tmp_path / "g"))
    assert len(taken) == 1


def test_a_large_file_that_cannot_be_replaced_keeps_its_content(tmp_path: Path) -> None:
    taken: list[int] = []
    (tmp_path / "f").touch()
    os.truncate(tmp_path / "f", LARGE_BYTES + 1)
    with pytest.raises(FileNotFoundError):
        LocalDisk(taken.append).rename(str(tmp_path / "g"), str(tmp_path / "f"))
    assert taken == []
    assert (tmp_path / "f").stat().st_size == LARGE_BYTES + 1


def test_a_large_file_that_cannot_be_removed_keeps_its_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    (tmp_path / "f").touch()
    os.truncate(tmp_path / "f", LARGE_BYTES + 1)

    def refused(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "unlink", refused)
    with pytest.raises(PermissionError):
        LocalDisk(taken.append).remove(str(tmp_path / "f"))
    assert taken == []
    assert (tmp_path / "f").stat().st_size == LARGE_BYTES + 1
