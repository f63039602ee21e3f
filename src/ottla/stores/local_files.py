"""The file calls of a local lake on the real disk; tests put a disk with power cuts in its place."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pyarrow as pa


class LocalFiles(Protocol):
    """Paths are absolute. Names become durable only by `sync_folder`."""

    def write(self, path: Path, body: bytes) -> None:
        """Make a new file and sync it; its name is not durable yet."""

    def sink(self, path: Path) -> pa.NativeFile:
        """Open a new file for writing."""

    def sync(self, path: Path) -> int:
        """Make a file durable that was written through a sink; its size."""

    def read(self, path: Path) -> bytes: ...

    def size(self, path: Path) -> int | None:
        """The size of a file; None if there is no such file."""

    def walk(self, folder: Path, *, deep: bool) -> Iterator[tuple[Path, int]]:
        """All files in a folder, or below it, with their sizes; none where the folder is missing."""

    def link(self, old: Path, new: Path) -> None:
        """Give a file a second name; FileExistsError where that is taken."""

    def same(self, one: Path, other: Path) -> bool:
        """True if two names are of one file."""

    def rename(self, old: Path, new: Path) -> None:
        """Rename a file, over an older one of the new name."""

    def unlink(self, path: Path) -> None:
        """Delete a file; no error if it is gone already."""

    def remove_tree(self, folder: Path) -> None:
        """Delete a folder with all in it; no error if it is gone already."""

    def make_folder(self, folder: Path) -> None:
        """Make a folder, whose parent exists; no error if it is there already."""

    def is_folder(self, folder: Path) -> bool: ...

    def sync_folder(self, folder: Path) -> None:
        """Make the names in a folder durable."""


class RealFiles:
    """The operating system's files."""

    def write(self, path: Path, body: bytes) -> None:
        with open(path, "xb") as out:
            out.write(body)
            out.flush()
            os.fsync(out.fileno())

    def sink(self, path: Path) -> pa.NativeFile:
        return pa.OSFile(str(path), "wb")

    def sync(self, path: Path) -> int:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
            return os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)

    def read(self, path: Path) -> bytes:
        return path.read_bytes()

    def size(self, path: Path) -> int | None:
        try:
            return path.stat().st_size
        except FileNotFoundError:
            return None

    def walk(self, folder: Path, *, deep: bool) -> Iterator[tuple[Path, int]]:
        for directory, below, names in os.walk(folder, onerror=_refuse_unreadable):
            if not deep:
                below.clear()
            for name in names:
                path = Path(directory) / name
                with contextlib.suppress(FileNotFoundError):
                    yield path, path.stat().st_size

    def link(self, old: Path, new: Path) -> None:
        os.link(old, new)

    def same(self, one: Path, other: Path) -> bool:
        return os.path.samefile(one, other)

    def rename(self, old: Path, new: Path) -> None:
        os.rename(old, new)

    def unlink(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def remove_tree(self, folder: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder)

    def make_folder(self, folder: Path) -> None:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder)

    def is_folder(self, folder: Path) -> bool:
        return folder.is_dir()

    def sync_folder(self, folder: Path) -> None:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _refuse_unreadable(fault: OSError) -> None:
    """The entries of a folder; none if it is gone. A folder that may not be read is an error."""
    if not isinstance(fault, FileNotFoundError):
        raise fault
