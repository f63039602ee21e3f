"""The folder of one log: its disk and its path. The path changes where the replica moves to another directory."""

from __future__ import annotations

from typing import Final

from ottla.kernel.seams import Disk


class LogFolder:
    """Shared by the parts of one log, so that all of them know of a move."""

    __slots__ = ("_path", "disk")

    def __init__(self, disk: Disk, path: str) -> None:
        self.disk: Final = disk
        self._path = path

    @property
    def path(self) -> str:
        return self._path

    def sync(self) -> None:
        """Put the names in it on disk."""
        self.disk.sync_directory(self._path)

    def renamed(self, path: str) -> None:
        """Take the folder's new name; open files stay open."""
        self._path = path
