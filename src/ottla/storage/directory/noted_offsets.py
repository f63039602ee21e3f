"""The offsets that a log directory notes of its logs, in five checkpoints, beside the logs themselves.

Memory holds each number as it was last written. A write that failed, on a full disk, is repeated by the next round.
directory.py says when to write; remembered.py reads and writes the files.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Mapping

from ottla.kernel.ids import TopicPartition
from ottla.kernel.seams import Disk
from ottla.storage import checkpoint
from ottla.storage.directory.remembered import CheckpointFiles
from ottla.storage.directory.witnesses import Noted
from ottla.storage.log import Log

Offsets = dict[TopicPartition, int]


class NotedOffsets:
    """Recovery points, log starts, high watermarks, ends of compaction, and how far the scrub has come."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._files = CheckpointFiles(disk, path)
        self._recovery_points: Offsets = {}
        self._log_starts: Offsets = {}
        self._copied_starts: Offsets = {}
        """Log starts for which the second copy has a larger value than `_log_starts`."""
        self._high_watermarks: Offsets = {}
        self._cleaned: Offsets = {}
        self._scrubbed: Offsets = {}
        """The offset to which the running pass of the scrub has come."""
        self._owed: set[TopicPartition] = set()
        """Partitions that are gone, and that a full disk kept the checkpoints from forgetting."""
        self._lowered: set[str] = set()
        """The checkpoints of which the disk may have a text with a larger number than memory."""

    def load(self, here: Collection[TopicPartition]) -> None:
        """Read all. `here`: the partitions that are there; compaction and scrub of others are forgotten."""
        self._recovery_points = self._files.load(checkpoint.RECOVERY_POINT)
        self._log_starts = self._files.load(checkpoint.LOG_START)
        self._copied_starts = self._files.ahead_in_copy(checkpoint.LOG_START, self._log_starts)
        self._high_watermarks = self._files.load(checkpoint.REPLICATION)
        self._cleaned = self._files.load(checkpoint.CLEANER, here)
        self._scrubbed = self._files.load(checkpoint.SCRUBBED, here)

    # -- what is noted ---

    def by_name(self) -> list[tuple[str, Mapping[TopicPartition, int]]]:
        """Each checkpoint by its name, as last written."""
        return [(name, self._of(name)) for name in checkpoint.OFFSETS]

    def places(self) -> set[TopicPartition]:
        """The partitions of which anything is noted."""
        return {place for _, offsets in self.by_name() for place in offsets}

    def held(self, place: TopicPartition) -> range:
        """The offsets that a partition held, as far as the checkpoints know."""
        return range(self.start(place), max((offsets.get(place, 0) for _, offsets in self.by_name()), default=0))

    def noted(self, place: TopicPartition, *, clean: bool) -> Noted:
        """Numbers of one log for the comparison with its files; `clean`: the last close was a clean one."""
        return Noted(
            self._log_starts.get(place),
            self._files.trust[checkpoint.LOG_START],
            self._recovery_points.get(place, 0),
            self._files.trust[checkpoint.RECOVERY_POINT],
            self._high_watermarks.get(place, 0),
            clean,
            self._copied_starts.get(place),
        )

    def recovery_point(self, place: TopicPartition) -> int:
        return self._recovery_points.get(place, 0)

    def start(self, place: TopicPartition) -> int:
        """The start of a log by its checkpoint alone."""
        return self._log_starts.get(place, 0)

    def start_on_disk(self, log: Log) -> int:
        """The log start that a crash would leave: the checkpointed one, or the first segment's if that is higher."""
        noted = self.start(_place(log))
        return noted if log.doomed else max(noted, log.bases[0])

    def high_watermark(self, place: TopicPartition) -> int:
        """The checkpointed high watermark; 0 where there is none."""
        return self._high_watermarks.get(place, 0)

    def committed(self, log: Log) -> int:
        """The high watermark to write.

        The checkpointed one stays until the log is cut, even if a start does not know it yet.
        """
        return max(log.high_watermark, min(self.high_watermark(_place(log)), log.end_offset))

    def committed_for_sure(self, place: TopicPartition) -> int:
        """The checkpointed high watermark where a checksum vouches for it, else 0."""
        return self.high_watermark(place) if self._files.vouched_for(checkpoint.REPLICATION) else 0

    def committed_before(self, log: Log) -> int:
        """The high watermark that a checksum vouches for: the least that is committed, before any leader says more."""
        return self.committed(log) if self._files.vouched_for(checkpoint.REPLICATION) else log.high_watermark

    def cleaned_to(self, topic: str, partition: int) -> int | None:
        """Up to where compaction has been; None where it never was."""
        return self._cleaned.get(TopicPartition(topic, partition))

    # -- writing ---

    def note(self, name: str, now: Offsets) -> None:
        """Write a checkpoint, unless it says all of `now` already."""
        offsets = self._of(name)
        if name in self._files.stale or any(offsets.get(place) != offset for place, offset in now.items()):
            self._write(name, offsets | now)
            offsets.update(now)

    def believe_start(self, place: TopicPartition, start: int) -> None:
        """The start with which a log is opened. If only the second copy says so, no writing of it may say less.

        A copy that is not believed must not be believed later, once the log has grown.
        """
        if place not in self._copied_starts:
            return
        if start == self._copied_starts[place]:
            self._log_starts[place] = start
        else:
            self._lowered.add(checkpoint.LOG_START)
        self._files.stale.add(checkpoint.LOG_START)

    def set_cleaned_to(self, topic: str, partition: int, offset: int) -> None:
        now = {TopicPartition(topic, partition): offset}
        self._write(checkpoint.CLEANER, self._cleaned | now)
        self._cleaned.update(now)

    def before_cut(self, log: Log, offset: int) -> None:
        """Lower the checkpoints of a log that is about to be cut back to `offset`."""
        place = _place(log)
        if self._cleaned.get(place, 0) > log.recovery_point:  # the log in its place is not compacted
            self.set_cleaned_to(*place, log.recovery_point)
        if self.high_watermark(place) > offset:
            self._write(checkpoint.REPLICATION, self._high_watermarks | {place: offset})
            self._high_watermarks[place] = offset

    def replace(self, place: TopicPartition, coming: Mapping[str, int]) -> None:
        """Note exactly what `coming` says of one log, by checkpoint; drop its other entries."""
        for name in checkpoint.OFFSETS:
            offsets = self._of(name)
            if name in coming or self._tells_of(name, {place}):
                now = {other: value for other, value in offsets.items() if other != place}
                now |= {place: coming[name]} if name in coming else {}
                self._write(name, now)
                offsets.clear()
                offsets.update(now)
        self._copied_starts.pop(place, None)
        self._owed.discard(place)

    def forget(self, places: Collection[TopicPartition]) -> None:
        """Drop the entries of partitions that are gone from every checkpoint; from memory once they are off the disk.

        So if a full disk prevents that, it is tried again before a new log of that name is made.
        """
        gone = set(places)
        self._owed |= gone
        for name in checkpoint.OFFSETS:
            offsets = self._of(name)
            if self._tells_of(name, gone):
                self._write(name, {place: at for place, at in offsets.items() if place not in gone})
                for place in gone:
                    offsets.pop(place, None)
        for place in gone:
            self._copied_starts.pop(place, None)
        self._owed -= gone

    def forget_owed(self) -> None:
        """Drop what a full disk has left of partitions that are gone."""
        self.forget(self._owed)

    # -- after a loss of power ---

    def lower(self, logs: Iterable[Log]) -> None:
        """Take back numbers of logs that end before them; `write_lowered` writes that down."""
        for log in logs:
            place = _place(log)
            if log.end_offset < self.high_watermark(place):
                self._high_watermarks[place] = log.end_offset
                self._lowered.add(checkpoint.REPLICATION)
            if log.end_offset < self.start(place):
                self._log_starts[place] = log.log_start_offset
                self._lowered.add(checkpoint.LOG_START)
        self._files.stale |= self._lowered

    def write_lowered(self) -> None:
        """Write the lowered checkpoints; may be repeated after an error."""
        for name in (checkpoint.REPLICATION, checkpoint.LOG_START):
            if name in self._lowered & self._files.stale:
                self._write(name, self._of(name))

    # -- the scrub ---

    def scrubbed_to(self, place: TopicPartition) -> int:
        """The offset to which the running pass has come."""
        return self._scrubbed.get(place, 0)

    def note_scrubbed(self, offsets: Offsets) -> None:
        """Note the offset that the scrub has reached in each partition; a restart goes on from there."""
        self._scrubbed.update(offsets)
        self._files.write(checkpoint.SCRUBBED, self._scrubbed)

    def end_scrub(self) -> None:
        """Note the end of a pass, which has seen all closed segments."""
        self._scrubbed.clear()
        self._files.write(checkpoint.SCRUBBED, {})

    def scrub_ended_ms(self) -> int | None:
        """The end of the last pass, by the wall clock; None while one is under way, or where there was none."""
        path = posixpath.join(self._path, checkpoint.SCRUBBED)
        return self._disk.modified_ms(path) if not self._scrubbed and self._disk.exists(path) else None

    def _write(self, name: str, offsets: Offsets) -> None:
        """Write a checkpoint with exactly these numbers; memory still has those before."""
        falling = name in self._lowered or any(
            offsets.get(place, 0) < at for known in self._texts(name) for place, at in known.items()
        )
        self._files.write(name, offsets, falling=falling)
        self._lowered.discard(name)

    def _tells_of(self, name: str, places: Collection[TopicPartition]) -> bool:
        """True if the disk may say something of one of these partitions in this checkpoint, or in its second copy."""
        return any(not known.keys().isdisjoint(places) for known in self._texts(name))

    def _texts(self, name: str) -> list[Offsets]:
        """The numbers that the disk may have for this checkpoint: those of the file, and larger ones of its copy."""
        return [self._of(name), self._copied_starts] if name == checkpoint.LOG_START else [self._of(name)]

    def _of(self, name: str) -> Offsets:
        return {
            checkpoint.RECOVERY_POINT: self._recovery_points,
            checkpoint.LOG_START: self._log_starts,
            checkpoint.REPLICATION: self._high_watermarks,
            checkpoint.CLEANER: self._cleaned,
            checkpoint.SCRUBBED: self._scrubbed,
        }[name]


def _place(log: Log) -> TopicPartition:
    return TopicPartition(log.topic, log.partition)
