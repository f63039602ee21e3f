"""Rounds of syncs by compiled threads, which report their end without the interpreter's lock (decision 0026)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.kernel.seams import OpenFile, Syncable, SyncWork
from ottla.records.compiled import FORCED_PURE
from ottla.storage.disk.local import failed_sync

if TYPE_CHECKING:
    from ottla.server._parallel_sync import ParallelSync

MOST_FILES = 8
"""The most dirty files that are synced one by one at the same time; more are synced by one `syncfs`."""

Works = list[tuple[Syncable, SyncWork]]


def files_of(works: Works) -> list[OpenFile]:
    """The files, each once."""
    return list(dict.fromkeys(file for _, work in works for file in work.files))


def sync_round(directory: str) -> SyncRound | None:
    """Make one for a log directory; None without the compiled module, or if the system lacks eventfd or syncfs."""
    try:
        from ottla.server._parallel_sync import ParallelSync
    except ImportError:
        return None
    if FORCED_PURE or not hasattr(os, "eventfd") or not hasattr(ParallelSync, "begin_file_system"):
        return None
    try:
        folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None  # a sync by the Python thread meets the same fault, and tells the logs of it
    wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    return SyncRound(ParallelSync(wake_fd), wake_fd, directory, folder)


class SyncRound:
    """One round at a time; `wake_fd` can be read once it has ended."""

    def __init__(self, parallel: ParallelSync, wake_fd: int, directory: str, folder: int) -> None:
        """`folder` is a descriptor of the directory, kept open: syncfs tells it of all failures since it was opened."""
        self._parallel = parallel
        self.wake_fd = wake_fd
        self._directory, self._folder = directory, folder
        self._works: Works = []
        self._files: Sequence[OpenFile] = ()

    def begin(self, works: Works, files: Sequence[OpenFile]) -> bool:
        """Begin a round; False, with nothing begun, if these works do not fit or no thread is to be had."""
        descriptors = tuple(file.fileno() for file in files)
        if min(descriptors, default=-1) < 0 or any(work.directories for _, work in works):
            return False
        try:
            if len(descriptors) <= MOST_FILES:
                self._parallel.begin(descriptors)
            else:
                self._parallel.begin_file_system(self._folder)
        except (OSError, RuntimeError):
            return False
        self._works, self._files = works, files
        return True

    def end(self) -> tuple[Works, OSError | None]:
        """The works of the round that has ended, and the first failure."""
        os.eventfd_read(self.wake_fd)
        number, place = self._parallel.end()
        works, files, self._works, self._files = self._works, self._files, [], ()
        if not number:
            return works, None
        path = files[place].path if len(files) <= MOST_FILES else self._directory
        return works, failed_sync(OSError(number, os.strerror(number)), path)

    def stop(self) -> tuple[Works, OSError | None] | None:
        """End the threads; return `end`'s outcome for a round that was under way."""
        self._parallel.stop()
        ended = self.end() if self._works else None
        os.close(self.wake_fd)
        os.close(self._folder)
        return ended
