"""Many records that a producer takes at once, and the parts of them that went into one batch each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ottla.client.model import Header, Produced
from ottla.client.produce.accumulator import BatchPlace, OutgoingBatch, record_size

_OVERHEAD = record_size(None, None, ())


class Run(NamedTuple):
    """Records in their order. A key or a timestamp is one for all, or stands in a list, one for each value."""

    values: list[bytes | None]
    keys: bytes | list[bytes | None] | None = None
    headers: Sequence[Header] = ()
    timestamps: int | list[int] | None = None
    """Milliseconds since 1970; None: now."""
    partition: int | None = None
    """None: the partitioner chooses."""

    @property
    def size(self) -> int:
        """The most bytes that the records take of `buffer_memory`."""
        each = _OVERHEAD + sum(record_size(None, content, [(name, b"")]) for name, content in self.headers)
        keys = self.keys if isinstance(self.keys, list) else [self.keys] * len(self.values)
        return each * len(self.values) + sum(map(len, filter(None, self.values))) + sum(map(len, filter(None, keys)))

    def check(self) -> None:
        """ValueError for a timestamp that Kafka does not have."""
        given = self.timestamps
        for timestamp in given if isinstance(given, list) else () if given is None else (given,):
            if not 0 <= timestamp < 1 << 63:
                raise ValueError(f"timestamp {timestamp} is not a number of milliseconds since 1970")


class RunPart(NamedTuple):
    """Records of a run that went into one batch."""

    batch: OutgoingBatch
    first: int
    """The number of the first one in the batch."""
    start: int
    """Its number in the run."""
    records_count: int

    @property
    def done(self) -> bool:
        """True once all records of the batch are delivered or have failed."""
        return self.batch.outcome is not None

    @property
    def is_whole(self) -> bool:
        """True where all records were delivered together; else each has its own outcome."""
        return not self.batch.parts and isinstance(self.batch.outcome, Produced)

    def outcome(self, index: int) -> Produced | Exception | None:
        """The outcome of one of the records, counted from the first one of this part."""
        return BatchPlace(self.batch, self.first + index, 0).outcome
