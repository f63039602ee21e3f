"""The broker's rounds: recurring work, each at its own interval. Started by node.py."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.control import ages
from ottla.broker.control.unclean_elections import EVERY_MS
from ottla.broker.waiting import Deadline

if TYPE_CHECKING:
    from ottla.broker.control.ages import Ages
    from ottla.broker.control.clock_rounds import ClockRounds
    from ottla.broker.control.unclean_elections import UncleanElections
    from ottla.broker.environment import Environment
    from ottla.broker.replicas.compactor import Compactor
    from ottla.broker.replicas.reconcile import Replicas
    from ottla.broker.replicas.scrubber import Scrubber

log = logging.getLogger("ottla.rounds")
_FLUSH_EVERY_MS = 1000


class Rounds:
    """Checkpoints, retention, flushes of cached topics, compaction, scrub, and elections that no event triggers."""

    def __init__(
        self,
        around: Environment,
        replicas: Replicas,
        compactor: Compactor,
        scrubber: Scrubber,
        unclean_elections: UncleanElections,
        ages: Ages,
        clock: ClockRounds,
    ) -> None:
        self._around = around
        self._replicas = replicas
        self._compactor = compactor
        self._scrubber = scrubber
        self._unclean_elections = unclean_elections
        self._ages = ages
        self._clock = clock
        self._next: dict[str, Deadline] = {}
        self._stopped = False

    def start(self) -> None:
        config, replicas, logs = self._around.config, self._replicas, self._replicas.upkeep
        replicas.in_sync.round()  # from now on a late round can be recognized
        self._every("high watermarks", lambda: config.replica_high_watermark_checkpoint_interval_ms,
                    logs.checkpoint_high_watermarks)  # fmt: skip
        self._every("recovery points", lambda: config.log_flush_offset_checkpoint_interval_ms,
                    logs.checkpoint_recovery_points)  # fmt: skip
        self._every("retention", lambda: self._around.config.log_retention_check_interval_ms, logs.apply_retention)
        self._every("compaction", lambda: self._around.config.log_cleaner_backoff_ms, self._compactor.round)
        self._every("in-sync sets", lambda: self._around.config.replica_lag_time_max_ms // 2, replicas.in_sync.round)
        self._every("scrub", self._scrubber.every_ms, self._scrubber.round)
        self._every("unclean elections", lambda: EVERY_MS, self._unclean_elections.look)
        self._every("ages", lambda: ages.EVERY_MS, self._ages.round)
        self._every("clock", self._clock.every_ms, self._clock.round)
        self._every("flush", lambda: _FLUSH_EVERY_MS, logs.flush_due)

    def stop(self) -> None:
        self._stopped = True
        for deadline in self._next.values():
            deadline.cancel()

    def _every(self, name: str, interval_ms: Callable[[], int], work: Callable[[], None]) -> None:
        def run() -> None:
            try:
                work()
            except OSError as error:
                self._failed(name, error)
            finally:
                if not self._stopped:
                    self._every(name, interval_ms, work)

        self._next[name] = self._around.deadlines.after(max(1, interval_ms()), run)

    def _failed(self, name: str, error: OSError) -> None:
        """Handle an error: on a full disk the next round tries again; others fail the directory (rule B3)."""
        import errno

        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            log.warning("%s could not be written down, the disk is full: %s", name, error)
        else:
            self._around.disk_failed(error)
