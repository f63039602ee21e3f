"""Begins a new segment where the active one is full or too old, and hands the sealed one to the next sync."""

from __future__ import annotations

from ottla.config.topic import TopicConfig
from ottla.kernel.seams import OpenFile
from ottla.records.checksum import crc32c
from ottla.storage.bounds import LogBounds
from ottla.storage.producers.aborted_note import write_note
from ottla.storage.producers.producers import Producers
from ottla.storage.producers.snapshot import write_snapshot
from ottla.storage.segment.chain import SegmentChain
from ottla.storage.segment.index import MAX_RELATIVE_OFFSET
from ottla.storage.segment.names import LOG
from ottla.storage.segment.segment import Segment
from ottla.storage.syncing import Syncing

ASK_THE_CLOCK = -2
"""Below every timestamp, so that each append comes to `roll_if_due`, which goes by the wall clock."""


class Rolling:
    """One log's. An append reads `segment_bytes` and `roll_timestamp` itself, for speed; they change here."""

    __slots__ = (
        "_bounds", "_chain", "_config", "_name", "_producers", "_syncing", "roll_timestamp", "segment_bytes",
    )  # fmt: skip

    def __init__(
        self, name: str, bounds: LogBounds, chain: SegmentChain, producers: Producers, syncing: Syncing
    ) -> None:
        """`name`: topic and partition."""
        self._name = name
        self._bounds = bounds
        self._chain = chain
        self._producers = producers
        self._syncing = syncing
        self._config: TopicConfig
        self.segment_bytes = 0
        self.roll_timestamp = ASK_THE_CLOCK
        """A record with a later time begins a new segment."""

    def configure(self, config: TopicConfig) -> None:
        self._config = config
        self.segment_bytes = config.internal_segment_bytes or config.segment_bytes
        self.roll_timestamp = ASK_THE_CLOCK

    def schedule(self) -> None:
        """The time at which the active segment is too old, computed from its first record."""
        self._schedule(self._chain.active.first_timestamp)

    def roll_if_due(self, size: int, base_offset: int, next_offset: int, max_timestamp: int, wall_ms: int) -> None:
        """Roll where the segment is full, its first record too old, its index full, or the offset too far from it."""
        active = self._chain.active
        too_far = next_offset - active.base_offset > MAX_RELATIVE_OFFSET
        if active.size == 0:
            if too_far:
                self.roll(base_offset, wall_ms)
            self._schedule(max_timestamp)
            return
        full = active.size + size > self.segment_bytes or active.index_full
        if full or too_far or self._too_old(active, max_timestamp, wall_ms):
            # Named after our end, not after the batch: recovery takes a gap between two segments for a lost tail.
            end = self._bounds.end
            gap = next_offset - end > MAX_RELATIVE_OFFSET
            self.roll(base_offset if gap else end, wall_ms)
            self._schedule(max_timestamp)

    def _too_old(self, active: Segment, max_timestamp: int, wall_ms: int) -> bool:
        if active.first_timestamp < 0:
            return wall_ms - active.created_ms > segment_ms(self._config)
        return max_timestamp > self.roll_timestamp

    def _schedule(self, first_timestamp: int) -> None:
        """Set the time of the next roll; ASK_THE_CLOCK if the segment's records have no timestamps.

        The jitter is drawn from the segment's name, so that a replay draws the same.
        """
        if first_timestamp < 0:
            self.roll_timestamp = ASK_THE_CLOCK
            return
        longest = segment_ms(self._config)
        jitter = min(self._config.segment_jitter_ms, longest)
        if jitter:
            jitter = crc32c(f"{self._name}-{self._chain.active.base_offset}".encode()) % jitter
        self.roll_timestamp = first_timestamp + longest - jitter

    def roll(self, base_offset: int, wall_ms: int) -> None:
        """Begin a new segment; the sealed one and the directory go to the next sync (rule B1).

        If a step fails (a full disk), the log is as it was, apart from files that the next try replaces.
        """
        chain, folder = self._chain, self._chain.folder
        old = chain.active
        sealed_files = [old.file, *old.write_indexes()]
        new = chain.made(base_offset, wall_ms)
        new.aborted.begin_empty()
        made: list[OpenFile] = []
        try:
            new.create_file().truncate(0)
            made += write_note(folder, chain.segments, base_offset)
            made.append(write_snapshot(folder.disk, folder.path, base_offset, self._producers))
        except OSError:
            for file in made:
                file.release()
            new.close()
            folder.disk.remove(new.path(LOG))
            raise
        self._syncing.rolled(old, sealed_files, made)
        old.next_offset = base_offset
        old.seal()
        if len(chain.segments) > 1:
            chain.segments[-2].forget_recent()
        chain.begin(new)
        self.schedule()


def segment_ms(config: TopicConfig) -> int:
    """A compacted topic rolls within max.compaction.lag.ms too: compaction leaves the last segment alone."""
    return min(config.segment_ms, config.max_compaction_lag_ms) if config.compacted else config.segment_ms
