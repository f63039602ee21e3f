"""The real disk behind the `Disk` seam: the one place in storage that calls `os` and `fcntl`."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import resource
import shutil
import stat
import struct
from collections.abc import Callable, Iterator, Sequence
from threading import get_ident
from typing import ClassVar

from ottla.kernel.errors import InvariantBroken
from ottla.kernel.seams import Buffer, FailedSync, OpenFile

_ABSENT = (errno.ENOENT, errno.ENOTDIR)
_READ_BYTES = 1 << 14
_MAX_PARTS = 1024
"""IOV_MAX on Linux."""
LARGE_BYTES = 16 << 20
"""A file above that is not freed in one go, where somebody is there to do it."""


class _Gathering:
    """The thread whose syncs are put off until the end of `LocalDisk.gathered`, if any."""

    thread: int | None = None
    put_off = False
    """True if a sync was put off."""


_gathering = _Gathering()


def sync_file_system(path: str) -> None:
    """Sync everything dirty on the file system of `path`, in one call (200 files: 1 ms against 9 to 36)."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not hasattr(_libc, "syncfs"):
            os.sync()
        elif _libc.syncfs(fd) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)
    finally:
        os.close(fd)


_libc = ctypes.CDLL(None, use_errno=True)


_STATX_MOUNT_ID, _STATX_MOUNT_ID_UNIQUE = 0x1000, 0x4000
_AT_FDCWD = -100
_STATX_BYTES, _MASK, _MOUNT_ID = 256, struct.Struct("=I"), struct.Struct("=Q")
_MOUNT_ID_AT = 144


def _mount_id(path: str) -> str:
    """The identity of the mount that a path lies on, by statx(2); empty where the kernel does not say."""
    found = ctypes.create_string_buffer(_STATX_BYTES)
    wanted = _STATX_MOUNT_ID | _STATX_MOUNT_ID_UNIQUE
    if not hasattr(_libc, "statx") or _libc.statx(_AT_FDCWD, os.fsencode(path), 0, wanted, found) != 0:
        return ""
    if not _MASK.unpack_from(found)[0] & wanted:
        return ""
    return str(_MOUNT_ID.unpack_from(found, _MOUNT_ID_AT)[0])


def _sync_each(paths: tuple[str, ...]) -> None:
    """Sync each file system, even after an error of another; several errors are raised as one, which names no path."""
    faults: list[OSError] = []
    for path in paths:
        try:
            sync_file_system(path)
        except OSError as fault:
            faults.append(failed_sync(fault, path))
    if len(faults) == 1:
        raise faults[0]
    if faults:
        raise FailedSync(errno.EIO, f"several disks: {'; '.join(map(str, faults))}")


def failed_sync(fault: OSError, path: str) -> OSError:
    """Make an error that fails the directory (rule B3), also of ENOSPC, which would only refuse the next write.

    After a failed sync the kernel counts the pages as written, and the next sync passes over the pages dropped here.
    """
    return FailedSync(errno.EIO, f"a sync failed: {fault.strerror}", path)


@contextlib.contextmanager
def _naming(path: str) -> Iterator[None]:
    """Put the path into errors: those of calls on descriptors have none, and `rmtree` may name a file below it."""
    try:
        yield
    except OSError as fault:
        fault.filename = path
        raise


class LocalFile:
    """One descriptor, counted; the last `release` closes it (rule B5)."""

    __slots__ = ("_fd", "_holders", "path")

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd
        self._holders = 1

    def fileno(self) -> int:
        return self._fd

    def write_at(self, position: int, parts: Sequence[Buffer]) -> None:
        try:
            written = os.pwritev(self._fd, parts, position)
            wanted = 0
            for part in parts:
                wanted += len(part)
            if written != wanted:
                self._write_rest(position, parts, written)
        except OSError as fault:
            raise self._named(fault) from None

    def _write_rest(self, position: int, parts: Sequence[Buffer], written: int) -> None:
        """Write what a short write left. Most often the disk is full; the next call then raises that error."""
        rest = memoryview(b"".join(parts))[written:]
        position += written
        while rest:
            count = os.pwrite(self._fd, rest, position)
            if count == 0:
                raise OSError(errno.EIO, "a write made no progress", self.path)
            rest = rest[count:]
            position += count

    def read_at(self, position: int, length: int) -> bytes:
        try:
            piece = os.pread(self._fd, length, position)
            if len(piece) == length or not piece:
                return piece
            return self._read_rest(position, length, piece)
        except OSError as fault:
            raise self._named(fault) from None

    def _read_rest(self, position: int, length: int, piece: bytes) -> bytes:
        pieces = [piece]
        got = len(piece)
        while got < length:
            piece = os.pread(self._fd, length - got, position + got)
            if not piece:
                break
            pieces.append(piece)
            got += len(piece)
        return b"".join(pieces)

    def size(self) -> int:
        try:
            return os.fstat(self._fd).st_size
        except OSError as fault:
            raise self._named(fault) from None

    def truncate(self, size: int) -> None:
        try:
            os.ftruncate(self._fd, size)
        except OSError as fault:
            raise self._named(fault) from None

    def sync(self, *, at_once: bool = False) -> None:
        if _gathering.thread == get_ident() and not at_once:
            _gathering.put_off = True
            return
        try:
            os.fdatasync(self._fd) if hasattr(os, "fdatasync") else os.fsync(self._fd)
        except OSError as fault:
            raise failed_sync(fault, self.path) from fault

    def _named(self, fault: OSError) -> OSError:
        """Add the file's path to an error: a broker with several log directories finds the failed one by it."""
        fault.filename = self.path
        return fault

    def hold(self) -> None:
        if self._holders <= 0:
            raise InvariantBroken(f"{self.path} is closed, and gets another holder")
        self._holders += 1

    def release(self) -> None:
        if self._holders <= 0:
            raise InvariantBroken(f"{self.path} is closed, and is let go once more")
        self._holders -= 1
        if self._holders == 0:
            fd, self._fd = self._fd, -1
            try:
                os.close(fd)
            except OSError as fault:
                raise self._named(fault) from None


def opened_to_read(path: str) -> LocalFile:
    """Open a file for reading; it need not be writable."""
    return LocalFile(path, os.open(path, os.O_RDONLY | os.O_CLOEXEC))


def refuse_unwritable_to_owner(path: str, root: str) -> None:
    """Like `Disk.refuse_unwritable` for the owner of `root`, by the modes of files if that is another user than we."""
    owner, found = os.stat(root), os.stat(path)
    if owner.st_uid == os.geteuid():
        LocalDisk().refuse_unwritable(path)
        return
    same_user, same_group = found.st_uid == owner.st_uid, found.st_gid == owner.st_gid
    bit = stat.S_IWUSR if same_user else stat.S_IWGRP if same_group else stat.S_IWOTH
    is_read_only = os.statvfs(path).f_flag & os.ST_RDONLY
    if is_read_only or (owner.st_uid != 0 and not found.st_mode & bit):
        raise _unwritable(path)


def _unwritable(path: str) -> OSError:
    number = errno.EROFS if os.statvfs(path).f_flag & os.ST_RDONLY else errno.EACCES
    return OSError(number, os.strerror(number), path)


class LocalDisk:
    """Files and directories of this machine.

    `free` gets the descriptor of each large file that is removed or replaced, and closes it once its space is free
    (server/freed_space.py); without it the file system frees such a file in one go.
    """

    _alone_in = ""
    _names: Sequence[str] | None = None
    """Names in the directory of `alone_in`, once they were listed and until one changes."""

    def __init__(self, free: Callable[[int], None] | None = None) -> None:
        self._free = free

    def open(self, path: str, *, create: bool = False) -> OpenFile:
        if create:
            self._names = None
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return LocalFile(path, os.open(path, flags, 0o644))

    def read(self, path: str) -> bytes:
        """Read by a bare descriptor: a start reads five files of each log, and file objects cost four times more."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            pieces = [os.read(fd, _READ_BYTES)]
            while pieces[-1]:
                pieces.append(os.read(fd, _READ_BYTES))
            return b"".join(pieces)
        except OSError as fault:
            fault.filename = path
            raise
        finally:
            os.close(fd)

    def exists(self, path: str) -> bool:
        if self._names is not None:
            name = path.removeprefix(self._alone_in + "/")
            if "/" not in name:
                return name in self._names
        return _mode(path) is not None

    def list(self, directory: str) -> list[str]:
        if directory != self._alone_in:
            return sorted(os.listdir(directory))
        if self._names is None:
            self._names = sorted(os.listdir(directory))
        return [*self._names]

    @contextlib.contextmanager
    def alone_in(self, directory: str) -> Iterator[None]:
        """Keep the names of `directory`: a start looks for a dozen of them in each of thousands (bench/starts.py)."""
        self._alone_in, self._names = directory, None
        try:
            yield
        finally:
            self._alone_in, self._names = "", None

    def is_directory(self, path: str) -> bool:
        mode = _mode(path)
        return mode is not None and stat.S_ISDIR(mode)

    def misfits(self, directory: str) -> Sequence[str]:
        with os.scandir(directory) as entries:
            return sorted(entry.name for entry in entries if not _is_file(entry))

    def make_directory(self, path: str) -> None:
        self._names = None
        os.makedirs(path, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        with self._losing_its_name(new):
            os.rename(old, new)

    def remove(self, path: str) -> None:
        try:
            with self._losing_its_name(path):
                os.unlink(path)
        except OSError as fault:
            if fault.errno not in _ABSENT:
                raise

    @contextlib.contextmanager
    def _losing_its_name(self, path: str) -> Iterator[None]:
        """Free the file at `path` step by step, if it is large, once the block has taken its name."""
        self._names = None
        large = self._opened_if_large(path)
        try:
            yield
        except OSError:
            if large is not None:
                os.close(large)
            raise
        if large is not None and self._free is not None:
            self._free(large)

    def _opened_if_large(self, path: str) -> int | None:
        """A descriptor of a file that is to be freed step by step; None where it cannot be had."""
        try:
            if self._free is not None and os.lstat(path).st_size > LARGE_BYTES:
                return os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            pass  # the file is freed in one go then
        return None

    def remove_tree(self, path: str) -> None:
        self._names = None
        if os.path.lexists(path):
            with _naming(path):
                shutil.rmtree(path)

    def sync_directory(self, path: str) -> None:
        if _gathering.thread == get_ident():
            _gathering.put_off = True
            return
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        except OSError as fault:
            raise failed_sync(fault, path) from fault
        finally:
            with _naming(path):
                os.close(fd)

    @contextlib.contextmanager
    def gathered(self, *paths: str) -> Iterator[None]:
        """Gather the syncs of this thread: they are done at the end, by one call for each file system."""
        if _gathering.thread is not None:
            raise InvariantBroken("syncs are gathered inside of others: the inner ones would be taken for done")
        _gathering.thread = get_ident()
        _gathering.put_off = False
        try:
            yield
        finally:
            _gathering.thread = None
            if _gathering.put_off:
                _sync_each(paths)

    def lost_writes(self, path: str) -> bool:
        """Linux (5.8) keeps a failure of a file system until a syncfs has told somebody of it."""
        try:
            sync_file_system(path)
        except OSError:
            return True
        return False

    def file_size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def cache_id(self, path: str) -> str:
        """The ids of the boot and of the mount: after either changes, unsynced writes may be missing."""
        mount = _mount_id(path)
        try:
            with open("/proc/sys/kernel/random/boot_id") as file:
                boot = file.read().strip()
        except OSError:
            return ""
        return f"{boot}/{mount}" if boot and mount else ""

    def refuse_unwritable(self, path: str) -> None:
        if not os.access(path, os.W_OK):
            raise _unwritable(path)

    def free_files(self) -> int:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return limit - len(os.listdir("/dev/fd")) if limit != resource.RLIM_INFINITY else 1 << 30

    def free_bytes(self, path: str) -> int:
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize

    def total_bytes(self, path: str) -> int:
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize

    def lock(self, path: str) -> DirectoryLock | None:
        """The lock on `path`, or None while another process has it."""
        return DirectoryLock.take(path)


class DirectoryLock:
    """A POSIX record lock over a whole file: the kind that Apache Kafka's `FileChannel.lock` takes on `.lock`.

    The kernel frees it when the process dies, and also when the process closes *any* descriptor of the file: no other
    code of this process may open it. A process cannot exclude itself with it, so paths held are remembered.
    """

    _held: ClassVar[set[tuple[int, int]]] = set()

    def __init__(self, path: str, fd: int, identity: tuple[int, int]) -> None:
        self.path = path
        self._fd = fd
        self._identity = identity

    @classmethod
    def take(cls, path: str) -> DirectoryLock | None:
        if os.path.exists(path):
            found = os.stat(path)
            if (found.st_dev, found.st_ino) in cls._held:
                return None
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found = os.fstat(fd)
        except OSError as fault:
            os.close(fd)
            if fault.errno in (errno.EACCES, errno.EAGAIN):
                return None
            fault.filename = path
            raise
        identity = (found.st_dev, found.st_ino)
        cls._held.add(identity)
        return cls(path, fd, identity)

    def release(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            self._held.discard(self._identity)
            with _naming(self.path):
                os.close(fd)


def _is_file(entry: os.DirEntry[str]) -> bool:
    """True if a name leads to a regular file. The directory itself tells so of all but links."""
    try:
        return entry.is_file()
    except OSError:
        return False


def _mode(path: str) -> int | None:
    """The mode of a file; None if there is none. Raises if stat() fails for another reason."""
    try:
        return os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
