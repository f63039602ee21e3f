"""Takes from a process of root the rights by which file modes do not bind root."""

from __future__ import annotations

import ctypes
import os

_PR_CAPBSET_DROP = 24
_CAPABILITY_VERSION_3 = 0x20080522
_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 1, 2


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Rights(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def obey_modes() -> None:
    """Begin a session of this process; file modes bind it and its children from here on, also as root."""
    os.setsid()
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header, rights = _Header(_CAPABILITY_VERSION_3, 0), (_Rights * 2)()
    _done(libc.capget(ctypes.byref(header), rights))
    for right in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
        _done(libc.prctl(_PR_CAPBSET_DROP, right, 0, 0, 0))
        for field in ("effective", "permitted", "inheritable"):
            setattr(rights[0], field, getattr(rights[0], field) & ~(1 << right))
    _done(libc.capset(ctypes.byref(header), rights))


def _done(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
