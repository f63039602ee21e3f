"""One partition on its way from the source to the target: what is read, sent, landed, and where a restart goes on.

Pure. A lane numbers the records that it copies; their sequence numbers are these numbers under a producer id that only
this mirror has. So the target's log says how far the copy came, and its broker refuses a batch that would double or
leave out one (docs/decisions/0034-mirrors.md).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from ottla.client.consume.received import visible_batches
from ottla.client.model import Fetched
from ottla.kernel.ids import TopicPartition
from ottla.mirror.batches import SEQUENCES, Landed, MirrorBatch, SourceRun, outgoing
from ottla.mirror.offset_map import OffsetMap

MOST_IN_FLIGHT: Final = 5
"""A broker tells repeats among so many batches of a producer."""


class LaneStopped(Exception):
    """The partition cannot be mirrored on; the sentence says why, and what to do."""


@dataclass(slots=True)
class LaneState:
    """The state of a lane that a restart goes on from."""

    upstream: int
    """All of the source below this offset is copied or left out."""
    downstream: int
    """The mirror's own batches of later records stand at this offset of the target or behind."""
    copied: int = 0
    """The number of records copied so far."""
    source_id: str = ""
    target_id: str = ""
    map: OffsetMap = field(default_factory=OffsetMap)


@dataclass(frozen=True, slots=True)
class Copied:
    """A batch that landed: runs of the source's offsets, each with its first offset at the target."""

    runs: tuple[tuple[SourceRun, int], ...]
    count: int
    size: int


class Lane:
    """Takes pieces of the source's log, gives batches to produce, and learns where they landed."""

    def __init__(self, source: TopicPartition, target: TopicPartition, producer_id: int, place: LaneState) -> None:
        self.source, self.target = source, target
        self.place = place
        self.producer_id = producer_id
        self.stopped: str | None = None
        """The reason for which the partition is not mirrored on."""
        self.recovers = True
        """True until the target's log was read behind the place; nothing is sent before."""
        self._begin(())

    def _begin(self, found: Iterable[Landed]) -> None:
        self.position = self.place.upstream
        """The source's next offset to read."""
        self.queued_bytes = 0
        self._taken = self.place.copied
        self._found = deque(found)
        self._waiting: deque[MirrorBatch] = deque()
        self._sent: deque[MirrorBatch] = deque()
        self._window = 1  # until the broker knows the producer, it would take a later batch before an earlier one
        self._sends_again = False
        self._copied: list[Copied] = []

    def recovered(self, found: Iterable[Landed]) -> None:
        """Go on from the place; `found` are the mirror's batches in the target's log from there on, in their order."""
        assert not self._sent
        self._begin(found)
        self.recovers = False

    def recover(self) -> None:
        """Have the target's log read again: what the broker knows of this mirror contradicts the lane."""
        self.recovers = True
        self._waiting.clear()
        self.queued_bytes = 0

    def stop(self, reason: str) -> None:
        """Copy nothing more of this partition."""
        self.stopped = reason
        self._waiting.clear()
        self.queued_bytes = 0

    @property
    def in_flight(self) -> int:
        """Batches whose answer is awaited."""
        return len(self._sent)

    @property
    def is_idle(self) -> bool:
        """True if all that was read has landed."""
        return not self._sent and not self._waiting

    def take(self, piece: Fetched) -> None:
        """Take a piece of the source's log as it was fetched at `position`.

        Raises Stopped where the target holds something else than the source says, ApiError and CorruptRecords for a
        batch that is damaged.
        """
        assert piece.offset == self.position, (piece.offset, self.position)
        for batch in visible_batches(piece, committed_only=True):
            if batch.next_offset <= self.position or batch.records_count == 0:
                continue
            sequence = self._taken % SEQUENCES
            out = outgoing(batch, self.position, producer_id=self.producer_id, sequence=sequence)
            if out is not None:
                self._taken += out.count
                self._add(out)
        self.position = max(self.position, piece.next_offset)
        self._pass_what_is_left_out()

    def next_batch(self) -> MirrorBatch | None:
        """The next batch to send, if there is one and the broker may have another."""
        if self.recovers or self._sends_again or not self._waiting or len(self._sent) >= self._window:
            return None
        out = self._waiting.popleft()
        self._sent.append(out)
        return out

    def landed(self, out: MirrorBatch, base_offset: int) -> None:
        """Learn that a batch is in the target's log, and where; -1 for an old repeat whose place is not known."""
        if self._sends_again:
            self.failed(out)  # one before it may not have landed: both are sent again, and this one is a repeat then
            return
        if self.recovers or base_offset < 0 or self._sent[0] is not out:
            self._sent.remove(out)
            self.recover()
            return
        self._sent.popleft()
        self._window = MOST_IN_FLIGHT
        self.queued_bytes -= len(out.batch)
        self._note(out, base_offset)
        self._pass_what_is_left_out()

    def failed(self, out: MirrorBatch) -> None:
        """Learn that a batch did not get in, or may not have: it and all behind it are sent again, in their order."""
        if self.recovers or self.stopped is not None:
            self._sent.remove(out)
            return
        self._sends_again = True
        self._sent.remove(out)
        at = next((at for at, each in enumerate(self._waiting) if _order(each, out) > 0), len(self._waiting))
        self._waiting.insert(at, out)
        if not self._sent:
            self._sends_again, self._window = False, 1

    @property
    def is_failing(self) -> bool:
        """True while batches behind a failed one are answered: their refusals say nothing new."""
        return self._sends_again

    def take_copied(self) -> list[Copied]:
        """The batches that landed since the last call."""
        copied, self._copied = self._copied, []
        return copied

    def _add(self, out: MirrorBatch) -> None:
        """Send a batch, unless it was found in the target's log."""
        if not self._found:
            self._waiting.append(out)
            self.queued_bytes += len(out.batch)
            return
        first = self._found[0]
        ahead = (first.sequence - out.sequence) % SEQUENCES
        if 0 < ahead < SEQUENCES // 2 and ahead >= out.count:
            self._note(out, first.base_offset - ahead)  # it landed, and retention or compaction has taken it since
            return
        same = first.sequence == out.sequence and first.count == out.count
        if same and not out.is_rebuilt and first.payload_crc is not None:
            same = first.payload_crc == out.payload_crc
        if not same:
            raise LaneStopped(
                f"{self.target} holds other records at offset {first.base_offset} than {self.source} has at "
                f"{out.runs[0].upstream}, though this mirror has written them: the source or the target was made "
                "anew, compacted meanwhile, or restored from a copy. Delete the mirrored topic, or mirror it under "
                "another name"
            )
        self._found.popleft()
        self._note(out, first.base_offset)

    def _note(self, out: MirrorBatch, base_offset: int) -> None:
        runs: list[tuple[SourceRun, int]] = []
        for run in out.runs:
            self.place.map.add(run.upstream, base_offset, run.count)
            runs.append((run, base_offset))
            base_offset += run.count
        self.place.upstream, self.place.downstream = out.next_offset, base_offset
        self.place.copied += out.count
        self._copied.append(Copied(tuple(runs), out.count, len(out.batch)))

    def _pass_what_is_left_out(self) -> None:
        if self.is_idle and not self.recovers:
            self.place.upstream = self.position


def _order(one: MirrorBatch, other: MirrorBatch) -> int:
    return one.next_offset - other.next_offset
