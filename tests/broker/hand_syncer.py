"""A syncer that syncs when a test says so."""

from __future__ import annotations

from ottla.storage.log import Log


class HandSyncer:
    """A syncer by hand: submitted logs wait for `sync`; a log submitted twice is synced once."""

    def __init__(self) -> None:
        self.submitted: dict[int, Log] = {}

    def submit(self, log: Log) -> None:
        self.submitted[id(log)] = log

    def sync(self) -> None:
        submitted, self.submitted = self.submitted, {}
        for log in submitted.values():
            work = log.begin_sync()
            if work is not None:
                log.end_sync(work, None)
