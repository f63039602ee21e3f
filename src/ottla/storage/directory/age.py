"""The age of a log directory: a number that grows while records are written to it, kept in the file `age`.

The broker tells the coordination store each age once it is on disk (broker/control/ages.py). So a directory whose file
is behind the store is an older copy, also one of the run that wrote it last, which the incarnation cannot tell from a
crash (rule H2). One sector, written in place: a full disk does not matter, a crash leaves the old number or the
new.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable

from ottla.kernel.seams import Disk, SyncWork
from ottla.records.checksum import crc32c
from ottla.storage.checkpoint import BadCheckpoint, clear_the_way, mark_failed_sync, read_small, replace_file
from ottla.storage.values import FULL_DISK

FILE = "age"
_SIZE = 64


class DirectoryAge:
    """The age of one open log directory; the syncer puts it on disk like a log."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self.found: int | None = None
        """The age as it was before this run; None if it is not known."""
        self.fault = ""
        """The reason why the file tells nothing; empty if it can be read, or is not there."""
        self.on_disk = 0
        """The age on disk; 0 as long as none could be written."""
        self.on_synced: Callable[[int], None] = _nothing
        self.on_failed: Callable[[OSError], None] = _nothing
        self._disk = disk
        self._directory = directory
        self._path = posixpath.join(directory, FILE)
        self._syncing = False

    @property
    def directory(self) -> str:
        """The file itself: syncers are chosen by the folder around this path, as around that of a log."""
        return self._path

    def load(self) -> None:
        """Read the file as the run before has left it."""
        self.found, self.fault = None, ""
        if not self._disk.exists(self._path):
            return
        if self._disk.is_directory(self._path):
            self.fault = f"{self._path} is a directory"
            return
        try:
            self.found = _decode(read_small(self._disk, self._path) or b"")
        except BadCheckpoint as bad:
            self.fault = str(bad)
            return
        if self.found is None:
            self.fault = f"{self._path} does not match its checksum"

    def begin(self, above: int) -> None:
        """Put an age above the one found and above another on disk, before anything is led or fetched."""
        age = max(self.found or 0, above) + 1
        try:
            clear_the_way(self._disk, self._path)
            replace_file(self._disk, self._path, _encode(age), at_once=True)
        except OSError as fault:
            if fault.errno not in FULL_DISK:
                mark_failed_sync(self._disk, self._directory)
                raise
            return
        self.on_disk = age

    @property
    def may_grow(self) -> bool:
        """True if the next sync may write a greater age."""
        return self.on_disk > 0 and not self._syncing

    def begin_sync(self) -> SyncWork | None:
        """Write the next age, for this sync to put on disk."""
        if not self.may_grow:
            return None
        try:
            file = self._disk.open(self._path)
            try:
                file.write_at(0, [_encode(self.on_disk + 1)])
            except OSError:
                file.release()
                raise
        except OSError as fault:
            if fault.errno not in FULL_DISK:
                self.on_failed(fault)
            return None
        self._syncing = True
        return SyncWork(self.on_disk + 1, (file,), ())

    def end_sync(self, work: SyncWork, error: OSError | None) -> None:
        self._syncing = False
        for file in work.files:
            file.release()
        if error is not None:
            self.on_failed(error)
        else:
            self.on_disk = work.end_offset
            self.on_synced(self.on_disk)


def _encode(age: int) -> bytes:
    text = f"version=0\nage={age}\n".encode("ascii")
    padded = text + b"#" * (_SIZE - 14 - len(text)) + b"\n"
    return padded + b"crc=%08x\n" % crc32c(padded)


def _decode(body: bytes) -> int | None:
    padded, end = body[:-13], body[-13:]
    if len(body) != _SIZE or end != b"crc=%08x\n" % crc32c(padded):
        return None
    return int(padded.split(b"\n")[1].removeprefix(b"age="))


def _nothing(_: object) -> None:
    """Do nothing, until a broker listens."""
