"""Gives the space of large deleted files back step by step, in a thread (decision 0028).

A file system frees a file of 1 GiB in one go, and its caller and all syncs wait meanwhile. `LocalDisk.remove` hands the
descriptor of such a file over here once its name is gone; after a crash the file system frees it as any file that
nobody holds.
"""

from __future__ import annotations

import errno
import fcntl
import os
import queue
import resource
import signal
import threading
from collections import deque
from contextlib import suppress

_STEP_BYTES = 16 << 20
"""Cuts lie at multiples of this, where a page ends, also a large one (a folio).

A cut in the midst of a page fills its rest with zeros in memory. A socket that was given the page by sendfile, and
whose peer has not read it yet, would send them.
"""
_PAUSE_S = 0.01
"""Between two steps, so that syncs go on between them: 1 GiB is free after one second."""
_LOOK_AGAIN_S = 1.0
_MOST_WAITING = 1000
"""Descriptors that are held; files beyond that are freed in one go."""
_SET_LEASE = getattr(fcntl, "F_SETLEASE", None)
"""Linux has leases."""


class FreedSpace:
    """One thread for all log directories, begun with the first file."""

    def __init__(self) -> None:
        self._arrived: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    def take(self, descriptor: int) -> None:
        """Free a file that has no name any more, and close its descriptor, once nobody else has it open."""
        if self._ended.is_set() or self._arrived.qsize() >= _MOST_WAITING or _takes_from_logs(descriptor):
            _close(descriptor)
            return
        if self._thread is None:
            thread = threading.Thread(target=self._work, name="ottla-free", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the process may have no more threads: the next file may find one
                _close(descriptor)
                return
            self._thread = thread
        self._arrived.put(descriptor)

    def stop(self) -> None:
        """Close all descriptors: what is not free yet is freed in one go."""
        self._ended.set()
        self._arrived.put(None)
        if self._thread is not None:
            self._thread.join()
        while not self._arrived.empty():
            if (descriptor := self._arrived.get()) is not None:
                _close(descriptor)

    def _work(self) -> None:
        in_use: deque[int] = deque()
        while not self._ended.is_set():
            try:
                descriptor = self._arrived.get(timeout=_LOOK_AGAIN_S if in_use else None)
            except queue.Empty:
                descriptor = in_use.popleft()
            if descriptor is None:
                break
            try:
                if not _is_in_use(descriptor):
                    self._free(descriptor)
                elif len(in_use) < _MOST_WAITING:
                    in_use.append(descriptor)
                    continue
            except OSError:
                pass  # the close frees what is left
            _close(descriptor)
        for descriptor in in_use:
            _close(descriptor)

    def _free(self, descriptor: int) -> None:
        found = os.fstat(descriptor)
        left = 0 if found.st_nlink else found.st_size  # with another name (a hard link) it stays as it is
        while left > _STEP_BYTES and not self._ended.wait(_PAUSE_S):
            left = (left - 1) // _STEP_BYTES * _STEP_BYTES
            os.ftruncate(descriptor, left)


def _close(descriptor: int) -> None:
    """Close a deleted file; errors, which some network file systems report here, do not matter for it."""
    with suppress(OSError):
        os.close(descriptor)


def _takes_from_logs(descriptor: int) -> bool:
    """True if less than half of this process's descriptors are left. A new descriptor is the lowest that is free."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return limit != resource.RLIM_INFINITY and descriptor >= limit // 2


def _is_in_use(descriptor: int) -> bool:
    """True if somebody else has the file open, who may be sending it still; OSError if that cannot be told.

    A write lease is given only for a file that nobody else has open. It is returned at once. If somebody opens the file
    just then, the kernel sends its holder a signal: SIGURG, which does nothing, not SIGIO, which ends the process.
    """
    if _SET_LEASE is None:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
    fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
    try:
        fcntl.fcntl(descriptor, _SET_LEASE, fcntl.F_WRLCK)
    except OSError as fault:
        if fault.errno == errno.EAGAIN:
            return True
        raise
    fcntl.fcntl(descriptor, _SET_LEASE, fcntl.F_UNLCK)
    return False
