"""The state of one log as others may read it: its offsets, its segments, and whether it takes writes."""

from __future__ import annotations

from typing import Final

from ottla.config.topic import TopicConfig
from ottla.kernel.seams import Disk
from ottla.storage.bounds import LogBounds
from ottla.storage.folder import LogFolder
from ottla.storage.leader_epochs import LeaderEpochs
from ottla.storage.producers.producers import Producers
from ottla.storage.segment.chain import SegmentChain
from ottla.storage.segment.damage import Damage
from ottla.storage.segment.segment import Doomed, Segment
from ottla.storage.values import Recovered
from ottla.storage.write_gate import WriteGate


class LogState:
    """Each part is changed by its own methods alone; nothing here can be assigned from outside."""

    __slots__ = (
        "_config", "_folder", "_gate", "_recovered", "bounds", "chain", "damage", "epochs", "partition", "producers",
        "topic", "topic_id",
    )  # fmt: skip

    def __init__(self, disk: Disk, directory: str, *, topic: str, partition: int, topic_id: bytes) -> None:
        self.topic: Final = topic
        self.partition: Final = partition
        self.topic_id: Final = topic_id
        self._config: TopicConfig
        self._folder: Final = LogFolder(disk, directory)
        self._gate: Final = WriteGate()
        self._recovered = Recovered(0, 0, 0, 0, 0)
        self.bounds: Final = LogBounds()
        self.chain: Final = SegmentChain(self._folder)
        self.epochs: Final = LeaderEpochs(disk, directory)
        self.damage: Final = Damage(disk, directory)
        self.producers: Final = Producers()

    @property
    def disk(self) -> Disk:
        return self._folder.disk

    @property
    def directory(self) -> str:
        """The path of its folder."""
        return self._folder.path

    @property
    def config(self) -> TopicConfig:
        return self._config

    @property
    def write_caching(self) -> bool:
        return self._config.write_caching

    @property
    def recovered(self) -> Recovered:
        """The cost of opening it."""
        return self._recovered

    @property
    def refusing(self) -> bool:
        """After a failed sync or a failed cut: nothing is written any more, the directory is to be failed."""
        return self._gate.closed

    @property
    def damaged_at(self) -> int | None:
        """The log was to be cut at this offset, behind damage: nothing from here on is served (rule A7)."""
        return self._gate.damaged_at

    @property
    def sparse(self) -> bool:
        """Compaction may have left holes between batches: here, or in the log that this one copies."""
        return self.chain.sparse

    @property
    def segments(self) -> list[Segment]:
        return self.chain.segments

    @property
    def bases(self) -> list[int]:
        """The base offsets of the segments."""
        return self.chain.bases

    @property
    def active(self) -> Segment:
        """The last segment, which is written."""
        return self.chain.active

    @property
    def doomed(self) -> list[Doomed]:
        """Segments taken out of the log; their files go by `purge`."""
        return self.chain.doomed

    @property
    def end_offset(self) -> int:
        """The offset after the last record appended."""
        return self.bounds.end

    @property
    def synced_offset(self) -> int:
        """The offset after the last record known to be on disk; equals `end_offset` with write.caching=true."""
        return self.bounds.synced

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read."""
        return self.bounds.start

    @property
    def high_watermark(self) -> int:
        """Everything below is committed."""
        return self.bounds.high_watermark

    @property
    def recovery_point(self) -> int:
        """Everything below is on disk, indexes included; the recovery-point checkpoint holds this offset."""
        return self.bounds.recovery_point

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch in the log, -1 where there is none."""
        return self.epochs.latest

    @property
    def last_stable_offset(self) -> int:
        """Rule B8."""
        high_watermark = self.bounds.high_watermark
        if self.producers.no_transactions:
            return high_watermark
        unstable = self.producers.first_unstable(high_watermark)
        if unstable is None:
            return high_watermark
        return max(self.bounds.start, min(unstable, high_watermark))

    # --- its size ---

    @property
    def size_bytes(self) -> int:
        return self.chain.size_bytes

    @property
    def segments_count(self) -> int:
        return len(self.chain.segments)
