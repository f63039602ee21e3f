"""Storage's values for its neighbours: outcomes of appends, reads, look-ups and openings; and the names of folders."""

from __future__ import annotations

import errno
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from ottla.kernel.ids import TopicPartition
from ottla.kernel.seams import FileSlice

FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
"""Errors that mean that there is no room; earlier bytes are unchanged."""
TAIL_BYTES = 4 << 20
"""The most that a start reads again at the end of one log, though it was synced: a disk may have dropped writes."""
ALL_TAILS_BYTES = 64 << 20
"""The most that a start reads again at the ends of all logs of a log directory together."""
NO_RIGHTS = (errno.EACCES, errno.EPERM, errno.EROFS)
"""Errors that mean that this process may not write there."""


def tail_bytes(logs: int) -> int:
    """The bytes that a start reads again at the end of each log, where a log directory has so many."""
    return min(TAIL_BYTES, ALL_TAILS_BYTES // max(logs, 1))


def fits(write: Callable[[], None]) -> bool:
    """Run `write`; False if the disk had no room for it."""
    try:
        write()
    except OSError as fault:
        if fault.errno not in FULL_DISK:
            raise
        return False
    return True


class Origin(IntEnum):
    """The writer of a batch, which decides what is checked about it."""

    CLIENT = 0
    """A producer: sequences, epochs and duplicates are checked."""
    COORDINATOR = 1
    """A group or transaction coordinator, or a transaction marker."""
    REPLICA = 2
    """The leader's bytes on a follower: offsets and epochs are already in them."""


class Appended:
    """A batch is in the log, now or (`duplicate`) since its first try. Made once per append: slotted, not frozen."""

    __slots__ = ("append_time_ms", "base_offset", "duplicate", "log_start_offset", "next_offset")

    def __init__(
        self,
        base_offset: int,
        next_offset: int,
        log_start_offset: int,
        duplicate: bool = False,
        append_time_ms: int = -1,
    ) -> None:
        self.base_offset = base_offset
        self.next_offset = next_offset
        self.log_start_offset = log_start_offset
        self.duplicate = duplicate
        self.append_time_ms = append_time_ms
        """The broker's own time where the topic stamps LogAppendTime, else -1 (what Produce answers)."""

    def __repr__(self) -> str:
        return (
            f"Appended({self.base_offset}, {self.next_offset}, {self.log_start_offset}, "
            f"duplicate={self.duplicate}, append_time_ms={self.append_time_ms})"
        )


class AbortedTransaction(NamedTuple):
    """A transaction that was aborted: a reader of committed records skips this producer from `first_offset` on."""

    producer_id: int
    first_offset: int


class LogRead:
    """Whole batches from one segment. Empty `slices` where there is nothing below the limit.

    The slices are held: the code that takes them releases them (the transport does once they are sent).
    """

    __slots__ = ("aborted", "base_offset", "bytes", "slices")

    def __init__(
        self, slices: list[FileSlice], base_offset: int, size: int, aborted: list[AbortedTransaction] | None
    ) -> None:
        self.slices = slices
        self.base_offset = base_offset
        """Base offset of the first batch (it may lie below the offset asked for), -1 where nothing is read."""
        self.bytes = size
        self.aborted = aborted
        """Aborted transactions touching the range; None unless asked for."""

    def data(self) -> bytes:
        """The bytes themselves; releases the slices."""
        out = b"".join(piece.read() for piece in self.slices)
        self.release()
        return out

    def release(self) -> None:
        for piece in self.slices:
            piece.release()
        self.slices = []


class TimestampOffset(NamedTuple):
    """A record found by its timestamp, with the leader epoch of its batch."""

    timestamp: int
    offset: int
    leader_epoch: int


class EpochEnd(NamedTuple):
    """The largest leader epoch at or below the one asked for, and the offset where it ends."""

    leader_epoch: int
    end_offset: int


class ActiveProducer(NamedTuple):
    """One line of DescribeProducers."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_transaction_start_offset: int
    """-1 where no transaction is open."""


class Known(NamedTuple):
    """Knowledge of a log besides its own files, from when it was last open."""

    clean: bool
    """True if the log was closed with all of it synced."""
    recovery_point: int
    committed: int
    """The checkpointed high watermark."""
    log_start: int
    cache_kept: bool
    """True if no power was lost since: unsynced writes are there too."""
    compacted: bool
    """True if the log was or will be compacted."""
    lasting: bool
    """True if all that was committed is on disk: it was synced before it was acknowledged, or no power was lost."""
    tail_bytes: int = TAIL_BYTES
    """The bytes at the end of the log that are read again at each start, also after a clean stop."""

    @property
    def durable_end(self) -> int:
        """The offset below which everything was on disk."""
        return max(self.recovery_point, self.committed)

    @property
    def is_whole(self) -> bool:
        """True if nothing that was written can have been lost."""
        return self.clean or self.cache_kept


class Remark(NamedTuple):
    """A remark on something that an opening cut, refused, built anew or did not believe: one log line (rule H6)."""

    first_offset: int
    next_offset: int
    bytes: int
    what: str


class Cost:
    """The cost of opening a log, and the remarks that are to be logged."""

    def __init__(self) -> None:
        self.scanned_bytes = self.truncated_bytes = self.rebuilt_indexes = self.replayed_batches = 0
        self.remarks: list[Remark] = []

    def say(self, first_offset: int, next_offset: int, size: int, what: str) -> None:
        self.remarks.append(Remark(first_offset, next_offset, size, what))


class Recovered(NamedTuple):
    """The cost and the findings of an opening."""

    segments: int
    scanned_bytes: int
    """Bytes read and checked: proportional to the tail above the recovery point."""
    truncated_bytes: int
    """Bytes of a torn tail that were cut off."""
    rebuilt_indexes: int
    replayed_batches: int
    """The number of batches whose producer state was replayed."""
    remarks: tuple[Remark, ...] = ()
    lacks_end: bool = False
    """True if something acknowledged may have been behind the end, or in damage that is near it."""


def parse_directory_name(name: str) -> TopicPartition | None:
    """`topic-partition`, or None for other names."""
    topic, dash, number = name.rpartition("-")
    if not dash or not topic or not (number.isascii() and number.isdecimal()):
        return None
    return TopicPartition(topic, int(number))
