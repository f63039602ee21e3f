"""Decides when the files of one partition of a topic are finished. Pure: records and times in, decisions out.

All files of a partition are finished together. So the offset behind them is behind every record in them, and a task
that begins again there makes the same files again, as long as no clock takes part in the decisions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.connect.data import Schema


@dataclass(frozen=True, slots=True)
class Rotation:
    """When files are finished."""

    flush_size: int
    """After so many records of the partition."""
    interval_ms: int = -1
    """Before a record that is so much later than the first; -1: never."""
    new_folder: bool = False
    """Before a record of another folder, where `interval_ms` is set: the S3 sink does so, the HDFS sink does not."""
    by_clock: bool = False
    """True where `interval_ms` is measured by the clock: it passes without records, too."""


@dataclass(slots=True)
class Span:
    """The records of one file: first and last offset, and the schema of all of them."""

    first: int
    last: int
    schema: Schema | None


@dataclass(slots=True)
class Filling:
    """The unfinished files of one partition."""

    rotation: Rotation
    due_ms: int | None = None
    """The next time of the schedule; None without one."""
    next_offset: int = -1
    """The offset behind the last record that was taken; those below it have been seen."""
    count: int = 0
    spans: dict[str, Span] = field(default_factory=dict)
    """By folder."""
    finishing: bool = False
    """True from the decision to finish until the files are in their place."""
    _base_ms: int | None = None
    _folder: str | None = None

    def ends_before(self, folder: str, schema: Schema | None, time_ms: int | None, now_ms: int) -> bool:
        """True if the files must be finished before this record is added."""
        if not self.count:
            return False
        span = self.spans.get(folder)
        if span is not None and span.schema != schema:
            return True
        return self.is_due(now_ms) or (
            self.rotation.interval_ms > 0
            and time_ms is not None
            and self._base_ms is not None
            and (
                time_ms - self._base_ms >= self.rotation.interval_ms
                or (self.rotation.new_folder and folder != self._folder)
            )
        )

    def is_due(self, now_ms: int) -> bool:
        """True if the clock wants the files finished now."""
        if not self.count:
            return False
        waited = self.rotation.by_clock and self._base_ms is not None and self.rotation.interval_ms > 0
        return (self.due_ms is not None and now_ms >= self.due_ms) or (
            waited and now_ms - (self._base_ms or 0) >= self.rotation.interval_ms
        )

    def add(self, folder: str, offset: int, schema: Schema | None, time_ms: int | None) -> None:
        """Take a record into its folder's file."""
        assert not self.finishing, "finished files take no record"
        if folder in self.spans:
            self.spans[folder].last = offset
        else:
            self.spans[folder] = Span(offset, offset, schema)
        if self._base_ms is None:
            self._base_ms = time_ms
        self._folder = folder
        self.count += 1
        self.next_offset = offset + 1

    def pass_over(self, offset: int) -> None:
        """Pass over a record that goes into no file."""
        self.next_offset = offset + 1

    @property
    def is_full(self) -> bool:
        """True if the files have all the records that they may have."""
        return self.count >= self.rotation.flush_size

    def finished(self) -> None:
        """Begin new files: the old ones are in their place."""
        self.spans, self.count, self.finishing = {}, 0, False
        self._base_ms = self._folder = None

    @property
    def committable(self) -> int | None:
        """The offset up to which nothing is missing if the task ends now; None if that did not move yet."""
        if not self.count:
            return None if self.next_offset < 0 else self.next_offset
        return min(span.first for span in self.spans.values())
