"""Whether a directory is ours to use: what it may hold, and the refusal of what it may not."""

from __future__ import annotations

from collections.abc import Collection

from ottla.kernel.seams import Disk
from ottla.storage import checkpoint
from ottla.storage.incarnation import FILES

LOCK = ".lock"
_OWN_NAMES = frozenset(
    {
        LOCK,
        "lost+found",
        "bootstrap.checkpoint",
        checkpoint.META_PROPERTIES,
        checkpoint.CLEAN_SHUTDOWN,
        checkpoint.SYNC_FAILED,
        checkpoint.RECOVERY_POINT,
        checkpoint.LOG_START,
        checkpoint.REPLICATION,
        checkpoint.CLEANER,
        checkpoint.SCRUBBED,
        checkpoint.PAGE_CACHE,
        *FILES,
    }
)


class DirectoryRefused(Exception):
    """The directory cannot be used; the sentence says why and what to do."""


def refuse_foreign(disk: Disk, path: str, also_ours: Collection[str]) -> None:
    """A directory that holds something, but neither our files nor a `meta.properties`, is somebody else's."""
    if not disk.exists(path):
        return
    if not disk.is_directory(path):
        raise DirectoryRefused(f"{path} is not a directory.")
    names = disk.list(path)
    if checkpoint.META_PROPERTIES in names:
        return
    ours = {*_OWN_NAMES, *(name + checkpoint.COPY for name in _OWN_NAMES), *also_ours}
    foreign = [name for name in names if name.removesuffix(checkpoint.TEMPORARY) not in ours]
    if foreign:
        raise DirectoryRefused(
            f"{path} is not empty and holds no {checkpoint.META_PROPERTIES}: {foreign[0]!r} is not ours. "
            "Give the broker an empty directory."
        )
