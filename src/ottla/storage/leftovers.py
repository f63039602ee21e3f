"""Files with a temporary suffix in a partition's folder that a start cannot explain: renamed, never deleted (rule H4).

Recovery (recovery.py) completes deletions, compactions and repairs that a crash broke off, and deletes files for it. No
record is lost as long as each file is what its suffix says:

- `.log.swap` is whole, from its first byte to its last, and takes the place of segments that are here.
- `.log.deleted` lies below the log's start; deleted_segments.py puts it back before, where it is whole.
- `.log.cleaned` and `.log.fetched` were made of a segment that is here.
"""

from __future__ import annotations

import errno
import logging
import posixpath
from collections.abc import Iterable

from ottla.kernel.seams import Disk
from ottla.records.checksum import crc32c
from ottla.records.header import CRC_START
from ottla.storage.checkpoint import ASIDE
from ottla.storage.producers.snapshot import SNAPSHOT
from ottla.storage.segment import deleted_segments
from ottla.storage.segment.names import CLEANED, DELETED, FETCHED, LOG, SUFFIXES, SWAP, base_offset_of, bases_in
from ottla.storage.segment.scan import scan_batches

log = logging.getLogger("ottla.storage")
_TEMPORARY = (SWAP, DELETED, CLEANED, FETCHED)
_NO_RIGHTS = (errno.EACCES, errno.EPERM)


def set_unexplained_aside(disk: Disk, directory: str, *, start: int, wall_ms: int) -> list[str]:
    """Rename the unexplained files of a log that starts at `start`; the paths of all files set aside there so far."""
    names = disk.list(directory)
    kept = _set_aside_among(directory, names)
    suspects = [name for name in names if name.endswith(_TEMPORARY)]
    bases = bases_in(names) if suspects else []
    for name in suspects:
        path = posixpath.join(directory, name)
        reason = _unexplained(disk, path, bases, start)
        if reason:
            aside = aside_name(path, wall_ms)
            log.warning("%s (%d bytes): %s: it is renamed to %s", path, _size(disk, path), reason,
                        posixpath.basename(aside))  # fmt: skip
            disk.rename(path, aside)
            kept.append(aside)
    return kept


def set_misfits_aside(disk: Disk, directory: str, *, clean: bool, wall_ms: int) -> None:
    """Rename what has the name of a file of a log and is not a regular file: opening it may fail, or never end.

    Indexes and snapshots are made anew. The offsets of a segment are refused, or fetched from another replica; for the
    last one that is sure only after a `clean` close (set_unopenable_aside says why), else this raises.
    """
    for name in disk.misfits(directory):
        path = posixpath.join(directory, name)
        if not name.endswith((*SUFFIXES, SNAPSHOT, *_TEMPORARY)):
            continue
        if not clean and base_offset_of(name) == max(bases_in(disk.list(directory)), default=None):
            raise OSError(errno.EINVAL, "is not a regular file, and would be the last segment of its log", path)
        _rename_aside(disk, path, "is not a regular file", wall_ms)


def _rename_aside(disk: Disk, path: str, why: str, wall_ms: int) -> str:
    """Give a file of a log another name, and say what that means for the log."""
    then = "its offsets are refused" if path.endswith(LOG) else "it is made anew"
    if path.endswith(_TEMPORARY):
        then = "the log is opened without it"
    aside = aside_name(path, wall_ms)
    log.warning("%s %s: it is renamed to %s, and %s", path, why, posixpath.basename(aside), then)
    disk.rename(path, aside)
    return aside


def set_aside_in(disk: Disk, directory: str) -> list[str]:
    """The paths of all files of a log that were set aside."""
    return _set_aside_among(directory, disk.list(directory))


def set_unopenable_aside(disk: Disk, directory: str, error: OSError, *, wall_ms: int) -> str | None:
    """Rename the file of a log that an error names, if the log can be opened without it; its new path, else None.

    Indexes and snapshots are made anew from the batches, also after a read error. The offsets of a segment are refused,
    or fetched from another replica. Without the last segment only checkpoints tell where the log ends, and they are
    complete only after a clean close. So the last segment stays in its place and the log is offline, even if changed
    permissions would make the file readable again.
    """
    path = str(error.filename or "")
    folder, name = posixpath.split(path)
    if folder != directory or not name.endswith((*SUFFIXES, SNAPSHOT)):
        return None
    base = base_offset_of(name)
    if error.errno not in _NO_RIGHTS and not (error.errno == errno.EIO and base is None):
        return None
    if base is not None and base == max(bases_in(disk.list(directory)), default=base):
        return None
    return _rename_aside(disk, path, f"cannot be opened ({error.strerror})", wall_ms)


def aside_name(path: str, wall_ms: int) -> str:
    """The name of a file once set aside, with the time of that."""
    return f"{path}.{wall_ms}{ASIDE}"


def _set_aside_among(directory: str, names: Iterable[str]) -> list[str]:
    return [posixpath.join(directory, name) for name in names if name.endswith(ASIDE)]


def _unexplained(disk: Disk, path: str, bases: list[int], start: int) -> str:
    """The reason why a file is not what its suffix says; "" if it is, and for an index, which is built anew."""
    name = posixpath.basename(path)
    if disk.is_directory(path):
        return "it is a directory"
    stem, _, suffix = name.rpartition(".")
    base = base_offset_of(stem)
    if base is None:
        return ""
    if f".{suffix}" == SWAP:
        return _broken_swap(disk, path, base, bases)
    if f".{suffix}" == DELETED:
        is_below = deleted_segments.is_below(disk, posixpath.dirname(path), base, bases, start)
        return "" if is_below else f"the log starts at offset {start}, and it is not below that"
    return "" if any(other <= base for other in bases) else "the segment that it was made of is missing"


def _broken_swap(disk: Disk, path: str, base: int, bases: list[int]) -> str:
    file = disk.open(path)
    try:
        size, end, following = file.size(), 0, base
        for header, view in scan_batches(file, 0, size):
            if crc32c(view[CRC_START:]) != header.crc or header.base_offset < following:
                return f"the batch at byte {header.position} is damaged"
            end, following = header.position + header.size, header.next_offset
    finally:
        file.release()
    if not size or end != size:
        return f"it holds whole batches up to byte {end} of {size}"
    later = [other for other in bases if other >= following]
    if later and min(later) != following and base in bases:
        return f"it ends at offset {following}, and the next segment begins at {min(later)}"
    return ""


def _size(disk: Disk, path: str) -> int:
    return 0 if disk.is_directory(path) else disk.file_size(path)
