"""A failed sync fails the log, for any reason, and nothing waits for it for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.kernel.seams import SyncWork
from ottla.kernel.unawaited import UNAWAITED_SYNC_MS
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


class OnDisk(Dirty):
    """A log of which each sync ends at once, and has nothing to do."""

    def __init__(self) -> None:
        super().__init__()
        self.begun_s: list[float] = []
        self.loop: HandLoop | None = None

    def begin_sync(self) -> None:  # type: ignore[override]
        assert self.loop is not None
        self.begun_s.append(self.loop.now_s)


class Timer:
    """A callback at a time of the loop's clock."""

    def __init__(self, when_s: float, callback: Callable[[], None]) -> None:
        self.when_s, self.callback, self.cancelled = when_s, callback, False

    def cancel(self) -> None:
        self.cancelled = True


class HandLoop:
    """A loop whose clock stands still until a timer is due. Syncs that have something to do do not end here."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self._soon: list[Callable[[], None]] = []
        self._timers: list[Timer] = []

    def time(self) -> float:
        return self.now_s

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        self._timers.append(Timer(self.now_s + delay_s, callback))
        return self._timers[-1]

    def add_reader(self, descriptor: int, callback: Callable[[], None]) -> None:
        """Do nothing: no sync ends here."""

    def remove_reader(self, descriptor: int) -> None:
        """Do nothing: no sync ends here."""

    def turn(self) -> None:
        """Make the calls of this turn, and then those of the timers, at their times."""
        while self._soon or self._timers:
            soon, self._soon = self._soon, []
            for callback in soon:
                callback()
            if not self._soon and self._timers:
                timer = self._timers.pop(0)
                self.now_s = max(self.now_s, timer.when_s)
                if not timer.cancelled:
                    timer.callback()


class Place:
    """A sync loop by hand, and logs that note when their syncs begin."""

    def __init__(self, folder: Path) -> None:
        self.loop = HandLoop()
        self.syncer = SyncLoop(self.loop, str(folder))  # type: ignore[arg-type]

    def log(self) -> OnDisk:
        log = OnDisk()
        log.loop = self.loop
        return log


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.syncer.stop()


def test_syncs_for_which_nobody_waits_begin_at_intervals(place: Place) -> None:
    log, other = place.log(), place.log()
    place.syncer.submit_later(log)
    place.loop.turn()
    for _ in range(3):
        place.syncer.submit_later(log)
        place.syncer.submit_later(other)
        place.loop.turn()
    interval_s = UNAWAITED_SYNC_MS / 1000
    times = [100.0 + number * interval_s for number in range(4)]
    assert log.begun_s == pytest.approx(times)  # the first at once: the last sync is long ago
    assert other.begun_s == pytest.approx(times[1:])


def test_a_sync_for_which_somebody_waits_begins_in_its_turn(place: Place) -> None:
    log, awaited = place.log(), place.log()
    place.syncer.submit_later(log)
    place.loop.turn()
    place.syncer.submit_later(log)
    place.syncer.submit_later(awaited)
    place.syncer.submit(awaited)
    place.loop.turn()
    assert awaited.begun_s[0] == 100.0
    assert log.begun_s == pytest.approx([100.0, 100.0 + UNAWAITED_SYNC_MS / 1000])


def test_a_sync_that_was_put_off_begins_once_somebody_waits_for_it(place: Place) -> None:
    log, unknown = place.log(), place.log()
    place.syncer.submit_later(log)
    place.loop.turn()
    place.syncer.submit_later(log)
    place.syncer.hurry(log)
    place.syncer.hurry(unknown)  # nothing of it was put off
    place.loop.turn()
    assert (log.begun_s, unknown.begun_s) == ([100.0, 100.0], [])


def test_no_sync_begins_once_the_loop_is_stopped(tmp_path: Path) -> None:
    place = Place(tmp_path)
    log = place.log()
    place.syncer.submit_later(log)
    place.syncer.stop()
    place.loop.turn()
    assert log.begun_s == []
