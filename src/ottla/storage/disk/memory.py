"""A disk that keeps everything in memory, for `--memory`. Nothing outlives the process."""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from ottla.kernel.seams import Buffer, OpenFile


class MemoryFile:
    """Bytes under a name; `fileno()` is -1, so the transport reads instead of `sendfile`."""

    __slots__ = ("body", "modified_ms", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.body = bytearray()
        self.modified_ms = 0

    def fileno(self) -> int:
        return -1

    def write_at(self, position: int, parts: Sequence[Buffer]) -> None:
        body = self.body
        if position > len(body):
            body.extend(bytes(position - len(body)))
        for part in parts:
            body[position : position + len(part)] = part
            position += len(part)

    def read_at(self, position: int, length: int) -> bytes:
        return bytes(memoryview(self.body)[position : position + length])

    def size(self) -> int:
        return len(self.body)

    def truncate(self, size: int) -> None:
        if size < len(self.body):
            del self.body[size:]
        else:
            self.body.extend(bytes(size - len(self.body)))

    def sync(self, *, at_once: bool = False) -> None:
        """Do nothing: memory is as durable as this disk gets."""

    def hold(self) -> None:
        """Do nothing: the garbage collector counts holders."""

    def release(self) -> None:
        """Do nothing: the garbage collector counts holders."""


class MemoryDisk:
    """Files by absolute path, and the directories above them."""

    def __init__(self, *, capacity_bytes: int = 1 << 62, wall_ms: Callable[[], int] = lambda: 0) -> None:
        self._files: dict[str, MemoryFile] = {}
        self._directories: set[str] = {"/"}
        self._capacity_bytes = capacity_bytes
        self._wall_ms = wall_ms

    def open(self, path: str, *, create: bool = False) -> OpenFile:
        file = self._files.get(path)
        if file is None:
            if not create or posixpath.dirname(path) not in self._directories:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            file = self._files[path] = MemoryFile(path)
            file.modified_ms = self._wall_ms()
        return file

    def read(self, path: str) -> bytes:
        return bytes(self._at(path).body)

    def exists(self, path: str) -> bool:
        return path in self._files or path in self._directories

    def list(self, directory: str) -> list[str]:
        if directory not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", directory)
        inside = directory.rstrip("/") + "/"
        names = {path[len(inside) :].split("/", 1)[0] for path in self._files if path.startswith(inside)}
        names |= {path[len(inside) :].split("/", 1)[0] for path in self._directories if path.startswith(inside)}
        return sorted(name for name in names if name)

    def is_directory(self, path: str) -> bool:
        return path in self._directories

    def misfits(self, directory: str) -> Sequence[str]:
        return [name for name in self.list(directory) if self.is_directory(posixpath.join(directory, name))]

    def make_directory(self, path: str) -> None:
        while path not in self._directories:
            self._directories.add(path)
            path = posixpath.dirname(path)

    def rename(self, old: str, new: str) -> None:
        if old in self._files:
            file = self._files.pop(old)
            file.path = new
            self._files[new] = file
            return
        if old not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such file or directory", old)
        inside = old + "/"
        for path in [path for path in self._files if path.startswith(inside)]:
            self.rename(path, new + path[len(old) :])
        for path in [path for path in self._directories if path == old or path.startswith(inside)]:
            self._directories.discard(path)
            self._directories.add(new + path[len(old) :])

    def remove(self, path: str) -> None:
        self._files.pop(path, None)

    def remove_tree(self, path: str) -> None:
        inside = path + "/"
        for name in [name for name in self._files if name == path or name.startswith(inside)]:
            del self._files[name]
        self._directories -= {name for name in self._directories if name == path or name.startswith(inside)}

    def sync_directory(self, path: str) -> None:
        """Do nothing: names are as durable as the rest."""

    def gathered(self, *paths: str) -> AbstractContextManager[None]:
        return nullcontext()

    def lost_writes(self, path: str) -> bool:
        return False

    def alone_in(self, directory: str) -> AbstractContextManager[None]:
        return nullcontext()

    def file_size(self, path: str) -> int:
        return len(self._at(path).body)

    def modified_ms(self, path: str) -> int:
        return self._at(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._at(path).modified_ms = modified_ms

    def cache_id(self, path: str) -> str:
        return "memory"

    def refuse_unwritable(self, path: str) -> None:
        """All may be written."""

    def free_files(self) -> int:
        return 1 << 30

    def free_bytes(self, path: str) -> int:
        return max(0, self._capacity_bytes - sum(len(file.body) for file in self._files.values()))

    def _at(self, path: str) -> MemoryFile:
        file = self._files.get(path)
        if file is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return file
