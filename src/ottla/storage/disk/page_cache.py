"""Whether all that was written into a log directory is there still, synced or not: a power cut need not leave it.

It is known by a note of the page cache that it went into. The note is unsynced: where it is lost, so may be the rest.
"""

from __future__ import annotations

import posixpath

from ottla.kernel.seams import Disk
from ottla.storage.directory.checkpoint import PAGE_CACHE, BadCheckpoint
from ottla.storage.directory.remembered import clear_the_way, read_small


def was_kept(disk: Disk, directory: str) -> bool:
    """Compare the note with the page cache of now, and leave one for the next start."""
    path, now = posixpath.join(directory, PAGE_CACHE), disk.cache_id(directory).encode()
    try:
        before = read_small(disk, path)
    except BadCheckpoint:
        before = None
        clear_the_way(disk, path)
        disk.remove(path)
    if before != now:
        file = disk.open(path, create=True)
        try:
            file.truncate(0)
            file.write_at(0, [now])
        finally:
            file.release()
    return bool(now) and before == now
