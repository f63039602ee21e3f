"""Tells at a start whether unsynced writes into a log directory are still there: a power cut may lose them.

An unsynced note is kept in the page cache with them. If the note is lost, the other writes may be lost too.
"""

from __future__ import annotations

import posixpath

from ottla.kernel.seams import Disk
from ottla.storage.checkpoint import PAGE_CACHE, BadCheckpoint, clear_the_way, read_small


def was_kept(disk: Disk, directory: str) -> bool:
    """Compare the note with the present page cache; a note of another one is emptied, until `leave_note`."""
    path, now = posixpath.join(directory, PAGE_CACHE), _now(disk, directory)
    try:
        before = read_small(disk, path)
    except BadCheckpoint:
        before = None
        clear_the_way(disk, path)
    if before is None:
        disk.remove(path)  # a link may lead to nothing
    if before != now:
        _write(disk, path, b"")
    return bool(now) and before == now


def leave_note(disk: Disk, directory: str) -> None:
    """Leave the note for the next start: writes from here on are there then, unless power is lost."""
    path, now = posixpath.join(directory, PAGE_CACHE), _now(disk, directory)
    try:
        before = read_small(disk, path)
    except BadCheckpoint:
        before = None
    if before != now:
        _write(disk, path, now)


def _now(disk: Disk, directory: str) -> bytes:
    return disk.cache_id(directory).encode()


def _write(disk: Disk, path: str, body: bytes) -> None:
    file = disk.open(path, create=True)
    try:
        file.truncate(0)
        file.write_at(0, [body])
    finally:
        file.release()
