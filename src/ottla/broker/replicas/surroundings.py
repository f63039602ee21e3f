"""The parts of its broker that a partition needs: id, clock, deadlines, syncer, lease, and whom to tell of a failure.

partition.py asks for them, and so do the coordinators, whose shards live in partitions.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.broker_time import BrokerTime
from ottla.broker.waiting import Deadlines
from ottla.kernel.ids import BrokerId
from ottla.kernel.seams import Clock, Syncer


class Surroundings(Protocol):
    """Met by `Environment` in broker/environment.py, and by tests with a broker of their own."""

    @property
    def broker(self) -> BrokerId: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def time(self) -> BrokerTime: ...

    @property
    def deadlines(self) -> Deadlines: ...

    @property
    def syncer(self) -> Syncer: ...

    def disk_failed(self, error: OSError) -> None:
        """Fail the log directory: called after an append or a sync raised (rule B3)."""

    def may_lead(self) -> bool:
        """True while the lease is valid (rule A12)."""
