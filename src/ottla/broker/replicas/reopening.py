"""Opens replicas that the start could not open, as the disk was full or a read failed, once they can be opened.

Called by reconcile.py. Only replicas that are offline or are to lead are tried; if other replicas count, a replica is
fetched anew instead (unreadable.py). Each is recovered as after a crash, in one turn of the loop. A read error may
pass, as with storage behind a network; after a few vain attempts it counts as lasting. A replica that must first be
compared with another directory, or with what the cluster knows of its own, stays offline until the next start, with the
reason.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.replicas.doubtful_replicas import Key
from ottla.broker.replicas.log_directories import LogDirectories
from ottla.broker.replicas.unreadable import NO_FILES, Unreadable, costs_the_directory
from ottla.kernel.ids import TopicId
from ottla.storage import recovery
from ottla.storage.log import FULL_DISK

if TYPE_CHECKING:
    from ottla.broker.environment import Environment
    from ottla.metadata.state import Topic

log = logging.getLogger("ottla.replicas")
_FIRST_MS = 10_000
_LONGEST_MS = 160_000
"""The pause doubles with each vain attempt: each may read all of a log that was not checked yet."""
_READ_ERRORS = 6
"""The attempts after which a read error counts as lasting; with these pauses that takes more than seven minutes."""
_ROOM = 1 << 20
"""The free bytes of a disk without which opening a replica is not tried."""


class Reopening:
    """A part of `Replicas`."""

    def __init__(self, around: Environment, directories: LogDirectories, on_open: Callable[[Key, bool], None]) -> None:
        """`on_open` is called with each replica whose log is open, and with whether it may be short of its end."""
        self._around = around
        self._directories = directories
        self._on_open = on_open
        self._pause_ms = _FIRST_MS
        self._vain: dict[Key, int] = {}
        """The number of vain attempts; the replica with the fewest is tried first, so that none holds others up."""
        self._read_errors: dict[Key, int] = {}
        """The number of those that ended with a read error."""
        self._due = False
        self._closed = False

    def look(self) -> None:
        """Try after a while, if a replica waits for it."""
        if not self._due and not self._closed and self._waiting():
            self._due = True
            self._around.deadlines.after(self._pause_ms, self._try)

    def close(self) -> None:
        self._closed = True

    def _waiting(self) -> list[Key]:
        waiting = self._directories.unreadable.to_try_again()
        return [key for key in waiting if key in self._directories.offline or self._is_to_lead(key)]

    def _is_to_lead(self, key: Key) -> bool:
        """True after an unclean election."""
        state = self._around.metadata.partition(*key)
        return state is not None and state.leader == self._around.broker

    def _try(self) -> None:
        """Open one replica whose disk has room, and the next one in another turn."""
        self._due = False
        if self._closed:
            return
        full: set[str] = set()
        for key in sorted(self._waiting(), key=lambda one: self._vain.get(one, 0)):
            one, topic = self._directories.unreadable.by_key[key][0], self._topic_of(key)
            path = one.directory.path
            if topic is None or one.directory.failed is not None or path in full or not self._has_room(path):
                continue
            if why := self._why_not(one):
                self._directories.unreadable.give_up_opening(key, why)
            elif self._open(key, one, topic):
                self._pause_ms, self._due = _FIRST_MS, True
                self._around.clock.call_soon(self._try)
                self._on_open(key, self._directories.doubtful.is_short(self._directories.recovered[key]))
                return
            else:
                full.add(path)
                self._vain[key] = self._vain.get(key, 0) + 1
                self._pause_ms = min(2 * self._pause_ms, _LONGEST_MS)
        self.look()

    def _may_pass(self, key: Key, error: Exception) -> bool:
        """True if it was a read error, which may have gone by the next attempt."""
        if not isinstance(error, OSError) or error.errno != errno.EIO:
            return False
        self._read_errors[key] = self._read_errors.get(key, 0) + 1
        return self._read_errors[key] < _READ_ERRORS

    def _topic_of(self, key: Key) -> Topic | None:
        topic = self._around.metadata.topics.get(TopicId(key[0]))
        return topic if topic is not None and self._directories.placed_here(topic, key[1]) else None

    def _has_room(self, path: str) -> bool:
        try:
            return self._directories.disk.free_bytes(path) >= _ROOM
        except OSError:
            return False

    def _why_not(self, one: Unreadable) -> str:
        """The reason why only a start, which compares directories before it registers, may open `one`; else empty."""
        directories, directory = self._directories, one.directory
        if directories.is_doubtful(directory):
            return "its log directory is not the one that the cluster knows, or an older copy"
        if not directories.all_there:
            return "another log directory could not be opened, and may hold a newer copy"
        if one.found.beside is not None:
            return "it was being moved between log directories"
        return ""

    def _open(self, key: Key, one: Unreadable, topic: Topic) -> bool:
        directories = self._directories
        try:
            directories.recover(one.directory, topic, one.found, at_start=False)
        except recovery.CANNOT_OPEN as error:
            if isinstance(error, OSError) and error.errno in (*FULL_DISK, *NO_FILES):
                return False
            if isinstance(error, OSError) and costs_the_directory(one.found, error):
                self._around.disk_failed(error)
            elif not self._may_pass(key, error):
                directories.unreadable.give_up_opening(key, recovery.sentence(error))
            return False
        directories.unreadable.opened(key)
        directories.offline.pop(key, None)
        opened = directories.recovered[key]
        log.warning("%s-%d can be opened now: it ends at offset %d", opened.topic,
                    opened.partition, opened.end_offset)  # fmt: skip
        return True
