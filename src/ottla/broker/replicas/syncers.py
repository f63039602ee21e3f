"""One syncer for each log directory, so that a slow or failed disk does not delay logs on another one.

Made by server/broker_server.py, which has one `SyncLoop` for each; broker/replicas/partition.py submits. Not used with
a single directory.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from ottla.kernel.seams import Syncable, Syncer


class Syncers:
    """A `kernel.seams.Syncer` that passes each log to the syncer of its log directory."""

    def __init__(self, by_directory: Mapping[str, Syncer]) -> None:
        self._by_directory = by_directory

    def submit(self, log: Syncable) -> None:
        self._by_directory[posixpath.dirname(log.directory)].submit(log)

    def submit_later(self, log: Syncable) -> None:
        self._by_directory[posixpath.dirname(log.directory)].submit_later(log)

    def hurry(self, log: Syncable) -> None:
        self._by_directory[posixpath.dirname(log.directory)].hurry(log)
