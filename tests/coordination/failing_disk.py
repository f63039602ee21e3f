"""A disk that fails in the middle of an SQLite commit: SQLite's own write calls are replaced."""

from __future__ import annotations

import _sqlite3
import ctypes
import errno
import os
from enum import Enum
from types import TracebackType
from typing import Any

_DESCRIPTOR, _BYTES, _COUNT, _OFFSET = ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64
_WRITE = ctypes.CFUNCTYPE(ctypes.c_ssize_t, _DESCRIPTOR, _BYTES, _COUNT, use_errno=True)
_PWRITE = ctypes.CFUNCTYPE(ctypes.c_ssize_t, _DESCRIPTOR, _BYTES, _COUNT, _OFFSET, use_errno=True)
_FTRUNCATE = ctypes.CFUNCTYPE(ctypes.c_int, _DESCRIPTOR, _OFFSET, use_errno=True)
_JOURNAL_END_BYTES = 28
"""PERSIST ends a journal with zeros over this many bytes of its head; TRUNCATE empties the file."""


class Fate(Enum):
    """The fate of an append whose answer is lost."""

    DONE = "done"
    NOT_DONE = "not done"
    LATE = "late"
    """It arrives after its writer has given up."""


class _Vfs(ctypes.Structure):
    """`sqlite3_vfs` of version 3 (sqlite3.h)."""

    _fields_ = (
        *((name, ctypes.c_int) for name in ("iVersion", "szOsFile", "mxPathname")),
        *((name, ctypes.c_void_p) for name in ("pNext", "zName", "pAppData")),
        *((f"x{number}", ctypes.c_void_p) for number in range(13)),
        ("xSetSystemCall", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)),
    )


class FailingCommit:
    """A block in which one commit of this process fails with EIO; `failed` counts it."""

    def __init__(self, fate: Fate) -> None:
        self.failed = 0
        self._fate = fate
        library = ctypes.CDLL(_sqlite3.__file__)
        library.sqlite3_vfs_find.restype = ctypes.POINTER(_Vfs)
        self._vfs = library.sqlite3_vfs_find(None)
        self._calls: dict[bytes, Any] = {
            b"write": _WRITE(self._write),
            b"pwrite": _PWRITE(self._pwrite),
            b"pwrite64": _PWRITE(self._pwrite),
            b"ftruncate": _FTRUNCATE(self._ftruncate),
        }

    def __enter__(self) -> FailingCommit:
        for name, call in self._calls.items():
            self._vfs.contents.xSetSystemCall(self._vfs, name, ctypes.cast(call, ctypes.c_void_p))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for name in self._calls:
            self._vfs.contents.xSetSystemCall(self._vfs, name, None)

    def _write(self, descriptor: int, data: int, count: int) -> int:
        return self._pwrite(descriptor, data, count, os.lseek(descriptor, 0, os.SEEK_CUR))

    def _pwrite(self, descriptor: int, data: int, count: int, offset: int) -> int:
        ends_journal = _is_journal(descriptor) and (count, offset) == (_JOURNAL_END_BYTES, 0)
        if self._fate == Fate.NOT_DONE and not _is_journal(descriptor) and not self.failed:
            return self._fail()
        written = os.pwrite(descriptor, ctypes.string_at(data, count), offset)
        return self._fail() if ends_journal and self._is_due() else written

    def _ftruncate(self, descriptor: int, size: int) -> int:
        os.ftruncate(descriptor, size)
        return self._fail() if _is_journal(descriptor) and size == 0 and self._is_due() else 0

    def _is_due(self) -> bool:
        return self._fate == Fate.DONE and not self.failed

    def _fail(self) -> int:
        self.failed += 1
        ctypes.set_errno(errno.EIO)
        return -1


def _is_journal(descriptor: int) -> bool:
    return os.readlink(f"/proc/self/fd/{descriptor}").endswith("-journal")
