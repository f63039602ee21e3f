"""The note that a task leaves in the transaction with its rows: which micro-batch it wrote, and which rows (rule G1).

A marker is the committed offset of a consumer group that belongs to this task alone, so every tool for groups shows it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from ottla.client.model import CommittedOffset

_DIGESTS = 1 << 64


@dataclass(frozen=True, slots=True)
class Content:
    """The number of rows, and the sum of their hashes: the same rows in another order have the same content."""

    rows: int = 0
    digest: int = 0

    def __add__(self, other: Content) -> Content:
        return Content(self.rows + other.rows, (self.digest + other.digest) % _DIGESTS)


@dataclass(frozen=True, slots=True)
class SparkTask:
    """The part of a query's micro-batch that one Spark task writes, whichever attempt does it."""

    query: str
    batch: int
    index: int
    prefix: str = "ottla"

    @property
    def name(self) -> str:
        """The transactional id, and the group that holds the marker."""
        return self.neighbour(self.index)

    def neighbour(self, index: int) -> str:
        """The name of another task of the same query."""
        return f"{self.prefix}-{self.query}-{index}"

    def __str__(self) -> str:
        return f"task {self.index} of batch {self.batch} of query {self.query}"


@dataclass(frozen=True, slots=True)
class BatchMarker:
    """A micro-batch that a task has committed."""

    batch: int
    content: Content

    def to_offset(self) -> CommittedOffset:
        """The offset counts batches, so that it grows as offsets do."""
        told = {"batch": self.batch, "rows": self.content.rows, "digest": f"{self.content.digest:016x}"}
        return CommittedOffset(self.batch + 1, json.dumps(told))

    @classmethod
    def of(cls, committed: CommittedOffset, group: str) -> BatchMarker:
        """ValueError for an offset that another program has committed."""
        try:
            told = json.loads(committed.metadata)
            marker = cls(int(told["batch"]), Content(int(told["rows"]), int(told["digest"], 16)))
        except (ValueError, KeyError, TypeError):
            marker = None
        if marker is None or marker.batch + 1 != committed.offset:
            raise ValueError(
                f"Group {group} holds offset {committed.offset} with metadata {committed.metadata!r}, which is no "
                "marker of this sink. Groups of this name are for its markers alone: give option 'delivery.prefix' "
                "another name."
            )
        return marker
