"""A lake in a local directory: links reveal, syncs make durable, a file lock keeps the second loader out.

The file system must know hard links. Each step leaves the old or the new state for a power cut to find: a file is
synced before it gets its name, a name is synced before the call returns, and a temporary name goes last.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from ottla.stores.base import FinishedFile, LakeHeld, LakeRefused, StoredFile
from ottla.stores.local_files import LocalFiles, RealFiles

LOCK = "_ottla/lock"


class LocalStore:
    """A directory; made with its parents where it is missing."""

    def __init__(self, directory: Path, files: LocalFiles | None = None) -> None:
        self.directory = directory.absolute()
        self.url = self.directory.as_uri()
        self._files = files or RealFiles()
        self._known: set[Path] = set()
        """Folders that are durable, names and all."""

    def create(self, name: str, body: bytes) -> bool:
        path = self._made(name)
        temporary = self._written(path, body)
        won = True
        try:
            self._files.link(temporary, path)
        except FileExistsError:
            won = self._files.read(path) == body
        finally:
            self._files.unlink(temporary)
        self._files.sync_folder(path.parent)  # for the loser, too: its answer relies on the winner's file
        return won

    def replace(self, name: str, body: bytes) -> None:
        path = self._made(name)
        temporary = self._written(path, body)
        try:
            self._files.rename(temporary, path)
        except OSError:
            self._files.unlink(temporary)
            raise
        self._files.sync_folder(path.parent)

    def read(self, name: str) -> bytes | None:
        try:
            return self._files.read(self.directory / name)
        except FileNotFoundError:
            return None

    def entries(self, prefix: str, *, deep: bool = True) -> list[StoredFile]:
        found = [
            StoredFile(path.relative_to(self.directory).as_posix(), size)
            for path, size in self._files.walk(self.directory / prefix, deep=deep)
            if not _unfinished(path.name)
        ]
        return sorted(found, key=lambda entry: entry.name)

    def remove(self, names: Iterable[str]) -> None:
        touched = set()
        for name in names:
            path = self.directory / name
            self._files.unlink(path)
            touched.add(path.parent)
        self._sync_those_there(touched)

    def remove_folder(self, prefix: str) -> None:
        folder = self.directory / prefix
        self._known = {known for known in self._known if not known.is_relative_to(folder)}
        self._files.remove_tree(folder)
        self._sync_those_there({folder.parent})

    def reveal(self, moves: Sequence[FinishedFile]) -> None:
        """Second names first, then their folders are synced, then the temporary names go.

        A rename between two folders may be cut in half on a file system without a journal.
        """
        there = [move for move in moves if self._is_to_be_moved(move)]
        for move in there:
            self._give_name(self.directory / move.temporary, self._made(move.final))
        for folder in sorted({(self.directory / move.final).parent for move in moves}):
            self._files.sync_folder(folder)
        for move in there:
            self._files.unlink(self.directory / move.temporary)
        self._sync_those_there({(self.directory / move.temporary).parent for move in moves})

    def _is_to_be_moved(self, move: FinishedFile) -> bool:
        final, temporary = self.directory / move.final, self.directory / move.temporary
        size = self._files.size(temporary)
        if size is None:
            if self._files.size(final) != move.bytes:
                raise LakeRefused(
                    f"{final} is missing or has another size, and {temporary} is gone: somebody removed them"
                )
            return False
        if size != move.bytes:
            raise LakeRefused(f"{temporary} has {size} bytes, planned were {move.bytes}")
        return True

    def _give_name(self, temporary: Path, final: Path) -> None:
        try:
            self._files.link(temporary, final)
        except FileExistsError:
            if self._files.same(temporary, final):
                return
            hidden = _hidden_beside(final)
            self._files.link(temporary, hidden)
            self._files.rename(hidden, final)

    def open_output(self, name: str) -> LocalOutput:
        return LocalOutput(self._made(name), self._files)

    def open_input(self, name: str) -> pa.NativeFile:
        path = self.directory / name
        return pa.memory_map(str(path)) if path.stat().st_size else pa.OSFile(str(path), "rb")

    def hold(self, owner: str) -> LocalHold:
        return LocalHold(self._made(LOCK), owner, self.directory)

    def _made(self, name: str) -> Path:
        """The path of a name, its folder made and durable."""
        path = self.directory / name
        self._make_folder(path.parent)
        return path

    def _make_folder(self, folder: Path) -> None:
        """Make a folder durable, once in each process: the one that made it may have been killed before its sync."""
        if folder == folder.parent or (folder in self._known and self._files.is_folder(folder)):
            return
        self._make_folder(folder.parent)
        there = self._files.is_folder(folder)
        if not there:
            self._files.make_folder(folder)
        with contextlib.suppress(*([PermissionError] if there else [])):  # a folder of another user
            self._files.sync_folder(folder.parent)
        self._known.add(folder)

    def _sync_those_there(self, folders: set[Path]) -> None:
        for folder in sorted(folders):
            with contextlib.suppress(FileNotFoundError):
                self._files.sync_folder(folder)

    def _written(self, path: Path, body: bytes) -> Path:
        temporary = _hidden_beside(path)
        try:
            self._files.write(temporary, body)
        except OSError:
            self._files.unlink(temporary)
            raise
        return temporary


class LocalOutput:
    """A file under its own temporary name until it is whole."""

    def __init__(self, path: Path, files: LocalFiles) -> None:
        self._path = path
        self._files = files
        self._temporary = _hidden_beside(path)
        self.sink = files.sink(self._temporary)

    def finish(self) -> int:
        self.sink.close()
        size = self._files.sync(self._temporary)
        self._files.rename(self._temporary, self._path)
        self._files.sync_folder(self._path.parent)
        return size

    def abandon(self) -> None:
        with contextlib.suppress(OSError):
            self.sink.close()
        with contextlib.suppress(OSError):
            self._files.unlink(self._temporary)


class LocalHold:
    """A lock that the kernel frees when the process ends, however it ends."""

    def __init__(self, path: Path, owner: str, directory: Path) -> None:
        self._path = path
        self._directory = directory
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            with _alone_in(path.parent):  # so that a refused loader can read the name of the holder
                self._lock(owner)
        except BaseException:
            os.close(self._descriptor)
            raise

    def _lock(self, owner: str) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            other = os.read(self._descriptor, 200).decode("utf-8", "replace").strip()
            raise LakeHeld(f"another loader ({other or 'unknown'}) is at work on {self._directory}") from None
        self.check()
        os.ftruncate(self._descriptor, 0)
        os.write(self._descriptor, f"{owner}\n".encode())

    def check(self) -> None:
        """Check that the lock's file is still there: the lock of a removed file keeps nobody out."""
        if self._descriptor < 0:
            raise LakeRefused(f"this loader has released {self._directory}")
        try:
            there = os.path.samestat(os.stat(self._path), os.fstat(self._descriptor))
        except FileNotFoundError:
            there = False
        if not there:
            raise LakeRefused(f"somebody removed {self._path} while this loader held it: start again")

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Wait for the folder's own lock, which other loaders hold only for a moment."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _hidden_beside(path: Path) -> Path:
    """A name that no reader of the lake looks at."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")


def _unfinished(name: str) -> bool:
    return name.startswith(".") and name.endswith(".tmp")
