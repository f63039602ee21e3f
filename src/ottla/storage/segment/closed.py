"""Checks that a closed segment still holds what was written: each batch by its CRC, and fields outside the CRC.

A batch's base offset, length and leader epoch lie outside of its CRC: walk.py compares them with the batches around and
the log's epochs. Damage ends at the next batch that can be trusted. A file that is missing, or ends too early, is
damage too. Comes from the scrub, from `ottla log check`, and from a cut in the middle of a segment.
"""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ottla.kernel.seams import Disk
from ottla.storage.segment.index import OFFSET_ENTRY
from ottla.storage.segment.names import INDEX, LOG, segment_path
from ottla.storage.segment.scan import ScannedHeader, first_header
from ottla.storage.segment.walk import Bounds, Extent, KnownEpochs, Walk

_UNREADABLE = (errno.EIO, errno.EUCLEAN, errno.EBADMSG)
"""The errors of a disk or a file system for a sector that it cannot read back."""


class ClosedSegment(NamedTuple):
    """A segment to check, as its log knows it."""

    path: str
    """The path of its `.log` file."""
    base_offset: int
    end_offset: int
    """Base of the segment behind it."""
    size: int
    epochs: tuple[tuple[int, int], ...] = ()
    """The log's leader epochs and where they start, as far as they are known."""
    index_interval: int = 0
    """Bytes between two entries of its offset index; 0 where that is not known."""
    aborted: tuple[int, int] | None = None
    """The seal of its transaction index (aborted.py); None where that is not known."""


class CheckedBytes(NamedTuple):
    """Bytes read since the last one, for a throttle."""

    bytes: int


def check(
    disk: Disk, segment: ClosedSegment, saw: Callable[[ScannedHeader], None] | None = None
) -> Iterator[CheckedBytes | Extent]:
    """Every damaged extent, in the order of the file; `saw` is called with every sound batch."""
    try:
        file = disk.open(segment.path)
    except FileNotFoundError:
        yield Extent(segment.base_offset, segment.end_offset, 0, segment.size)
        return
    bounds = Bounds(
        segment.end_offset,
        closed=True,
        epochs=KnownEpochs(segment.epochs),
        following=lambda: first_header(disk, segment_path(posixpath.dirname(segment.path), segment.end_offset, LOG)),
    )
    walk = Walk(
        file,
        bounds,
        size=segment.size,
        expected=segment.base_offset,
        indexed=lambda: _indexed(disk, segment),
    )
    failed_at = -1
    try:
        while walk.position < segment.size or failed_at < 0:
            try:
                for step in walk.steps():
                    if isinstance(step, Extent):
                        yield step
                        continue
                    if saw is not None:
                        saw(step)
                    yield CheckedBytes(step.size)
                return
            except OSError as fault:
                if fault.errno not in _UNREADABLE:
                    raise
                if failed_at == walk.position:  # tried once more, as a cable or a controller may have been at fault
                    yield walk.all_the_rest()
                failed_at = walk.position
    finally:
        file.release()


def _indexed(disk: Disk, segment: ClosedSegment) -> Iterator[int]:
    """The positions at which batches begin by the index."""
    path = segment.path.removesuffix(LOG) + INDEX
    body = disk.read(path) if disk.exists(path) else b""
    for _, position in OFFSET_ENTRY.iter_unpack(body[: len(body) - len(body) % OFFSET_ENTRY.size]):
        yield position
