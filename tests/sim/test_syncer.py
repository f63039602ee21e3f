"""Every log is told of the end of a simulated sync, unless the power is cut meanwhile."""

from __future__ import annotations

from random import Random

import pytest

from ottla.kernel.seams import SyncWork
from ottla.kernel.unawaited import UNAWAITED_SYNC_MS
from ottla.sim.disk import SimDisk
from ottla.sim.disk_faults import PowerCut
from ottla.sim.loop import SimLoop
from ottla.sim.syncer import SimSyncer


class Dirty:
    """A log that notes the end of its sync, and then raises a given exception."""

    directory = "/d"

    def __init__(self, fault: BaseException | None = None) -> None:
        self.fault = fault
        self.heard = 0

    def begin_sync(self) -> SyncWork:
        return SyncWork(1, (), ())

    def end_sync(self, work: SyncWork, error: OSError | None) -> None:
        self.heard += 1
        if self.fault is not None:
            raise self.fault


def submitted(*logs: Dirty) -> SimLoop:
    loop = SimLoop(1)
    syncer = SimSyncer(loop, loop, SimDisk(), Random(1), lambda callback: callback)
    for log in logs:
        syncer.submit(log)
    return loop


def test_a_log_that_fails_at_its_syncs_end_leaves_none_behind_it_waiting() -> None:
    logs = Dirty(), Dirty(ValueError("told")), Dirty(), Dirty()
    with pytest.raises(ValueError, match="told"):
        submitted(*logs).run_for(100)
    assert [log.heard for log in logs] == [1, 1, 1, 1]


def test_once_the_power_is_cut_no_log_hears_anything() -> None:
    logs = Dirty(), Dirty(PowerCut()), Dirty()
    with pytest.raises(PowerCut):
        submitted(*logs).run_for(100)
    assert [log.heard for log in logs] == [1, 1, 0]


class Begins(Dirty):
    """A log that notes when its syncs begin, in microseconds."""

    def __init__(self, loop: SimLoop) -> None:
        super().__init__()
        self.loop = loop
        self.begun_us: list[int] = []

    def begin_sync(self) -> SyncWork:
        self.begun_us.append(self.loop.now_us)
        return super().begin_sync()


def test_syncs_for_which_nobody_waits_begin_at_intervals() -> None:
    """As those of server/sync_loop.py do."""
    loop = SimLoop(1)
    syncer = SimSyncer(loop, loop, SimDisk(), Random(1), lambda callback: callback)
    log, awaited = Begins(loop), Begins(loop)
    begin_us = loop.now_us
    for _ in range(3):
        syncer.submit_later(log)
        loop.run_for(1)
    syncer.submit_later(awaited)
    syncer.submit(awaited)
    loop.run_for(2 * UNAWAITED_SYNC_MS)
    assert [at - begin_us for at in log.begun_us] == [0, UNAWAITED_SYNC_MS * 1000]
    assert awaited.begun_us[0] - begin_us == 3000


def test_a_sync_that_was_put_off_begins_once_somebody_waits_for_it() -> None:
    loop = SimLoop(1)
    syncer = SimSyncer(loop, loop, SimDisk(), Random(1), lambda callback: callback)
    log = Begins(loop)
    begin_us = loop.now_us
    for _ in range(2):
        syncer.submit_later(log)
        loop.run_for(1)
    syncer.hurry(log)
    loop.run_for(1)
    syncer.submit_later(log)
    loop.run_for(2 * UNAWAITED_SYNC_MS)
    assert [at - begin_us for at in log.begun_us] == [0, 2000, UNAWAITED_SYNC_MS * 1000]
