"""Checks closed segments and their indexes for the scrub, and says what it found to another process.

Comes from scrub_child.py, or turns of the broker's loop (broker/replicas/scrubber.py). segment/closed.py checks the
batches, index_scrub.py the indexes beside them, in one pass.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ottla.kernel.seams import Disk
from ottla.storage.maintenance.index_scrub import IndexCheck
from ottla.storage.segment.closed import CheckedBytes, ClosedSegment, check
from ottla.storage.segment.walk import Extent


class ScrubFinding(NamedTuple):
    """A damaged segment, or one with a damaged index, by its number among those that were to be checked."""

    number: int
    extents: tuple[Extent, ...]
    index_fault: str = ""
    """The fault of an index of a segment that is sound."""


def check_all(disk: Disk, segments: Sequence[ClosedSegment]) -> Iterator[CheckedBytes | ScrubFinding]:
    """Check one after the other. A missing file is damage: the caller knows whether its log still has the segment."""
    for number, segment in enumerate(segments):
        extents: list[Extent] = []
        index = IndexCheck(disk, segment.path, segment.base_offset, segment.index_interval, segment.aborted)
        for step in check(disk, segment, index.saw):
            if isinstance(step, Extent):
                extents.append(step)
            else:
                yield step
        wrong = "" if extents else index.ended()
        if extents or wrong:
            yield ScrubFinding(number, tuple(extents), wrong)


def encode_segments(segments: Sequence[ClosedSegment]) -> bytes:
    """The segment in the form that the child process reads."""
    return json.dumps(list(segments)).encode()


def decode_segments(body: bytes) -> list[ClosedSegment]:
    return [
        ClosedSegment(
            path,
            base,
            end,
            size,
            tuple((epoch, start) for epoch, start in epochs),
            interval,
            None if seal is None else (seal[0], seal[1]),
        )
        for path, base, end, size, epochs, interval, seal in json.loads(body)
    ]


def encode_findings(findings: Sequence[ScrubFinding]) -> bytes:
    """The segment in the form that the broker reads."""
    return json.dumps(list(findings)).encode()


def decode_findings(body: bytes) -> list[ScrubFinding]:
    return [
        ScrubFinding(number, tuple(Extent(*one) for one in extents), fault)
        for number, extents, fault in json.loads(body)
    ]
