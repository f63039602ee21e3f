"""A disk over real files that are only read; changes stay in memory. For rehearsals (directory/rehearsal.py)."""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from ottla.kernel.seams import Buffer, OpenFile
from ottla.storage.disk.local import LocalDisk, LocalFile, opened_to_read, refuse_unwritable_to_owner


class OverlayFile:
    """The first bytes of a real file, and the bytes written over them or behind them."""

    __slots__ = ("_base", "_holders", "_kept", "_real", "_tail", "changed", "path")

    def __init__(self, path: str, real: str | None) -> None:
        """`real`: the place of the bytes that are there already; None for a new file. OSError if it cannot be read."""
        self.path = path
        self.changed = real is None
        self._real = real
        self._base: LocalFile | None = None
        self._holders = 1
        self._kept = 0 if real is None else self._opened(real).size()
        """The number of bytes of the real file that still count; `_tail` begins behind them."""
        self._tail = bytearray()

    def fileno(self) -> int:
        return -1

    def write_at(self, position: int, parts: Sequence[Buffer]) -> None:
        self.changed = True
        if position < self._kept:
            self._tail[:0] = self._read_real(position, self._kept - position)
            self._kept = position
        at = position - self._kept
        if at > len(self._tail):
            self._tail.extend(bytes(at - len(self._tail)))
        for part in parts:
            self._tail[at : at + len(part)] = part
            at += len(part)

    def read_at(self, position: int, length: int) -> bytes:
        below = max(0, min(length, self._kept - position))
        piece = self._read_real(position, below) if below else b""
        at = max(0, position - self._kept)
        return piece + self._tail[at : at + length - below] if length > below else piece

    def _read_real(self, position: int, length: int) -> bytes:
        assert self._real is not None
        return self._opened(self._real).read_at(position, length)

    def _opened(self, real: str) -> LocalFile:
        if self._base is None:
            self._base = opened_to_read(real)
        return self._base

    def size(self) -> int:
        return self._kept + len(self._tail)

    def truncate(self, size: int) -> None:
        self.changed = True
        if size <= self._kept:
            self._kept = size
            self._tail.clear()
        elif size <= self.size():
            del self._tail[size - self._kept :]
        else:
            self._tail.extend(bytes(size - self.size()))

    def sync(self, *, at_once: bool = False) -> None:
        """Do nothing: memory is as durable as this disk gets."""

    def hold(self) -> None:
        self._holders += 1

    def release(self) -> None:
        """Close the real file with the last holder; the next read opens it again."""
        self._holders -= 1
        if self._holders == 0 and self._base is not None:
            self._base.release()
            self._base = None


class OverlayDisk:
    """The real disk, read only, with all changes since in memory, by absolute path."""

    def __init__(self, *, for_owner_of: str | None = None) -> None:
        """`for_owner_of`: files are refused that the owner of this directory may not write; without it none are."""
        self._under = LocalDisk()
        self._root = for_owner_of
        self._files: dict[str, OverlayFile] = {}
        """The files that were opened."""
        self._made: set[str] = set()
        """Directories."""
        self._real: dict[str, str | None] = {}
        """The real places of moved paths, and of all below them; None for removed ones."""
        self._modified_ms: dict[str, int] = {}

    def open(self, path: str, *, create: bool = False) -> OpenFile:
        self.refuse_unwritable(path)
        return self._opened(path, create=create)

    def _opened(self, path: str, *, create: bool = False) -> OpenFile:
        if self.is_directory(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        known = self._files.get(path)
        if known is not None:
            known.hold()
            return known
        if not self.exists(path) and not (create and self.is_directory(posixpath.dirname(path))):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        self._files[path] = opened = OverlayFile(path, self._place(path) if self.exists(path) else None)
        return opened

    def read(self, path: str) -> bytes:
        file = self._opened(path)
        try:
            return file.read_at(0, file.size())
        finally:
            file.release()

    def exists(self, path: str) -> bool:
        if path in self._made or path in self._files:
            return True
        real = self._place(path)
        return real is not None and self._under.exists(real)

    def list(self, directory: str) -> list[str]:
        if not self.is_directory(directory):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), directory)
        real = self._place(directory)
        below = self._under.list(real) if real is not None and self._under.exists(real) else []
        inside = directory.rstrip("/") + "/"
        ours = [*self._files, *self._made, *self._real]
        names = {*below, *(path[len(inside) :].split("/", 1)[0] for path in ours if path.startswith(inside))}
        return sorted(name for name in names if name and self.exists(inside + name))

    def is_directory(self, path: str) -> bool:
        real = self._place(path)
        return path in self._made or (real is not None and self._under.is_directory(real))

    def misfits(self, directory: str) -> Sequence[str]:
        real = self._place(directory)
        below = self._under.misfits(real) if real is not None and self._under.exists(real) else []
        return [
            name
            for name in self.list(directory)
            if self.is_directory(path := posixpath.join(directory, name)) or (name in below and path not in self._files)
        ]

    def make_directory(self, path: str) -> None:
        made = set()
        while not self.is_directory(path):
            if self.exists(path):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
            made.add(path)
            path = posixpath.dirname(path)
        self._made |= made

    def rename(self, old: str, new: str) -> None:
        if not self.exists(old):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), old)
        self._refuse_target(old, new)
        real = self._place(old)
        self._forget(new)
        for path in [path for path in self._files if _is_in(path, old)]:
            self._files[new + path[len(old) :]] = file = self._files.pop(path)
            file.path = new + path[len(old) :]
        for path in [path for path in self._made if _is_in(path, old)]:
            self._made.remove(path)
            self._made.add(new + path[len(old) :])
        for path in [path for path in self._real if _is_in(path, old)]:
            self._real[new + path[len(old) :]] = self._real.pop(path)
        self._real[old], self._real[new] = None, real

    def _refuse_target(self, old: str, new: str) -> None:
        """Replace a file by a file, or an empty directory by a directory."""
        number = 0
        if not self.is_directory(posixpath.dirname(new)):
            number = errno.ENOENT
        elif self.exists(new) and self.is_directory(old) != self.is_directory(new):
            number = errno.EISDIR if self.is_directory(new) else errno.ENOTDIR
        elif self.is_directory(new) and self.list(new):
            number = errno.ENOTEMPTY
        if number:
            raise OSError(number, os.strerror(number), new)

    def remove(self, path: str) -> None:
        if self.is_directory(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        self._forget(path)

    def remove_tree(self, path: str) -> None:
        self._forget(path)

    def _forget(self, path: str) -> None:
        for known in [known for known in self._files if _is_in(known, path)]:
            del self._files[known]
        self._made = {known for known in self._made if not _is_in(known, path)}
        for known in [known for known in self._real if _is_in(known, path)]:
            del self._real[known]
        self._real[path] = None

    def sync_directory(self, path: str) -> None:
        """Do nothing: names are as durable as the rest."""

    def gathered(self, *paths: str) -> AbstractContextManager[None]:
        return nullcontext()

    def lost_writes(self, path: str) -> bool:
        """Nothing is synced here, and the next start is to hear of a failure."""
        return False

    def alone_in(self, directory: str) -> AbstractContextManager[None]:
        return nullcontext()

    def file_size(self, path: str) -> int:
        known = self._files.get(path)
        return self._under.file_size(self._on_disk(path)) if known is None else known.size()

    def modified_ms(self, path: str) -> int:
        if path in self._modified_ms:
            return self._modified_ms[path]
        real = self._place(path)
        return self._under.modified_ms(real) if real is not None and self._under.exists(real) else 0

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._modified_ms[path] = modified_ms

    def cache_id(self, path: str) -> str:
        return self._under.cache_id(path)

    def refuse_unwritable(self, path: str) -> None:
        """A file that was changed here was writable."""
        real = self._place(path) if path not in self._files and path not in self._made else None
        if self._root is not None and real is not None and self._under.exists(real):
            refuse_unwritable_to_owner(real, self._root)

    def free_files(self) -> int:
        return self._under.free_files()

    def free_bytes(self, path: str) -> int:
        """Memory has room: a full disk does not stop a rehearsal."""
        return 1 << 62

    def _on_disk(self, path: str) -> str:
        real = self._place(path)
        if real is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return real

    def _place(self, path: str) -> str | None:
        """The path on the real disk; None if it was removed."""
        at, rest = path, ""
        while True:
            if at in self._real:
                real = self._real[at]
                return None if real is None else real + rest
            above = posixpath.dirname(at)
            if above == at:
                return path
            at, rest = above, at[len(above.rstrip("/")) :] + rest


def _is_in(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory + "/")
