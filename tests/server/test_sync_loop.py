"""A failed sync fails the log, for any reason, and nothing waits for it for ever."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from ottla.kernel.seams import SyncWork
from ottla.server.sync_loop import SyncLoop


class File:
    """A file whose sync fails by another error than the disk's, such as no free thread."""

    def fileno(self) -> int:
        return -1

    def sync(self) -> None:
        raise RuntimeError("can't start new thread")


class Dirty:
    def __init__(self) -> None:
        self.ended: list[OSError | None] = []

    def begin_sync(self) -> SyncWork:
        return SyncWork(1, (File(),), ())  # type: ignore[arg-type]

    def end_sync(self, work: SyncWork, error: OSError | None) -> None:
        self.ended.append(error)


def test_a_sync_that_could_not_be_tried_is_told_as_a_failed_one(tmp_path: Path) -> None:
    async def run() -> None:
        syncer = SyncLoop(asyncio.get_running_loop(), str(tmp_path))
        dirty = Dirty()
        for times in (1, 2):
            syncer.submit(dirty)
            async with asyncio.timeout(120):
                while len(dirty.ended) < times:
                    await asyncio.sleep(0.005)
            assert isinstance(dirty.ended[-1], OSError)
        syncer.stop()

    asyncio.run(run())


class Fails(Dirty):
    """A log that raises when it is told of the end of its sync."""

    def __init__(self, fault: Exception) -> None:
        super().__init__()
        self.fault = fault

    def end_sync(self, work: SyncWork, error: OSError | None) -> None:
        super().end_sync(work, error)
        raise self.fault


def test_a_log_that_fails_at_its_syncs_end_leaves_none_behind_it_waiting(tmp_path: Path) -> None:
    seen: list[Any] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: seen.append(context["exception"]))
        syncer = SyncLoop(loop, str(tmp_path))
        first, second = Fails(ValueError()), Fails(AssertionError())
        logs = [first, Dirty(), second, Dirty()]
        for log in logs:
            syncer.submit(log)
        async with asyncio.timeout(120):
            while not syncer.times.count:
                await asyncio.sleep(0.005)
        syncer.stop()
        assert [len(log.ended) for log in logs] == [1, 1, 1, 1]
        assert seen == [first.fault, second.fault]

    asyncio.run(run())
