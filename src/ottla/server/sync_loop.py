"""One flush for all dirty logs: the only way by which acknowledged records reach the disk.

Logs are submitted by broker/replicas/partition.py; when a sync ends, `end_sync` tells each log (rules B1, E6). Files
are synced by `sync_round.py`; by a thread here where that cannot be, or where directories are to be synced too.
"""

from __future__ import annotations

import asyncio
import errno
import os
import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from ottla.kernel.seams import OpenFile, Syncable
from ottla.kernel.unawaited import Unawaited
from ottla.metrics.histogram import Histogram
from ottla.server.sync_round import MOST_FILES, SyncRound, Works, files_of, sync_round
from ottla.storage.disk.local import failed_sync, sync_file_system


class SyncLoop:
    """`kernel.seams.Syncer` for one log directory: with several, each has its own, so that none waits for another."""

    def __init__(self, loop: asyncio.AbstractEventLoop, directory: str) -> None:
        self._loop = loop
        self._directory = directory
        self._dirty: dict[Syncable, None] = {}
        self._unawaited = Unawaited(self.submit)
        self._timer: asyncio.TimerHandle | None = None
        """The next ring of `_unawaited`."""
        self._busy = False
        self._stopped = False
        self._queue: queue.SimpleQueue[Works | None] = queue.SimpleQueue()
        self._ended: queue.SimpleQueue[tuple[Works, OSError | None]] = queue.SimpleQueue()
        self._pool: ThreadPoolExecutor | None = None
        self.times = Histogram()
        """Times of syncs, from their begin on the loop until the loop learns of their end."""
        self._began_ns = 0
        self._round: SyncRound | None = sync_round(directory)
        if self._round is not None:
            loop.add_reader(self._round.wake_fd, self._finish_round)
        self._thread = threading.Thread(target=self._work, name="ottla-sync", daemon=True)
        self._thread.start()

    def submit(self, log: Syncable) -> None:
        """Mark a log as dirty; a sync begins at the end of this turn of the loop, unless one is under way."""
        if not self._dirty and not self._busy:
            self._busy = True
            self._loop.call_soon(self._begin)
        self._dirty[log] = None

    def submit_later(self, log: Syncable) -> None:
        """Mark a log as dirty for whose sync nobody waits (`kernel.seams.Syncer`)."""
        if log not in self._dirty and (wait_ms := self._unawaited.add(log, self._loop.time() * 1000)) is not None:
            self._timer = self._loop.call_later(wait_ms / 1000, self._ring)

    def hurry(self, log: Syncable) -> None:
        """Have a sync that was to begin later begin as if it had been submitted now."""
        self._unawaited.hurry(log)

    def _ring(self) -> None:
        self._unawaited.ring(self._loop.time() * 1000)

    def stop(self) -> None:
        """Wait for the sync under way, and tell its logs how it ended; then none begins any more.

        Dirty logs stay so, and are synced by their close. Call this before the close: the system reports a failure
        once, and a log that has not learned of it would be closed as if all were on disk.
        """
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        self._queue.put(None)
        self._thread.join()
        self._hear()
        if self._round is not None:
            self._loop.remove_reader(self._round.wake_fd)
            if (ended := self._round.stop()) is not None:
                self._finish(*ended)
            self._round = None
        if self._pool is not None:
            self._pool.shutdown()

    def _begin(self) -> None:
        works: Works = []
        while not self._stopped and self._dirty and not works:  # a log that learns of a failure here may submit others
            dirty, self._dirty = self._dirty, {}
            for log in dirty:
                try:
                    work = log.begin_sync()
                except Exception as fault:  # the other logs are to be synced all the same
                    self._tell("a log failed when its sync began", fault)
                else:
                    works += [(log, work)] if work is not None else []
        if not works:
            self._busy = False
            return
        self._began_ns = time.monotonic_ns()
        files = files_of(works)
        if self._round is None or not self._round.begin(works, files):
            self._queue.put(works)

    def _finish_round(self) -> None:
        if self._round is not None:
            self._finish(*self._round.end())

    def _tell(self, what: str, fault: Exception) -> None:
        self._loop.call_exception_handler({"message": what, "exception": fault})

    def _finish(self, works: Works, error: OSError | None) -> None:
        self.times.add_ns(time.monotonic_ns() - self._began_ns)
        self._busy = False
        if self._dirty:
            self._busy = True
            self._begin()
        for log, work in works:
            try:
                log.end_sync(work, error)
            except Exception as fault:  # the following logs must be told all the same
                self._tell("a log failed when its sync ended", fault)

    def _work(self) -> None:
        while (works := self._queue.get()) is not None:
            error: OSError | None = None
            try:
                self._sync(works)
            except OSError as fault:
                error = fault
                error.filename = error.filename or self._directory  # the broker finds the failed directory by it
            except Exception as fault:  # if no thread could be had, say: the waiting logs must be told
                error = OSError(errno.EIO, f"a sync could not be done: {fault!r}", self._directory)
            self._ended.put((works, error))
            self._loop.call_soon_threadsafe(self._hear)

    def _hear(self) -> None:
        if not self._ended.empty():  # unless `stop` has taken it before
            self._finish(*self._ended.get())

    def _sync(self, works: Works) -> None:
        files = files_of(works)
        if len(files) == 1:
            files[0].sync()
        elif len(files) <= MOST_FILES:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(MOST_FILES, "ottla-sync")
            list(self._pool.map(_sync_one, files))
        else:
            try:
                sync_file_system(self._directory)
            except OSError as fault:
                raise failed_sync(fault, self._directory) from fault
        for directory in sorted({directory for _, work in works for directory in work.directories}):
            _sync_directory(directory)


def _sync_one(file: OpenFile) -> None:
    file.sync()


def _sync_directory(path: str) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return  # deleted meanwhile, and need not be kept
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
