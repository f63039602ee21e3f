"""A syncer that syncs when a test says so."""

from __future__ import annotations

from ottla.storage.log import Log


class HandSyncer:
    """A syncer by hand: submitted logs wait for `sync`; a log submitted twice is synced once."""

    def __init__(self) -> None:
        self.submitted: dict[int, Log] = {}
        self.later: dict[int, Log] = {}
        """Logs for whose sync nobody waits."""

    def submit(self, log: Log) -> None:
        self.submitted[id(log)] = log

    def submit_later(self, log: Log) -> None:
        self.later[id(log)] = log

    def hurry(self, log: Log) -> None:
        if self.later.pop(id(log), None) is not None:
            self.submit(log)

    def sync(self) -> None:
        """Sync all of them, also those for whose sync nobody waits."""
        submitted, self.submitted, self.later = self.later | self.submitted, {}, {}
        for log in submitted.values():
            work = log.begin_sync()
            if work is not None:
                log.end_sync(work, None)
