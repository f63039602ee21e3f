"""The compiled rounds of `fdatasync`: their end comes by an eventfd, with the first failure and its file."""

from __future__ import annotations

import asyncio
import errno
import os
import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.kernel.seams import SyncWork
from ottla.server import sync_loop
from ottla.server.sync_loop import SyncLoop
from ottla.server.sync_round import MOST_FILES, sync_round
from ottla.storage.disk.local import FailedSync, LocalDisk, LocalFile

compiled = pytest.importorskip("ottla.server._parallel_sync")
PATIENCE_S = 60


@pytest.fixture
def wake_fd() -> Iterator[int]:
    descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    yield descriptor
    os.close(descriptor)


def opened(folder: Path, count: int) -> list[LocalFile]:
    disk = LocalDisk()
    files = [disk.open(str(folder / f"file-{number}"), create=True) for number in range(count)]
    for file in files:
        file.write_at(0, [b"dirty"])
    return files  # type: ignore[return-value]


def ended(parallel, wake_fd: int) -> tuple[int, int]:
    assert select.select([wake_fd], [], [], PATIENCE_S)[0], "the round did not end"
    assert os.eventfd_read(wake_fd) == 1, "one end for one round"
    return parallel.end()


def test_each_round_ends_once_whatever_its_files(wake_fd, tmp_path):
    parallel = compiled.ParallelSync(wake_fd)
    descriptors = [file.fileno() for file in opened(tmp_path, MOST_FILES)]
    for turn in range(200):
        parallel.begin(tuple(descriptors[: turn % MOST_FILES + 1]))
        assert ended(parallel, wake_fd) == (0, 0)
    parallel.stop()


def test_the_first_failure_is_told_with_its_place(wake_fd, tmp_path):
    parallel = compiled.ParallelSync(wake_fd)
    good = [file.fileno() for file in opened(tmp_path, 3)]
    pipe = os.pipe()  # EINVAL: it cannot be synced
    parallel.begin((*good, pipe[0]))
    assert ended(parallel, wake_fd) == (errno.EINVAL, 3)
    parallel.begin(tuple(good))
    assert ended(parallel, wake_fd) == (0, 0), "a failure is that of its round"
    parallel.stop()
    os.close(pipe[0])
    os.close(pipe[1])


def test_a_round_begins_only_after_the_end_of_the_last_was_taken(wake_fd, tmp_path):
    parallel = compiled.ParallelSync(wake_fd)
    (file,) = opened(tmp_path, 1)
    with pytest.raises(RuntimeError, match="no round has ended"):
        parallel.end()
    parallel.begin((file.fileno(),))
    with pytest.raises(RuntimeError, match="under way"):
        parallel.begin((file.fileno(),))
    assert ended(parallel, wake_fd) == (0, 0)
    parallel.stop()
    with pytest.raises(RuntimeError, match="stopped"):
        parallel.begin((file.fileno(),))


def test_a_stop_waits_for_the_round_under_way(wake_fd, tmp_path):
    parallel = compiled.ParallelSync(wake_fd)
    parallel.begin(tuple(file.fileno() for file in opened(tmp_path, MOST_FILES)))
    parallel.stop()
    assert ended(parallel, wake_fd) == (0, 0)
    parallel.stop()


@pytest.mark.parametrize("files", [(), (0,) * (MOST_FILES + 1), [0], None, "0"])
def test_other_than_a_few_descriptors_are_refused(wake_fd, files):
    with pytest.raises(ValueError, match="1 to 8 file descriptors"):
        compiled.ParallelSync(wake_fd).begin(files)


def test_what_is_no_descriptor_is_refused(wake_fd):
    parallel = compiled.ParallelSync(wake_fd)
    with pytest.raises(TypeError):
        parallel.begin(("0",))
    with pytest.raises(OverflowError):
        parallel.begin((1 << 70,))


def test_there_are_as_many_places_as_the_loop_counts_on():
    assert compiled.MOST_FILES == MOST_FILES


class Log:
    """A log with files of its own, dirty as often as it is submitted."""

    def __init__(self, files: list[LocalFile], directory: str = "") -> None:
        self.files = files
        self.directories = (directory,) if directory else ()
        self.errors: list[OSError | None] = []

    def begin_sync(self) -> SyncWork:
        return SyncWork(1, tuple(self.files), self.directories)

    def end_sync(self, work: SyncWork, error: OSError | None) -> None:
        self.errors.append(error)


@pytest.fixture(params=["compiled", "pure"])
def part(request, monkeypatch) -> str:
    if request.param == "pure":
        monkeypatch.setattr(sync_loop, "sync_round", lambda directory: None)
    return request.param


async def told(logs: list[Log], times: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while any(len(log.errors) < times for log in logs):
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("count", [1, 3, MOST_FILES, MOST_FILES + 1])
def test_logs_hear_of_the_end_of_each_sync(part, tmp_path, count):
    async def run() -> None:
        syncer = SyncLoop(asyncio.get_running_loop(), str(tmp_path))
        logs = [Log([file]) for file in opened(tmp_path, count)]
        for times in range(1, 6):
            for log in logs:
                syncer.submit(log)
            await told(logs, times)
        syncer.stop()
        assert [log.errors for log in logs] == [[None] * 5] * count

    asyncio.run(run())


def test_a_file_that_cannot_be_synced_fails_the_directory_by_its_path(part, tmp_path):
    async def run() -> OSError | None:
        syncer = SyncLoop(asyncio.get_running_loop(), str(tmp_path))
        pipe = os.pipe()
        log = Log([*opened(tmp_path, 2), LocalFile("the/pipe", pipe[0])])
        syncer.submit(log)
        await told([log], 1)
        syncer.stop()
        os.close(pipe[0])
        os.close(pipe[1])
        return log.errors[0]

    error = asyncio.run(run())
    assert isinstance(error, FailedSync)
    assert (error.errno, error.filename) == (errno.EIO, "the/pipe")


def test_a_failed_sync_of_the_file_system_fails_the_directory_whatever_the_error(part, tmp_path, monkeypatch):
    """Even for a full disk: the pages that were dropped count as written from then on."""

    async def run() -> OSError | None:
        syncer = SyncLoop(asyncio.get_running_loop(), str(tmp_path))
        if part == "pure":
            monkeypatch.setattr(sync_loop, "sync_file_system", full)
        else:
            assert syncer._round is not None
            folder, syncer._round._folder = syncer._round._folder, 1 << 30  # no descriptor: EBADF
            monkeypatch.setattr(sync_loop, "sync_file_system", unexpected)
        log = Log(opened(tmp_path, MOST_FILES + 1))
        syncer.submit(log)
        await told([log], 1)
        if syncer._round is not None:
            syncer._round._folder = folder
        syncer.stop()
        return log.errors[0]

    def full(path: str) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    def unexpected(path: str) -> None:
        raise AssertionError("the compiled threads sync many files too")

    error = asyncio.run(run())
    assert isinstance(error, FailedSync)
    assert (error.errno, error.filename) == (errno.EIO, str(tmp_path))


def test_a_sync_with_a_new_directory_ends_too(part, tmp_path):
    async def run() -> None:
        syncer = SyncLoop(asyncio.get_running_loop(), str(tmp_path))
        log = Log(opened(tmp_path, 1), str(tmp_path))
        syncer.submit(log)
        await told([log], 1)
        syncer.stop()
        assert log.errors == [None]

    asyncio.run(run())


def test_a_log_hears_of_a_sync_that_the_stop_waited_for(part, tmp_path):
    async def run() -> None:
        syncer = SyncLoop(asyncio.get_running_loop(), str(tmp_path))
        log = Log(opened(tmp_path, 2))
        syncer.submit(log)
        await asyncio.sleep(0)  # the loop's turn at whose end the sync begins
        syncer.submit(log)
        syncer.stop()
        assert log.errors == [None]
        await asyncio.sleep(0)
        assert log.errors == [None]  # told once, and no sync has begun since

    asyncio.run(run())


def test_a_round_without_threads_is_left_to_python(tmp_path, wake_fd):
    class Without:
        def begin(self, files: tuple[int, ...]) -> None:
            raise OSError(errno.EAGAIN, "no thread")

    made = sync_round(str(tmp_path))
    assert made is not None
    made._parallel = Without()  # type: ignore[assignment]
    (file,) = opened(tmp_path, 1)
    assert not made.begin([(Log([file]), SyncWork(1, (file,), ()))], [file])
    made._parallel = compiled.ParallelSync(made.wake_fd)
    made.stop()


class Refuses(Log):
    """A log that raises when its sync is to begin."""

    def begin_sync(self) -> SyncWork:
        raise ValueError("no sync of this one")


def test_a_log_whose_sync_cannot_begin_keeps_no_other_from_its_own(part, tmp_path):
    async def run() -> list[str]:
        told_of: list[str] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: told_of.append(str(context["exception"])))
        syncer = SyncLoop(loop, str(tmp_path))
        first, bad, last = Log(opened(tmp_path, 1)), Refuses([]), Log(opened(tmp_path, 1))
        syncer.submit(first)
        await asyncio.sleep(0)
        syncer.submit(bad)  # begins when the first one's sync has ended
        await told([first], 1)
        syncer.submit(last)
        await told([last], 1)
        syncer.stop()
        assert (first.errors, last.errors) == ([None], [None])
        return told_of

    assert asyncio.run(run()) == ["no sync of this one"]


def test_a_child_process_neither_waits_for_its_parents_threads_nor_uses_them(wake_fd, tmp_path):
    parallel = compiled.ParallelSync(wake_fd)
    (file,) = opened(tmp_path, 1)
    parallel.begin((file.fileno(),))
    assert ended(parallel, wake_fd) == (0, 0)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            parallel.begin((file.fileno(),))
        except OSError:
            parallel.stop()
            del parallel
            status = 0
        os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    parallel.begin((file.fileno(),))
    assert ended(parallel, wake_fd) == (0, 0)
    parallel.stop()
