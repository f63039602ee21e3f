"""Faults of a simulated disk: errors to come, failed directories, ambushes, and the moment at which the power goes.

`disk.py` asks here before each operation.
"""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Callable
from typing import NamedTuple


class PowerCut(BaseException):
    """Raised by the operation at which `cut_after` ran out: the process is gone with all that it held."""


class DiskFault(NamedTuple):
    """An error to come: at the `skip`-th further operation of this kind on a path that contains `where`."""

    operation: str
    error: int
    where: str
    skip: int


class Ambush(NamedTuple):
    """A fault at the `after`-th operation from the next rename of a folder whose name has this suffix."""

    suffix: str
    after: int
    strike: Callable[[], None]


class FailingDisk:
    """The operations of a disk, counted, and those of them that fail."""

    def __init__(self) -> None:
        self.operations = 0
        """Writes, truncations, syncs and changes of names so far."""
        self.cut_after: int | None = None
        """The number of the operation before which the power goes, with PowerCut."""
        self.broken: dict[str, None] = {}
        """Directories in and below which every operation fails with EIO until the next crash, except `exists`,
        `is_directory` and questions about the volume."""
        self._faults: list[DiskFault] = []
        self._ambush: Ambush | None = None

    def fail(self, operation: str, error: int, *, where: str = "", skip: int = 0) -> None:
        """Let a coming operation fail: write, short write, read, list, truncate, sync, create, rename, remove, sync
        names, rights."""
        self._faults.append(DiskFault(operation, error, where, skip))

    def lie_in_wait(self, suffix: str, after: int, strike: Callable[[], None]) -> None:
        """Call `strike` before the `after`-th operation (from 0) after the next rename of a folder with this suffix."""
        self._ambush = Ambush(suffix, after, strike)

    def forget_faults(self) -> None:
        """Drop all pending errors and power cuts."""
        self._faults = []
        self._ambush = None
        self.broken = {}
        self.cut_after = None

    @property
    def to_fail(self) -> int:
        """The number of pending errors."""
        return len(self._faults)

    def refuse_broken(self, path: str) -> None:
        """Raise if the path is in a failed directory."""
        for directory in self.broken:
            if path == directory or path.startswith(directory + posixpath.sep):
                raise OSError(errno.EIO, f"simulated failure of {directory}", path)

    def take_fault(self, operation: str, path: str) -> OSError | None:
        try:
            self.refuse_broken(path)
        except OSError as error:
            return error
        for at, fault in enumerate(self._faults):
            if fault.operation == operation and fault.where in path:
                if fault.skip:
                    self._faults[at] = fault._replace(skip=fault.skip - 1)
                    continue
                del self._faults[at]
                return OSError(fault.error, f"simulated failure of {operation}", path)
        return None

    def operate(self, operation: str, path: str) -> None:
        """Count an operation that changes something; the power may be cut, or the operation may fail."""
        self._spring()
        if self.cut_after is not None and self.operations >= self.cut_after:
            raise PowerCut
        self.operations += 1
        if (fault := self.take_fault(operation, path)) is not None:
            raise fault

    def rename_begins(self, path: str) -> None:
        """A folder or file is about to be renamed: an ambush may have waited for that."""
        self._spring(path)

    def _spring(self, renamed: str | None = None) -> None:
        """Let a pending ambush strike, or count down."""
        ambush = self._ambush
        if ambush is None:
            return
        if renamed is not None:
            if renamed.endswith(ambush.suffix):
                self._ambush = ambush._replace(suffix="")
        elif not ambush.suffix:
            self._ambush = ambush._replace(after=ambush.after - 1) if ambush.after else None
            if not ambush.after:
                ambush.strike()
