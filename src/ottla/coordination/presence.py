"""The brokers alive on this machine: a lock on a file per broker, which the kernel frees when its process dies.

`sqlite.py` holds one `Presence` per broker and looks around ten times a second. A process that hangs keeps its lock,
so the file holds the time of its last heartbeat too, written over in place: a full disk stops nothing (rule C7).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
import time

from ottla.kernel.ids import BrokerId

_BEAT = struct.Struct("<q")
_FLOCK = struct.Struct("@hhqqi0q")
_PID_POSITION = 8


class AlreadyRunning(OSError):
    """Another process runs as this broker."""


class Presence:
    """This broker's lock and heartbeat, and a look at those of the others."""

    def __init__(self, directory: str, broker_id: BrokerId, *, session_timeout_ms: int) -> None:
        """Take the lock; `AlreadyRunning` if another process has it."""
        os.makedirs(directory, exist_ok=True)
        self._directory = directory
        self._broker_id = broker_id
        self._session_timeout_ms = session_timeout_ms
        self._path = os.path.join(directory, f"{broker_id}.lock")
        self._lock = _open(self._path, os.O_CREAT)
        if not _try_lock(self._lock):
            pid = os.pread(self._lock, 64, _PID_POSITION).decode("ascii", "replace").strip("\0 \n")
            os.close(self._lock)
            raise AlreadyRunning(f"broker {broker_id} is running already in {directory} (process {pid or 'unknown'})")
        os.pwrite(self._lock, f"{os.getpid():<16}".encode("ascii"), _PID_POSITION)
        self.beat(_now_ms())

    def beat(self, at_ms: int) -> None:
        """Note that the broker's loop was running at `at_ms` of the machine's monotonic clock."""
        os.pwrite(self._lock, _BEAT.pack(at_ms), 0)

    def look(self) -> frozenset[BrokerId]:
        """Brokers whose process holds its lock and whose heartbeat is not older than a session.

        OSError if that cannot be seen, perhaps for lack of descriptors: then no broker is known to be gone.
        """
        alive = {self._broker_id}
        for name in os.listdir(self._directory):
            stem, dot, suffix = name.rpartition(".")
            if suffix == "lock" and dot and stem.isdigit() and int(stem) != self._broker_id:
                with contextlib.suppress(FileNotFoundError):
                    if self._is_alive(os.path.join(self._directory, name)):
                        alive.add(BrokerId(int(stem)))
        return frozenset(alive)

    def _is_alive(self, path: str) -> bool:
        other = _open(path)
        try:
            if not _is_locked(other):
                return False
            beat = os.pread(other, _BEAT.size, 0)
            return len(beat) == _BEAT.size and _now_ms() - _BEAT.unpack(beat)[0] <= self._session_timeout_ms
        finally:
            os.close(other)

    def close(self) -> None:
        """Free the lock, as death would."""
        os.close(self._lock)


class Doorbell:
    """A Unix datagram socket per broker, by which one that wrote wakes the others: a hint, nothing depends on it."""

    def __init__(self, directory: str, broker_id: BrokerId) -> None:
        os.makedirs(directory, exist_ok=True)
        self._broker_id = broker_id
        self._real_directory = directory
        self._directory = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        with contextlib.suppress(OSError):
            os.unlink(f"{broker_id}.sock", dir_fd=self._directory)
        with contextlib.suppress(OSError):
            self.socket.bind(self._short_path(f"{broker_id}.sock"))

    def _short_path(self, name: str) -> str:
        """A socket's path may have 107 bytes; through the open directory it always fits."""
        return f"/proc/self/fd/{self._directory}/{name}"

    def ring(self) -> None:
        """Wake every other broker; a broker that is not woken looks by itself a little later."""
        names: list[str] = []
        with contextlib.suppress(OSError):  # no descriptor is left
            names = os.listdir(self._directory)
        for name in names:
            if name.endswith(".sock") and name != f"{self._broker_id}.sock":
                with contextlib.suppress(OSError):  # no process is there, or its queue is full and it will wake anyway
                    self.socket.sendto(b"\0", self._short_path(name))

    def drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                self.socket.recv(16)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(f"{self._broker_id}.sock", dir_fd=self._directory)
        self.socket.close()
        os.close(self._directory)


def refuse_network_file_system(directory: str) -> None:
    """SQLite's locks cannot be trusted over a network: OSError where `directory` lies on such a file system."""
    try:
        with open("/proc/self/mounts", encoding="utf-8") as mounts:
            lines = mounts.read().splitlines()
    except OSError:
        return
    real = os.path.realpath(directory)
    best, kind = "", ""
    for line in lines:
        _, point, found, *_ = line.split(" ")
        point = point.replace("\\040", " ")
        if (real == point or real.startswith(point.rstrip("/") + "/")) and len(point) >= len(best):
            best, kind = point, found
    if kind.startswith(("nfs", "cifs", "smb", "afs", "ceph", "fuse.sshfs", "fuse.glusterfs", "lustre")):
        raise OSError(f"{directory} lies on a network file system ({kind}), where the metadata store is not safe")


def _now_ms() -> int:
    """Monotonic and the same for every process of the machine."""
    return time.monotonic_ns() // 1_000_000


def _open(path: str, flags: int = 0) -> int:
    """A descriptor of a broker's lock file; OSError with a remedy if it cannot be opened."""
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o644)
    except (PermissionError, IsADirectoryError) as error:
        wrong = "is a directory" if isinstance(error, IsADirectoryError) else f"cannot be opened ({error.strerror})"
        raise OSError(
            f"{path} {wrong}. It is the lock of a broker and holds nothing: stop that broker, remove it, start again"
        ) from error


def _try_lock(descriptor: int) -> bool:
    """A lock that belongs to the open file, so that no other close in this process drops it."""
    try:
        if hasattr(fcntl, "F_OFD_SETLK"):
            request = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, request)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _is_locked(descriptor: int) -> bool:
    """True if another process has the lock; on Linux without taking it."""
    if hasattr(fcntl, "F_OFD_GETLK"):
        request = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, request)
        return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)
    return not _try_lock(descriptor)
