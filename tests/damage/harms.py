"""Damages a file: emptied, halved, garbage, zeros, one bit, removed, unreadable, a directory, a link, an older one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from struct import Struct
from typing import NamedTuple, TypeVar

from ottla.records.batch import iterate_batches
from ottla.records.faults import CorruptRecords

T = TypeVar("T")

HARMS = ("emptied", "halved", "garbage", "zeros", "bit", "removed", "unreadable", "directory", "link", "older")
NOTHING = "nothing"
"""No damage, as a control: if it is condemned, a judge is wrong, or the broker is faulty without damage."""
ON_DIRECTORIES = ("emptied", "removed", "unreadable", "older")


class Bit(NamedTuple):
    """One bit of a file; `stratum` says in the file's own terms where it lies."""

    stratum: str
    byte: int
    bit: int


_BATCH_FIELDS = (
    ("base offset", 0, 8),
    ("length", 8, 4),
    ("leader epoch", 12, 4),
    ("magic", 16, 1),
    ("crc", 17, 4),
    ("attributes", 21, 2),
    ("last offset delta", 23, 4),
    ("base timestamp", 27, 8),
    ("max timestamp", 35, 8),
    ("producer id", 43, 8),
    ("producer epoch", 51, 2),
    ("base sequence", 53, 4),
    ("record count", 57, 4),
)
_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")


def bits_of(name: str, content: bytes, random: Random) -> list[Bit]:
    """One bit in each stratum of a file.

    The strata of a segment are each header field and the payload of its first, middle and last batch; those of an
    index the fields of its first, middle and last entry; those of a text its lines; else the first, middle and last
    bytes that are not zero.
    """
    if name.endswith(".log"):
        strata = _strata_of_log(content)
    elif name.endswith(".timeindex"):
        strata = _strata_of_entries(len(content), (("timestamp", 0, 8), ("offset", 8, 4)), _TIME_ENTRY.size)
    elif name.endswith(".index"):
        strata = _strata_of_entries(len(content), (("offset", 0, 4), ("position", 4, 4)), _OFFSET_ENTRY.size)
    elif _is_text(content):
        strata = _strata_of_lines(content)
    else:
        strata = _used_bytes(content, random)
    return [Bit(stratum, random.randrange(start, end), random.randrange(8)) for stratum, start, end in strata]


def _strata_of_log(content: bytes) -> list[tuple[str, int, int]]:
    starts: list[tuple[int, int]] = []
    position = 0
    try:
        for batch in iterate_batches(content):
            starts.append((position, batch.size))
            position += batch.size
    except CorruptRecords:
        pass
    found = []
    for which, (start, size) in _first_middle_last(starts):
        found += [(f"{field} of the {which} batch", start + at, start + at + wide) for field, at, wide in _BATCH_FIELDS]
        if size > 61:
            found.append((f"records of the {which} batch", start + 61, start + size))
    return found or _thirds(len(content))


def _strata_of_entries(size: int, fields: tuple[tuple[str, int, int], ...], entry: int) -> list[tuple[str, int, int]]:
    return [
        (f"{field} of the {which} entry", start + at, start + at + wide)
        for which, start in _first_middle_last(list(range(0, size - entry + 1, entry)))
        for field, at, wide in fields
    ]


def _strata_of_lines(content: bytes) -> list[tuple[str, int, int]]:
    found = []
    position = 0
    for number, line in enumerate(content.splitlines(keepends=True), 1):
        found.append((f"line {number}", position, position + len(line)))
        position += len(line)
    return found


def _first_middle_last(items: list[T]) -> list[tuple[str, T]]:
    names = {0: "first", len(items) // 2: "middle", len(items) - 1: "last"}  # where two are one, the later name
    return [(name, items[at]) for at, name in sorted(names.items()) if 0 <= at < len(items)]


def _thirds(size: int) -> list[tuple[str, int, int]]:
    bounds = [0, size // 3, size - size // 3, size]
    names = ("beginning", "middle", "end")
    return [(name, bounds[at], bounds[at + 1]) for at, name in enumerate(names) if bounds[at] < bounds[at + 1]]


def _used_bytes(content: bytes, random: Random) -> list[tuple[str, int, int]]:
    """The first, middle and last byte that is not zero: a database has much unused room."""
    used = [at for at, byte in enumerate(content) if byte]
    chosen = [(name, used[random.randrange(start, end)]) for name, start, end in _thirds(len(used))]
    return [(name, at, at + 1) for name, at in chosen]


def _is_text(content: bytes) -> bool:
    return bool(content) and all(byte in b"\n\r\t" or 32 <= byte < 127 for byte in content)


def applies(harm: str, path: Path, older: Path | None) -> bool:
    """True if a damage would change the file."""
    if harm == "older":
        return older is not None
    if path.is_dir():
        return harm in ON_DIRECTORIES
    size = path.stat().st_size
    return size > 0 if harm in ("emptied", "garbage", "zeros", "bit") else size > 1 if harm == "halved" else True


def do(harm: str, path: Path, random: Random, *, older: Path | None = None, bit: Bit | None = None) -> None:
    """Damage a file or a directory in place."""
    if harm == NOTHING:
        return
    if harm == "bit":
        assert bit is not None
        content = bytearray(path.read_bytes())
        content[bit.byte] ^= 1 << bit.bit
        path.write_bytes(content)
    elif harm == "older":
        assert older is not None
        _remove(path)
        (shutil.copytree if older.is_dir() else shutil.copy2)(older, path)
    else:
        _PLAIN[harm](path, random)


def _empty(path: Path, _: Random) -> None:
    if path.is_dir():
        _remove(path)
        path.mkdir()
    else:
        path.write_bytes(b"")


def _halve(path: Path, _: Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def _garble(path: Path, random: Random) -> None:
    path.write_bytes(random.randbytes(path.stat().st_size))


def _lose_the_end(path: Path, _: Random) -> None:
    """Put zeros in place of the second half, as a disk that dropped its last writes."""
    content = path.read_bytes()
    kept = len(content) // 2
    path.write_bytes(content[:kept] + bytes(len(content) - kept))


def _link_to_nothing(path: Path, _: Random) -> None:
    _remove(path)
    path.symlink_to("/nothing/is/here")


def _remove_it(path: Path, _: Random) -> None:
    _remove(path)


def _hide(path: Path, _: Random) -> None:
    """Take away all permissions; brokers run without root's right to ignore them (brokers.py)."""
    path.chmod(0)


def _make_directory(path: Path, _: Random) -> None:
    _remove(path)
    path.mkdir()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


_PLAIN: dict[str, Callable[[Path, Random], None]] = {
    "emptied": _empty,
    "halved": _halve,
    "garbage": _garble,
    "zeros": _lose_the_end,
    "removed": _remove_it,
    "unreadable": _hide,
    "directory": _make_directory,
    "link": _link_to_nothing,
}
