"""Logs and lanes for tests: batches as a source has them, and a target that keeps what it is sent as a broker does."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.client.model import AbortedRange, Fetched
from ottla.kernel.ids import TopicPartition
from ottla.mirror.batches import Landed, MirrorBatch, landed
from ottla.mirror.lane import Lane, LaneState
from ottla.records.batch import Batch, patch
from ottla.records.builder import build_batch
from ottla.records.reader import Record

SOURCE, TARGET = TopicPartition("orders", 0), TopicPartition("us.orders", 0)
PRODUCER = 77


def batch(offset: int, values: Sequence[str], **options: object) -> bytes:
    """A batch of a source's log."""
    records = [Record(offset + at, 1_000 + at, b"key", value.encode()) for at, value in enumerate(values)]
    return build_batch(records, base_offset=offset, **options)  # type: ignore[arg-type]


def piece(offset: int, *batches: bytes, aborted: Sequence[AbortedRange] = ()) -> Fetched:
    """A fetched piece of the source."""
    last = Batch(batches[-1])
    records = memoryview(b"".join(batches))
    return Fetched(*SOURCE, offset, last.next_offset, records, 10_000, 10_000, 0, list(aborted))


def a_lane(place: LaneState | None = None, found: Sequence[Landed] = ()) -> Lane:
    lane = Lane(SOURCE, TARGET, PRODUCER, place or LaneState(0, 0))
    lane.recovered(found)
    return lane


class Target:
    """Appends batches in the order of their sequences, answers repeats with their first offset, refuses others."""

    def __init__(self) -> None:
        self.log: list[bytes] = []
        self.end = 0
        self._next = -1

    def append(self, out: MirrorBatch) -> int | None:
        """The batch's offset; None where it is out of order."""
        for kept in (Batch(each) for each in self.log):
            if kept.base_sequence == out.sequence and kept.records_count == out.count:
                return kept.base_offset
        if self._next not in (-1, out.sequence):
            return None
        copy, base = bytearray(out.batch), self.end
        patch(copy, base, 0)
        self.log.append(bytes(copy))
        self.end += out.count
        self._next = out.sequence + out.count
        return base

    def behind(self, offset: int) -> list[Landed]:
        return [landed(Batch(each)) for each in self.log if Batch(each).base_offset >= offset]
