"""Takes a failed log directory offline, or tells why the broker cannot go on without it (rule B3).

Called through failures.py with every error of a disk, and at the start with directories that could not be written. The
replicas of the directory are removed after the present turn of the loop, and reported offline (offline_replicas.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ottla.broker.replicas.doubtful_replicas import Key
from ottla.broker.replicas.log_directories import LogDirectories
from ottla.broker.replicas.moves import ReplicaMoves
from ottla.broker.replicas.offline_replicas import OfflineReplicas
from ottla.kernel.errors import ErrorCode
from ottla.storage.directory.directory import LogDirectory

if TYPE_CHECKING:
    from ottla.broker.environment import Environment
    from ottla.broker.replicas.partition import Partition


class DirectoryFailures:
    """A part of `Replicas`."""

    def __init__(
        self,
        around: Environment,
        directories: LogDirectories,
        offline: OfflineReplicas,
        moves: ReplicaMoves,
        by_id: Mapping[Key, Partition],
        *,
        take_away: Callable[[Partition, ErrorCode], None],
        on_offline: Callable[[], None],
    ) -> None:
        """`take_away` removes a partition and answers its waiting requests with the error.

        `on_offline` is called once the replicas of a failed directory are gone.
        """
        self._around = around
        self._directories = directories
        self._offline = offline
        self._moves = moves
        self._by_id = by_id
        self._take_away = take_away
        self._on_offline = on_offline

    def go_on_without(self, error: OSError) -> str | None:
        """Take the directory that the error names offline, or tell why the broker cannot go on.

        The broker cannot go on without the directory that holds the metadata store, nor if the error names no
        directory.
        """
        directories = self._directories
        failed = directories.holding(error.filename)
        if failed is not None and failed.path in directories.failed:
            return None
        if failed is not None and directories.may_go_on_without(failed):
            self.take_offline(failed, error)
            return None
        directories.fail_all(error)
        path = directories.paths[0] if failed is None else failed.path
        return f"the log directory {path} failed: {error}"

    def take_offline(self, directory: LogDirectory, error: OSError) -> None:
        """Take a directory offline: no more writes to it; its replicas are removed after the present turn."""
        self._directories.take_offline(directory, error)
        self._around.clock.call_soon(lambda: self._let_go(directory))

    def _let_go(self, directory: LogDirectory) -> None:
        directories = self._directories
        if not directories.is_open:
            return
        self._moves.directory_failed(directory)
        for partition in [one for one in self._by_id.values() if directories.of(one.log) is directory]:
            self._take_away(partition, ErrorCode.KAFKA_STORAGE_ERROR)
            directories.offline[(partition.topic_id, partition.index)] = None
        recovered = directories.recovered
        for key in [key for key, opened in recovered.items() if directories.of(opened) is directory]:
            del recovered[key]
            directories.offline[key] = None
        directory.abandon()
        self._offline.look()
        self._on_offline()
