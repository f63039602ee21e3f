"""Opens replicas that the start could not open because the disk was full, once there is room.

Called by reconcile.py. Only those that are offline are tried: if others count, a replica is fetched anew instead
(unreadable.py). Each is recovered as after a crash, in one turn of the loop. If the cluster knows another log directory
than the one it lies in, or a newer one, it stays offline: the registration at the next start tells the cluster.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.replicas.doubtful_replicas import Key
from ottla.broker.replicas.log_directories import LogDirectories
from ottla.broker.replicas.unreadable import NO_FILES, costs_the_directory
from ottla.kernel.ids import TopicId
from ottla.storage import recovery
from ottla.storage.log import FULL_DISK

if TYPE_CHECKING:
    from ottla.broker.environment import Environment
    from ottla.metadata.state import Topic

log = logging.getLogger("ottla.replicas")
_AGAIN_MS = 10_000
_ROOM = 1 << 20
"""The free bytes of a disk without which opening a replica is not tried."""
_OLDER = "its log directory is not the one that the cluster knows, or an older copy; the next start tells the cluster"


class Reopening:
    """A part of `Replicas`."""

    def __init__(self, around: Environment, directories: LogDirectories, reopened: Callable[[Key], None]) -> None:
        """`reopened` is called with each replica whose log is open."""
        self._around = around
        self._directories = directories
        self._reopened = reopened
        self._due = False
        self._closed = False

    def look(self) -> None:
        """Try again after a while, if any replica lacked room."""
        if not self._due and not self._closed and self._waiting():
            self._due = True
            self._around.deadlines.after(_AGAIN_MS, self._try)

    def close(self) -> None:
        self._closed = True

    def _waiting(self) -> list[Key]:
        return [key for key in self._directories.unreadable.lacking_room() if key in self._directories.offline]

    def _try(self) -> None:
        """Open the first replica whose disk has room, and the next one in another turn."""
        self._due = False
        if self._closed:
            return
        full: set[str] = set()
        for key in self._waiting():
            directory, topic = self._directories.unreadable.by_key[key][0].directory, self._topic_of(key)
            if topic is None or directory.failed is not None or directory.path in full:
                continue
            if self._has_room(directory.path) and self._open(key, topic):
                self._due = bool(self._waiting())
                if self._due:
                    self._around.clock.call_soon(self._try)
                self._reopened(key)
                return
            full.add(directory.path)
        self.look()

    def _topic_of(self, key: Key) -> Topic | None:
        topic = self._around.metadata.topics.get(TopicId(key[0]))
        return topic if topic is not None and self._directories.placed_here(topic, key[1]) else None

    def _has_room(self, path: str) -> bool:
        try:
            return self._directories.disk.free_bytes(path) >= _ROOM
        except OSError:
            return False

    def _open(self, key: Key, topic: Topic) -> bool:
        directories = self._directories
        one = directories.unreadable.by_key[key][0]
        if directories.is_doubtful(one.directory):
            directories.unreadable.give_up_opening(key, _OLDER)
            return False
        try:
            directories.recover(one.directory, topic, one.found, at_start=False)
        except recovery.CANNOT_OPEN as error:
            if isinstance(error, OSError) and error.errno in (*FULL_DISK, *NO_FILES):
                return False
            if isinstance(error, OSError) and costs_the_directory(one.found, error):
                self._around.disk_failed(error)
            else:
                directories.unreadable.give_up_opening(key, recovery.sentence(error))
            return False
        directories.unreadable.opened(key)
        directories.offline.pop(key, None)
        opened = directories.recovered[key]
        log.warning("%s-%d can be opened, as there is room again: it ends at offset %d", opened.topic,
                    opened.partition, opened.end_offset)  # fmt: skip
        return True
