"""Deletions in a log directory: a folder is renamed at once and its files go later, one folder at a time (rule B4)."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from ottla.kernel.ids import TopicPartition
from ottla.kernel.seams import Disk
from ottla.storage.directory import strays
from ottla.storage.directory.found import DELETE_SUFFIX
from ottla.storage.directory.noted_offsets import NotedOffsets

_NAME_MAX = 255


class Deletions:
    """Part of `LogDirectory`."""

    def __init__(self, disk: Disk, path: str, offsets: NotedOffsets) -> None:
        self._disk = disk
        self._path = path
        self._offsets = offsets
        self.doomed: list[str] = []
        """Folders whose files will be deleted."""
        self.files_aside: list[str] = []
        """Files that were set aside in the folders of partitions (leftovers.py)."""

    def doom(self, path: str, place: TopicPartition, topic_id: bytes) -> None:
        """Rename a folder to `*-delete`; the caller syncs the directory."""
        number, renamed = int.from_bytes(topic_id, "big"), path
        while self._disk.exists(renamed):
            suffix = f".{number:032x}{DELETE_SUFFIX}"
            renamed = posixpath.join(self._path, str(place)[: _NAME_MAX - len(suffix)] + suffix)
            number = (number + 1) % (1 << 128)
        self._disk.rename(path, renamed)
        self.doomed.append(renamed)
        self.files_aside = [each for each in self.files_aside if posixpath.dirname(each) != path]

    def note_aside(self, paths: Iterable[str]) -> None:
        """Files that were set aside in the folder of a partition, now or at an earlier start."""
        self.files_aside += [each for each in paths if each not in self.files_aside]

    def remove_one(self) -> bool:
        """Delete one `*-delete` folder; whether there are more. A step for the background."""
        if self.doomed:
            self.doomed.append(self.doomed.pop(0))  # a folder that cannot be deleted does not hold up the others
            self._remove(self.doomed[-1])
            self.doomed.pop()
        return bool(self.doomed)

    def _remove(self, folder: str) -> None:
        """Delete a folder, once no checkpoint tells of a partition that is gone.

        On a full disk they could not be written when it was renamed. Its files go first, as that makes room. The empty
        folder stays until then: without it a start would take the offsets that are still noted for those of a new
        topic of that name, and its replica for lost.
        """
        for name in self._disk.list(folder):
            inside = posixpath.join(folder, name)
            (self._disk.remove_tree if self._disk.is_directory(inside) else self._disk.remove)(inside)
        self._offsets.forget_owed()
        self._disk.remove_tree(folder)
        self._disk.remove(folder + strays.BESIDE)

    def remove_strays(self, *, wall_ms: int, retention_ms: int, time_ms: int | None = None) -> list[strays.Stray]:
        """Delete strays that were set aside `retention_ms` ago: files at once, folders later by `remove_one`."""
        gone = [
            strays.described(self._disk, path)
            for path in [*strays.stray_folders(self._disk, self._path), *self.files_aside]
            if path not in self.doomed
            and strays.is_due(self._disk, path, wall_ms=wall_ms, retention_ms=retention_ms, time_ms=time_ms)
        ]
        for one in gone:
            if one.file:
                strays.remove(self._disk, one)
                self.files_aside.remove(one.path)
            else:
                self.doomed.append(one.path)
        return gone
