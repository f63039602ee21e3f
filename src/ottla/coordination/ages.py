"""Numbers that only grow, each in a small file beside the locks of the brokers (presence.py). Called by sqlite.py."""

from __future__ import annotations

import contextlib
import os
import struct

from ottla.records.checksum import crc32c

_NUMBER = struct.Struct("<qI")


def raise_age(directory: str, name: str, age: int) -> int:
    """Keep a number under a name if it is greater than the one kept there, on disk; the greater of the two.

    A file that does not match its checksum counts as none: its writer was killed by a power cut, or it is damaged.
    """
    path = os.path.join(directory, f"{name}.age")
    with contextlib.suppress(FileNotFoundError):
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            return _raise(descriptor, age)
        finally:
            os.close(descriptor)
    if age <= 0:
        return 0
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_CREAT, 0o644)
    try:
        kept = _raise(descriptor, age)
    finally:
        os.close(descriptor)
    folder = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return kept


def _raise(descriptor: int, age: int) -> int:
    body = os.pread(descriptor, _NUMBER.size, 0)
    kept = 0
    if len(body) == _NUMBER.size:
        number, checksum = _NUMBER.unpack(body)
        kept = number if checksum == crc32c(body[:8]) else 0
    if age <= kept:
        return kept
    text = struct.pack("<q", age)
    os.pwrite(descriptor, text + struct.pack("<I", crc32c(text)), 0)
    os.fdatasync(descriptor)
    return age
