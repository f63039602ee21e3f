"""Checks by its files that this broker may use a log directory; gives a new directory its id."""

from __future__ import annotations

import errno
import logging
import posixpath
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from ottla.kernel.seams import Disk
from ottla.storage import checkpoint
from ottla.storage.directory.age import FILE as AGE
from ottla.storage.directory.incarnation import FILES

log = logging.getLogger("ottla.storage")
T = TypeVar("T")
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
        AGE,
    }
)


_OF_DATA = frozenset(
    {checkpoint.RECOVERY_POINT, checkpoint.LOG_START, checkpoint.REPLICATION, checkpoint.CLEANER, *FILES, AGE}
)
"""Names that only a log directory with records contains."""
_MUST_HOLD = (
    "It must hold the lines version=1, cluster.id=, node.id= and directory.id=: write it by hand, or copy it from "
    "another log directory of this broker and give it its own directory.id, and start again."
)


class DirectoryRefused(Exception):
    """The directory cannot be used; the sentence says why and what to do."""


class UnusableFile(OSError):
    """A small file of the directory cannot be opened. The directory is treated as one whose disk has failed."""

    def __init__(self, error: OSError, path: str, remedy: str) -> None:
        super().__init__(error.errno, error.strerror, path)
        self._path = path
        self._remedy = remedy

    def __str__(self) -> str:
        wrong = "is a directory" if self.errno == errno.EISDIR else f"cannot be opened ({self.strerror})"
        return f"{self._path} {wrong}. {self._remedy}"


def opened_lock(lock: Callable[[str], T], path: str) -> T:
    """The lock that `lock` takes on the directory's lock file; UnusableFile where that cannot be opened."""
    try:
        return lock(path)
    except (PermissionError, IsADirectoryError) as error:
        remedy = "It holds nothing: with no broker running there, remove it and start again."
        raise UnusableFile(error, path, remedy) from error


def refuse_foreign(disk: Disk, path: str, also_ours: Collection[str]) -> None:
    """Refuse a directory with files that are not ours and without `meta.properties`: it belongs to another program."""
    if not disk.exists(path):
        return
    if not disk.is_directory(path):
        raise DirectoryRefused(f"{path} is not a directory.")
    try:
        names = disk.list(path)
    except PermissionError as error:
        remedy = "Give it to the user that runs the broker (chown, chmod), and start again."
        raise UnusableFile(error, path, remedy) from error
    if checkpoint.META_PROPERTIES in names:
        _refuse_damaged_properties(disk, posixpath.join(path, checkpoint.META_PROPERTIES))
        return
    ours = {*_OWN_NAMES, *(name + checkpoint.COPY for name in _OWN_NAMES), *also_ours}
    foreign = [name for name in names if name.removesuffix(checkpoint.TEMPORARY) not in ours]
    if foreign and any(name.removesuffix(checkpoint.COPY) in _OF_DATA for name in names):
        raise DirectoryRefused(f"{path} holds data and its {checkpoint.META_PROPERTIES} is missing. {_MUST_HOLD}")
    if foreign:
        raise DirectoryRefused(
            f"{path} is not empty and holds no {checkpoint.META_PROPERTIES}: {foreign[0]!r} is not ours. "
            "Give the broker an empty directory."
        )


def identified(disk: Disk, path: str, cluster_id: str, node_id: int, new_directory_id: str) -> str:
    """The directory's id, once its `meta.properties` names this broker; a new directory gets one."""
    where = posixpath.join(path, checkpoint.META_PROPERTIES)
    if not disk.exists(where):
        values = {
            "version": "1",
            "cluster.id": cluster_id,
            "node.id": str(node_id),
            "directory.id": new_directory_id,
        }
        checkpoint.replace_file(disk, where, checkpoint.format_properties(values))
        disk.sync_directory(posixpath.dirname(path))
        return new_directory_id
    return refuse_of_another(disk, path, cluster_id, node_id).get("directory.id", "")


def refuse_of_another(disk: Disk, path: str, cluster_id: str, node_id: int) -> Mapping[str, str]:
    """The lines of `meta.properties`; DirectoryRefused where they name another cluster or another broker."""
    where = posixpath.join(path, checkpoint.META_PROPERTIES)
    values = checkpoint.parse_properties(disk.read(where).decode("utf-8", "replace"))
    if values.get("version") not in ("0", "1"):
        raise DirectoryRefused(f"{where} has version {values.get('version')!r}; this program knows versions 0 and 1.")
    if values.get("cluster.id") != cluster_id:
        raise DirectoryRefused(
            f"{where} says cluster {values.get('cluster.id')!r}, and this broker is of {cluster_id!r}. Give it "
            "another directory, start it with that cluster's metadata, or correct the line if it is damaged."
        )
    owner = values.get("node.id", values.get("broker.id"))
    if owner != str(node_id):
        raise DirectoryRefused(
            f"{where} says node.id {owner}, and this broker has {node_id}. Give it its own directory."
        )
    return values


def _refuse_damaged_properties(disk: Disk, path: str) -> None:
    """DirectoryRefused where a line is missing, UnusableFile where the file cannot be read."""
    try:
        values = checkpoint.parse_properties(disk.read(path).decode("utf-8", "replace"))
    except (PermissionError, IsADirectoryError) as error:
        raise UnusableFile(error, path, _MUST_HOLD) from error
    if values.get("version") == "0" and "directory.id" in values:
        log.warning("%s says version 0 and holds the lines of version 1: it is taken for that", path)
    if "broker.id" in values:
        values.setdefault("node.id", values["broker.id"])
    missing = [key for key in ("version", "cluster.id", "node.id") if not values.get(key)]
    if missing:
        raise DirectoryRefused(f"{path} is damaged: it has no {', no '.join(missing)}. {_MUST_HOLD}")
