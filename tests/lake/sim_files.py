"""File calls of a local lake on the simulated disk, whose power can be cut."""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from ottla.kernel.seams import OpenFile
from ottla.sim.disk import SimDisk


class SimFiles:
    """stores/local_files.py on a `SimDisk`; each change counts as one of its operations."""

    def __init__(self, disk: SimDisk) -> None:
        self.disk = disk

    def write(self, path: Path, body: bytes) -> None:
        file = self.disk.open(str(path), create=True)
        file.write_at(0, [body])
        file.sync()
        file.release()

    def sink(self, path: Path) -> pa.NativeFile:
        return pa.PythonFile(_Sink(self.disk.open(str(path), create=True)), mode="w")

    def sync(self, path: Path) -> int:
        file = self.disk.open(str(path))
        file.sync()
        size = file.size()
        file.release()
        return size

    def read(self, path: Path) -> bytes:
        return self.disk.read(str(path))

    def size(self, path: Path) -> int | None:
        return self.disk.file_size(str(path)) if self.disk.exists(str(path)) else None

    def walk(self, folder: Path, *, deep: bool) -> Iterator[tuple[Path, int]]:
        if not self.disk.exists(str(folder)):
            return
        for name in self.disk.list(str(folder)):
            if not self.disk.is_directory(str(folder / name)):
                yield folder / name, self.disk.file_size(str(folder / name))
            elif deep:
                yield from self.walk(folder / name, deep=True)

    def link(self, old: Path, new: Path) -> None:
        if self.disk.exists(str(new)):
            raise FileExistsError(errno.EEXIST, "exists", str(new))
        self.disk.operate("link", str(new))
        directory, name = self.disk._parent(str(new))
        directory.change(None, name, self.disk._file(str(old)))

    def same(self, one: Path, other: Path) -> bool:
        return self.disk._file(str(one)) is self.disk._file(str(other))

    def rename(self, old: Path, new: Path) -> None:
        self.disk.rename(str(old), str(new))

    def unlink(self, path: Path) -> None:
        self.disk.remove(str(path))

    def remove_tree(self, folder: Path) -> None:
        self.disk.remove_tree(posixpath.normpath(str(folder)))

    def make_folder(self, folder: Path) -> None:
        self.disk.make_directory(str(folder))

    def is_folder(self, folder: Path) -> bool:
        return self.disk.is_directory(str(folder))

    def sync_folder(self, folder: Path) -> None:
        self.disk.sync_directory(str(folder))


class _Sink:
    closed = False

    def __init__(self, file: OpenFile) -> None:
        self._file = file

    def write(self, data: object) -> int:
        piece = bytes(memoryview(data))  # type: ignore[arg-type]
        self._file.write_at(self._file.size(), [piece])
        return len(piece)

    def flush(self) -> None:
        """Do nothing: the page cache has the bytes."""

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._file.release()
