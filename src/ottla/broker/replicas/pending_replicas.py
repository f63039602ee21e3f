"""The folders of logs that are still to be made or removed here: a few in a turn of the loop, the removals first.

Called by reconcile.py, which knows what becomes of a replica. A replica for which the disk has no room is put off and
tried again; any other error of the disk fails its log directory.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import islice
from typing import TYPE_CHECKING

from ottla.broker.replicas.doubtful_replicas import Key
from ottla.broker.replicas.log_directories import LogDirectories
from ottla.broker.replicas.removal import Removal
from ottla.broker.replicas.unreadable import NO_FILES
from ottla.kernel.ids import TopicPartition
from ottla.kernel.seams import Disk
from ottla.storage.log import FULL_DISK

if TYPE_CHECKING:
    from ottla.broker.environment import Environment

log = logging.getLogger("ottla.replicas")
_WORK_AGAIN_MS = 1000
_FEW = 2
_FILES_OF_A_LOG = 3
_FILES_KEPT_FREE = 256
"""Descriptors kept free for connections and for next segments of logs: a log without one takes its directory offline.

With a low limit, a quarter of those that are free before the first log is opened.
"""
_NO_ROOM = (*FULL_DISK, *NO_FILES)
_IN_A_TURN = 32
"""Directories made or removed in one turn of the loop."""


class PendingReplicas:
    """A part of `Replicas`."""

    def __init__(
        self,
        around: Environment,
        disk: Disk,
        directories: LogDirectories,
        removal: Removal,
        *,
        settle: Callable[[Key], None],
        together: Callable[[int], AbstractContextManager[None]],
    ) -> None:
        """`settle` makes or drops a replica by the present metadata; `together` gathers the syncs of so many logs."""
        self._around = around
        self._disk = disk
        self._directories = directories
        self._removal = removal
        self._settle = settle
        self._together = together
        self._files_kept = min(_FILES_KEPT_FREE, disk.free_files() // 4)
        self._to_put_away: list[TopicPartition] = []
        self._unsettled: dict[Key, None] = {}
        self._put_off: dict[Key, None] = {}
        """Replicas for which there was no room: they are tried again later."""
        self._trying_again = False
        self._lacks_room = False
        self._said = ""
        """The last logged trouble."""
        self._working = False

    @property
    def is_unsettled(self) -> bool:
        """True if a replica is still to be made or dropped."""
        return bool(self._unsettled)

    def add(self, key: Key) -> None:
        """Settle this replica in a coming turn."""
        self._unsettled[key] = None

    def put_away(self, place: TopicPartition) -> None:
        """Remove this log in a coming turn."""
        self._to_put_away.append(place)

    def begin(self) -> None:
        """Do the work of one turn now, unless the next turn is due already."""
        if not self._working:
            self._work()

    def _work(self) -> None:
        """Remove logs before others are made: their names become free, and a full disk gets room."""
        self._working = False
        if not self._directories.is_open:
            return  # the broker was closed meanwhile; the next start goes on
        try:
            if self._to_put_away:
                self._put_some_away()
            if not self._to_put_away:
                self._settle_some()
        except OSError as error:
            self.trouble(error)
        else:
            if self._to_put_away or self._unsettled:
                self._working = True
                self._around.clock.call_soon(self._work)
            else:
                self._said = ""

    def trouble(self, error: OSError) -> None:
        """Handle an error. A full disk only delays new replicas, which are tried again; other errors are fatal."""
        if error.errno not in _NO_ROOM:
            self._around.disk_failed(error)
            return
        if str(error) != self._said:  # else one warning a second
            self._said = str(error)
            log.warning("no room for a new partition, trying again: %s", error)
        if not self._working:
            self._working = True
            self._around.deadlines.after(_WORK_AGAIN_MS, self._work)

    def _put_some_away(self) -> None:
        some = self._to_put_away[:_IN_A_TURN]
        self._removal.later()  # even if the disk is too full to note the removal: deleting makes room
        self._directories.each(lambda directory: directory.delete_logs(some))
        del self._to_put_away[: len(some)]

    def _settle_some(self) -> None:
        free = self._disk.free_files()
        room = (free - self._files_kept) // _FILES_OF_A_LOG
        if room <= 0 and self._unsettled:
            lack = len(self._unsettled)
            raise OSError(errno.EMFILE, f"too few files may be open for {lack} more (ulimit -n, LimitNOFILE=)")
        some = list(islice(self._unsettled, min(max(0, room), _IN_A_TURN)))
        with self._together(len(some)):
            for key in some:
                self._settle_or_put_off(key)
        for key in some:
            del self._unsettled[key]

    def _settle_or_put_off(self, key: Key) -> None:
        """Settle a replica; one without room in its directory must not keep others from being made elsewhere."""
        try:
            self._settle(key)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            self.put_off(key, error)

    # --- replicas for which there was no room ---

    def put_off(self, key: Key, error: OSError) -> None:
        """Try this replica again after a while; an error other than a full disk also fails the log directory."""
        self._put_off[key] = None
        self._lacks_room = True
        if error.errno not in _NO_ROOM:
            self._around.disk_failed(error)
        elif not self._trying_again:
            log.warning("no room for a new partition or for its checkpoints, trying again: %s", error)
        if not self._trying_again:
            self._trying_again = True
            self._around.deadlines.after(_WORK_AGAIN_MS, self._try_again)

    def _try_again(self) -> None:
        """Try again: only a few if the last try found no room, as each costs the loop disk operations."""
        self._trying_again, lacked_room, self._lacks_room = False, self._lacks_room, False
        self._go_on(_FEW if lacked_room else len(self._put_off))
        if self._put_off and not self._trying_again:
            self._trying_again = True
            self._around.deadlines.after(_WORK_AGAIN_MS, self._try_again)

    def try_all_again(self) -> None:
        """Go on with every replica that was put off."""
        self._go_on(len(self._put_off))

    def _go_on(self, most: int) -> None:
        """Go on with at most this many of the delayed replicas."""
        for key in list(islice(self._put_off, most)):
            del self._put_off[key]
            self._unsettled[key] = None
        if (self._unsettled or self._to_put_away) and not self._working:
            self._work()
