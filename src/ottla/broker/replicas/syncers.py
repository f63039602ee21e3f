"""One syncer for each log directory: a disk that is slow or fails keeps no log on another one waiting.

Comes from server/broker_server.py, which has one `SyncLoop` for each; broker/replicas/partition.py submits. With one
directory there is none of this.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from ottla.kernel.seams import Syncable, Syncer


class Syncers:
    """`kernel.seams.Syncer` that hands each log to that of its log directory."""

    def __init__(self, by_directory: Mapping[str, Syncer]) -> None:
        self._by_directory = by_directory

    def submit(self, log: Syncable) -> None:
        self._by_directory[posixpath.dirname(log.directory)].submit(log)
