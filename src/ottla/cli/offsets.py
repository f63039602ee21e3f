"""Offsets as users give them, held to those that a partition has."""

from __future__ import annotations

import sys

from ottla.kernel.ids import TopicPartition


def within(place: TopicPartition, offset: int, first: int, end: int) -> int:
    """The offset, or the nearest that there is, with a word."""
    taken = min(max(offset, first), end)
    if taken != offset:
        sys.stderr.write(f"ottla: {place} has offsets from {first} to {end}: {taken} is taken, not {offset}\n")
    return taken
