"""A lake in a local directory: renames reveal, syncs make durable, a file lock keeps the second loader out."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa

from ottla.lake.stores.base import Entry, LakeRefused, Move

LOCK = "_ottla/lock"


class LocalStore:
    """A directory; made with its parents where it is missing."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        self.url = self.directory.as_uri()
        self._known: set[Path] = set()
        """Folders that are durable, names and all."""

    def create(self, name: str, body: bytes) -> bool:
        path = self._made(name)
        temporary = self._written(path, body)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return path.read_bytes() == body
        finally:
            temporary.unlink(missing_ok=True)
        sync_directory(path.parent)
        return True

    def replace(self, name: str, body: bytes) -> None:
        path = self._made(name)
        os.rename(self._written(path, body), path)
        sync_directory(path.parent)

    def read(self, name: str) -> bytes | None:
        try:
            return (self.directory / name).read_bytes()
        except FileNotFoundError:
            return None

    def entries(self, prefix: str) -> list[Entry]:
        found = []
        for folder, _, names in os.walk(self.directory / prefix):
            for name in names:
                path = Path(folder) / name
                with contextlib.suppress(FileNotFoundError):
                    found.append(Entry(path.relative_to(self.directory).as_posix(), path.stat().st_size))
        return sorted(found, key=lambda entry: entry.name)

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            (self.directory / name).unlink(missing_ok=True)

    def remove_folder(self, prefix: str) -> None:
        shutil.rmtree(self.directory / prefix, ignore_errors=True)

    def reveal(self, moves: Sequence[Move]) -> None:
        touched: set[Path] = set()
        for move in moves:
            final, temporary = self.directory / move.final, self.directory / move.temporary
            if temporary.exists():
                self._made(move.final)
                os.rename(temporary, final)
            elif not final.exists():
                raise LakeRefused(f"{final} is missing, and {temporary} too: somebody removed them")
            touched.add(final.parent)
        for directory in sorted(touched):
            sync_directory(directory)

    def open_output(self, name: str) -> LocalOutput:
        return LocalOutput(self._made(name))

    def open_input(self, name: str) -> pa.NativeFile:
        return pa.memory_map(str(self.directory / name))

    def hold(self, owner: str) -> LocalHold:
        return LocalHold(self._made(LOCK), owner, self.directory)

    def _made(self, name: str) -> Path:
        """The path of a name, its folder made and durable."""
        path = self.directory / name
        self._make_folder(path.parent)
        return path

    def _make_folder(self, folder: Path) -> None:
        if folder in self._known and folder.is_dir():
            return
        if not folder.is_dir():
            self._make_folder(folder.parent)
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder)
            sync_directory(folder.parent)
        self._known.add(folder)

    def _written(self, path: Path, body: bytes) -> Path:
        temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
        with open(temporary, "wb") as out:
            out.write(body)
            out.flush()
            os.fsync(out.fileno())
        return temporary


class LocalOutput:
    """A file under its own temporary name until it is whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
        self.sink = pa.OSFile(str(self._temporary), "wb")

    def finish(self) -> int:
        self.sink.close()
        descriptor = os.open(self._temporary, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            size = os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
        os.rename(self._temporary, self._path)
        sync_directory(self._path.parent)
        return size

    def abandon(self) -> None:
        with contextlib.suppress(OSError):
            self.sink.close()
        with contextlib.suppress(OSError):
            self._temporary.unlink(missing_ok=True)


class LocalHold:
    """A lock that the kernel frees when the process ends, however it ends."""

    def __init__(self, path: Path, owner: str, directory: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            other = os.read(self._descriptor, 200).decode("utf-8", "replace").strip()
            os.close(self._descriptor)
            raise LakeRefused(f"another loader ({other or 'unknown'}) is at work on {directory}") from None
        os.ftruncate(self._descriptor, 0)
        os.write(self._descriptor, f"{owner}\n".encode())

    def check(self) -> None:
        """The kernel keeps the lock as long as the process lives."""

    def release(self) -> None:
        os.close(self._descriptor)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
