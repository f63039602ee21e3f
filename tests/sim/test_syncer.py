"""Every log is told of the end of a simulated sync, unless the power is cut meanwhile."""

from __future__ import annotations

from random import Random

import pytest

from ottla.kernel.seams import SyncWork
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
