"""The partitions in a log directory, as a start finds them: by the names of folders and their `partition.metadata`."""

from __future__ import annotations

from typing import NamedTuple


class FoundPartition(NamedTuple):
    """A partition's directory, as found at the opening."""

    topic: str
    partition: int
    topic_id: bytes | None
    """None where `partition.metadata` is missing: a crash at its birth, or a log from before topic ids."""
    path: str
    beside: str | None = None
    """The id of the log directory from or to which it was being moved, and in which it may be too (moving.py)."""
    came: bool = False
    """It was being moved from there to here."""
